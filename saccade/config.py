"""One dataclass describes a model; each stage is a name and that part's own options.

    ModelConfig(num_classes=4, image_size=(960, 1280), selection={"name": "perturbed", "k": 5, "sigma": 0.05})

The options of a part are the keyword arguments of its constructor, so they are written down once, next to what they do.
"""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Stages:
    """What a model is made of, stage by stage.

    Args:
        system: the whole: patch_selection, or a baseline such as cnn, which uses the stages it has
        view: scale of the view relative to the image
        scorer: view → scores
        selection: scores → the K patches to look at
        extraction: size of the patches and where the candidates lie
        features: patches → features
        aggregation: features → pooled
        prediction: pooled → logits
        positions: append two channels to the image, x and y of each pixel in [0, 1]
        options: options of the system itself, where it has any
    """

    system: str = "patch_selection"
    view: dict[str, Any] = field(default_factory=lambda: {"scale": 1 / 3})
    scorer: dict[str, Any] = field(default_factory=lambda: {"name": "conv"})
    selection: dict[str, Any] = field(default_factory=lambda: {"name": "perturbed", "k": 10})
    extraction: dict[str, Any] = field(default_factory=lambda: {"patch": [100, 100], "geometry": "aligned"})
    features: dict[str, Any] = field(default_factory=lambda: {"name": "ats"})
    aggregation: dict[str, Any] = field(default_factory=lambda: {"name": "mean"})
    prediction: dict[str, Any] = field(default_factory=lambda: {"name": "mlp"})
    positions: bool = False
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Stages):
    """Everything needed to build a model: its stages, and what the data asks for.

    image_size: (height, width) the model is trained for. Other sizes work too: positions are interpolated.
    channels:   the image's own, without positions.
    classes:    their names, in the order of the logits; empty where nobody named them.
    """

    num_classes: int
    image_size: tuple[int, int]
    channels: int = 3
    classes: tuple[str, ...] = ()

    @property
    def input_channels(self) -> int:
        """Channels of the image and of its positions, if the stages see those too."""
        return self.channels + 2 * self.positions

    def to_json(self) -> str:
        """The config as JSON text."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> "ModelConfig":
        """The config from JSON text."""
        values = json.loads(text)
        known = {f.name for f in fields(cls)}
        if missing := sorted({"num_classes", "image_size"} - set(values)):
            raise ValueError(f"the config lacks {', '.join(missing)}: every model needs them")
        if unknown := sorted(set(values) - known):
            raise ValueError(f"unknown config keys {', '.join(unknown)}: expected some of {', '.join(sorted(known))}")
        tuples = {name: tuple(values[name]) for name in ("image_size", "classes") if name in values}
        return cls(**{**values, **tuples})


def build(stage: str, parts: Mapping[str, Any], spec: Mapping[str, Any], *inputs: Any, **context: Any) -> Any:
    """The part that `spec` names, made from `inputs`, its options, and what it asks for of the model's `context`.

    >>> build("head", {"box": dict}, {"name": "bax"})
    Traceback (most recent call last):
    ValueError: unknown head 'bax': expected one of box
    """
    options = dict(spec)
    name = options.pop("name", None)
    if name not in parts:
        raise ValueError(f"unknown {stage} {name!r}: expected one of {', '.join(parts)}")
    return build_one(f"{stage} {name!r}", parts[name], options, *inputs, **context)


def build_one(what: str, part: Any, options: Mapping[str, Any], *inputs: Any, **context: Any) -> Any:
    """`part(*inputs, …)` with `options`; one it does not have, or one it lacks, is an error that lists them."""
    parameters = _parameters(part)[len(inputs) :]
    check_options(what, part, options, elsewhere=(*(p.name for p in _parameters(part)[: len(inputs)]), *context))
    given = {p.name: context[p.name] for p in parameters if p.name in context} | dict(options)
    if missing := [p.name for p in parameters if p.default is p.empty and p.name not in given]:
        raise ValueError(f"{what} needs the option {', '.join(map(repr, missing))}")
    return part(*inputs, **given)


def check_options(what: str, part: Any, options: Mapping[str, Any], *, elsewhere: Sequence[str] = ()) -> None:
    """Refuse options that `part` does not take; what it gets from `elsewhere` is no option."""
    known = [p.name for p in _parameters(part) if p.name not in elsewhere]
    if unknown := [option for option in options if option not in known]:
        takes = f"it takes {', '.join(known)}" if known else "it takes none"
        raise ValueError(f"{what} has no option {', '.join(map(repr, unknown))}: {takes}")


def refuse_glance(config: Stages) -> None:
    """For systems that would leave it unsaid that they do not look at the whole image."""
    if config.extraction.get("glance"):
        raise ValueError(f"the system {config.system} has no glance at the whole image: remove extraction.glance")


def refuse_options(config: Stages) -> None:
    """For systems that take none: all that they can be told is an option of one of their stages."""
    if config.options:
        raise ValueError(
            f"the system {config.system} has no options of its own, got {', '.join(config.options)}: see its stages"
        )


def _parameters(part: Any) -> list[inspect.Parameter]:
    signature = inspect.signature(part).parameters.values()
    return [p for p in signature if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
