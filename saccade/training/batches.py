"""Records → batches in an order that depends on nothing but the seed.

Training batch t is a function of (seed, t): the images are dealt in rounds, each in an order of its own, and batch t
takes the t-th handful. So a run that resumes at step t sees exactly the images it would have seen, without any state to
save; with several processes each takes its share of the handful, and together they see the same as one.

In evaluation every image is read exactly once, whatever the number of processes: no padding of the last round.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from saccade.data.dataset import ImageDataset, collate, collate_sources
from saccade.data.generate import make
from saccade.data.loading import load, load_folds
from saccade.data.records import DataError, Records
from saccade.preparation import Preparation
from saccade.training.recipe import DataOptions, Recipe


def open_records(data: DataOptions, *, seed: int) -> Records:
    """The data set of a recipe, generated first if the recipe says how."""
    chosen: dict[str, Any] = dict(data.options)
    return load(
        _made(data), seed=seed, group=data.group, folds=data.folds, fold=data.fold, labels=data.labels, **chosen
    )


def open_folds(data: DataOptions, *, seed: int) -> Records:
    """The same with the folds of all images, and the splits as they are given."""
    chosen: dict[str, Any] = dict(data.options)
    return load_folds(_made(data), seed=seed, group=data.group, folds=data.folds, labels=data.labels, **chosen)


def _made(data: DataOptions) -> str:
    """Where the data set is, generated if it must be."""
    if data.path is None:
        raise DataError("no data: give a folder, a table or an archive, or set data.path in the recipe")
    if data.generate is not None:
        options = {key: _as_tuple(value) for key, value in data.generate.items()}
        name = options.pop("name", None)
        if name is None:
            raise DataError("data.generate has no name: say which generator, for instance {name: signs, count: 4000}")
        make(name, data.path, **options)
    return data.path


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def with_validation(records: Records) -> Records:
    """The same images, those of the validation split in the training split."""
    note = "validation images are trained on too (final): how good the model is on them says nothing of others"
    together = tuple(each._replace(split="train") if each.split == "val" else each for each in records.records)
    return records._replace(records=together, notes=(*records.notes, note))


def open_split(records: Records, split: str, data: DataOptions, preparation: Preparation) -> ImageDataset:
    """The images of one split as the recipe wants them."""
    if not records.split(split).records:
        raise DataError(f"{records.root}: no images in the split {split!r}; there are {_splits(records)}")
    return ImageDataset(
        records.split(split),
        preparation=preparation,
        skip_bad=data.skip_bad,
        cache_gb=data.cache_gb if split == "train" else 0.0,  # others are read far less often
    )


def _splits(records: Records) -> str:
    return ", ".join(f"{count} in {split}" for split, count in records.sizes().items() if count)


class StepSampler(Sampler[list[int]]):
    """The images of each step from `first` to the one before `steps`, for one of `world` processes.

    groups: places of images that are dealt in turn, one of each, however many it has; a class each, for instance.
    evenly: whether images are dealt group by group at a step; by default they always are, where there are groups.

    >>> list(StepSampler(5, batch=2, steps=3, seed=0))
    [[2, 4], [3, 0], [1, 1]]
    >>> list(StepSampler(5, batch=2, steps=3, seed=0, first=1))
    [[3, 0], [1, 1]]
    >>> list(StepSampler(5, batch=4, steps=2, seed=0, groups=[[0, 1, 2, 3], [4]]))
    [[2, 4, 0, 4], [1, 4, 3, 4]]
    """

    def __init__(
        self,
        count: int,
        *,
        batch: int,
        steps: int,
        seed: int,
        first: int = 0,
        groups: Sequence[Sequence[int]] = (),
        evenly: Callable[[int], bool] = lambda step: True,
        rank: int = 0,
        world: int = 1,
    ):
        self.groups = [*map(np.asarray, groups), np.arange(count)]
        self.evenly = evenly
        self.batch, self.steps, self.seed = batch, steps, seed
        self.first, self.rank, self.world = first, rank, world
        self._round = lru_cache(maxsize=2 * len(self.groups))(self._shuffle)

    def __iter__(self) -> Iterator[list[int]]:
        return map(self.at, range(self.first, self.steps))

    def at(self, step: int) -> list[int]:
        """This process's images of one step."""
        everything = len(self.groups) - 1
        # Neighbors, not every world-th: images dealt class by class would give each process some of the classes only.
        share = self.batch // self.world
        first = step * self.batch + self.rank * share
        places = range(first, first + share)
        if everything and self.evenly(step):
            return [self._image(*divmod(place, everything)) for place in places]
        return [self._image(place, everything) for place in places]

    def _image(self, place: int, group: int) -> int:
        number, place = divmod(place, len(self.groups[group]))
        return int(self._round(number, group)[place])

    def _shuffle(self, number: int, group: int) -> np.ndarray:
        return np.random.default_rng([self.seed, number, group]).permutation(self.groups[group])


def training_loader(
    dataset: ImageDataset, recipe: Recipe, *, first: int, rank: int = 0, world: int = 1
) -> DataLoader[Any]:
    """Batches of training images from the step `first` to the last."""
    deals_evenly = any(span.phase.deal == "evenly" for span in recipe.plan.spans)
    sampler = StepSampler(
        len(dataset),
        batch=recipe.batch,
        steps=recipe.plan.total,
        seed=recipe.seed,
        first=first,
        groups=dataset.task.deal(targets(dataset)) if deals_evenly else (),
        evenly=lambda step: recipe.plan.at(step).deal == "evenly",
        rank=rank,
        world=world,
    )
    return DataLoader(dataset, batch_sampler=sampler, **_reading(recipe))


def targets(dataset: ImageDataset) -> Shaped[Tensor, "n ..."]:
    """What the labels of all images ask of a model."""
    return torch.tensor([dataset.task.target(record.label) for record in dataset.records.records])


def evaluation_loader(dataset: ImageDataset, recipe: Recipe, *, rank: int = 0, world: int = 1) -> DataLoader[Any]:
    """Every `world`-th image, in order: all processes together read each exactly once."""
    share = range(rank, len(dataset), world)
    size = max(1, recipe.batch // world)
    batches = [list(share[start : start + size]) for start in range(0, len(share), size)]
    return DataLoader(dataset, batch_sampler=batches, **_reading(recipe))


def _reading(recipe: Recipe) -> dict[str, Any]:
    workers = recipe.data.workers
    workers = (os.cpu_count() or 2) // 2 if workers is None else workers
    scale = recipe.model.view["scale"]
    # A view that divides the padded size keeps the scale the same for images of every size.
    padded = partial(collate, multiple_px=round(1 / scale))
    return {
        "num_workers": workers,
        "persistent_workers": workers > 0,
        "worker_init_fn": _stand_apart if workers else None,
        "collate_fn": partial(collate_sources, scale=scale) if recipe.model.preparation.stream else padded,
        "pin_memory": recipe.accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available(),
    }


def _stand_apart(worker: int) -> None:
    """Ctrl-C, and SIGTERM of schedulers, reach a whole process group; a worker that died of them would end the step.

    Not by ignoring SIGTERM: Python ends workers with it, and would wait for them for ever.
    """
    if hasattr(os, "setpgid"):  # Windows has no process groups
        os.setpgid(0, 0)
