"""Training and evaluation as commands: mistakes are one line with the fix, and a run goes on, or is left alone."""

import re
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from PIL import Image
from tiny import make_spots, tiny_recipe
from tiny_run import make_tiny_run

from saccade.cli import main
from saccade.cli.train import read_words, run_name
from saccade.training.phases import Training
from saccade.training.recipe import dump_recipe, load_recipe


@pytest.fixture
def recipe(tmp_path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(dump_recipe(tiny_recipe(make_spots(tmp_path / "spots", 20), steps=2)))
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nonsense", "3"], "unrecognized arguments: --nonsense"),
        (["--optimizer.lrr", "3"], "lrr"),
        (["--steps", "many"], "steps is many: expected a whole number"),
        (["--steps"], "--steps has no value"),
        (
            ["--best-by", "beauty"],
            "best_by is beauty: expected accuracy, balanced_accuracy, average_precision, auroc, f1, kappa",
        ),
        (["--steps", "0"], "steps is 0: expected at least 1"),
        (["--k", "10000"], "k is 10000 and there are"),
        (["--patch", "65"], "larger than the image of 64×64 px"),
        (["--view-scale", "3"], "view scale is 3: "),
        (["--backbone", "resnot18"], "timm has no model 'resnot18'"),
        (["--weights", "nowhere.safetensors"], "'weights'"),
        (["--model.selection.kk", "3"], "has no option 'kk': it takes k, sigma"),
        (["--model.selection.sigma", "abc"], "selection 'perturbed': sigma is \"abc\", expected a number"),
        (["--augment", "flip,flop"], "unknown augmentation 'flop': expected one of none, shift, color, crop, flip"),
        (["--optimizer", "fast"], "optimizer is fast: expected keys with values"),
        (["--model.selection", "abc"], "model.selection is abc: expected keys with values"),
        (["--model.features.name", "[a]"], "unknown features ['a']: expected one of"),
        (["--model.system", "rnn"], "unknown system 'rnn'"),
        (
            ["--training.loss", "{entropy: 3}"],
            "the loss of the phase labels has no option 'entropy': it takes entropy_coefficient",
        ),
        (["--data.path", "nowhere"], "no such file or folder"),
        (["--batch", "3", "--devices", "2"], "batch is 3: expected a multiple of 2"),
        (["another.yaml"], "no recipe 'another.yaml'"),
    ],
)
def test_mistakes_of_training_are_one_line_with_the_fix(words, message, recipe, tmp_path, capsys):
    source = [] if words[0].endswith(".yaml") else [str(recipe)]
    assert main(["train", *source, *words, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not re.search("Union|NoneType|<class|typing", error)  # Python's names for what people call numbers and words


@pytest.mark.parametrize(
    "flags",
    [
        ["--backbone", "resnet18", "--weights", "a.b.safetensors"],
        ["--weights", "a.b.safetensors", "--backbone", "resnet18"],
        ["--model.features.weights=a.b.safetensors", "--model.features={name: backbone, model: resnet18}"],
    ],
)
def test_a_key_of_a_stage_counts_wherever_the_stage_stands(flags):
    recipe = load_recipe("signs/perturbed", read_words(["signs/perturbed", *flags]).flags)
    assert recipe.model.features == {"name": "backbone", "model": "resnet18", "weights": "a.b.safetensors"}


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--k", "0", "k is 0, expected at least 1"),
        ("--k", "abc", "selection 'perturbed': k is \"abc\", expected a whole number"),
        ("--k", "null", "selection 'perturbed': k is null, expected a whole number"),
        ("--k", "2.5", "selection 'perturbed': k is 2.5, expected a whole number"),
        ("--model.selection.sigma", "abc", "selection 'perturbed': sigma is \"abc\", expected a number"),
        ("--model.features.name", "[a]", "unknown features ['a']: expected one of"),
        ("--view-scale", "2", "view scale is 2: "),
        ("--view-scale", "0", "view scale is 0: "),
        ("--view-scale", "abc", 'view: scale is "abc", expected a number'),
        ("--patch", "0", "patch is 0, expected a side of at least 1 px"),
        ("--patch", "abc", 'extraction: patch is "abc", expected a whole number or a list of 2 whole numbers'),
        ("--patch", "[3]", "extraction: patch is [3], expected a whole number or a list of 2 whole numbers"),
        ("--model.scorer.pool", "big", "scorer 'conv': pool is \"big\", expected a whole number"),
        ("--batch", "0", "batch is 0: expected at least 1"),
        ("--devices", "0", "devices is 0: expected at least 1"),
        ("--resize", "[0, 64]", "preparation.resize is (0, 64): expected a height and a width"),
        ("--data.workers", "many", "data.workers is many: expected a whole number or null"),
        ("--imports", "no_such_module", "imports has 'no_such_module', and there is no such module"),
    ],
)
def test_values_are_looked_at_before_others_are_chosen_by_them(flag, value, message, pets, tmp_path, capsys):
    assert main(["train", str(pets), flag, value, "--out", str(tmp_path / "run")]) == 2
    streams = capsys.readouterr()
    assert streams.err.startswith(f"saccade: error: {message}")
    assert streams.out == ""
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (".", "photos"),
        ("../photos", "photos"),
        ("labels", "labels"),
        ("data_v1.5", "data_v1.5"),
        ("set.zip", "set.zip"),
        ("a.tar.gz", "a"),
        ("A.TGZ", "A"),
        ("labels.csv", "photos"),
        ("birds.tsv", "birds"),
        ("mine.v2.yaml", "mine.v2"),
        ("signs/perturbed", "signs-perturbed"),
    ],
)
def test_a_run_is_named_after_its_source(source, name, tmp_path, monkeypatch):
    here = tmp_path / "photos"
    for folder in ("labels", "data_v1.5", "set.zip"):
        (here / folder).mkdir(parents=True)
    monkeypatch.chdir(here)
    assert run_name(source) == name


def test_one_run_is_not_for_a_cluster(recipe, tmp_path, capsys):
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), "--ray"]) == 2
    assert "--ray is for the runs of folds, and this is one run" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_training_needs_a_source(capsys):
    assert main(["train", "--steps", "3"]) == 2
    assert "needs one recipe, folder of images or table, got none" in capsys.readouterr().err


@pytest.mark.parametrize("workers", ["0", "1"])
def test_an_image_that_cannot_be_read_stops_training_with_its_name(workers, recipe, tmp_path, capsys):
    broken = tmp_path / "spots" / "images" / "001.png"
    broken.write_bytes(broken.read_bytes()[:200])
    words = ["train", str(recipe), "--data.workers", workers, "--out", str(tmp_path / "run")]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert str(broken) in error
    assert len(error.strip().splitlines()) == 1


def test_train_evaluate_report_on_one_s_own_folder(pets, tmp_path, capsys):
    run = tmp_path / "run"
    words = ["train", str(pets), "--steps=2", "--batch=2", "--training.label_free.steps=1", "--k=2", "--patch=4"]
    words += ["--data.workers=0", "--out", str(run)]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "Chosen for these images" in told
    assert "view" in told
    assert "report: file://" in told
    assert main(["evaluate", str(run), "--split", "val"]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert main(["report", str(run)]) == 0
    assert main(words) == 0
    assert "is finished" in capsys.readouterr().out


def test_a_command_on_one_s_own_folder_that_could_not_start_can_be_corrected(pets, tmp_path, capsys):
    words = ["train", str(pets), "--steps=1", "--batch=2", "--training.label_free.steps=1", "--data.workers=0"]
    words += ["--k=2", "--patch=4", f"--out={tmp_path / 'run'}"]
    assert main([*words, "--accelerator", "mps"]) == 2
    assert "set --accelerator auto or cpu" in capsys.readouterr().err
    assert main(words) == 0


@pytest.fixture
def run_of_pets(pets, tmp_path):
    """A run folder of images of one's own, and the words that made it: of a stage, a part was given."""
    words = ["--steps=2", "--batch=2", "--training.label_free.steps=1", "--patch=4", "--data.workers=0"]
    words += ["--out", f"{tmp_path}/run", "--model.selection", "{name: diverse, k: 2}"]
    assert main(["train", str(pets), *words]) == 0
    return words


def test_the_same_command_goes_on_though_the_rest_of_a_stage_was_chosen(pets, run_of_pets, capsys):
    capsys.readouterr()
    assert main(["train", f"{pets}/", *run_of_pets]) == 0
    assert "is finished" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flag", "difference"),
    [
        ("--model.scorer.widths=[4]", "model.scorer.widths None there, [4] here"),
        ("--training.loss.mixture_coefficient=0.5", "training.loss.mixture_coefficient None there, 0.5 here"),
        ("--data.options.task=multi", "data.options.task None there, multi here"),
        ("--data.generate.count=3", "data.generate None there, {'count': 3} here"),
    ],
)
def test_a_flag_for_what_the_run_does_not_have_is_refused(flag, difference, pets, tmp_path, capsys):
    recipe = tiny_recipe(pets)
    recipe = replace(recipe, model=replace(recipe.model, scorer={"name": "conv"}))
    (tmp_path / "recipe.yaml").write_text(dump_recipe(recipe))
    assert main(["train", str(pets), flag, "--out", str(tmp_path)]) == 2
    assert f"holds a run with other settings ({difference})" in capsys.readouterr().err


def test_other_images_of_the_same_name_are_not_taken_for_the_run_s_own(pets, run_of_pets, tmp_path, capsys):
    other = tmp_path / "elsewhere" / "pets"
    other.parent.mkdir()
    pets.rename(other)
    assert main(["train", str(other), *run_of_pets]) == 2
    assert f"data.path {pets} there, {other} here" in capsys.readouterr().err


def test_a_run_is_evaluated_from_any_folder(pets, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(pets.parent)
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text(dump_recipe(replace(tiny_recipe(Path("pets")), training=Training(), steps=1)))
    assert main(["train", str(recipe), "--model.preparation.resize", "[64,64]", "--out", "run"]) == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert main(["evaluate", str(tmp_path / "run")]) == 0
    assert f"images of {pets}" in capsys.readouterr().out
    words = [str(recipe), "--model.preparation.resize", "[64,64]", "--out", str(tmp_path / "run")]
    assert main(["train", *words, "--data.path", "../pets"]) == 0  # the same data: it is finished, not refused


def test_images_too_small_for_the_model_are_named_before_training(pets, tmp_path, capsys):
    Image.new("RGB", (1, 1)).save(pets / "cat" / "icon.png")
    recipe = tmp_path / "tiny.yaml"
    stages = replace(tiny_recipe(pets).model, extraction={"patch": 4}, selection={"name": "hard", "k": 2})
    recipe.write_text(
        dump_recipe(replace(tiny_recipe(pets, training=Training()), model=replace(stages, view={"scale": 1.0})))
    )
    assert main(["train", str(recipe), "--out", str(tmp_path / "run")]) == 2
    assert "cat/icon.png (1×1 px): too small, since a model with this patch and view needs 2" in capsys.readouterr().err


def test_evaluation_with_patches_chosen_otherwise(tmp_path, capsys):
    images = make_spots(tmp_path / "spots", 20)
    run = make_tiny_run(tmp_path / "run", images)
    assert main(["evaluate", str(run), "--selection", "soft"]) == 0
    assert [path.name for path in sorted((run / "evaluation").iterdir())] == ["test-soft.csv", "test-soft.json"]
    cnn = make_tiny_run(tmp_path / "cnn", images, system="cnn")
    capsys.readouterr()
    assert main(["evaluate", str(cnn), "--selection", "soft"]) == 2
    error = capsys.readouterr().err
    assert "leave --selection out" in error
    assert len(error.strip().splitlines()) == 1


def test_a_folder_without_a_run_is_told(tmp_path, capsys):
    for command in ("evaluate", "report"):
        assert main([command, str(tmp_path)]) == 2
        assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize("own", [True, False])
def test_a_command_lists_its_data_once_and_loads_the_best_model_once(own, recipe, tmp_path, monkeypatch):
    counts = Counter()

    def count(module: str, name: str) -> None:
        function = getattr(import_module(module), name)

        def counted(*args, **options):
            counts[name] += 1
            return function(*args, **options)

        monkeypatch.setattr(f"{module}.{name}", counted)

    count("saccade.data.loading", "_read")
    count("saccade.building", "load_model")
    monkeypatch.setattr("saccade.report.shown_images.EXAMPLES", 1)
    source = tmp_path / "spots" if own else recipe
    quick = ["--data.workers=0", "--training.label_free.steps=1", "--validate_every=4"]
    assert main(["train", str(source), "--steps", "2", "--out", str(tmp_path / "run"), *quick]) == 0
    assert counts == {"_read": 1, "load_model": 1}
    assert (tmp_path / "run" / "report.html").is_file()
