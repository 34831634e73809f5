"""A trained model and an image → `Prediction`: what `saccade evaluate` would say of it.

    predictor = Predictor("runs/signs")
    prediction = predictor("street.jpg")
    prediction.label, prediction.boxes[0]

    for path, answer in predictor.stream(paths):  # a million of them, read ahead by other processes
        ...

Nothing is kept between calls. A predictor is for one thread at a time.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from saccade.building import load_model
from saccade.data.dataset import unit_range
from saccade.images import Sources
from saccade.inference import for_inference
from saccade.model import PatchSelectionModel
from saccade.predict.answer import Box, Failure, Prediction
from saccade.predict.preparation import Size, find_model, place_back
from saccade.predict.reading import AnyImage, Picture, Reader
from saccade.predict.stream import answer_in_order, read_ahead
from saccade.report.look import Seen, chooses, look_at, stretch, thumbnail


class Predictor:
    """The best model of a run folder, or the model of a folder that `save_pretrained` wrote.

    With a run comes what its recipe does to images in evaluation (resize, center crop); a model alone sees them as they
    are. In single precision, whatever the run was trained in.

    device:     cpu, cuda, cuda:1, …; without it a GPU if there is one.
    compile:    let torch compile the feature network: the first image takes up to a minute, the others less time.
    max_pixels: refuse larger images that must be decoded whole (default: the recipe's, or 300 million).

    >>> predictor = Predictor("runs/signs")  # doctest: +SKIP
    >>> predictor("street.jpg").label  # doctest: +SKIP
    '70'
    """

    def __init__(
        self, run: str | Path, *, device: str | None = None, compile: bool = False, max_pixels: int | None = None
    ):
        folder, self.preparation = find_model(Path(run))
        self.device = _find_device(device)
        self.model: Any = for_inference(load_model(folder).to(self.device), compile=compile)
        self.reader = Reader(
            resize=self.preparation.resize,
            max_pixels=max_pixels or self.preparation.max_pixels,
            by_parts=_reads_parts(self.model) and self.preparation.crop is None,
            stream=self.preparation.stream,
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """Their names in the order of the logits; numbers where nobody named them."""
        config = self.model.config
        return config.classes or tuple(str(number) for number in range(config.num_classes))

    def __call__(self, image: AnyImage) -> Prediction:
        """The answer for a path, a Pillow image, an array H W 3 or H W, a tensor 3 H W, or an `ImageSource`.

        Bytes and floats of [0, 1] are the same image. A file that cannot be read raises `BadImage`.
        """
        return self.answer([self.reader(image)])[0]

    def look(self, image: AnyImage) -> Seen:
        """Where the model looks in `image` and what it says: what `saccade.report.overlay.overlay` draws."""
        source = self.reader.open(image)
        picture = self.reader(source)
        look, probability = look_at(self.model, picture.pixels, crop=self.preparation.crop)
        if picture.shown != picture.size:
            look = stretch(look, picture.size)._replace(image=thumbnail(source))
        return Seen(look, probability)

    def stream(
        self, paths: Iterable[str | Path], *, batch: int = 8, workers: int | None = None
    ) -> Iterator[tuple[str | Path, Prediction | Failure]]:
        """Each path with its answer, or with why there is none; in order, as they are ready.

        Paths are asked for as they are needed, so there may be any number of them.

        batch:   images of one size that the model sees together.
        workers: processes that read ahead (default: half of the cores); 0 reads here.
        """
        workers = (os.cpu_count() or 2) // 2 if workers is None else workers
        return answer_in_order(self.answer, read_ahead(self.reader, paths, workers=workers), batch=batch)

    @torch.inference_mode()
    def answer(self, pictures: Sequence[Picture]) -> list[Prediction]:
        """The answers for pictures of one size that `reader` has read."""
        begin = time.perf_counter()
        images = self._join(pictures)
        seen = self.preparation.crop(images) if self.preparation.crop else images
        output: Any = self.model(seen)
        probabilities = output.logits.float().softmax(dim=1).cpu()  # which waits for a GPU, too
        shared = 1000 * (time.perf_counter() - begin) / len(pictures)
        looked = self._looked(output)
        return [
            Prediction(
                self.classes[int(share.argmax())],
                dict(zip(self.classes, share.tolist(), strict=True)),
                _boxes(*looked[row], seen=(seen.shape[-2], seen.shape[-1]), picture=picture),
                picture.size,
                picture.milliseconds + shared,
            )
            for row, (share, picture) in enumerate(zip(probabilities, pictures, strict=True))
        ]

    def _join(self, pictures: Sequence[Picture]) -> Any:
        """Pictures → floats B 3 H W, or the sources of pictures too large for that."""
        tensors = [rearrange(p.pixels, "c h w -> h w c") for p in pictures if isinstance(p.pixels, Tensor)]
        if tensors:
            return unit_range(rearrange(torch.stack(tensors), "b h w c -> b c h w").to(self.device))
        return Sources([p.pixels for p in pictures if not isinstance(p.pixels, Tensor)], device=self.device)

    def _looked(self, output: Any) -> list[tuple[Int[Tensor, "K 4"], Float[Tensor, " K"]]]:
        """Boxes and their scores, image by image; NaN without scores; looking everywhere is no choice."""
        if not hasattr(output, "boxes") or not chooses(self.model):
            return [(torch.zeros(0, 4, dtype=torch.int64), torch.zeros(0))] * len(output.logits)
        boxes = output.boxes.cpu()
        if not hasattr(output, "selection"):
            return [(each, torch.full((len(each),), torch.nan)) for each in boxes]
        scores = output.scores.float().gather(1, output.selection.index).cpu()
        used = output.selection.used.cpu()
        return [(each[mine], theirs[mine]) for each, theirs, mine in zip(boxes, scores, used, strict=True)]


def _reads_parts(model: Any) -> bool:
    return isinstance(model, PatchSelectionModel) and not model.config.positions


def _boxes(boxes: Int[Tensor, "K 4"], scores: Float[Tensor, " K"], *, seen: Size, picture: Picture) -> tuple[Box, ...]:
    placed = place_back(boxes, seen=seen, shown=picture.shown, size=picture.size)
    scored = not scores.isnan().any()
    order = scores.argsort(descending=True, stable=True).tolist() if scored else range(len(scores))
    return tuple(Box(*placed[k].tolist(), score=float(scores[k]) if scored else None) for k in order)


def _find_device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.zeros(1, device=name).device
    except (RuntimeError, AssertionError) as error:  # torch built without CUDA asserts
        raise ValueError(
            f"device {name!r} cannot be used here ({error}): give cpu, or cuda where there is one"
        ) from error
