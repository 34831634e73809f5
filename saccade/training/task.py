"""The training task: what happens at a step, for any system. Lightning does everything around it.

Every step draws its randomness (augmentation, noise, dropout) from (seed, step, process) alone. Together with batches
that depend on the step alone (`data`), a run that was stopped anywhere ends like one that was not.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import lightning
import numpy as np
import torch
from jaxtyping import Float
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor
from torch.utils.data import DataLoader

from saccade.data.augment import build_augmentation
from saccade.data.dataset import Batch, ImageDataset, unit_range
from saccade.evaluation import Predictions, gather, measure, predict_batch
from saccade.extraction import Grid
from saccade.images import Sources
from saccade.model import PatchSelectionModel
from saccade.module_modes import evaluating
from saccade.options import check_options, read_options
from saccade.selection import Selection, linear_decay
from saccade.system import System
from saccade.training.batches import evaluation_loader, training_loader
from saccade.training.guide import guided_topk
from saccade.training.optimizers import forget, make_optimizer, make_schedule
from saccade.training.recipe import Recipe
from saccade.training.warm_up import missing_detail, warm_up_loss

LOG_EVERY = 10


class Task(lightning.LightningModule):
    """Trains `model` as `recipe` says on `data["train"]`, validates it on `data["val"]`, tests it on `data["test"]`."""

    def __init__(self, model: System, recipe: Recipe, data: Mapping[str, ImageDataset]):
        super().__init__()
        self.model: Any = model.to(memory_format=torch.channels_last)
        self.recipe, self.data = recipe, data
        coefficients = [each for each in read_options(self.model.loss) if each.name.endswith(("coefficient", "margin"))]
        check_options("the loss", coefficients, recipe.loss)
        if (recipe.warm_up.steps or recipe.guide.share) and not isinstance(model, PatchSelectionModel):
            raise ValueError(
                f"the system {model.config.system} has no scorer of the view to warm up or to guide: set "
                "warm_up.steps and guide.share to 0"
            )
        if recipe.guide.share and not hasattr(self.model.selection, "k"):
            raise ValueError("all patches are selected, there is nothing to guide: set guide.share to 0")
        if recipe.model.preparation.stream:
            _check_streaming(recipe)
        self.augmentation = build_augmentation(recipe.data.augmentation, crop=recipe.model.preparation.crop)
        self.full_sigma: float | None = getattr(getattr(model, "selection", None), "sigma", None)
        self.predictions: Predictions | None = None
        self.measures: dict[str, float] = {}
        self.milliseconds: list[float] = []
        self._parts: list[Predictions] = []
        weight = class_weight(data["train"]) if recipe.class_weights and "train" in data else None
        self.register_buffer("class_weight", weight, persistent=False)

    @property
    def main_step(self) -> int:
        """Steps since the first label was used; negative during the warm-up."""
        return self.global_step - self.recipe.warm_up.steps

    @property
    def warming_up(self) -> bool:
        """Whether the scorer is still learning without labels."""
        return self.main_step < 0

    @property
    def guided(self) -> bool:
        """Whether patches are chosen hard and in part by others: the scorer learns through `mixture_loss` alone."""
        return 0 <= self.main_step < self.recipe.guide.share * self.recipe.steps

    @property
    def sigma(self) -> float | None:
        """The noise of the selection at this step; None where there is none."""
        if self.full_sigma is None or self.recipe.sigma_decay == "constant":
            return self.full_sigma
        return linear_decay(self.full_sigma, step=max(self.main_step, 0), total_steps=self.recipe.steps)

    # ---- a step

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Make the step a function of the seed and its number."""
        torch.manual_seed(step_seed(self.recipe.seed, self.global_step, self.global_rank))
        if self.full_sigma is not None:
            self.model.selection.sigma = self.sigma
        if self.main_step == 0 and self.recipe.warm_up.steps:
            forget(self.trainer.optimizers[0], "scorer")

    def training_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        """Loss and accuracy of a batch."""
        image = self.augmentation(unit_range(batch.image))  # a tensor, or sources that are read in parts
        padded = bool((batch.size != batch.size.new_tensor(batch.image.shape[-2:])).any())
        if padded and image.shape != batch.image.shape:
            raise ValueError(
                "the augmentation crops, and images of different sizes are padded to the largest of a batch: give all "
                "of them one size with model.preparation.resize"
            )
        size = batch.size if padded else None
        if self.warming_up:
            result = {"loss": self._warm_up(image, size)}
        else:
            output = self.model(image, size, **self._guidance(image, size))
            loss = self.model.loss(output, batch.label, class_weight=self.class_weight, **self.recipe.loss)
            result = {"loss": loss, "accuracy": (output.logits.argmax(dim=1) == batch.label).float().mean()}
        if self._time_to_log:
            self._log({f"train/{name}": value.item() for name, value in result.items()})
        return result

    def _warm_up(self, image: Float[Tensor, "B C H W"] | Sources, size: Tensor | None) -> Float[Tensor, ""]:
        view = self.model.view(self.model.with_positions(image, size))
        detail = self._missing_detail(image, size)
        return warm_up_loss(self.model.scorer(view).scores, detail, focus=self.recipe.warm_up.focus)

    def _guidance(
        self, image: Float[Tensor, "B C H W"] | Sources, size: Tensor | None
    ) -> dict[str, Callable[[Tensor], Selection]]:
        """During the guided share of the steps, how patches are chosen instead of by the model alone."""
        if not self.guided:
            return {}
        if self.recipe.guide.by == "scores":
            grid = self.model.grid(image.shape[-2:], image.device, size)
            return {"select": partial(self._as_in_evaluation, grid=grid)}
        slots = self.model.selection.k
        own = 0 if self.main_step < self.recipe.guide.share * self.recipe.steps / 3 else slots // 2
        return {"select": partial(guided_topk, detail=self._missing_detail(image, size), k=slots, own=own)}

    def _as_in_evaluation(self, scores: Float[Tensor, "B N"], grid: Grid) -> Selection:
        with evaluating(self.model.selection):
            return self.model.selection(scores.detach(), grid)

    def _missing_detail(self, image: Float[Tensor, "B C H W"] | Sources, size: Tensor | None) -> Float[Tensor, "B N"]:
        grid = self.model.grid(image.shape[-2:], image.device)
        return missing_detail(image, self.model.view(image), grid, size=size)

    def configure_gradient_clipping(self, optimizer: Any, *_: Any, **__: Any) -> None:
        """By value and by norm, each if asked for; what the scorer gets is logged as it came.

        The scorer's norm is apart: its gradient grows with 1/σ, and would leave nothing of the others'.
        """
        options = self.recipe.optimizer
        if self._time_to_log:
            self._log(self._vitals(optimizer))
        for group in optimizer.param_groups:
            if options.clip_value is not None:
                torch.nn.utils.clip_grad_value_(group["params"], options.clip_value)
            if options.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(group["params"], options.clip_norm)

    def _vitals(self, optimizer: Any) -> dict[str, float]:
        names = {"scorer": "lr_scorer", "rest": "lr"}
        vitals = {names[group["name"]]: group["lr"] for group in optimizer.param_groups}
        if self.sigma is not None:
            vitals["sigma"] = self.sigma
        if self.model.scorer is not None:
            gradients = [p.grad for p in self.model.scorer.parameters() if p.grad is not None]
            vitals["scorer_gradient"] = float(torch.nn.utils.get_total_norm(gradients))
        return vitals

    @property
    def _time_to_log(self) -> bool:
        return self.global_step % LOG_EVERY == 0

    def _log(self, values: Mapping[str, float]) -> None:
        for logger in self.loggers:
            logger.log_metrics(dict(values), step=self.global_step)

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        """After the last step comes a validation, however many steps ago the last one was."""
        if self.main_step >= self.recipe.steps:
            self.trainer.should_stop = True

    def configure_optimizers(self) -> Any:
        """As the recipe says; the learning rate changes at every step."""
        optimizer = make_optimizer(self.model, self.recipe)
        schedule = make_schedule(optimizer, self.recipe)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    # ---- evaluation

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """What the model says of a batch, and how long it takes."""
        start = time.perf_counter()
        part = predict_batch(self.model, batch)
        self._parts.append(Predictions(*(column.cpu() for column in part)))  # which waits for a GPU, too
        self.milliseconds.append(1000 * (time.perf_counter() - start) / len(batch.index))

    def on_validation_epoch_start(self) -> None:
        """Begin a new table."""
        self._parts, self.milliseconds = [], []

    def on_validation_epoch_end(self) -> None:
        """One table of all images, then numbers."""
        self.predictions = gather(self._parts)
        self.measures = measure(self.predictions)
        if self.trainer.state.fn == TrainerFn.FITTING:
            self._log({f"val/{name}": value for name, value in self.measures.items()})
            for logger in self.loggers:
                logger.save()

    test_step = validation_step
    on_test_epoch_start = on_validation_epoch_start
    on_test_epoch_end = on_validation_epoch_end

    # ---- data

    def train_dataloader(self) -> DataLoader[Any]:
        """From the present step to the last."""
        return training_loader(self.data["train"], self.recipe, now=lambda: self.global_step, **self._place())

    def val_dataloader(self) -> DataLoader[Any]:
        """Every validation image once."""
        return evaluation_loader(self.data["val"], self.recipe, **self._place())

    def test_dataloader(self) -> DataLoader[Any]:
        """Every test image once."""
        return evaluation_loader(self.data["test"], self.recipe, **self._place())

    def _place(self) -> dict[str, int]:
        return {"rank": self.global_rank, "world": self.trainer.world_size}


def _check_streaming(recipe: Recipe) -> None:
    if (system := recipe.model.system) != "patch_selection":
        raise ValueError(
            f"the system {system} needs whole images: set model.preparation.stream to false, or use patch_selection"
        )
    if (name := recipe.data.augmentation["name"]) != "none":
        raise ValueError(
            f"the augmentation {name} needs the pixels of whole images, and preparation.stream reads parts: set "
            "data.augmentation to {name: none}"
        )


def class_weight(train: ImageDataset) -> Float[Tensor, " L"]:
    """1 / (classes · frequency): every class weighs the same as a whole, and an image weighs 1 on average."""
    counts = torch.tensor([float(n) for n in train.records.counts()["train"].values()])
    return counts.sum() / (len(counts) * counts.clamp(min=1))


def step_seed(seed: int, step: int, rank: int) -> int:
    """A seed of its own for each step and process."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] // 2)
