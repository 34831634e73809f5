"""The API as a client meets it: what it answers, what it refuses, and that nothing of a client's word is a path."""

import struct
import time
import zlib
from collections.abc import Iterator
from unittest.mock import Mock

import numpy as np
import pytest
from fastapi.testclient import TestClient
from served import CLASSES, as_pixels, as_png, as_pyramid, scene

from saccade.images import Guard
from saccade.images.guarded import SUPPORTED
from saccade.predict import Predictor
from saccade.serve import Limits, create_app

LIMITS = Limits(max_bytes=1_000_000, max_pixels=200_000, max_slide_pixels=1_000_000, timeout_s=120)


def open_client(predictor: Predictor, **limits) -> TestClient:
    app = create_app(predictor, name="tiny", limits=LIMITS._replace(**limits), hosts=["localhost"])
    return TestClient(app, base_url="http://localhost")


@pytest.fixture(scope="module")
def client(predictor) -> Iterator[TestClient]:
    with open_client(predictor) as client:
        yield client


def send(client: TestClient, data: bytes, name: str = "photo.png", **options):
    return client.post("/api/predict", files={"file": (name, data)}, **options)


def test_answer_is_what_the_predictor_saw(client, predictor):
    pixels = scene()
    prediction = predictor(pixels)
    answer = send(client, as_png(pixels)).json()
    assert answer["probabilities"] == pytest.approx(prediction.probabilities, rel=1e-5)
    assert answer["label"] == prediction.label
    assert answer["size"] == [96, 128]
    edges = [[box[side] for side in ("left", "top", "right", "bottom")] for box in answer["boxes"]]
    assert edges == prediction.look.boxes.tolist()
    assert [box["score"] for box in answer["boxes"]] == pytest.approx(prediction.look.box_scores.tolist(), rel=1e-5)
    np.testing.assert_allclose(answer["scores"]["values"], prediction.look.scores, atol=1e-4)
    assert answer["scores"]["extent"] == list(prediction.look.extent)


@pytest.mark.skipif(not SUPPORTED, reason="files are read by a guard, where there is one")
def test_the_file_is_decoded_once_and_looked_at_once(predictor, monkeypatch):
    decode, look = Mock(wraps=Guard().read_pixels), Mock(wraps=predictor.models[0].forward)
    monkeypatch.setattr(Guard, "read_pixels", decode)
    monkeypatch.setattr(predictor.models[0], "forward", look)
    with open_client(predictor) as client:
        assert len(send(client, as_png(scene())).json()["crops"]) == 3
    assert (decode.call_count, look.call_count) == (1, 1)


def test_crops_are_the_pixels_in_the_boxes(client):
    pixels = scene()
    answer = send(client, as_png(pixels)).json()
    padded = np.pad(pixels, ((50, 50), (50, 50), (0, 0)))
    assert len(answer["crops"]) == 3
    for box, address in zip(answer["boxes"], answer["crops"], strict=True):
        inside = padded[box["top"] + 50 : box["bottom"] + 50, box["left"] + 50 : box["right"] + 50]
        np.testing.assert_array_equal(as_pixels(client.get(address).content), inside)
    beyond = answer["crops"][0].replace("/0.png", "/3.png")
    assert client.get(beyond).status_code == 404


def test_pyramid_gets_the_answer_of_its_pixels_and_its_file_goes_with_it(predictor):
    pixels = scene(384, 512)
    with open_client(predictor, kept=1) as client:
        folder = client.app.state.service.store.new_path().parent  # type: ignore[attr-defined]
        first = send(client, as_pyramid(pixels), "slide.tif").json()
        assert len(list(folder.iterdir())) == 1
        second = send(client, as_png(pixels)).json()
        assert len(list(folder.iterdir())) == 1  # only one is kept
        gone = client.get(first["image"]["tiles"].format(level=0, x=0, y=0))
    assert not folder.exists()
    assert gone.status_code == 404
    assert first["boxes"][0]["left"] == second["boxes"][0]["left"]
    assert first["probabilities"] == pytest.approx(second["probabilities"], abs=0.02)


def test_kept_for_a_while_only(predictor):
    with open_client(predictor, kept_s=0.2) as client:
        address = send(client, as_png(scene())).json()["crops"][0]
        assert client.get(address).status_code == 200
        time.sleep(0.3)
        assert client.get(address).status_code == 404


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"", 422, "empty"),
        (b"hello, I am a text", 415, "not an image"),
        (as_png(scene())[:-2000], 422, "damaged"),
        (as_png(np.zeros((2, 2, 3), np.uint8)), 422, "view scale"),
    ],
)
def test_bad_images_are_refused_with_the_reason(client, data, status, words):
    response = send(client, data)
    assert (response.status_code, words in response.json()["detail"]) == (status, True)
    assert "/tmp" not in response.text


def png_header(width: int, height: int) -> bytes:
    """A PNG that says how large it is and has no pixels."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head)) + b"\0\0\0\1IDAT"


def test_pixels_are_counted_before_they_are_decoded(client):
    response = send(client, png_header(60_000, 50_000))
    assert response.status_code == 413
    assert "3,000 megapixels, the limit is 0" in response.json()["detail"]
    assert send(client, as_png(scene(500, 500))).status_code == 413
    # Of a pyramid only parts are read, so it may have more; but not without end.
    assert send(client, as_pyramid(np.full((500, 512, 3), 90, np.uint8))).status_code == 200
    assert send(client, as_pyramid(np.full((1000, 1024, 3), 90, np.uint8))).status_code == 413


def test_form_without_a_file_is_refused(client):
    assert client.post("/api/predict", files={"other": b"x"}).status_code == 422
    assert client.post("/api/predict", files={"file": (None, "text")}).status_code == 422
    for body in ({"data": {"file": "text"}}, {"json": {"file": "x"}}, {"content": b"x"}):  # the first: curl -d
        response = client.post("/api/predict", **body)
        assert response.status_code == 400
        assert "curl -F file=@" in response.json()["detail"]
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert client.post("/api/predict", content=b"--y\r\nnonsense", headers=headers).status_code == 400
    assert client.post("/api/predict", files=[("file", b"1"), ("file", b"2")]).status_code == 400


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "<img src=x onerror=alert(1)>.png", "a" * 999])
def test_name_of_the_client_is_only_echoed(client, name):
    answer = send(client, as_png(scene()), name).json()
    assert answer["image"]["name"] == name[:200]
    assert name[:9] not in answer["image"]["tiles"]


@pytest.mark.parametrize(
    "address",
    [
        "/api/images/..%2f..%2f..%2fetc%2fpasswd/tiles/0/0/0.jpg",
        "/api/images/../../etc/passwd",
        "/api/images/AAAAAAAAAAAAAAAAAAAAAA/tiles/0/0/0.jpg",
        "/api/images/AAAAAAAAAAAAAAAAAAAAAA/crops/0.png",
        "/..%2f__init__.py",
        "/page/../app.py",
    ],
)
def test_nothing_else_can_be_had(client, address):
    response = client.get(address)
    assert response.status_code in (404, 422)
    assert set(response.json()) == {"detail"}


@pytest.mark.parametrize("where", ["9/0/0", "0/1/0", "0/0/1", "-1/0/0", "0/0/x", f"0/{10**30}/0"])
def test_tiles_that_are_not_there(client, where):
    token = send(client, as_png(scene())).json()["image"]["id"]
    assert client.get(f"/api/images/{token}/tiles/{where}.jpg").status_code in (404, 422)


def test_health_and_model(client):
    health = client.get("/api/health").json()
    assert health == {"status": "ok", "model": "tiny", "classes": 3, "taken": 0, "busy_s": 0.0, "places": 9}
    model = client.get("/api/model").json()
    assert model["classes"] == list(CLASSES)
    assert model["max_bytes"] == 1_000_000


def test_page_loads_only_from_here(client):
    for address in ("/", "/page.css", "/page.js", "/viewer.js", "/api/health", "/nothing"):
        response = client.get(address)
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "https://" not in client.get("/").text
