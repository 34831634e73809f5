"""The registry: every part of every stage can be told its options, and what a model refuses is what is listed."""

import inspect
import re
import sys

import pytest
from torch import nn

from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.data.augment import build_augmentation
from saccade.options import describe, read_options
from saccade.registry import STAGES, build, check_spec, import_parts, part_options, parts, register

ALL = [(stage, name) for stage in STAGES for name in parts(stage)]
BY_STAGE = [(stage, name) for stage, name in ALL if stage not in ("system", "augmentation")]
SPECS = {"selection": {"name": "hard", "k": 1}, "features": {"name": "backbone"}, "aggregation": {"name": "mean"}}


def config(**stages) -> ModelConfig:
    return ModelConfig(num_classes=2, image_size=(64, 64), extraction={"patch": 16}, **{**SPECS, **stages})


@pytest.mark.parametrize(("stage", "name"), ALL)
def test_every_part_has_a_signature_that_can_be_described(stage, name):
    part = parts(stage)[name]
    assert all(option.annotation is not inspect.Parameter.empty for option in read_options(part))
    for option in part_options(stage, name):
        words = describe(option.annotation)
        assert words != "any value"
        assert "<" not in words
        assert option.required or option.name


@pytest.mark.parametrize(("stage", "name"), BY_STAGE)
def test_a_model_takes_the_options_that_are_listed(stage, name):
    with pytest.raises(ValueError, match="has no option 'nonsense'") as refusal:
        build_model(config(**{stage: {"name": name, "nonsense": 1}}))
    takes = re.search("it takes (.*)", str(refusal.value)).group(1)
    assert takes == (", ".join(option.name for option in part_options(stage, name)) or "none")


@pytest.mark.parametrize("name", parts("system"))
def test_a_system_takes_the_options_that_are_listed(name):
    stages = {"scorer": {"name": "proposals"}, "selection": {"name": "nms"}} if name == "nts_net" else {}
    with pytest.raises(ValueError, match="has no option 'nonsense'") as refusal:
        build_model(config(system=name, options={"nonsense": 1}, **stages))
    takes = re.search("it takes (.*)", str(refusal.value)).group(1)
    assert takes == (", ".join(option.name for option in part_options("system", name)) or "none")


@pytest.mark.parametrize("name", parts("augmentation"))
def test_an_augmentation_takes_the_options_that_are_listed(name):
    with pytest.raises(ValueError, match="has no option 'nonsense'") as refusal:
        build_augmentation({"name": name, "nonsense": 1}, crop=(4, 4))
    takes = re.search("it takes (.*)", str(refusal.value)).group(1)
    assert takes == (", ".join(option.name for option in part_options("augmentation", name)) or "none")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "pertrubed", "k": 3}, "unknown selection 'pertrubed': expected one of .*perturbed"),
        ({"name": ["perturbed"]}, r"unknown selection \['perturbed'\]: expected one of"),
        ({"k": 3}, "unknown selection None: expected one of"),
        ({"name": "perturbed", "k": 3, "sigma": "abc"}, "selection 'perturbed': sigma is \"abc\", expected a number"),
        ({"name": "perturbed", "k": True}, "selection 'perturbed': k is true, expected a whole number"),
        ({"name": "perturbed", "k": 3, "noise": "pink"}, 'noise is "pink", expected normal or gumbel'),
    ],
)
def test_a_spec_is_refused_alike_whether_it_is_built_or_only_checked(spec, message):
    for refuse in (build, check_spec):
        with pytest.raises(ValueError, match=message):
            refuse("selection", spec)


def test_a_missing_option_is_named():
    with pytest.raises(ValueError, match="selection 'perturbed' needs the option 'k'"):
        build("selection", {"name": "perturbed"})


def test_a_built_part_remembers_what_it_was_built_from():
    spec = {"name": "perturbed", "k": 3}
    assert build("selection", spec).spec == spec


@pytest.fixture
def without_mine():
    yield
    parts("prediction").pop("mine", None)  # type: ignore[attr-defined]


def test_one_s_own_part_is_registered_once(without_mine):
    @register("prediction", "mine")
    class Mine(nn.Linear):
        def __init__(self, width: int, num_classes: int, *, bias: bool = True):
            super().__init__(width, num_classes, bias=bias)

    built = build("prediction", {"name": "mine", "bias": False}, 3, 2)
    assert isinstance(built, Mine)
    assert built.bias is None
    register("prediction", "mine")(Mine)  # its module was loaded anew

    with pytest.raises(ValueError, match=r"the prediction 'mine' is .*Mine already: choose another name"):
        register("prediction", "mine")(nn.Linear)


def test_modules_of_one_s_own_are_found_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "found_here.py").write_text("LOADED = True\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    import_parts(["found_here"])
    assert sys.modules.pop("found_here").LOADED
    assert sys.path == before
    with pytest.raises(ValueError, match="imports has 'found_there', and there is no such module"):
        import_parts(["found_there"])
    with pytest.raises(ValueError, match=r"imports has '\./found_here\.py', expected the name of a module"):
        import_parts(["./found_here.py"])
