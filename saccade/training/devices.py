"""Recipe → Fabric, which knows devices, precision and the other processes."""

import logging
import warnings

import torch
from lightning.fabric import Fabric
from lightning.fabric.utilities.exceptions import MisconfigurationException
from timm.layers.norm_act import convert_sync_batchnorm
from torch import nn

from saccade.system import System
from saccade.training.recipe import Recipe


def make_fabric(recipe: Recipe) -> Fabric:
    """A Fabric as the recipe says; its `launch` starts the other processes."""
    for part in ("fabric", "pytorch"):  # whichever was imported last is what Lightning's words come from
        logging.getLogger(f"lightning.{part}").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
    # With it, gradients of weights that a step uses twice would be summed in half precision.
    torch.set_autocast_cache_enabled(False)
    try:
        return Fabric(
            accelerator=recipe.accelerator,
            devices=recipe.devices,
            num_nodes=recipe.nodes,
            strategy=_strategy(recipe),
            precision=recipe.precision,
        )
    except (MisconfigurationException, ValueError, RuntimeError) as error:
        raise ValueError(
            f"accelerator is {recipe.accelerator}, devices {recipe.devices}, and Lightning says: {error} Expected what "
            "this machine has: set --accelerator auto or cpu, and --devices to at most the number of its GPUs"
        ) from error


def _strategy(recipe: Recipe) -> str:
    if recipe.devices * recipe.nodes == 1:
        return "auto"
    # Without labels only the scorer has a gradient; in guided steps it may be the one that has none.
    partial = any(span.phase.guided or not span.phase.labeled for span in recipe.plan.spans)
    return "ddp_find_unused_parameters_true" if partial else "ddp"


def share_norms(model: System | nn.Module) -> nn.Module:
    """The model with batch norms that see the batches of all GPUs.

    By timm's conversion: torch's drops the activations inside timm's norms.
    """
    return convert_sync_batchnorm(model)
