"""The page with several images and two models: gallery, comparison, downloads, an example; axe-core on every state."""

import json
from pathlib import Path

import pytest
from served import as_png, save_tiny_model, scene
from test_browser import open_noting, serving

from saccade.predict import Predictor
from saccade.serve import Limits, create_app

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1100, "height": 700}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("images")
    for name in ("1.png", "2.png", "3.png", "4.png", "5.png"):
        (folder / name).write_bytes(as_png(scene()))
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def address(predictor, files, tmp_path_factory):
    other = Predictor(save_tiny_model(tmp_path_factory.mktemp("other")), device="cpu")
    app = create_app(predictor, name="tiny", limits=Limits(), others={"other": other}, example=files[0])
    with serving(app) as address:
        yield address


@pytest.fixture(params=[("light", DESK), ("dark", DESK), ("light", PHONE)], ids=["light", "dark", "phone"])
def page(request, browser, address):
    scheme, viewport = request.param
    page = browser.new_page(color_scheme=scheme, viewport=viewport)
    open_noting(page, address)
    yield page
    assert not page.complaints
    page.close()


def serious(page) -> list[str]:
    """What axe-core finds on the page as it is now."""
    from axe_playwright_python.sync_playwright import Axe

    response = Axe().run(page).response
    assert response["passes"]
    bad = [one for one in response["violations"] if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in bad]


def test_every_state_is_for_everybody_and_fits(page, files):
    assert serious(page) == []
    page.set_input_files("#file", files)
    page.wait_for_selector("body:not(.busy) #gallery li:nth-child(5)")
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture
def desk(browser, address):
    page = browser.new_page(viewport=DESK)
    page.goto(address)
    page.wait_for_selector("#model:not(:empty)")
    yield page
    page.close()


def test_images_are_kept_in_a_gallery_and_downloaded_as_lines(desk, files, tmp_path):
    desk.set_input_files("#file", files)
    desk.wait_for_selector("body:not(.busy) #gallery li:nth-child(5)")
    assert files[4].name in desk.inner_text("#facts")
    desk.focus("#gallery button")
    desk.keyboard.press("Enter")
    assert files[0].name in desk.inner_text("#facts")
    assert desk.evaluate("document.activeElement.getAttribute('aria-current')") == "true"
    with desk.expect_download() as download:
        desk.click("#lines")
    lines = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert [(line["image"], line["model"]) for line in lines] == [(f.name, m) for f in files for m in ("tiny", "other")]
    assert lines[0]["boxes"]
    with desk.expect_download() as download:
        desk.click("#overlay")
    assert download.value.suggested_filename == f"{files[0].stem}-looked.png"
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_two_models_are_seen_from_the_same_place(desk, files):
    desk.set_input_files("#file", files[0])
    desk.wait_for_selector("#models button >> nth=1")
    assert desk.inner_text("#models [aria-pressed=true]").startswith("tiny")
    desk.click("#nearer")
    place = "(({ scale, x, y }) => [scale, x, y])(document.getElementById('viewer').viewer)"
    before = desk.evaluate(place)
    desk.click("#models button >> nth=1")
    assert desk.inner_text("#models [aria-pressed=true]").startswith("other")
    assert desk.evaluate(place) == before


def test_an_example_is_one_click_away(desk, files):
    desk.click("text=Try an example")
    desk.wait_for_selector("#result:not([hidden])")
    assert files[0].name in desk.inner_text("#facts")


def test_a_problem_with_one_of_several_is_told_and_the_others_are_shown(desk, files, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"nothing")
    desk.set_input_files("#file", [tmp_path / "broken.png", files[0]])
    desk.wait_for_selector("#result:not([hidden])")
    assert desk.inner_text("#problem").startswith("broken.png: ")
