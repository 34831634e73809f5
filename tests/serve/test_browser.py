"""The page in a real browser (Chromium, on the PATH): a click, a drop, boxes where they belong, zoom."""

import base64
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import uvicorn
from served import as_pixels, as_png, as_pyramid, scene

from saccade.serve import Limits, create_app

LIT = (255, 176, 0)

DROP = """([name, bytes]) => {
    const data = new DataTransfer();
    data.items.add(new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], name));
    return data;
}"""
EDGES = """() => {
    const { viewer } = document.getElementById("viewer");
    return viewer.picture.found.map((box) => [...viewer.at(box.left, box.top), ...viewer.at(box.right, box.bottom)]);
}"""


@contextmanager
def serving(app) -> Iterator[str]:
    """A real server on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        while not server.started:
            time.sleep(0.02)
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:  # of a test that failed, too: the thread would keep the process from ending
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def address(predictor) -> Iterator[str]:
    with serving(create_app(predictor, name="tiny", limits=Limits(max_bytes=5_000_000))) as address:
        yield address


def open_noting(page, address):
    """The page of the server, with a list of what the browser complains of."""
    page.complaints = []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(address)
    page.wait_for_selector("#model:not(:empty)")


@pytest.fixture
def page(browser, address):
    page = browser.new_page(viewport={"width": 1100, "height": 700})
    open_noting(page, address)
    yield page
    page.close()


def choose(page, path: Path) -> None:
    with page.expect_file_chooser() as chooser:
        page.click("text=Choose images")
    chooser.value.set_files(path)


def drop(page, name: str, data: bytes) -> None:
    handle = page.evaluate_handle(DROP, [name, base64.b64encode(data).decode()])
    page.dispatch_event("body", "drop", {"dataTransfer": handle})


def drawn(page) -> np.ndarray:
    """The canvas, once everything it waits for is there."""
    page.wait_for_function(
        "() => [...document.getElementById('viewer').viewer.tiles.values()].every((t) => t.complete)"
    )
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    address = page.evaluate("() => document.getElementById('viewer').toDataURL()")
    return as_pixels(base64.b64decode(address.partition(",")[2])).astype(int)


def middles(edges: list[int]) -> list[tuple[int, int]]:
    """The middle of each side of a box, as row and column."""
    x0, y0, x1, y1 = edges
    return [(y0, (x0 + x1) // 2), (y1, (x0 + x1) // 2), ((y0 + y1) // 2, x0), ((y0 + y1) // 2, x1)]


def test_chosen_image_is_answered_and_boxes_lie_where_the_model_looked(page, predictor, tmp_path):
    pixels = scene()
    (tmp_path / "photo.png").write_bytes(as_png(pixels))
    prediction = predictor(pixels)
    choose(page, tmp_path / "photo.png")
    page.wait_for_selector("#crops img")
    assert page.inner_text("#label") == prediction.label
    assert page.locator("#crops button").count() == len(prediction.boxes) == 3
    # Names of classes are words, whatever is in them.
    assert "<b>bird</b>" in page.inner_text("#probabilities")
    page.uncheck("#show-map")
    with_boxes = drawn(page)
    page.uncheck("#show-boxes")
    without = drawn(page)
    page.check("#show-boxes")
    inside = [
        spot
        for edges in page.evaluate(EDGES)
        for spot in middles(edges)
        if 0 < spot[0] < without.shape[0] - 1 and 0 < spot[1] < without.shape[1] - 1
    ]
    assert len(inside) >= 6
    assert all((with_boxes[spot] != without[spot]).any() for spot in inside)
    middle = (without.shape[0] // 2, without.shape[1] // 2)
    np.testing.assert_allclose(without[middle][:3], pixels[48, 64], atol=12)  # the image itself is in the middle
    page.screenshot(path=tmp_path / "page.png")
    assert as_pixels((tmp_path / "page.png").read_bytes()).std() > 10
    assert page.complaints == []


def test_hovered_crop_lights_its_box_and_the_map_can_be_switched_off(page):
    drop(page, "dropped.png", as_png(scene(seed=1)))
    page.wait_for_selector("#crops img")
    plain = drawn(page)
    page.hover("#crops li:nth-child(2) button")
    lit = drawn(page)
    edges = page.evaluate(EDGES)[1]
    on_canvas = [(y, x) for y, x in middles(edges) if 0 < y < lit.shape[0] - 1 and 0 < x < lit.shape[1] - 1]
    assert on_canvas
    for spot in on_canvas:
        np.testing.assert_allclose(lit[spot][:3], LIT, atol=2)
        assert np.abs(plain[spot][:3] - LIT).max() > 20
    page.mouse.move(1, 1)
    page.fill("#opacity", "0")
    transparent = drawn(page)
    page.uncheck("#show-map")
    np.testing.assert_array_equal(drawn(page), transparent)
    assert page.complaints == []


def test_large_pyramid_is_zoomed_into_tile_by_tile(page):
    tiles = []
    page.on("request", lambda request: tiles.append(request.url) if "/tiles/" in request.url else None)
    drop(page, "slide.tif", as_pyramid(scene(1100, 1500)))
    page.wait_for_selector("#crops img")
    drawn(page)
    whole = page.evaluate("() => document.getElementById('viewer').viewer.scale")
    assert not any("/tiles/2/" in tile for tile in tiles)  # 1500 px fit without the finest level
    page.focus("#viewer")
    for _ in range(4):
        page.keyboard.press("+")
    drawn(page)
    assert page.evaluate("() => document.getElementById('viewer').viewer.scale") == pytest.approx(whole * 1.4**4)
    assert any("/tiles/2/" in tile for tile in tiles)
    page.keyboard.press("0")
    assert page.evaluate("() => document.getElementById('viewer').viewer.scale") == pytest.approx(whole)
    page.mouse.move(400, 300)
    page.mouse.wheel(0, -500)
    page.wait_for_function("(whole) => document.getElementById('viewer').viewer.scale > 1.5 * whole", arg=whole)
    assert page.complaints == []


def test_problems_are_said_and_the_page_goes_on(page):
    drop(page, "<i>notes</i>.txt", b"no image")
    page.wait_for_selector("#problem:not([hidden])")
    assert page.inner_text("#problem").startswith("<i>notes</i>.txt: not an image")
    drop(page, "large.png", bytes(5_000_001))
    page.wait_for_function("() => document.getElementById('problem').textContent.includes('the limit is 5 MB')")
    drop(page, "fine.png", as_png(scene()))
    page.wait_for_selector("#crops img")
    assert page.is_hidden("#problem")


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "no longer keeps"), (422, "cannot be shown: of no use"), (503, "cannot be shown: of no use")],
)
def test_tile_that_does_not_come_is_explained(page, status, words):
    page.route("**/tiles/**", lambda route: route.fulfill(status=status, json={"detail": "of no use"}))
    drop(page, "fine.png", as_png(scene()))
    page.wait_for_selector("#problem:not([hidden])")
    assert words in page.inner_text("#problem")
