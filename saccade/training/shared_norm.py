"""A batch shared by several GPUs is normalized as one, with the networks' activations left in place."""

from lightning.pytorch.plugins import LayerSync
from timm.layers.norm_act import convert_sync_batchnorm
from torch import nn


class SharedBatchNorm(LayerSync):
    """By timm's conversion: torch's, behind Lightning's `sync_batchnorm`, drops the activations inside timm's norms."""

    def apply(self, model: nn.Module) -> nn.Module:
        """The model with norms that see the batches of all processes."""
        return convert_sync_batchnorm(model)

    def revert(self, model: nn.Module) -> nn.Module:
        """As it is: nothing uses it after training, the best model is read from its folder."""
        return model
