"""The web application of `saccade label`: doubtful labels one after the other, where the model looked, and their table.

Every correction is in the table before it is answered, and can be taken back. Images are read and never touched.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import Annotated

from fastapi import FastAPI, HTTPException, Response
from fastapi import Path as InPath
from pydantic import BaseModel, Field

from saccade.data.label_table import LabelTable
from saccade.data.records import DataError, Records
from saccade.files import shown
from saccade.images.decoding_cost import MAX_PIXELS
from saccade.predict import Predictor
from saccade.runs.suspects import Suspect
from saccade.serve.app import finish_app
from saccade.serve.examination import examine
from saccade.serve.limits import Deadline, Limits
from saccade.serve.schema import PredictionBody, describe_prediction
from saccade.serve.store import Kept
from saccade.serve.tiles import make_tile
from saccade.tasks.labels import BETWEEN, each_question, label_names, split_answers

PAGE = {
    "": "label.html",
    **{name: name for name in ("page.css", "label.css", "label.js", "dom.js", "viewer.js")},
}
KEPT = 4  # images, decoded
TIMEOUT_S = 600.0  # for one's own image on one's own machine

Place = Annotated[int, InPath(ge=0, le=2**31 - 1)]


class AskedQuestion(BaseModel):
    """What is asked of every image; one without a name where there is only one."""

    name: str
    task: str
    classes: list[str]


class DoubtfulLabel(BaseModel):
    """An image, what the table says of it, and what the model said, an answer to each question."""

    image: str
    label: list[str]
    names: list[list[str]] = Field(description="of each answer the classes that it names")
    said: list[str]
    doubt: float = Field(description="how sure the model is against the label, from 0 to 1")
    source: str = Field(description="where the answer is from: out of fold, test, val or train")
    changed: bool


class Work(BaseModel):
    """What there is to do."""

    table: str
    questions: list[AskedQuestion]
    suspects: list[DoubtfulLabel]
    can_undo: bool


class NewLabel(BaseModel):
    """An answer to each question, written as in a table."""

    label: list[str]


class Changed(BaseModel):
    """The image whose label was changed, by its place, and how it stands now."""

    place: int
    suspect: DoubtfulLabel
    can_undo: bool


class Labelling:
    """The suspects, their table, the models that looked at them, and what can be taken back."""

    def __init__(self, table: LabelTable, records: Records, suspects: Sequence[Suspect], device: str | None = None):
        self.table, self.suspects = table, suspects
        self.questions = each_question(records.task, records.classes, records.questions)
        self._root, self._first = records.root, dict(table.labels)
        self._undo: list[tuple[int, str]] = []  # which one was changed, and from what
        self.lock = RLock()  # a predictor is for one thread at a time, and so is the table
        self._predictor = lru_cache(maxsize=None)(lambda model: Predictor(model, device=device))
        self.look = lru_cache(maxsize=KEPT)(self._look)

    def work(self) -> Work:
        """Everything that is to be looked at."""
        asked = [AskedQuestion(name=each.name, task=each.task, classes=[*each.classes]) for each in self.questions]
        suspects = [self.describe(place) for place in range(len(self.suspects))]
        return Work(table=str(self.table.path), questions=asked, suspects=suspects, can_undo=bool(self._undo))

    def describe(self, place: int) -> DoubtfulLabel:
        """A suspect as it stands now."""
        suspect = self._suspect(place)
        label = self.table.labels[suspect.image]
        answers = split_answers(label, len(self.questions))
        return DoubtfulLabel(
            image=shown(suspect.image.relative_to(self._root)),
            label=answers,
            names=[[*label_names(each.task, text)] for each, text in zip(self.questions, answers, strict=True)],
            said=split_answers(suspect.said, len(self.questions)),
            doubt=suspect.doubt,
            source=suspect.source,
            changed=label != self._first[suspect.image],
        )

    def _suspect(self, place: int) -> Suspect:
        if place >= len(self.suspects):
            raise HTTPException(404, f"there are {len(self.suspects)} images, and no {place}")
        return self.suspects[place]

    def _look(self, place: int) -> Kept:
        suspect = self._suspect(place)
        predictor = self._predictor(suspect.model)
        limits = Limits(max_pixels=predictor.preparation.max_pixels or MAX_PIXELS, max_slide_pixels=2**62)
        return examine(predictor, suspect.image, limits, Deadline(TIMEOUT_S))

    def change(self, place: int, answers: Sequence[str]) -> Changed:
        """Write the answers into the table."""
        image = self._suspect(place).image
        before = self.table.labels[image]
        if len(answers) != len(self.questions) or any(BETWEEN in answer for answer in answers):
            raise HTTPException(
                422, f"{len(answers)} answers came, expected {len(self.questions)}, without {BETWEEN!r}"
            )
        self._write(image, BETWEEN.join(answers))
        self._undo.append((place, before))
        return Changed(place=place, suspect=self.describe(place), can_undo=True)

    def undo(self) -> Changed:
        """Take the last change back, as often as there are any."""
        if not self._undo:
            raise HTTPException(409, "nothing was changed that could be taken back")
        place, before = self._undo[-1]
        self._write(self._suspect(place).image, before)
        self._undo.pop()
        return Changed(place=place, suspect=self.describe(place), can_undo=bool(self._undo))

    def _write(self, image: Path, label: str) -> None:
        try:
            self.table.change(image, label)
        except (DataError, OSError) as error:
            raise HTTPException(422 if isinstance(error, DataError) else 500, str(error)) from error


def create_label_app(work: Labelling, *, hosts: Sequence[str] = ("*",), token: str | None = None) -> FastAPI:
    """The page and its API, for requests for `hosts` only; token as `create_app` has it."""
    app = FastAPI(title="Saccade: labels", openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/api/work")
    def everything() -> Work:
        with work.lock:
            return work.work()

    @app.get("/api/suspects/{place}")
    def looked(place: Place) -> PredictionBody:
        with work.lock:
            kept = work.look(place)
        return describe_prediction(kept.prediction, str(place), kept.file.name)

    @app.get("/api/images/{place}/tiles/{level}/{x}/{y}.jpg", response_class=Response)
    def tile(place: Place, level: Place, x: Place, y: Place) -> Response:
        with work.lock:
            picture = make_tile(work.look(place).tiles, level, x, y)
        if picture is None:
            raise HTTPException(404, f"the image has no tile {x}, {y} at level {level}")
        return Response(picture, media_type="image/jpeg")

    @app.post("/api/suspects/{place}/label")
    def change(place: Place, new: NewLabel) -> Changed:
        with work.lock:
            return work.change(place, new.label)

    @app.post("/api/undo")
    def undo() -> Changed:
        with work.lock:
            return work.undo()

    return finish_app(app, PAGE, hosts, token)
