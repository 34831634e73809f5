"""One dataclass describes a model; each stage is a name and that part's own options.

    ModelConfig(num_classes=4, image_size=(960, 1280), selection={"name": "perturbed", "k": 5, "sigma": 0.05})

The options of a part are the keyword arguments of its constructor, so they are written down once, next to what they do,
and checked once, where it is built (`saccade.registry`). This module imports no torch.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from saccade.options import AT_LEAST_ONE, Range, check_ranges, make
from saccade.preparation import Preparation

SIDES = Range("a height and a width of at least 1", lambda value: min(value) >= 1)


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
        preparation: what happens to an image before the model sees it
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
    preparation: Preparation = field(default_factory=Preparation)


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Stages):
    """Everything needed to build a model: its stages, and what the data asks for.

    image_size: (height, width) the model is trained for, of what it sees. Other sizes work too: positions are
                interpolated.
    channels:   the image's own, without positions.
    task:       what labels mean: the name of a task and its own options (saccade/tasks).
    classes:    names of classes, labels or levels, in their order; empty where nobody named them, and for numbers.
    positive:   the class whose average precision and AUROC are told; None where it is their mean over classes.
    decision:   the rule by which probabilities become a decision (saccade/deciding.py); None where nobody chose one.
    imports:    modules in which parts that this package does not have register themselves.
    """

    num_classes: int
    image_size: tuple[int, int]
    channels: int = 3
    task: dict[str, Any] = field(default_factory=lambda: {"name": "single"})
    classes: tuple[str, ...] = ()
    positive: str | None = None
    decision: dict[str, Any] | None = None
    imports: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_ranges("", self, num_classes=AT_LEAST_ONE, channels=AT_LEAST_ONE, image_size=SIDES)
        if self.classes and len(self.classes) != self.num_classes:
            raise ValueError(
                f"classes has {len(self.classes)} names: expected num_classes, which is {self.num_classes}"
            )

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
        if not isinstance(values, dict):
            raise ValueError(f"the config is {text[:40]!r}, expected keys and values")
        preparation = values.get("preparation", {})
        if not isinstance(preparation, dict):
            raise ValueError(f"preparation is {preparation}, expected keys with values")
        return make("the config", cls, {**values, "preparation": Preparation.from_tree(preparation)})

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes in their order; numbers where nobody named them."""
        return self.classes or tuple(str(number) for number in range(self.num_classes))
