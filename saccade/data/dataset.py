"""`Records` → samples → batches.

Images of different sizes in one set keep their scale: in a batch each lies at the top left, and zeros fill the rest up
to the largest height and width, rounded up to a multiple the model asks for. `Batch.size` says where each picture ends.
A batch of images of one size has no such border.
Or all are resized to one given size, which changes their scale and aspect ratio.

Pixels travel as bytes, which are a quarter of the floats to copy between processes and to a GPU, and in channels-last
order, which is how decoders give them and what convolutions and extraction like best. `unit_range` makes floats of them
on the device that trains.

With `preparation.stream` nothing is decoded here: a sample holds a source, a batch `Sources`, and the model reads their
views and the regions it asks for. So slides and tiled pyramids that are too large to decode can be trained on.

A file that cannot be read stops the run with its name. With `skip_bad` every file is decoded once beforehand, and the
bad ones are logged and left out: so the number of samples is known, and the same in every epoch and process.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Int, Shaped, UInt8
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from saccade.data.records import DataError, Record, Records
from saccade.data.sample import NO_KIND, Sample, SampleCache
from saccade.images import BadImage, ImageSource, Sources, open_file, resize_bytes
from saccade.images.decode import read_pixels
from saccade.images.decoding_cost import MAX_PIXELS
from saccade.images.in_shards import at_hand
from saccade.preparation import Preparation
from saccade.tasks.task import task_of


class Batch(NamedTuple):
    """Samples side by side.

    label: what the task makes of each label, see `saccade.tasks`.
    size:  each image's true height and width, the rest of its H×W is zero.
    kinds: of each image's boxes, see `Sample`.
    """

    image: UInt8[Tensor, "B 3 H W"] | Sources
    label: Shaped[Tensor, "B ..."]
    boxes: tuple[Int[Tensor, "R 4"], ...]
    index: Int[Tensor, " B"]
    size: Int[Tensor, "B 2"]
    kinds: tuple[Int[Tensor, " R"] | None, ...] = ()


class ImageDataset(Dataset[Sample]):
    """The images of `records`, usually of one split; `records.records[i]` is sample i, `bad` what was left out.

    Images are resized, or streamed, as the model's `preparation` says; its crop is left to whoever calls the model.

    cache_gb: keep samples in memory, pixels up to this many GB, instead of decoding their files again in every round. A
              process that reads ahead for a DataLoader keeps its own. Further samples, and streamed ones, are not kept.

    >>> train = ImageDataset(load("flowers").split("train"))  # doctest: +SKIP
    >>> DataLoader(train, batch_size=8, collate_fn=collate)  # doctest: +SKIP
    """

    def __init__(
        self,
        records: Records,
        *,
        preparation: Preparation | None = None,
        skip_bad: bool = False,
        cache_gb: float = 0.0,
    ):
        self.preparation = preparation or Preparation()
        if self.preparation.stream and skip_bad:
            raise DataError(
                "data.skip_bad decodes whole images, and preparation.stream reads parts of them: leave out one or the "
                "other"
            )
        self.max_pixels = self.preparation.max_pixels or MAX_PIXELS
        self.records: Records = records
        self.bad: list[BadImage] = []
        if skip_bad:
            from saccade.data.inspection import leave_out_bad  # a prediction does without its tables

            self.records, self.bad = leave_out_bad(records, self.max_pixels)
        if not self.records.records:
            raise DataError(f"{records.root}: no images to read; is the split empty, or every file in it bad?")
        self.cache = SampleCache(cache_gb)
        self.task = task_of(records.task, records.classes, records.questions)

    def __len__(self) -> int:
        return len(self.records.records)

    def __getitem__(self, index: int) -> Sample:
        if self.preparation.stream:
            return self._open(index)
        return self.cache.get(index) or self.cache.keep(self._read(index))

    def _open(self, index: int) -> Sample:
        record = self.records.records[index]
        source = open_file(record.image, max_pixels=self.max_pixels, mpp=self.preparation.mpp)
        boxes = _place_boxes(record, source.file_size, source.size)
        return self._sample(source, boxes, index)

    def _read(self, index: int) -> Sample:
        record = self.records.records[index]
        if self.preparation.mpp:
            whole = self._open(index)
            return whole._replace(image=(whole.image.view(1.0) * 255).round().clamp(0, 255).byte())
        with at_hand(record.image) as file:
            image = _as_bytes(read_pixels(Path(file), max_pixels=self.max_pixels))
        size = self.preparation.shown_size((image.shape[-2], image.shape[-1]))
        boxes = _place_boxes(record, (image.shape[-2], image.shape[-1]), size)
        return self._sample(resize_bytes(image[None], size)[0], boxes, index)

    def _sample(self, image: Any, boxes: Tensor, index: int) -> Sample:
        record, known = self.records.records[index], self.records.classes
        kinds = [known.index(kind) if kind else NO_KIND for kind in record.kinds] or [NO_KIND] * len(boxes)
        return Sample(image, self.task.target(record.label), boxes, index, torch.tensor(kinds, dtype=torch.int64))


def collate(samples: Sequence[Sample], *, multiple_px: int = 1) -> Batch:
    """Samples → batch; those of different sizes are padded to the largest height and width, each rounded up to a
    multiple of `multiple_px`.
    """
    size = torch.tensor([sample.image.shape[-2:] for sample in samples])  # B 2
    height, width = size.amax(0).tolist()
    if (size != size[0]).any():  # those of one size have no padding, in training as in evaluation
        height, width = (math.ceil(side / multiple_px) * multiple_px for side in (height, width))
    # default_collate, because in a worker it writes straight into the memory shared with the main process.
    pixels = default_collate([_pad(rearrange(s.image, "c h w -> h w c"), (height, width)) for s in samples])
    return _batch(rearrange(pixels, "b h w c -> b c h w"), samples, size)


def collate_sources(samples: Sequence[Sample], *, scale: float) -> Batch:
    """Streamed samples, all of one size → batch; the views at `scale` are read here, ahead of the model."""
    image = Sources([sample.image for sample in samples])
    image.view(scale)
    return _batch(image, samples, torch.tensor([image.shape[-2:]] * len(samples)))


def _batch(image: Tensor | Sources, samples: Sequence[Sample], size: Int[Tensor, "B 2"]) -> Batch:
    label = torch.tensor([sample.label for sample in samples])
    index = torch.tensor([sample.index for sample in samples])
    boxes, kinds = zip(*((sample.boxes, sample.kinds) for sample in samples), strict=True)
    return Batch(image, label, boxes, index, size, kinds)


def batch_of_one(image: UInt8[Tensor, "3 H W"] | ImageSource) -> UInt8[Tensor, "1 3 H W"] | Sources:
    """A sample's image as a batch."""
    return image[None] if isinstance(image, Tensor) else Sources([image])


def _as_bytes(pixels: np.ndarray) -> UInt8[Tensor, "3 H W"]:
    if pixels.dtype != np.uint8:
        pixels = (pixels * 255).round().astype(np.uint8)
    return rearrange(torch.from_numpy(pixels), "h w c -> c h w")


def _pad(pixels: Tensor, size: tuple[int, int]) -> Tensor:
    below, right = size[0] - pixels.shape[0], size[1] - pixels.shape[1]
    return F.pad(pixels, (0, 0, 0, right, 0, below)) if below or right else pixels


def _place_boxes(record: Record, old: tuple[int, int], new: tuple[int, int]) -> Int[Tensor, "R 4"]:
    """The boxes in the resized image: the whole pixels they touch, cut where they leave it (some do, by one)."""
    (old_height, old_width), (height, width) = old, new
    placed = [
        (
            left * width // old_width,
            top * height // old_height,
            min(-(-right * width // old_width), width),
            min(-(-bottom * height // old_height), height),
        )
        for left, top, right, bottom in record.boxes
    ]
    return torch.tensor(placed, dtype=torch.int64).reshape(-1, 4)
