"""What every system can do. As a folder it is `config.json` and `model.safetensors`, readable without this library."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, TypeVar, overload

from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor, nn

import saccade
from saccade.config import ModelConfig
from saccade.deciding import DecisionRule, make_rule
from saccade.files import told, whole_file
from saccade.images import Sources, TensorImage, add_positions, unit_range
from saccade.model_card import CARD, write_card
from saccade.model_files import check_model_files, load_weights, save_weights, write_checksum
from saccade.module_modes import weights_follow
from saccade.options import make
from saccade.output import Output
from saccade.places import find_here, send_to_hub
from saccade.registry import build, import_parts, parts
from saccade.tasks.labels import TASK_NAMES
from saccade.tasks.task import Task, make_task

AnySystem = TypeVar("AnySystem", bound="System")
FILES = CONFIG, WEIGHTS = "config.json", "model.safetensors"
MESSAGE = f"A model of Saccade {saccade.__version__}"  # of a commit on the hub
PARTS = ("view", "scorer", "selection", "extraction", "features", "aggregation", "prediction")


@dataclass(frozen=True)
class NoOptions:
    """For systems that take none: all that they can be told is an option of one of their stages."""


class System(nn.Module):
    """What every system can do: see positions if its config says so, be written to a folder and come back.

    Its parts are attributes by the names of their stages, None where it has no such part.

    configured:     the parts that it takes from its config.
    tasks:          what labels may mean to it.
    own_options:    what `config.options` may hold, a dataclass.
    takes_sources:  it reads images by their view and equally sized regions alone, so they need not be tensors.
    exports_sizes:  as a graph it takes batches and images of any size; otherwise it is written for one.
    why_not_export: why it cannot be written as a graph at all.
    folded:         it is a copy that `for_inference` made, whose layers are no longer those that `config` describes.
    """

    configured: ClassVar[tuple[str, ...]] = ()
    tasks: ClassVar[tuple[str, ...]] = (*TASK_NAMES, "questions")
    own_options: ClassVar[type] = NoOptions
    takes_sources: bool = False
    exports_sizes: bool = False
    why_not_export: str | None = None
    folded: bool = False

    def __init__(self, config: ModelConfig | None = None):
        super().__init__()
        self._config = config
        self.task = _make_task(config, self.tasks)
        self.rule: DecisionRule | None = _make_rule(config, self.task)
        self.options: Any = make(f"the system {config.system}", self.own_options, config.options) if config else None
        for name in PARTS:
            setattr(self, name, None)

    @property
    def config(self) -> ModelConfig:
        """What describes it; a model made of modules by hand may have none."""
        if self._config is None:
            raise ValueError(
                "this model was made of modules and has no config that describes it: pass config= as well, or use "
                "saccade.build_model(config)"
            )
        return self._config

    @classmethod
    def from_config(cls: type[AnySystem], config: ModelConfig) -> AnySystem:
        """The system that `config` describes."""
        return cls(config)

    @overload
    def with_positions(self, image: Tensor, size: Tensor | None = None) -> Tensor: ...

    @overload
    def with_positions(self, image: Sources, size: Tensor | None = None) -> Sources: ...

    def with_positions(
        self, image: Float[Tensor, "B C H W"] | Sources, size: Int[Tensor, "B 2"] | None = None
    ) -> Float[Tensor, "B C_in H W"] | Sources:
        """What the stages see of `image`: itself, and its positions if the config asks for them."""
        if self._config is None or not self._config.positions:
            return image
        if isinstance(image, Sources):
            raise ValueError(
                "a model with positions: true needs the pixels of the whole image: pass a tensor B 3 H W, or train a "
                "model without positions"
            )
        return add_positions(image, size)

    def take(self, image: UInt8[Tensor, "B C H W"] | Sources) -> Float[Tensor, "B C H W"] | Sources:
        """A batch of bytes as this model takes it: to be read in parts if it can, and else as floats of [0, 1].

        Evaluation, prediction, report and page show it images so.
        """
        if isinstance(image, Sources) or not self.reads_parts:
            return unit_range(image)
        return Sources([TensorImage(pixels) for pixels in image], device=image.device)

    @property
    def reads_parts(self) -> bool:
        """Whether the view and regions of an image are all that it reads."""
        return self.takes_sources and not (self._config and self._config.positions)

    def check_images(self, image: Tensor | Sources) -> None:
        """Refuse what is not a batch of images in floating point, and `Sources` where all pixels are needed."""
        channels = self._config.channels if self._config else image.shape[1] if image.ndim == 4 else 3
        if isinstance(image, Sources) and not self.takes_sources:
            raise ValueError(
                f"the system {self.config.system} needs the pixels of whole images and got Sources: pass a tensor B "
                f"{channels} H W, or use the system patch_selection"
            )
        if image.ndim != 4 or image.shape[1] != channels or not image.is_floating_point():
            raise ValueError(
                f"images have shape {tuple(image.shape)} and dtype {image.dtype}, expected (batch, {channels}, height, "
                "width) in floating point: add a batch dimension with image[None], make floats of bytes with "
                "saccade.images.unit_range"
            )

    def loss(
        self, output: Output, label: Shaped[Tensor, "B ..."], *, class_weight: Float[Tensor, "*W"] | None = None
    ) -> Float[Tensor, ""]:
        """What training makes small: the task's own loss, where a system says nothing else."""
        return self.task.loss(output.logits, label, class_weight)

    def evidence(self, output: Output) -> Float[Tensor, "B S L"] | None:
        """What each of the places behind `output.boxes` says for each logit; None where that cannot be told."""
        return None

    def check_described(self) -> None:
        """Refuse a model with a part that its config does not describe: it would come back with another."""
        for stage in self.configured:
            described = getattr(self.config, stage)
            if getattr(getattr(self, stage), "spec", None) != described:  # which modules that were built by name have
                raise ValueError(
                    f"the {stage} of this model is not the one in its config ({described}), so the model could not be "
                    "loaded again: register your part (saccade.register), name it in the config, and "
                    "build the model with saccade.build_model(config)"
                )

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json`, `model.safetensors` and a model card into `folder`; each appears whole or not at all."""
        if self.folded:
            raise ValueError(
                "this is a copy that for_inference made: its batch norms are folded into its convolutions, so it could "
                "not be loaded again; save the model it was made from"
            )
        self.check_described()
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / CONFIG) as config, whole_file(folder / WEIGHTS) as weights:
            config.write_text(self.config.to_json(), encoding="utf-8")
            save_weights(self, weights, config)
        write_card(folder, self.config, sum(p.numel() for p in self.parameters()))

    def push_to_hub(self, name: str, *, private: bool | None = None) -> str:
        """Send what `save_pretrained` writes to the hub as `name` ("user/model"), and return where people find it.

        The model of a run has more to tell: `saccade push RUN NAME` sends a card with its figures.

        private: whether only the owner sees it, if it is new (default: as the hub does).
        """
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return send_to_hub(Path(folder), name, [*FILES, CARD], message=MESSAGE, private=private)

    @classmethod
    def from_pretrained(cls: type[AnySystem], model: str | Path) -> AnySystem:
        """The model that `save_pretrained` wrote into a folder, or `push_to_hub` to the hub, in evaluation mode.

        >>> PatchSelectionModel.from_pretrained("user/model@v2")  # doctest: +SKIP
        """
        folder = find_here(model, FILES)
        return cls.from_files(folder, read_config(folder))

    @classmethod
    def from_files(cls: type[AnySystem], folder: str | Path, config: ModelConfig) -> AnySystem:
        """The same, with the folder's config as `read_config` gave it."""
        with blaming(folder):
            import_parts(config.imports)
            if not issubclass(cls, parts("system").get(config.system, cls)):
                raise ValueError(f"the system is {config.system}, not {cls.__name__}: use saccade.load_model")
            # The weights are all in the folder: neither a hub nor the file they once started from is asked again.
            stages: dict[str, Any] = {name: _without_origin(getattr(config, name)) for name in ("features", "scorer")}
            with weights_follow():
                model = cls.from_config(replace(config, **stages))
        load_weights(model, Path(folder) / WEIGHTS)
        return model.eval()


def _make_task(config: ModelConfig | None, possible: tuple[str, ...]) -> Task:
    """The task of a config; of a model made by hand, one label."""
    if config is None:
        return make_task({"name": "single"}, (), 0)
    task = make_task(config.task, config.classes, config.num_classes)
    if task.name not in possible:
        raise ValueError(
            f"the system {config.system} knows the tasks {', '.join(possible)} alone, and the labels are for "
            f"{task.name}: use another system, such as patch_selection or cnn"
        )
    return task


def _make_rule(config: ModelConfig | None, task: Task) -> DecisionRule | None:
    spec = config and config.decision
    if spec and task.name not in ("single", "multi"):
        raise ValueError(f"decision is given, and the task is {task.name}: only one class or several labels have one")
    return make_rule(spec, task.classes, several=task.names_several)


def _without_origin(stage: dict[str, Any]) -> dict[str, Any]:
    return {option: value for option, value in stage.items() if option not in ("pretrained", "weights")}


def read_config(folder: str | Path) -> ModelConfig:
    """The config of a model that `save_pretrained` wrote; nothing of a damaged one is believed."""
    for name in (CONFIG, WEIGHTS):
        if not (Path(folder) / name).is_file():
            raise FileNotFoundError(f"no {name} in {folder}: expected a folder written by save_pretrained")
    path = Path(folder) / CONFIG
    check_model_files(path, Path(folder) / WEIGHTS)
    with blaming(folder):
        return ModelConfig.from_json(path.read_text(encoding="utf-8"))


def rewrite_config(folder: str | Path, **changes: Any) -> None:
    """Change the config of a saved model in what its weights do not depend on, such as its temperature."""
    folder = Path(folder)
    config = replace(read_config(folder), **changes)
    with whole_file(folder / CONFIG) as text, whole_file(folder / WEIGHTS) as weights:
        text.write_text(config.to_json(), encoding="utf-8")
        copyfile(folder / WEIGHTS, weights)
        write_checksum(weights, text)


@contextmanager
def blaming(folder: str | Path) -> Iterator[None]:
    """Whatever is raised in the block is the fault of the config in `folder`."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{Path(folder) / CONFIG}: {error}") from error
    except Exception as error:
        raise ValueError(
            f"{Path(folder) / CONFIG} describes no model that can be made ({told(error)}): copy the folder anew, or "
            "train again"
        ) from error


def outputs_of(config: ModelConfig) -> int:
    """How many logits a model of this config has."""
    return make_task(config.task, config.classes, config.num_classes).outputs


def build_features(config: ModelConfig, patch: tuple[int, int]) -> Any:
    """The feature network that `config` names, for patches of `patch` (height, width) pixels."""
    context = {"patch": patch, "image_channels": config.channels}
    return build("features", config.features, config.input_channels, **context)
