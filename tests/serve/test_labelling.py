"""`saccade label`: its API, its page in Chromium, and the command."""

import shutil
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from test_browser import serving
from test_browser_gallery import DESK, PHONE, serious
from tiny import make_spots
from tiny_run import make_tiny_run

from saccade.cli import main
from saccade.cli.label import find_work
from saccade.predict import Predictor
from saccade.serve.labelling import create_label_app
from saccade.training.run import evaluate


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("labelled")
    make_tiny_run(folder / "run", make_spots(folder / "spots", 20))
    evaluate(folder / "run", split="test")
    evaluate(folder / "run", split="train")
    return folder


@pytest.fixture
def work(made):
    """Labels to correct; the table is put back afterwards."""
    table = made / "spots" / "labels.csv"
    before = table.read_bytes()
    yield find_work(made / "run", "cpu")
    table.write_bytes(before)
    for backup in table.parent.glob("*.bak"):
        backup.unlink()


def lines(made: Path) -> list[str]:
    return (made / "spots" / "labels.csv").read_text().splitlines()


def test_a_correction_is_in_the_table_at_once_and_can_be_taken_back(made, work):
    client, before = TestClient(create_label_app(work)), lines(made)
    told = client.get("/api/work").json()
    assert told["questions"] == [{"name": "", "task": "single", "classes": ["across", "along"]}]
    assert [each["doubt"] for each in told["suspects"]] == sorted((e["doubt"] for e in told["suspects"]), reverse=True)
    first = told["suspects"][0]
    answer = client.post("/api/suspects/0/label", json={"label": first["said"]}).json()
    assert answer["suspect"]["changed"]
    changed = [(old, new) for old, new in zip(before, lines(made), strict=True) if old != new]
    assert len(changed) == 1
    assert changed[0][0].startswith(first["image"] + ",")
    assert changed[0][1] == changed[0][0].replace(first["label"][0], first["said"][0])
    assert not client.post("/api/undo", json={}).json()["can_undo"]
    assert lines(made) == before
    assert client.post("/api/undo", json={}).status_code == 409


def test_it_looks_as_the_predictor_does(made, work):
    client = TestClient(create_label_app(work))
    seen = client.get("/api/suspects/0").json()
    expected = Predictor(made / "run", device="cpu")(work.suspects[0].image)
    assert [(box["left"], box["top"]) for box in seen["boxes"]] == [(box.left, box.top) for box in expected.boxes]
    assert client.get(seen["image"]["tiles"].format(level=0, x=0, y=0)).headers["content-type"] == "image/jpeg"
    assert client.get("/api/images/0/tiles/3/0/0.jpg").status_code == 404


def test_what_cannot_be_is_refused_and_changes_nothing(made, work):
    client, before = TestClient(create_label_app(work, hosts=["testserver"])), lines(made)
    said = client.post("/api/suspects/0/label", json={"label": ["diagonal"]})
    assert said.status_code == 422
    assert "expected across, along" in said.json()["detail"]
    assert client.post("/api/suspects/0/label", json={"label": ["across", "along"]}).status_code == 422
    assert client.post("/api/suspects/99/label", json={"label": ["across"]}).status_code == 404
    # Another site's page cannot write, and a name that leads here by a trick is not answered.
    elsewhere = {"Origin": "http://evil.example"}
    assert client.post("/api/suspects/0/label", json={"label": ["across"]}, headers=elsewhere).status_code == 403
    assert client.get("/api/work", headers={"Host": "evil.example"}).status_code == 400
    assert lines(made) == before


def test_with_a_token_it_asks_for_it(work):
    client = TestClient(create_label_app(work, token="a-token-of-some-length"))
    assert client.get("/api/work").status_code == 401
    assert client.get("/api/work", headers={"Authorization": "Bearer a-token-of-some-length"}).status_code == 200


@pytest.mark.parametrize(("scheme", "viewport"), [("light", DESK), ("dark", PHONE)], ids=["desk", "phone"])
def test_the_page_is_worked_with_the_keyboard(browser, made, work, scheme, viewport):
    before = lines(made)
    images = {file: file.read_bytes() for file in (made / "spots" / "images").iterdir()}
    with serving(create_label_app(work)) as address:
        page = browser.new_page(viewport=viewport, color_scheme=scheme)
        complaints = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        page.wait_for_selector("#crops li")
        assert page.inner_text("#place") == f"1 of {len(work.suspects)}"
        label = page.inner_text("#label")
        page.keyboard.press("m")
        page.wait_for_selector("#written:not(:empty)")
        assert page.inner_text("#label") != label
        assert len({*before} - {*lines(made)}) == 1
        page.keyboard.press("n")
        page.wait_for_function("() => document.getElementById('place').textContent.startsWith('2 ')")
        wanted = "2" if page.inner_text("#label") == "across" else "1"
        page.keyboard.press(wanted)
        page.wait_for_selector("#written:not(:empty)")
        assert page.inner_text(".choices [aria-pressed=true] kbd") == wanted
        assert len({*before} - {*lines(made)}) == 2
        assert serious(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.keyboard.press("u")
        page.wait_for_selector("#written:empty", state="attached")
        page.keyboard.press("u")
        page.wait_for_function("() => document.getElementById('place').textContent.startsWith('1 ')")
        page.wait_for_selector("#undo:disabled")
        assert lines(made) == before
        assert complaints == []
        page.close()
    assert {file: file.read_bytes() for file in images} == images


def test_nothing_to_do_is_said(browser, made, work):
    work.suspects = []
    with serving(create_label_app(work)) as address:
        page = browser.new_page(viewport=DESK)
        page.goto(address)
        page.wait_for_selector("#invitation:not([hidden])")
        assert serious(page) == []
        page.close()


def test_several_labels_and_a_number_on_the_page(browser, tmp_path):
    data = make_spots(tmp_path / "spots", 20)
    rows = (data / "labels.csv").read_text().splitlines()[1:]
    cells = [row.split(",") for row in rows]
    rows = [f"{image},{label};spot,{number}.5,{split}" for number, (image, label, split, _) in enumerate(cells)]
    (data / "labels.csv").write_text("\n".join(["image,label:kinds,label:age,split", *rows]) + "\n")
    tasks = {"labels": "kinds=multi,age=regression"}
    evaluate(make_tiny_run(tmp_path / "run", data, data=tasks), split="test")
    work = find_work(tmp_path / "run", "cpu")
    with serving(create_label_app(work)) as address:
        page = browser.new_page(viewport=DESK)
        page.goto(address)
        page.wait_for_selector("#crops li")
        place = work.suspects[0].image
        before = work.table.labels[place]
        page.keyboard.press("3")  # spot, which every image has
        page.wait_for_selector("#written:not(:empty)")
        assert work.table.labels[place] == before.replace(";spot", "")
        page.fill(".number input", "7.25")
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.getElementById('label').textContent.endsWith('7.25')")
        kinds, _, age = work.table.labels[place].partition(" | ")
        assert (kinds, age) == (before.split(";")[0], "7.25")
        page.fill(".number input", "old")
        page.keyboard.press("Enter")
        page.wait_for_selector("#problem:not([hidden])")
        assert "no number" in page.inner_text("#problem")
        page.close()
    line = next(line for line in (data / "labels.csv").read_text().splitlines() if place.name in line)
    assert line.split(",")[1:3] == [kinds, "7.25"]


def test_runs_whose_labels_have_no_table_are_refused_in_one_line(made, tmp_path, capsys):
    assert main(["label", str(tmp_path / "nothing")]) == 2
    assert "no such folder" in capsys.readouterr().err
    run = shutil.copytree(made / "run", tmp_path / "run")
    recipe = run / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("generate: null", "generate: {name: signs}"))
    assert main(["label", str(run)]) == 2
    assert "were generated" in capsys.readouterr().err
