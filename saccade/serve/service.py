"""What the routes do: predict, and hand out tiles and crops of what was predicted."""

import asyncio
import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path

from fastapi import HTTPException, Request
from PIL import Image

from saccade.predict import Predictor
from saccade.serve.examination import examine, is_short_of_memory
from saccade.serve.limits import Deadline, Limits, try_later
from saccade.serve.schema import MAX_CROPS, Health, Model, PredictionBody, describe, describe_prediction
from saccade.serve.store import Kept, Store
from saccade.serve.tiles import make_tile
from saccade.serve.upload import receive_upload
from saccade.serve.work_queue import BusyError, WorkQueue

SWEEP_S = 15


class Service:
    """A predictor with its queue, its store and two threads that cut tiles."""

    def __init__(self, predictor: Predictor, name: str, limits: Limits):
        self.predictor, self.name, self.limits = predictor, name, limits
        self.queue, self.store = WorkQueue(limits.queue), Store(limits)
        self._cutters = ThreadPoolExecutor(max_workers=2, thread_name_prefix="saccade-tiles")

    async def predict(self, request: Request) -> PredictionBody:
        """What the model says of the image in a request, within all limits."""
        deadline, path = Deadline(self.limits.timeout_s), self.store.new_path()
        with self._place():
            try:
                upload = await receive_upload(request, path, self.limits, deadline)
                kept = await self._examine(path, deadline)
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        return describe_prediction(kept.prediction, self.store.add(kept), upload.name)

    @contextlib.contextmanager
    def _place(self) -> Iterator[None]:
        try:
            with self.queue.place():
                yield
        except BusyError as busy:
            raise try_later(f"{self.queue.places} images are being looked at or wait") from busy

    async def _examine(self, path: Path, deadline: Deadline) -> Kept:
        try:
            return await self.queue.work(partial(examine, self.predictor, path, self.limits), deadline)
        except TimeoutError as late:
            raise HTTPException(504, f"no answer within {deadline.seconds:g} s: send a smaller image") from late

    async def tile(self, token: str, level: int, x: int, y: int) -> bytes:
        """The JPEG of a tile, or 404."""
        job = partial(make_tile, self._kept(token).tiles, level, x, y)
        try:
            tile = await asyncio.get_running_loop().run_in_executor(self._cutters, job)
        except Exception as error:  # decoders meet damaged tiles with almost any exception
            self._kept(token)  # dropped meanwhile, file and all
            if is_short_of_memory(error):
                raise try_later("the server is short of memory") from error
            raise HTTPException(422, "this part of the image is damaged") from error
        if tile is None:
            raise HTTPException(404, f"the image has no tile {x}, {y} at level {level}")
        return tile

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
        """Whether there is room."""
        return Health(
            status="ok",
            model=self.name,
            classes=len(self.predictor.classes),
            taken=self.queue.taken,
            places=self.queue.places,
        )

    def model(self) -> Model:
        """What is served, and what is taken."""
        return describe(self.name, self.predictor.classes, self.limits)

    async def sweep_for_ever(self) -> None:
        """Drop what is too old, also while nobody asks for anything."""
        while True:
            await asyncio.sleep(min(SWEEP_S, self.limits.kept_s))
            self.store.sweep()

    def close(self) -> None:
        """End the threads, then delete the files."""
        self.queue.close()
        self._cutters.shutdown(wait=True, cancel_futures=True)
        self.store.close()
