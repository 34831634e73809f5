"""A trained model and an image → `Prediction`: what `saccade evaluate` would say of it.

    predictor = Predictor("runs/signs")
    prediction = predictor("street.jpg")
    prediction.label, prediction.boxes[0]

    for path, prediction in predictor.stream(paths):  # a million of them, read ahead by other processes
        ...

Nothing is kept between calls. A predictor is for one thread at a time.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from saccade.building import load_model
from saccade.config import ModelConfig
from saccade.images import Guard, Sources, TensorImage, unit_range
from saccade.inference import for_inference
from saccade.looking import Look, look_at, make_picture, who_speaks
from saccade.output import Output
from saccade.places import is_url
from saccade.predict.outcomes import Failure, Prediction
from saccade.predict.reading import AnyImage, Reader, ReadImage
from saccade.predict.stream import answer_in_order, read_ahead
from saccade.runs import FoldFolder, fetch_model, find_model_folder
from saccade.system import System


class Predictor:
    """A model, the best one of a run folder, or the one of a folder that `save_pretrained` wrote.

    Images are prepared as the model's config says (resize, center crop). In single precision, whatever the model was
    trained in; a model that is given is copied.

    Of a run in folds all models answer, and their probabilities, or numbers, are averaged; the look of a prediction is
    that of the model which is surest of the answer.

    fold:       of a run in folds, the one model that is tested on this fold.
    device:     cpu, cuda, cuda:1, …; without it a GPU if there is one.
    compile:    let torch compile the feature network: the first image takes up to a minute, the others less time.
    max_pixels: refuse larger images that must be decoded whole (default: the model's own limit).
    guard:      read files in a process that can be killed: for files that may be damaged or of strangers.

    >>> predictor = Predictor("runs/signs")  # doctest: +SKIP
    >>> predictor("street.jpg").label  # doctest: +SKIP
    '70'
    """

    def __init__(
        self,
        model: System | str | Path,
        *,
        fold: str | None = None,
        device: str | None = None,
        compile: bool = False,
        max_pixels: int | None = None,
        guard: Guard | None = None,
    ):
        models = [model] if isinstance(model, System) else [load_model(path) for path in _find_models(model, fold)]
        config, self.device, self.task = _common_config(models), _find_device(device), models[0].task
        self.models = [for_inference(each, compile=compile).to(self.device, torch.float32) for each in models]
        self.classes, self.rule = self.task.classes, models[0].rule
        limit = max_pixels or config.preparation.max_pixels
        self.preparation = replace(config.preparation, max_pixels=limit)
        self.reader = Reader(self.preparation, by_parts=all(each.reads_parts for each in models), guard=guard)

    def __call__(self, image: AnyImage, *, crops: bool = False, picture: bool = False) -> Prediction:
        """The answer for a path, a Pillow image, an array H W 3 or H W, a tensor 3 H W, or an `ImageSource`.

        Bytes and floats of [0, 1] are the same image. A file that cannot be read raises `BadImage`.

        crops:   the prediction's look has what is in the boxes.
        picture: it has the whole image, as large as it is ever shown: what an overlay is drawn on.
        """
        return self.answer([self._reader(picture)(image)], crops=crops, picture=picture)[0]

    def stream(
        self,
        paths: Iterable[str | Path],
        *,
        batch: int = 8,
        workers: int | None = None,
        crops: bool = False,
        picture: bool = False,
    ) -> Iterator[tuple[str | Path, Prediction | Failure]]:
        """Each path with its prediction, or with why there is none; in order, as they are ready.

        Paths are asked for as they are needed, so there may be any number of them.

        batch:   images of one size that the model sees together.
        workers: processes that read ahead (default: half of the cores); 0 reads here.
        """
        workers = (os.cpu_count() or 2) // 2 if workers is None else workers
        answer = partial(self.answer, crops=crops, picture=picture)
        return answer_in_order(answer, read_ahead(self._reader(picture), paths, workers=workers), batch=batch)

    def _reader(self, picture: bool) -> Reader:
        return self.reader._replace(picture=picture)

    @torch.inference_mode()
    def answer(self, images: Sequence[ReadImage], *, crops: bool = False, picture: bool = False) -> list[Prediction]:
        """The predictions for images of one size that `reader` has read."""
        begin = time.perf_counter()
        seen = self._join(images)
        outputs: list[Output] = [model(seen) for model in self.models]
        # In double, as an evaluation takes them: a threshold may lie between answers that are both sure.
        logits = [output.logits.cpu().double() for output in outputs]  # waits for a GPU, too
        each = torch.stack([model.task.tell(mine) for model, mine in zip(self.models, logits, strict=True)])
        evidence = [self._evidence(model, output) for model, output in zip(self.models, outputs, strict=True)]
        shared = 1000 * (time.perf_counter() - begin) / len(images)
        predictions = []
        for row, (mean, image) in enumerate(zip(each.mean(dim=0), images, strict=True)):
            surest, said = self.task.surest(each[:, row], mean), self.task.say(mean)
            more = {
                "preparation": self.preparation.of(image.shown),
                "evidence": evidence[surest],
                "seen": seen if crops else None,
            }
            look = look_at(outputs[surest], row, size=image.size, **more)
            shares = self.task.shares(mean).tolist()
            decided = self.rule.decide(shares) if self.rule else None
            predictions.append(
                Prediction(
                    said.text,
                    dict(zip(self.classes, shares, strict=True)),
                    _with_picture(look, image) if picture else look,
                    image.milliseconds + shared,
                    said.confidence,
                    said.names if self.task.names_several else None,
                    said.value,
                    said.answers or {},
                    who_speaks(look, self.task, said.names),
                    decided.label if decided else None,
                    decided.review if decided else False,
                )
            )
        return predictions

    def _evidence(self, model: System, output: Output) -> Any:
        """What places say for each logit, where it matters which of them speaks for what."""
        return model.evidence(output) if self.task.names_several and output.chooses else None

    def _join(self, images: Sequence[ReadImage]) -> Any:
        """What the models see of images of one size: parts of each if all can do with that, or floats B 3 H W."""
        seen: list[Any] = [self.preparation.see(i.pixels) if isinstance(i.pixels, Tensor) else i.pixels for i in images]
        if self.reader.by_parts:
            return Sources([TensorImage(i) if isinstance(i, Tensor) else i for i in seen], device=self.device)
        pixels = torch.stack([rearrange(i, "c h w -> h w c") for i in seen])
        return unit_range(rearrange(pixels, "b h w c -> b c h w").to(self.device))


def _find_models(path: str | Path, fold: str | None) -> list[Path]:
    path = fetch_model(path) if isinstance(path, str) and is_url(path) else path
    folds = FoldFolder(path)
    if folds.is_folds:
        return [find_model_folder(folder) for folder in folds.models(fold)]
    if fold is not None:
        raise ValueError(f"{path} is no run in folds, so it has no fold {fold!r}: leave --fold out")
    return [find_model_folder(path)]


def _common_config(models: Sequence[System]) -> ModelConfig:
    """That of the first; models that read images in different ways cannot be asked together."""
    first = models[0].config
    same = {(m.config.classes, m.task.name, m.config.preparation) for m in models}
    if len(same) > 1:
        raise ValueError(
            "the models of the folds have different classes, tasks or preparations: ask one of them with --fold"
        )
    if any(model.config.decision != first.decision for model in models):
        raise ValueError(
            "the models of the folds decide by different rules: ask one of them with --fold, or choose one rule for "
            "all with saccade evaluate, such as --recall 0.99, on the run of all folds"
        )
    return first


def _with_picture(look: Look, image: ReadImage) -> Look:
    return look._replace(picture=make_picture(image.pixels) if image.picture is None else image.picture)


def _find_device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.zeros(1, device=name).device
    except (RuntimeError, AssertionError) as error:  # torch built without CUDA asserts
        raise ValueError(
            f"device {name!r} cannot be used here ({error}): give cpu, or cuda where there is one"
        ) from error
