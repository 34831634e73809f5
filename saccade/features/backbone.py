"""patches → features: any timm backbone, by name."""

from pathlib import Path
from typing import Any

import timm
import torch
from jaxtyping import Float
from timm.data.config import resolve_model_data_config
from torch import Tensor, nn


class Backbone(nn.Module):
    """`timm.create_model(model)` without its classifier; patches come in [0, 1] and are normalised as it expects.

    model:      a timm name, for instance "resnet18" or "tf_efficientnet_lite0" (`timm.list_models()` knows them all).
    pretrained: load the weights timm publishes for it from the hub.
    weights:    load them from a local .safetensors file in timm's key names instead.
    patch:      height and width of the patches, for nets that are built for one size.
    """

    mean: Tensor
    std: Tensor
    width: int

    def __init__(
        self,
        channels: int = 3,
        *,
        patch: tuple[int, int] | None = None,
        model: str = "resnet18",
        pretrained: bool = False,
        weights: str | None = None,
    ):
        super().__init__()
        if not timm.is_model(model):
            close = ", ".join(timm.list_models(f"*{model[:6]}*")[:5]) or "see timm.list_models()"
            raise ValueError(f"timm has no model {model!r}: did you mean one of {close}?")
        options: dict[str, Any] = {}
        if weights is not None:
            if not (Path(weights).is_file() and weights.endswith(".safetensors")):
                raise FileNotFoundError(
                    f"no usable weights at {weights}: expected a .safetensors file with timm's key names for {model}"
                )
            options["pretrained_cfg_overlay"] = {"file": weights}
        published = timm.get_pretrained_cfg(model, allow_unregistered=True)
        if patch and published is not None and published.fixed_input_size:
            options["img_size"] = patch if patch[0] != patch[1] else patch[0]  # some know squares only
        self.net = timm.create_model(
            model, pretrained=pretrained or weights is not None, in_chans=channels, num_classes=0, **options
        )
        # Some nets widen their features in the classifier's first layer, which stays.
        self.width = int(getattr(self.net, "head_hidden_size", None) or self.net.num_features)  # pyright: ignore
        data = resolve_model_data_config(self.net)
        for name in ("mean", "std"):
            values = torch.tensor(data[name])
            # Grey or many-channel images have no published statistics; the mean over RGB stands in.
            values = values if len(values) == channels else values.mean().expand(channels).clone()
            self.register_buffer(name, values[:, None, None], persistent=False)

    def forward(self, patches: Float[Tensor, "n C P Q"]) -> Float[Tensor, "n D"]:
        """Features of each patch."""
        return self.net((patches - self.mean) / self.std)
