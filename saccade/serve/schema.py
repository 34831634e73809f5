"""What the API says, as its OpenAPI has it, and `Prediction` → `PredictionBody`."""

import math
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, Field

from saccade.looking import Edges, Look
from saccade.predict import Prediction
from saccade.predict.line_formats import as_tree
from saccade.serve.limits import Limits
from saccade.serve.tiles import TILE_PX, last_level

MAX_CELLS = 256  # of a score map along a side
MAX_CROPS = 64


class Problem(BaseModel):
    """Why there is no prediction, for people."""

    detail: str


class BoxBody(BaseModel):
    """Pixels of the full image, right and bottom exclusive; it may reach over the border."""

    left: int
    top: int
    right: int
    bottom: int
    score: float | None = Field(description="null for a system that does not score places")
    labels: list[str] | None = Field(None, description="of several labels that are said, those the box speaks for")


class ScoreMap(BaseModel):
    """Scores in [0, 1] over `extent` (left, top, right, bottom in pixels of the full image)."""

    rows: int
    cols: int
    extent: tuple[float, float, float, float]
    pooled: int = Field(description="a cell is the best of pooled × pooled candidates")
    values: list[list[float]]


class ShownImage(BaseModel):
    """The picture for a viewer: level 0 is one tile, each further level doubles it, the last is full resolution."""

    id: str
    name: str = Field(description="the client's own name of the file")
    tiles: str = Field(description="address with {level}, {x} and {y}")
    tile_px: int
    levels: int


class PredictionBody(BaseModel):
    """What the model says and where it looked, best box first."""

    label: str
    labels: list[str] | None = Field(None, description="where it may be several: all that are said")
    value: float | None = Field(None, description="the number, where the answer is one")
    answers: dict[str, str | float] | None = Field(None, description="to each of several questions")
    decision: str | None = Field(None, description="by the rule that saccade evaluate chose, if the model has one")
    review: bool = Field(False, description="whether the decision is doubtful, so that somebody should look")
    confidence: float | None = Field(description="the probability of the answer; null for a number")
    probabilities: dict[str, float]
    boxes: list[BoxBody]
    size: tuple[int, int] = Field(description="height and width in pixels")
    milliseconds: float = Field(description="of reading, looking and answering, without upload and waiting")
    image: ShownImage
    scores: ScoreMap | None = Field(description="null for a system that does not score places")
    crops: list[str] = Field(description=f"addresses of what is in the boxes, in their order; at most {MAX_CROPS}")


class Health(BaseModel):
    """Whether there is room for another request."""

    status: str
    model: str
    classes: int
    taken: int = Field(description="requests at work or waiting")
    busy_s: float = Field(description="seconds for which the image at work has been looked at")
    places: int = Field(description="how many may be; beyond, 503")


class Model(BaseModel):
    """What is served, and what is taken."""

    name: str
    models: list[str] = Field(description="what ?model= of a prediction may be; the first one if it is left out")
    classes: list[str]
    example: str | None = Field(description="the name of an image to try, which /api/example has")
    max_bytes: int
    max_pixels: int
    max_slide_pixels: int
    timeout_s: float


def describe(models: Sequence[str], classes: Sequence[str], limits: Limits, example: str | None) -> Model:
    """The models and their limits."""
    bounds = {key: value for key, value in limits._asdict().items() if key in Model.model_fields}
    return Model(name=models[0], models=list(models), classes=list(classes), example=example, **bounds)


def describe_prediction(prediction: Prediction, token: str, name: str) -> PredictionBody:
    """What a line of `saccade predict` says, and where to get the picture that is kept under `token`."""
    look, address = prediction.look, f"/api/images/{token}"
    image = ShownImage(
        id=token,
        name=name,
        tiles=address + "/tiles/{level}/{x}/{y}.jpg",
        tile_px=TILE_PX,
        levels=last_level(look.size) + 1,
    )
    crops = [f"{address}/crops/{number}.png" for number in range(len(look.crops[:MAX_CROPS]))]
    sure = None if math.isnan(prediction.confidence) else prediction.confidence
    return PredictionBody(**as_tree(prediction), confidence=sure, image=image, scores=score_map(look), crops=crops)


def score_map(look: Look) -> ScoreMap | None:
    """The scores, of a large image the best of each block, so that no peak is lost: a page cannot show millions."""
    if not look.scores.size:
        return None
    rows, cols = look.scores.shape
    factor = math.ceil(max(rows, cols) / MAX_CELLS)
    padded = np.pad(np.nan_to_num(look.scores), ((0, -rows % factor), (0, -cols % factor)))
    best = padded.reshape(padded.shape[0] // factor, factor, -1, factor).max(axis=(1, 3))
    extent = _stretched(look.extent, padded.shape[0] / rows, padded.shape[1] / cols)
    values = [[round(value, 4) for value in row] for row in best.tolist()]
    return ScoreMap(rows=best.shape[0], cols=best.shape[1], extent=extent, pooled=factor, values=values)


def _stretched(extent: Edges, down: float, across: float) -> Edges:
    left, top, right, bottom = extent
    return left, top, left + (right - left) * across, top + (bottom - top) * down
