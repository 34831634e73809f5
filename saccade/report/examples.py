"""Which images a report shows, and what the model sees in them."""

from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from saccade.building import load_model
from saccade.data.augment import build_augmentation
from saccade.data.dataset import ImageDataset
from saccade.data.loading import load
from saccade.data.records import Box, Record, Records
from saccade.images.decode import MAX_PIXELS
from saccade.report.look import Seen, look_at
from saccade.runs.prediction_tables import PredictionRow, PredictionTable
from saccade.runs.run_contents import Run


def confident_mistakes(answers: PredictionTable, count: int) -> list[PredictionRow]:
    """Wrong answers, the surest first."""
    return sorted((row for row in answers.rows if not row.right), key=lambda row: -row.confidence)[:count]


def typical_successes(answers: PredictionTable, count: int) -> list[PredictionRow]:
    """Right answers of as many classes as possible; in each class those of middling confidence first."""
    ranked = []
    for name in answers.classes:
        rows = sorted((r for r in answers.rows if r.right and r.label == name), key=lambda row: row.confidence)
        middle = (len(rows) - 1) / 2
        ranked.append([rows[place] for place in sorted(range(len(rows)), key=lambda place: abs(place - middle))])
    return [row for row in chain(*zip_longest(*ranked)) if row is not None][:count]


def of_class(answers: PredictionTable, name: str, count: int) -> list[PredictionRow]:
    """Some images of a class, from all over the split, whatever the answer was."""
    rows = [row for row in answers.rows if row.label == name]
    return [rows[place * len(rows) // count] for place in range(count)] if len(rows) > count else rows


class Examiner(NamedTuple):
    """The best model of a run, and what is needed to show it an image as it saw it in the evaluation."""

    model: Any
    root: Path
    resize: tuple[int, int] | None
    crop: Callable[[Tensor], Tensor]
    max_pixels: int
    stream: bool
    boxes: dict[Path, tuple[Box, ...]]

    def see(self, answer: PredictionRow) -> Seen:
        """What the model sees; `BadImage` if the file is gone."""
        path = self.root / answer.image  # which is the image itself if its path is absolute
        record = Record(path, answer.label, "test", self.boxes.get(path, ()))
        records = Records(self.root, (answer.label,), (record,))
        sample = ImageDataset(records, resize=self.resize, max_pixels=self.max_pixels, stream=self.stream)[0]
        return look_at(self.model, sample.image, sample.boxes, crop=self.crop)


def open_examiner(run: Run) -> Examiner:
    """The examiner of a run; the error of a model that cannot be loaded is left to the caller."""
    data = run.recipe.get("data") or {}
    root = Path(data.get("path") or ".")
    resize = data.get("resize")
    return Examiner(
        model=load_model(run.folder.best),
        root=root if root.is_dir() else root.parent,
        resize=resize and (int(resize[0]), int(resize[1])),
        crop=build_augmentation(data.get("augmentation") or {"name": "none"}).evaluation,
        max_pixels=data.get("max_pixels") or MAX_PIXELS,
        stream=bool(data.get("stream")),
        boxes=_known_boxes(root, data.get("options") or {}) if data.get("path") else {},
    )


def _known_boxes(path: Path, options: dict[str, Any]) -> dict[Path, tuple[Box, ...]]:
    # A report is drawn wherever its run lies; without the data set it only lacks the dashed boxes.
    try:
        records: Sequence[Record] = load(path, **options).records
    except (ValueError, OSError):
        return {}
    return {record.image: record.boxes for record in records if record.boxes}
