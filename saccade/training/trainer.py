"""Recipe → Lightning's trainer."""

import logging
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException

from saccade.training.callbacks.checkpoints import WholeFiles
from saccade.training.recipe import Recipe
from saccade.training.shared_norm import SharedBatchNorm


def make_trainer(recipe: Recipe, folder: Path, **options: Any) -> lightning.Trainer:
    """A trainer as the recipe says, without a logger unless `options` have one."""
    for chatty in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    for noise in (".*does not have many workers.*", ".*LeafSpec.*"):
        warnings.filterwarnings("ignore", message=noise)
    plugins: list[Any] = [WholeFiles()]
    if recipe.devices * recipe.nodes > 1 and recipe.accelerator != "cpu" and torch.cuda.is_available():
        plugins.append(SharedBatchNorm())
    settings = {"logger": False, **options}
    try:
        return _as_recipe_says(recipe, default_root_dir=folder, plugins=plugins, **settings)
    except MisconfigurationException as error:
        raise ValueError(
            f"accelerator is {recipe.accelerator}, devices {recipe.devices}, and Lightning says: {error} Expected what "
            "this machine has: set --accelerator auto or cpu, and --devices to at most the number of its GPUs"
        ) from error


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C is a KeyboardInterrupt: Lightning makes a silent exit of it, and leaves Ctrl-C without effect."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as left:
        if not isinstance(left.__context__, KeyboardInterrupt):
            raise
        signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt from None


def _as_recipe_says(recipe: Recipe, **options: Any) -> lightning.Trainer:
    return lightning.Trainer(
        **options,
        accelerator=recipe.accelerator,
        devices=recipe.devices,
        num_nodes=recipe.nodes,
        strategy=_strategy(recipe),
        precision=recipe.precision,
        max_steps=recipe.total_steps,
        max_epochs=-1,
        # The whole of training is one pass over the loader, with validations in between.
        val_check_interval=recipe.leg,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        log_every_n_steps=1,  # the task decides when there is something to log
        use_distributed_sampler=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )


def _strategy(recipe: Recipe) -> str:
    if recipe.devices * recipe.nodes == 1:
        return "auto"
    # In the warm-up only the scorer has a gradient.
    return "ddp_find_unused_parameters_true" if recipe.warm_up.steps else "ddp"
