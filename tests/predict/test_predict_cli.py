"""`saccade predict` as a user meets it: one line per image, errors that say what to do, and no line lost or torn."""

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image
from sealing import seal

from saccade import PatchSelectionModel, Predictor
from saccade.cli import main
from saccade.images import Guard
from saccade.images.guarded import SUPPORTED
from saccade.predict import line_file


@pytest.fixture
def photos(spots, tmp_path, monkeypatch) -> Path:
    """The folder `photos` in the current one: six images, in two folders and of two sizes."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    for number in range(6):
        shutil.copy(spots / "images" / f"{number:03d}.png", folder / ("more" if number > 3 else "") / f"{number}.png")
    (folder / ".hidden.png").touch()
    (folder / "notes.md").write_text("no image")
    return folder


NAMES = ["photos/0.png", "photos/1.png", "photos/2.png", "photos/3.png", "photos/more/4.png", "photos/more/5.png"]


def predict(run: Path, *words: str) -> int:
    return main(["predict", str(run), *words, "--workers", "0", "--device", "cpu"])


def read_rows(path: Path) -> list[dict]:
    """What must be the same in every run as text, and `numbers` that may differ in their last digit."""
    if path.suffix == ".csv":
        rows = [{k: v for k, v in row.items() if k != "milliseconds"} for row in csv.DictReader(path.open())]
        keys = ["confidence", "p:across", "p:along"]
        return [row | {"numbers": [row.pop(k) for k in keys] + row.pop("scores").split(";")} for row in rows]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["milliseconds"] = None
        row["numbers"] = [*row.pop("probabilities").values(), *(box.pop("score") for box in row["boxes"])]
    return rows


def test_a_line_is_what_the_predictor_says(run, photos, capsysbinary):
    assert predict(run, "photos") == 0
    lines = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert [line["image"] for line in lines] == NAMES
    predictor = Predictor(run, device="cpu")
    for line in lines:
        expected = predictor(line["image"])
        assert line["label"] == expected.label
        assert line["size"] == list(expected.size)
        assert line["milliseconds"] > 0
        np.testing.assert_allclose([*line["probabilities"].values()], [*expected.probabilities.values()], rtol=1e-5)
        assert [tuple(box[side] for side in ("left", "top", "right", "bottom")) for box in line["boxes"]] == [
            box[:4] for box in expected.boxes
        ]
        scores = [box.score or 0.0 for box in expected.boxes]
        np.testing.assert_allclose([box["score"] for box in line["boxes"]], scores, rtol=1e-5)


def test_a_missing_file_is_a_line_of_its_own_and_stops_no_other(run, photos, capsys):
    assert predict(run, "photos/0.png", "nowhere.png", "photos/1.png", "--out", "out.jsonl") == 1
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [row["image"] for row in rows] == ["photos/0.png", "nowhere.png", "photos/1.png"]
    assert rows[1] == {"image": "nowhere.png", "error": "no such file"}
    assert all("label" in row for row in (rows[0], rows[2]))
    assert "nowhere.png: no such file" in capsys.readouterr().err


def test_two_processes_do_not_write_one_file(run, photos, monkeypatch, capsys):
    monkeypatch.setattr(line_file, "WAIT_S", 0.2)
    with line_file.open_alone(Path("out.jsonl"), resumes=False):
        assert predict(run, "photos", "--out", "out.jsonl", "--resume") == 2
        assert "error: another process writes out.jsonl: wait until it has ended" in capsys.readouterr().err
        assert predict(run, "photos", "--out", "out.jsonl") == 2
        assert "error: out.jsonl exists" in capsys.readouterr().err
    assert predict(run, "photos", "--out", "out.jsonl", "--resume") == 0
    assert [row["image"] for row in read_rows(Path("out.jsonl"))] == NAMES
    with pytest.raises(FileExistsError), line_file.open_alone(Path("out.jsonl"), resumes=False):
        pass  # it was not there when the second was started, and the first has ended since
    assert sorted(path.name for path in Path().iterdir()) == ["out.jsonl", "photos"]


def test_two_started_together_give_one_line_per_image(run, photos):
    words = [sys.executable, "-m", "saccade.cli", "predict", str(run), "photos", "--out", "out.jsonl", "--workers", "0"]
    env = os.environ | {"PYTHONPATH": str(Path(line_file.__file__).parents[2])}  # from whichever folder
    both = [subprocess.Popen(words, stderr=subprocess.DEVNULL, env=env) for _ in range(2)]
    assert sorted(each.wait() for each in both) == [0, 2]
    assert [row["image"] for row in read_rows(Path("out.jsonl"))] == NAMES


def test_both_formats_say_the_same(run, photos):
    (photos / "2.png").write_bytes(b"")
    assert predict(run, "photos", "--out", "a.jsonl") == 1
    assert predict(run, "photos", "--out", "a.csv") == 1
    lines = [json.loads(line) for line in Path("a.jsonl").read_text().splitlines()]
    rows = list(csv.DictReader(io.StringIO(Path("a.csv").read_text())))
    for line, row in zip(lines, rows, strict=True):
        assert row["image"] == line["image"]
        assert row["error"] == line.get("error", "")
        if "error" in line:
            assert not any(value for name, value in row.items() if name not in ("image", "error"))
            continue
        assert row["label"] == line["label"]
        assert float(row["confidence"]) == max(line["probabilities"].values())
        for name, share in line["probabilities"].items():
            assert float(row[f"p:{name}"]) == share
        boxes = [[int(edge) for edge in box.split()] for box in row["boxes"].split(";")]
        assert boxes == [[box[side] for side in ("left", "top", "right", "bottom")] for box in line["boxes"]]
        assert [float(score) for score in row["scores"].split(";")] == [box["score"] for box in line["boxes"]]
        assert [int(row["height"]), int(row["width"])] == line["size"]


def test_a_bad_image_is_a_line_and_the_run_goes_on(run, photos, capsys):
    (photos / "1.png").write_bytes((photos / "1.png").read_bytes()[:200])
    assert predict(run, "photos", "--out", "out.jsonl") == 1
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [line["image"] for line in lines] == NAMES
    assert [name for name, line in zip(NAMES, lines, strict=True) if "error" in line] == ["photos/1.png"]
    assert "damaged or truncated" in lines[1]["error"]
    told = capsys.readouterr()
    assert told.out == ""
    assert "1 of 6 images failed, first photos/1.png: damaged" in told.err


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
@pytest.mark.parametrize("kept", [0, 1, 2.4, 4, 6])
def test_resumed_after_a_torn_line_it_is_the_file_of_a_whole_run(run, photos, suffix, kept):
    whole, torn = Path(f"whole{suffix}"), Path(f"torn{suffix}")
    assert predict(run, "photos", "--out", str(whole)) == 0
    lines = whole.read_text().splitlines(keepends=True)
    count = int(kept) + (suffix == ".csv")
    torn.write_text("".join(lines[:count]) + "".join(lines[count : count + 1])[: int(40 * (kept % 1))])
    assert predict(run, "photos", "--out", str(torn), "--resume") == 0

    for row, expected in zip(read_rows(torn), read_rows(whole), strict=True):
        numbers = [[float(number) for number in answer.pop("numbers")] for answer in (row, expected)]
        assert row == expected
        np.testing.assert_allclose(*numbers, rtol=1e-4)  # in another batch, other roundings
    assert torn.read_text().startswith("".join(lines[:count]))  # what was there is left as it was


def test_resume_counts_the_failures_of_before(run, photos):
    (photos / "0.png").write_bytes(b"")
    assert predict(run, "photos/0.png", "--out", "out.csv") == 1
    assert predict(run, "photos", "--out", "out.csv", "--resume") == 1
    assert len(Path("out.csv").read_text().splitlines()) == 7


def test_resume_without_a_file_begins_one(run, photos):
    assert predict(run, "photos", "--out", "new/out.jsonl", "--resume") == 0
    assert len(Path("new/out.jsonl").read_text().splitlines()) == 6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["photos", "--out", "there.jsonl"], "there.jsonl exists: continue after its last line with --resume"),
        (["photos", "--resume"], "name it with --out"),
        (["photos", "--out", "out.xml"], "written as .jsonl or .csv"),
        (["photos", "--out", "there.jsonl", "--resume"], "line for b.png, but image 1 is now photos/0.png"),
        (["photos", "--out", "other.csv", "--resume"], "has the columns image,label"),
        (["photos", "--out", "notes.jsonl", "--resume"], "was not written with this model by saccade predict"),
        (["photos", "--out", "cats.jsonl", "--resume"], "it has the classes cat, dog"),
        (["photos/0.png", "--out", "two.jsonl", "--resume"], "there are only so many images"),
        (["nowhere"], "nowhere: no such file or folder"),
        (["photos/*.gif"], "no images in photos/*.gif"),
        (["empty"], "no images in empty"),
        (["empty.txt"], r"no images in empty.txt \(the list is empty\)"),
        (["photos", "--overlay", "photos/pictures"], "lies in .* among the images"),
        (["photos/**/*", "--crops", "photos/pictures"], "lies in .* among the images"),
        (["photos", "--out", "quote.csv", "--resume"], "has the columns say"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_touches_nothing(run, photos, capsys, words, message):
    Path("empty").mkdir()
    Path("there.jsonl").write_text('{"image": "b.png", "error": "x"}\n')
    Path("two.jsonl").write_text('{"image": "photos/0.png", "error": "x"}\n{"image": "photos/1.png", "error": "x"}\n')
    Path("cats.jsonl").write_text('{"image": "photos/0.png", "probabilities": {"cat": 1, "dog": 0}}\n')
    Path("notes.jsonl").write_text("what I did today\nand")
    Path("other.csv").write_text("image,label\na.png")
    Path("quote.csv").write_text('say\n"what you want\n')
    Path("empty.txt").write_text("\n")
    before = {path: path.read_text() for path in Path().iterdir() if path.is_file()}
    assert predict(run, *words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert re.search(message.replace("*.gif", r"\*.gif"), told.err)
    assert told.err.count("\n") == 1
    assert {path: path.read_text() for path in Path().iterdir() if path.is_file()} == before


def test_no_model_is_one_line(photos, capsys):
    assert predict(Path("gone"), "photos") == 2
    assert "gone: no such folder" in capsys.readouterr().err


def images_of(run: Path, capsysbinary, *words: str) -> list[str]:
    assert predict(run, *words) == 0
    return [json.loads(line)["image"] for line in capsysbinary.readouterr().out.splitlines()]


def test_images_are_found_wherever_they_are_told(run, photos, capsysbinary):
    assert images_of(run, capsysbinary, "photos/*.png") == NAMES[:4]
    assert images_of(run, capsysbinary, "photos/**/*.png") == NAMES
    assert images_of(run, capsysbinary, "photos/3.png", "photos/more") == [NAMES[3], *NAMES[4:]]
    Path("list.txt").write_text("photos/2.png\n\nphotos/more/4.png\r\n")
    assert images_of(run, capsysbinary, "list.txt") == [NAMES[2], NAMES[4]]


def test_a_listed_image_that_is_gone_is_a_failure_of_its_own(run, photos, capsysbinary):
    Path("list.txt").write_text("photos/gone.png\nphotos/2.png\n")
    assert predict(run, "list.txt") == 1
    lines = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert lines[0] == {"image": "photos/gone.png", "error": "no such file"}
    assert lines[1]["image"] == "photos/2.png"


def test_names_that_are_no_text_come_back_as_they_were(run, photos, capsysbinary):
    name = os.fsdecode(b'photos/\xe9t\xe9 ;\n".png')
    shutil.copy("photos/0.png", name)
    for suffix in (".jsonl", ".csv"):
        out = f"out{suffix}"
        assert predict(run, "photos", "--out", out) == 0
        assert predict(run, "photos", "--out", out, "--resume") == 0
    lines = Path("out.jsonl").read_text(errors="surrogateescape").splitlines()
    assert name in [json.loads(line)["image"] for line in lines]


@pytest.mark.parametrize("torn", [b'"photos/a', b'"photos/a\n', b'"photos/a\n""', b'"photos/a\n""b\n'])
def test_a_row_torn_in_a_name_of_several_lines_is_made_again(run, photos, torn):
    shutil.copy("photos/0.png", 'photos/a\n"b\n\r.png')
    images = ["photos/0.png", 'photos/a\n"b\n\r.png', "photos/1.png"]
    out = Path("out.csv")
    assert predict(run, *images, "--out", str(out)) == 0
    head, first, *rest = out.read_bytes().split(b"\n")
    assert b"\n".join(rest).startswith(torn)
    out.write_bytes(b"\n".join([head, first, torn]))
    assert predict(run, *images, "--out", str(out), "--resume") == 0
    with out.open(newline="") as file:
        assert [row["image"] for row in csv.DictReader(file)] == images


def test_a_quote_that_never_closes_costs_no_rows(run, photos, capsys):
    out = Path("out.csv")
    assert predict(run, "photos", "--out", str(out)) == 0
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join(lines[:2]) + '"' + "".join(lines[2:] * 1000))
    before = out.read_text()
    assert predict(run, "photos", "--out", str(out), "--resume") == 2
    assert "still open after" in capsys.readouterr().err
    assert out.read_text() == before


def test_an_image_that_cannot_be_drawn_is_answered_and_the_run_goes_on(run, photos, capsys):
    long = f"photos/{'1' * 248}.png"  # there is no room for another .png
    shutil.copy("photos/0.png", long)
    words = ("photos", "--out", "out.jsonl", "--overlay", "seen")
    expected = sorted([*NAMES[:4], long]) + NAMES[4:]
    out = Path("out.jsonl")
    out.touch()
    for kept in (0, 2):
        out.write_text("".join(out.read_text().splitlines(keepends=True)[:kept]))
        assert predict(run, *words, "--resume") == 1
        told = capsys.readouterr().err
        assert f"{long}: predicted, but not drawn: [Errno 36]" in told
        assert f"1 of {7 - kept} images could not be drawn" in told
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        assert [line["image"] for line in lines] == expected
        assert not any("error" in line for line in lines)
        assert len(list(Path("seen").rglob("*.png"))) == 6


def test_dollars_in_names_of_classes_are_no_formulas(run, photos):
    shutil.copytree(run, "dollars")
    config = Path("dollars/best/config.json")
    tree = json.loads(config.read_text())
    config.write_text(json.dumps(tree | {"classes": ["$x_$", r"$\frac$"]}))
    seal(config.parent)
    assert predict(Path("dollars"), "photos/0.png", "photos/1.png", "--overlay", "seen", "--out", "out.csv") == 0
    assert len(list(Path("seen").iterdir())) == 2


def test_pictures_mirror_the_images_and_crops_are_their_pixels(run, photos):
    shutil.copy("photos/0.png", "photos/more/4.jpg")  # whatever its name says
    assert predict(run, "photos", "--out", "out.jsonl", "--overlay", "seen", "--crops", "cut") == 0
    pictures = sorted(str(path) for path in Path("seen").rglob("*.png"))
    assert pictures == [f"seen/{name}.png" for name in ("0.png", "1.png", "2.png", "3.png")] + [
        f"seen/more/{name}.png" for name in ("4.jpg", "4.png", "5.png")
    ]
    for line in map(json.loads, Path("out.jsonl").read_text().splitlines()):
        pixels = np.pad(np.array(Image.open(line["image"])), ((50, 50), (50, 50), (0, 0)))
        crops = sorted((Path("cut") / Path(line["image"]).relative_to("photos")).iterdir())
        assert [crop.name for crop in crops] == ["01.png", "02.png"]
        for box, crop in zip(line["boxes"], crops, strict=True):
            inside = pixels[box["top"] + 50 : box["bottom"] + 50, box["left"] + 50 : box["right"] + 50]
            np.testing.assert_array_equal(np.array(Image.open(crop)), inside)


def child_processes() -> set[str]:
    return {child for path in Path("/proc/self/task").glob("*/children") for child in path.read_text().split()}


@pytest.mark.skipif(not SUPPORTED, reason="files are read by a guard, where there is one")
def test_the_process_that_reads_ends_with_the_command(run, photos):
    before = child_processes()
    assert predict(run, "photos", "--out", "out.jsonl") == 0
    assert child_processes() <= before


@pytest.mark.skipif(not SUPPORTED, reason="files are read by a guard, where there is one")
def test_with_all_pictures_each_image_is_decoded_once_and_looked_at_once(make_run, photos, monkeypatch):
    decode, forward, looked = Mock(wraps=Guard().read_pixels), PatchSelectionModel.forward, []
    monkeypatch.setattr(Guard, "read_pixels", decode)
    monkeypatch.setattr(
        PatchSelectionModel, "forward", lambda model, images: looked.append(len(images)) or forward(model, images)
    )
    run = make_run(preparation={"resize": (56, 72), "crop": (40, 48)})
    assert predict(run, "photos", "--out", "out.jsonl", "--overlay", "seen", "--crops", "cut") == 0
    assert len(list(Path("seen").rglob("*.png"))) == 6
    assert len(list(Path("cut").rglob("0?.png"))) == 12
    assert sorted(str(call.args[0]) for call in decode.call_args_list) == NAMES
    assert sum(looked) == 6


@pytest.mark.parametrize("preparation", [{}, {"resize": (56, 72), "crop": (40, 48)}, {"crop": (40, 48)}])
def test_a_model_that_was_copied_elsewhere_writes_the_same_bytes(make_run, photos, preparation):
    run = make_run(preparation=preparation)
    shutil.copytree(run / "best", "elsewhere")
    for number, model in enumerate((run, run / "best", Path("elsewhere"))):
        assert predict(model, "photos", "--out", f"{number}.jsonl") == 0
    lines = [re.sub(rb'"milliseconds": [0-9.]+', b"", Path(f"{number}.jsonl").read_bytes()) for number in range(3)]
    assert lines[0] == lines[1] == lines[2]


def test_pictures_of_listed_images_lie_under_what_they_have_in_common(run, photos):
    Path("list.txt").write_text("photos/2.png\nphotos/more/4.png\n")
    assert predict(run, "list.txt", "photos/3.png", "--crops", "cut", "--out", "out.csv") == 0
    assert sorted(str(path.parent) for path in Path("cut").rglob("01.png")) == [
        "cut/2.png",
        "cut/3.png",
        "cut/more/4.png",
    ]


@pytest.mark.slow
def test_interrupted_it_leaves_whole_lines_and_goes_on(run, photos):
    for number in range(600):
        os.link("photos/0.png", f"photos/n{number:03d}.png")
    command = [sys.executable, "-m", "saccade.cli", "predict", str(run), "photos", "--out", "out.jsonl", "--batch", "2"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    out = Path("out.jsonl")
    while not out.exists() or out.stat().st_size < 5_000:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    text = out.read_text()
    assert text.endswith("\n")
    assert 0 < len([json.loads(line) for line in text.splitlines()]) < 606
    assert predict(run, "photos", "--out", "out.jsonl", "--resume") == 0
    assert len(out.read_text().splitlines()) == 606
