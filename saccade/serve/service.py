"""What the routes do: predict, and hand out tiles and crops of what was predicted."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path

from fastapi import HTTPException, Request
from PIL import Image

from saccade.images import BadImage, Fault, Guard, guarded
from saccade.predict import Predictor
from saccade.serve.examination import examine, refuse
from saccade.serve.limits import Deadline, Limits, too_late, try_later
from saccade.serve.schema import MAX_CROPS, Health, Model, PredictionBody, describe, describe_prediction
from saccade.serve.store import Kept, Store
from saccade.serve.tiles import Tiles, make_tile
from saccade.serve.upload import receive_upload
from saccade.serve.work_queue import BusyError, WorkQueue

SWEEP_S = 15
STUCK_S = 2  # after its deadline work ends with the layer it is in
CLOSE_S = 3


class Service:
    """Predictors by name with their queue, their store and two threads that cut tiles; files are read where that can be
    killed. The first predictor answers where none is named.
    """

    def __init__(self, predictors: Mapping[str, Predictor], limits: Limits, example: Path | None = None):
        self.predictors, self.limits, self._example = dict(predictors), limits, example
        self.name = next(iter(self.predictors))
        self.queue, self.store = WorkQueue(limits.queue), Store(limits)
        self._cutters = ThreadPoolExecutor(max_workers=2, thread_name_prefix="saccade-tiles")
        within = guarded.Limits(limits.timeout_s, limits.timeout_s)
        self._guard, self._tile_guard = (Guard(within), Guard(within)) if guarded.SUPPORTED else (None, None)

    async def predict(self, request: Request, model: str | None = None) -> PredictionBody:
        """What a model says of the image in a request, within all limits."""
        predictor = self._predictor(model)
        deadline, path = Deadline(self.limits.timeout_s), self.store.new_path()
        try:
            with self._saying_busy():
                self.queue.require_room()  # before the upload; but it is who has sent all of it that takes a place
                upload = await receive_upload(request, path, self.limits, deadline)
                with self.queue.place():
                    kept = await self._examine(predictor, path, deadline)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return describe_prediction(kept.prediction, self.store.add(kept), upload.name)

    @contextlib.contextmanager
    def _saying_busy(self) -> Iterator[None]:
        self._require_health()
        try:
            yield
        except BusyError as busy:
            raise try_later(f"{self.queue.places} images are being looked at or wait") from busy

    def _predictor(self, model: str | None) -> Predictor:
        name = self.name if model is None else model
        if name not in self.predictors:
            raise HTTPException(404, f"no such model: expected one of {', '.join(self.predictors)}")
        return self.predictors[name]

    async def _examine(self, predictor: Predictor, path: Path, deadline: Deadline) -> Kept:
        guards = {"guard": self._guard, "tile_guard": self._tile_guard}
        try:
            job = partial(examine, predictor, path, self.limits, deadline, **guards)
            return await self.queue.work(job, deadline)
        except TimeoutError as late:
            raise too_late(deadline) from late

    async def tile(self, token: str, level: int, x: int, y: int) -> bytes:
        """The JPEG of a tile, or 404."""
        deadline = Deadline(self.limits.timeout_s)
        job = partial(self._cut, self._kept(token).tiles, level, x, y, deadline)
        try:
            tile = await asyncio.get_running_loop().run_in_executor(self._cutters, job)
        except Exception as error:  # decoders meet damaged tiles with almost any exception
            self._kept(token)  # dropped meanwhile, file and all
            raise _refuse_tile(error, deadline) from error
        if tile is None:
            raise HTTPException(404, f"the image has no tile {x}, {y} at level {level}")
        return tile

    def _cut(self, tiles: Tiles, level: int, x: int, y: int, deadline: Deadline) -> bytes | None:
        with self._tile_guard.until(deadline.end) if self._tile_guard else contextlib.nullcontext():
            return make_tile(tiles, level, x, y)

    def crop(self, token: str, number: int) -> bytes:
        """The PNG of a crop, or 404."""
        crops = self._kept(token).prediction.look.crops[:MAX_CROPS]
        if number >= len(crops):
            raise HTTPException(404, f"the image has no crop {number}")
        file = BytesIO()
        Image.fromarray(crops[number]).save(file, "PNG")
        return file.getvalue()

    def _kept(self, token: str) -> Kept:
        kept = self.store.get(token)
        if kept is None:
            raise HTTPException(404, "no such image: images are kept for a while only; send it again")
        return kept

    def health(self) -> Health:
        """Whether there is room; 503 if nothing will be answered any more."""
        self._require_health()
        return Health(
            status="ok",
            model=self.name,
            classes=len(self._predictor(None).classes),
            taken=self.queue.taken,
            busy_s=round(self.queue.busy_s, 1),
            places=self.queue.places,
        )

    def _require_health(self) -> None:
        busy_s = self.queue.busy_s
        if busy_s > self.limits.timeout_s + STUCK_S:
            raise try_later(f"one image has been looked at for {busy_s:.0f} s: the worker is stuck, restart the server")

    def model(self) -> Model:
        """What is served, and what is taken."""
        example = self._example.name if self._example else None
        return describe(list(self.predictors), self._predictor(None).classes, self.limits, example)

    def example(self) -> bytes:
        """The file that the page offers to try, or 404."""
        if self._example is None:
            raise HTTPException(404, "no example: saccade serve RUN --example FILE has one")
        return self._example.read_bytes()

    async def sweep_for_ever(self) -> None:
        """Drop what is too old, also while nobody asks for anything."""
        while True:
            await asyncio.sleep(min(SWEEP_S, self.limits.kept_s))
            self.store.sweep()

    def close(self) -> None:
        """End what reads files and the threads, then delete the files."""
        for guard in (self._guard, self._tile_guard):
            if guard:
                guard.close()
        self.queue.close(wait_s=CLOSE_S)
        self._cutters.shutdown(wait=True, cancel_futures=True)
        self.store.close()


def _refuse_tile(error: Exception, deadline: Deadline) -> HTTPException:
    if isinstance(error, MemoryError):
        return try_later("the server is short of memory")
    if isinstance(error, BadImage) and error.fault is not Fault.DAMAGED:
        return refuse(error, deadline)
    return HTTPException(422, "this part of the image is damaged")
