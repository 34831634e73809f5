"""Parts of models by name, one registry for all stages: those of this package, and anyone's own.

    @register("selection", "mine")
    class MyTopK(nn.Module, Selector): ...

`{"name": "mine", "k": 5}` then stands for it in a recipe, in a `ModelConfig` and in a saved model's `config.json`. The
recipe's key `imports` names the modules in which such parts are. This module imports no torch.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from saccade.options import Option, check_options, make, read_options


class Stage(NamedTuple):
    """What all parts of a stage have in common.

    home:    the module whose import registers the parts that come with the package
    inputs:  what the model passes to each of them, in this order and before any option
    context: what it passes by name to those that ask for it; the rest of a constructor's parameters are the options
    """

    home: str
    inputs: tuple[str, ...] = ()
    context: tuple[str, ...] = ()


STAGES = {
    "system": Stage("saccade.systems", inputs=("config",)),
    "scorer": Stage("saccade.scorer", ("channels",), ("image_channels", "features", "tiles", "sizes")),
    "selection": Stage("saccade.selection"),
    "features": Stage("saccade.features", ("channels",), ("patch", "image_channels")),
    "aggregation": Stage("saccade.aggregation", ("width",), ("slots", "cells", "sizes")),
    "prediction": Stage("saccade.prediction", ("width", "num_classes")),
    "augmentation": Stage("saccade.data.augment", (), ("crop", "generator")),
}

Part = TypeVar("Part", bound=Callable[..., Any])
_PARTS: dict[str, dict[str, Any]] = {stage: {} for stage in STAGES}


def register(stage: str, name: str) -> Callable[[Part], Part]:
    """Make a class known as `name` among the parts of `stage`.

    >>> register("selektion", "mine")
    Traceback (most recent call last):
    ValueError: no stage 'selektion': expected one of system, scorer, selection, features, aggregation, prediction, \
augmentation
    """
    if stage not in STAGES:
        raise ValueError(f"no stage {stage!r}: expected one of {', '.join(STAGES)}")

    def keep(part: Part) -> Part:
        known = _PARTS[stage].get(name)
        if known is not None and _home(known) != _home(part):  # a module that is loaded anew registers again
            raise ValueError(f"the {stage} {name!r} is {_home(known)} already: choose another name")
        _PARTS[stage][name] = part
        return part

    return keep


def _home(part: Any) -> str:
    return f"{getattr(part, '__module__', '')}.{getattr(part, '__qualname__', part)}"


def parts(stage: str) -> Mapping[str, Any]:
    """All parts of a stage by name.

    >>> "perturbed" in parts("selection")
    True
    """
    import_module(STAGES[stage].home)
    return _PARTS[stage]


def part_options(stage: str, name: str) -> list[Option]:
    """What a recipe can set of a part.

    >>> [option.name for option in part_options("aggregation", "placed")]
    ['pool', 'hidden', 'encoding']
    """
    part = parts(stage)[name]
    if stage == "system":  # built from a whole config, of which `options` are its own
        return read_options(part.own_options)
    return [each for each in read_options(part)[len(STAGES[stage].inputs) :] if each.name not in STAGES[stage].context]


def build(
    stage: str, spec: Mapping[str, Any], *inputs: Any, among: Mapping[str, Any] | None = None, **context: Any
) -> Any:
    """The part that `spec` names, made from `inputs`, its options, and what it asks for of the model's `context`.

    among: the parts to choose from, where a system understands none but its own.

    A module remembers the `spec` it was built from: see `System.save_pretrained`.

    >>> build("prediction", {"name": "bax"}, 8, 4)
    Traceback (most recent call last):
    ValueError: unknown prediction 'bax': expected one of mlp, linear
    """
    known = parts(stage) if among is None else among
    name, options = _split(stage, spec, known)
    return _remember(make(f"{stage} {name!r}", known[name], options, *inputs, **context), spec)


def check_spec(stage: str, spec: Mapping[str, Any]) -> None:
    """Refuse a name or options that `build` would refuse, without building."""
    name, options = _split(stage, spec, parts(stage))
    check_options(f"{stage} {name!r}", part_options(stage, name), options)


def _split(stage: str, spec: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    name = spec.get("name")
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"unknown {stage} {name!r}: expected one of {', '.join(known)}")
    return name, {option: value for option, value in spec.items() if option != "name"}


def build_one(stage: str, part: Any, options: Mapping[str, Any], *inputs: Any, **context: Any) -> Any:
    """The only part of a stage, which needs no name, made likewise."""
    return _remember(make(stage, part, options, *inputs, **context), options)


def _remember(part: Any, spec: Mapping[str, Any]) -> Any:
    part.spec = dict(spec)
    return part


def name_of(part: Any) -> str:
    """What a part is called: its name in the registry, or that of its class if it was not built by name."""
    return getattr(part, "spec", {}).get("name") or type(part).__name__


def import_parts(modules: Sequence[str]) -> None:
    """Import the modules in which one's own parts register themselves; those in the current folder are found too."""
    for name in modules:
        if not all(word.isidentifier() for word in name.split(".")):
            raise ValueError(f"imports has {name!r}, expected the name of a module, such as my_selector")
        here = str(Path.cwd())
        sys.path.append(here)
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            raise ValueError(
                f"imports has {name!r}, and there is no such module ({error}): start from the folder that holds "
                f"{name.split('.')[0]}.py, or install its package"
            ) from error
        finally:
            sys.path.remove(here)
