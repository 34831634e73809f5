"""Under pressure: too many bytes, too many requests, too little time."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
import torch
from served import WaitingPredictor, as_png, as_pyramid, scene

from saccade.images.pyramid import KEPT_BYTES
from saccade.looking import Look
from saccade.predict import Prediction, Predictor
from saccade.serve import Limits, create_app
from saccade.serve.service import Service
from saccade.serve.store import MAX_BYTES, Kept, Store
from saccade.serve.tiles import SlideTiles

FORM = {"Content-Type": "multipart/form-data; boundary=cut", "Content-Length": "1000"}  # which nobody believes
HEAD = b'--cut\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'


def with_client(
    predictor: Predictor, limits: Limits, story: Callable[[httpx.AsyncClient, Service], Awaitable[None]]
) -> None:
    async def tell() -> None:
        app = create_app(predictor, name="tiny", limits=limits)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            await story(client, app.state.service)

    asyncio.run(tell())


def post(client: httpx.AsyncClient) -> Awaitable[httpx.Response]:
    return client.post("/api/predict", files={"file": ("a.png", as_png(scene()))})


async def get_stuck(client: httpx.AsyncClient, service: Service, waiting: WaitingPredictor) -> None:
    """The worker waits in the model, beyond a deadline that is as short as the machine can keep it until then."""
    waiting.go.set()
    assert (await post(client)).status_code == 200  # what reads files has started
    waiting.go.clear()
    waiting.begun.clear()
    timeout_s = 0.3
    while not waiting.begun.is_set():
        timeout_s *= 2
        service.limits = service.limits._replace(timeout_s=timeout_s)
        assert (await post(client)).status_code in (503, 504)


@pytest.fixture
def waiting(model_folder) -> WaitingPredictor:
    return WaitingPredictor(model_folder, device="cpu")


def test_upload_is_not_read_beyond_its_limit(predictor):
    sent = []

    async def endless() -> AsyncIterator[bytes]:
        yield HEAD
        while len(sent) < 1000:
            sent.append(1)
            yield bytes(10_000)

    async def story(client: httpx.AsyncClient, service: Service) -> None:
        response = await client.post("/api/predict", content=endless(), headers=FORM)
        assert response.status_code == 413
        assert "0.1 MB" in response.json()["detail"]
        assert not list(service.store.new_path().parent.iterdir())

    with_client(predictor, Limits(max_bytes=100_000), story)
    assert len(sent) <= 12  # 100 kB and the room for the envelope


def test_announced_size_is_refused_unread(predictor):
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("it was read")
        yield b""

    async def story(client: httpx.AsyncClient, service: Service) -> None:
        headers = {**FORM, "Content-Length": "1000000"}
        assert (await client.post("/api/predict", content=never(), headers=headers)).status_code == 413

    with_client(predictor, Limits(max_bytes=100_000), story)


def test_upload_that_stops_arriving_is_given_up(predictor):
    async def stalls() -> AsyncIterator[bytes]:
        yield HEAD
        await asyncio.sleep(30)

    async def story(client: httpx.AsyncClient, service: Service) -> None:
        assert (await client.post("/api/predict", content=stalls(), headers=FORM)).status_code == 408
        assert service.queue.taken == 0

    with_client(predictor, Limits(timeout_s=0.2), story)


def test_upload_below_the_floor_is_given_up_long_before_its_deadline(predictor, monkeypatch):
    window_s, deadline_s = 1.0, 100  # what is fast enough may stop for a while, as a busy machine makes it
    monkeypatch.setattr("saccade.serve.upload.UPLOAD_WINDOW_S", window_s)
    begin = time.monotonic()

    async def drips(byte_s: int) -> AsyncIterator[bytes]:
        yield HEAD
        for _ in range(60):
            await asyncio.sleep(window_s / 50)
            yield bytes(byte_s // 50)

    async def story(client: httpx.AsyncClient, service: Service) -> None:
        slow = await client.post("/api/predict", content=drips(1_000), headers=FORM)
        assert slow.status_code == 408
        assert "at least 10 kB/s" in slow.json()["detail"]
        assert time.monotonic() - begin < deadline_s / 2
        fast = await client.post("/api/predict", content=drips(200_000), headers=FORM)
        assert fast.status_code == 422  # all of it came, and it is no whole form

    with_client(predictor, Limits(timeout_s=deadline_s), story)


def test_upload_of_unknown_length_is_refused_unread(predictor):
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("it was read")
        yield b""

    async def story(client: httpx.AsyncClient, service: Service) -> None:
        refused = await client.post("/api/predict", content=never(), headers={"Content-Type": FORM["Content-Type"]})
        assert refused.status_code == 411
        assert "Content-Length" in refused.json()["detail"]

    with_client(predictor, Limits(), story)


def test_uploads_under_way_take_no_place(predictor):
    async def stalls() -> AsyncIterator[bytes]:
        yield HEAD
        await asyncio.sleep(30)

    async def story(client: httpx.AsyncClient, service: Service) -> None:
        slow = [asyncio.ensure_future(client.post("/api/predict", content=stalls(), headers=FORM)) for _ in range(20)]
        await asyncio.sleep(0.2)
        assert service.queue.taken == 0
        assert (await post(client)).status_code == 200
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)

    with_client(predictor, Limits(queue=0, timeout_s=120), story)


def test_requests_beyond_the_queue_are_refused(waiting):
    async def story(client: httpx.AsyncClient, service: Service) -> None:
        two = [asyncio.ensure_future(post(client)) for _ in range(2)]
        await asyncio.to_thread(waiting.begun.wait, 60)
        while service.queue.taken < 2:
            await asyncio.sleep(0.01)
        third = await post(client)
        assert third.status_code == 503
        assert int(third.headers["Retry-After"]) > 0
        assert (await client.get("/api/health")).json()["taken"] == 2
        waiting.go.set()
        assert [response.status_code for response in await asyncio.gather(*two)] == [200, 200]
        assert (await post(client)).status_code == 200

    with_client(waiting, Limits(queue=1, timeout_s=120), story)


def test_late_answers_are_thrown_away_and_their_place_stays_taken(waiting):
    async def story(client: httpx.AsyncClient, service: Service) -> None:
        await get_stuck(client, service, waiting)
        assert service.queue.taken == 1  # a thread cannot be stopped
        assert (await post(client)).status_code == 503
        files = list(service.store.new_path().parent.iterdir())
        assert len(files) == 1  # of the image before, which can be zoomed into
        waiting.go.set()
        while service.queue.taken:
            await asyncio.sleep(0.01)
        assert len(service.store._kept) == 1
        service.limits = Limits(timeout_s=120)
        assert (await post(client)).status_code == 200

    with_client(waiting, Limits(queue=0, timeout_s=120), story)


def test_health_tells_a_stuck_worker(waiting, monkeypatch):
    monkeypatch.setattr("saccade.serve.service.STUCK_S", 0.1)
    monkeypatch.setattr("saccade.serve.service.CLOSE_S", 0.1)
    workers = []

    async def story(client: httpx.AsyncClient, service: Service) -> None:
        workers.append(service.queue._worker)
        await get_stuck(client, service, waiting)
        while (await client.get("/api/health")).status_code == 200:
            await asyncio.sleep(0.05)
        for answer in (await client.get("/api/health"), await post(client)):
            assert answer.status_code == 503
            assert "the worker is stuck, restart the server" in answer.json()["detail"]

    with_client(waiting, Limits(timeout_s=120), story)
    assert workers[0].is_alive()  # nor did the end of the server wait for it
    waiting.go.set()


def test_model_stops_at_the_deadline(model_folder):
    class Slow(Predictor):
        def answer(self, *args: Any, **options: Any) -> Any:
            while True:  # a layer at a time, for ever
                super().answer(*args, **options)

    async def story(client: httpx.AsyncClient, service: Service) -> None:
        assert (await post(client)).status_code == 504
        while service.queue.taken:
            await asyncio.sleep(0.01)
        assert (await client.get("/api/health")).json()["busy_s"] == 0

    with_client(Slow(model_folder, device="cpu"), Limits(timeout_s=1.0), story)


@pytest.mark.parametrize(
    ("error", "status"),
    [(torch.OutOfMemoryError("CUDA"), 503), (MemoryError(), 503), (OSError("too large"), 422), (KeyError("bug"), 500)],
)
def test_failure_of_the_model_is_said_and_leaves_nothing_behind(waiting, monkeypatch, error, status):
    def fail(*args: object, **options: object) -> None:
        raise error

    async def story(client: httpx.AsyncClient, service: Service) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(waiting, "answer", fail)
            response = await post(client)
        assert response.status_code == status
        assert set(response.json()) == {"detail"}
        assert ("Retry-After" in response.headers) == (status == 503)
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert service.queue.taken == 0
        assert not list(service.store.new_path().parent.iterdir())
        waiting.go.set()
        assert (await post(client)).status_code == 200

    with_client(waiting, Limits(timeout_s=120), story)


def test_tile_without_memory_can_be_asked_for_again(predictor, monkeypatch):
    def fail(*args: object) -> None:
        raise MemoryError

    async def story(client: httpx.AsyncClient, service: Service) -> None:
        address = (await post(client)).json()["image"]["tiles"].format(level=0, x=0, y=0)
        with monkeypatch.context() as patch:
            patch.setattr("saccade.serve.service.make_tile", fail)
            refused = await client.get(address)
        assert (refused.status_code, "memory" in refused.json()["detail"]) == (503, True)
        assert (await client.get(address)).status_code == 200

    with_client(predictor, Limits(timeout_s=120), story)


def test_slides_are_kept_within_the_memory_bound(tmp_path):
    (tmp_path / "slide").write_bytes(as_pyramid(scene(256, 256)))
    slide, prediction = SlideTiles(tmp_path / "slide", (256, 256)), Prediction("cat", {}, Look((256, 256)), 0.0)
    store = Store(Limits(kept=100))
    for number in range(20):
        store.add(Kept(slide, prediction, tmp_path / str(number)))
    assert len(store._kept) == MAX_BYTES // KEPT_BYTES  # each may cache that much
    store.close()
