"""What every system can do. As a folder it is `config.json` and `model.safetensors`, readable without this library."""

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, overload

import torch.nn.functional as F
from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from saccade.config import ModelConfig
from saccade.files import whole_file
from saccade.images import Sources, add_positions
from saccade.module_modes import weights_follow

AnySystem = TypeVar("AnySystem", bound="System")


class System(nn.Module):
    """What every system can do: see positions if its config says so, be written to a folder and come back.

    folded: it is a copy that `for_inference` made, whose layers are no longer those that `config` describes.
    takes_sources: it reads images by their view and equally sized regions alone, so they need not be tensors.
    """

    config: ModelConfig
    folded: bool = False
    takes_sources: bool = True

    @overload
    def with_positions(self, image: Tensor, size: Tensor | None = None) -> Tensor: ...

    @overload
    def with_positions(self, image: Sources, size: Tensor | None = None) -> Sources: ...

    def with_positions(
        self, image: Float[Tensor, "B C H W"] | Sources, size: Int[Tensor, "B 2"] | None = None
    ) -> Float[Tensor, "B C_in H W"] | Sources:
        """What the stages see of `image`: itself, and its positions if the config asks for them."""
        if not self.config.positions:
            return image
        if isinstance(image, Sources):
            raise ValueError(
                "a model with positions: true needs the pixels of the whole image: pass a tensor B 3 H W, or train a "
                "model without positions"
            )
        return add_positions(image, size)

    def check_images(self, image: Tensor | Sources) -> None:
        """Refuse what is no batch of images in floating point, and `Sources` where all pixels are needed."""
        channels = self.config.channels
        if isinstance(image, Sources) and not self.takes_sources:
            raise ValueError(
                f"the system {self.config.system} needs the pixels of whole images and got Sources: pass a tensor B "
                f"{channels} H W, or use the system patch_selection"
            )
        if image.ndim != 4 or image.shape[1] != channels or not image.is_floating_point():
            raise ValueError(
                f"images have shape {tuple(image.shape)} and dtype {image.dtype}, expected (batch, {channels}, height, "
                "width) in floating point: add a batch dimension with image[None], make floats of bytes with "
                "saccade.data.unit_range"
            )

    def loss(
        self, output: Any, label: Int[Tensor, " B"], *, class_weight: Float[Tensor, " L"] | None = None
    ) -> Float[Tensor, ""]:
        """What training makes small: cross-entropy, where a system says nothing else."""
        return F.cross_entropy(output.logits, label, weight=class_weight)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors` into `folder`; each appears whole or not at all."""
        if self.folded:
            raise ValueError(
                "this is a copy that for_inference made: its batch norms are folded into its convolutions, so it could "
                "not be loaded again; save the model it was made from"
            )
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / "config.json") as config, whole_file(folder / "model.safetensors") as weights:
            save_model(self, str(weights))
            config.write_text(self.config.to_json())

    @classmethod
    def from_pretrained(cls: type[AnySystem], folder: str | Path) -> AnySystem:
        """The model that `save_pretrained` wrote, in evaluation mode."""
        from saccade.building import SYSTEMS  # which knows all systems, and they know this class

        config = read_config(folder)
        if not issubclass(cls, SYSTEMS.get(config.system, cls)):
            raise ValueError(
                f"{folder} holds the system {config.system}, not {cls.__name__}: use saccade.building.load_model, "
                "which takes any"
            )
        # The weights are all in the folder: neither a hub nor the file they once started from is asked again.
        stages = {name: _without_origin(getattr(config, name)) for name in ("features", "scorer")}
        with weights_follow():
            model = cls(replace(config, **stages))  # pyright: ignore[reportCallIssue]
        try:
            load_model(model, str(Path(folder) / "model.safetensors"))
        except RuntimeError as error:
            raise ValueError(
                f"the weights in {folder} do not fit its config ({error}): were they written by another version of "
                "Saccade? Use that one, or train again"
            ) from error
        except SafetensorError as error:
            raise ValueError(
                f"{Path(folder) / 'model.safetensors'} is damaged ({error}): copy it anew, or train again"
            ) from error
        return model.eval()


def _without_origin(stage: dict[str, Any]) -> dict[str, Any]:
    return {option: value for option, value in stage.items() if option not in ("pretrained", "weights")}


def read_config(folder: str | Path) -> ModelConfig:
    """The config of a model that `save_pretrained` wrote."""
    for name in ("config.json", "model.safetensors"):
        if not (Path(folder) / name).is_file():
            raise FileNotFoundError(f"no {name} in {folder}: expected a folder written by save_pretrained")
    return ModelConfig.from_json((Path(folder) / "config.json").read_text())
