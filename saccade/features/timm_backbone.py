"""patches → features: any timm backbone, by name."""

from functools import partial
from pathlib import Path
from typing import Any

import timm
import torch
from jaxtyping import Float
from safetensors import SafetensorError
from timm.data.config import resolve_model_data_config
from torch import Tensor, nn

from saccade.places import fetch_from_hub, is_hub_name
from saccade.registry import register

EARLY = 4  # times smaller than its input is what a layer sees
ON_HUB = "model.safetensors"  # what timm calls weights there


@register("features", "backbone")
class Backbone(nn.Module):
    """`timm.create_model(model)` without its classifier; patches come in [0, 1] and are normalized as it expects.

    model:      a timm name, for instance "resnet18" or "tf_efficientnet_lite0" (`timm.list_models()` knows them all).
    pretrained: load the weights timm publishes for it from the hub.
    weights:    load them from a .safetensors file in timm's key names instead, or from what has one on the hub, such
                as timm/resnet18.a1_in1k.
    patch:      height and width of the patches, for nets that are built for one size.
    image_channels: how many of the `channels` are the image's own (default: all). The others, its positions, pass as
                they are; to weights that were loaded they mean nothing at first.
    """

    mean: Tensor
    std: Tensor
    width: int
    net: Any

    def __init__(
        self,
        channels: int = 3,
        *,
        patch: tuple[int, int] | None = None,
        image_channels: int | None = None,
        model: str = "resnet18",
        pretrained: bool = False,
        weights: str | None = None,
    ):
        super().__init__()
        if not timm.is_model(model):
            close = ", ".join(timm.list_models(f"*{model[:6]}*")[:5])
            hint = f"did you mean one of {close}?" if close else "timm.list_models() has all of their names"
            raise ValueError(f"timm has no model {model!r}: {hint}")
        options: dict[str, Any] = {}
        if weights is not None:
            # Some nets would otherwise expect the file in the format of their first publication.
            options["pretrained_cfg_overlay"] = {"file": str(_find_weights(weights, model)), "custom_load": False}
        published = timm.get_pretrained_cfg(model, allow_unregistered=True)
        if patch and published is not None and published.fixed_input_size:
            options["img_size"] = patch if patch[0] != patch[1] else patch[0]  # some know squares only
        seen = image_channels or channels
        loads = pretrained or weights is not None
        create = partial(timm.create_model, model, num_classes=0, **options)
        try:
            self.net = create(in_chans=channels, pretrained=loads and seen == channels)
            if loads and seen < channels:
                _copy_weights(create(in_chans=seen, pretrained=True), self.net)
        except (RuntimeError, SafetensorError) as error:
            if weights is None:
                raise
            raise ValueError(
                f"{weights} does not hold the weights of {model} with timm's key names ({_shortly(error)}): is the "
                "file whole, and of this network?"
            ) from error
        # Some nets widen their features in the classifier's first layer, which stays.
        self.width = int(getattr(self.net, "head_hidden_size", None) or self.net.num_features)  # pyright: ignore
        data = resolve_model_data_config(self.net)
        for name in ("mean", "std"):
            values = torch.tensor(data[name])
            # Gray or many-channel images have no published statistics; the mean over RGB stands in.
            values = values if len(values) == seen else values.mean().expand(seen)
            unchanged = torch.full((channels - seen,), {"mean": 0.0, "std": 1.0}[name])
            self.register_buffer(name, torch.cat([values, unchanged])[:, None, None], persistent=False)

    def forward(self, patches: Float[Tensor, "n C P Q"]) -> Float[Tensor, "n D"]:
        """Features of each patch."""
        return self.net((patches - self.mean) / self.std)

    def hold_early_layers(self) -> None:
        """Teach nothing to the layers that see a picture at a quarter of its width or more.

        They see edges and colors, which few images can teach them better, and are most of a step's time and memory.
        """
        modules = [f"{info['module']}." for info in self.net.feature_info if info["reduction"] <= EARLY]
        names = [name for name, _ in self.net.named_parameters()]  # in the order in which they are used
        early = max((place for place, name in enumerate(names) if name.startswith(tuple(modules))), default=-1) + 1
        for name in names[:early]:
            self.net.get_parameter(name).requires_grad_(False)


def _find_weights(weights: str, model: str) -> Path:
    """The file, which may be on the hub."""
    if is_hub_name(weights):
        return fetch_from_hub(weights, [ON_HUB]) / ON_HUB
    if not (Path(weights).is_file() and weights.endswith(".safetensors")):
        raise FileNotFoundError(
            f"no usable weights at {weights}: expected a .safetensors file with timm's key names for {model}, or the "
            "name of its weights on the hub, such as timm/resnet18.a1_in1k"
        )
    return Path(weights)


def _shortly(error: Exception) -> str:
    """torch lists every weight that does not fit."""
    text = " ".join(str(error).split())
    return text if len(text) <= 160 else f"{text[:160]}…"


def _copy_weights(source: nn.Module, target: nn.Module) -> None:
    """The weights of a net into one that has more input channels; to those it is blind at first.

    timm itself would repeat the weights of red and green there, and scale all of them by 3/5.
    """
    weights = source.state_dict()
    for name, value in target.state_dict().items():  # shares its memory with the net
        if value.shape != weights[name].shape:
            value.zero_()
            value = value[:, : weights[name].shape[1]]
        value.copy_(weights[name])
