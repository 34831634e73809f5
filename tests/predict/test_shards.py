"""Shards give, joined, the file of one run; anything less is refused in one line, and nothing is left of it."""

import json
import re
import shutil
from pathlib import Path

import pytest

from saccade.cli import main
from saccade.predict.shards import Facts, ImageList, Shard, finish, read_facts


@pytest.fixture
def photos(spots, tmp_path, monkeypatch) -> Path:
    """Seven images in the current folder, one of them damaged."""
    monkeypatch.chdir(tmp_path)
    folder = Path("photos")
    folder.mkdir()
    for number in range(7):
        shutil.copy(spots / "images" / f"{number:03d}.png", folder / f"{number}.png")
    (folder / "3.png").write_bytes(b"")
    return folder


def predict(run: Path, *words: str) -> int:
    return main(["predict", str(run), "photos", *words, "--workers", "0", "--batch", "1", "--device", "cpu"])


def images_of(path: Path) -> list[str]:
    return [json.loads(line)["image"] for line in path.read_text().splitlines()]


def timeless(path: Path) -> str:
    """The lines without what differs from run to run."""
    text = path.read_text()
    if path.suffix == ".csv":
        return "\n".join(re.sub(r",[0-9.]+,$", "", line) for line in text.splitlines())
    return re.sub(r', "milliseconds": [0-9.]+', "", text)


@pytest.mark.parametrize(("suffix", "shards"), [(".jsonl", 2), (".csv", 8)])  # of eight, one has no image
def test_joined_shards_are_the_file_of_one_run(run, photos, suffix, shards):
    whole, out = Path(f"whole{suffix}"), f"out{suffix}"
    assert predict(run, "--out", str(whole)) == 1
    codes = [predict(run, "--out", out, "--shard", f"{i}/{shards}") for i in reversed(range(1, shards + 1))]
    assert sum(codes) == 1  # the damaged image is in one of them
    assert main(["merge", out]) == 1
    assert timeless(Path(out)) == timeless(whole)


def test_a_shard_that_was_stopped_is_refused_resumed_and_joined(run, photos, capsys):
    for i in (1, 2):
        predict(run, "--out", "out.jsonl", "--shard", f"{i}/2")
    whole = Path("out.2-of-2.jsonl").read_text()
    Path("out.2-of-2.json").unlink()
    Path("out.2-of-2.jsonl").write_text(whole[: len(whole) // 2])
    assert main(["merge", "out.jsonl"]) == 2
    assert "out.2-of-2.jsonl is not finished: give its command again, with --resume" in capsys.readouterr().err
    predict(run, "--out", "out.jsonl", "--shard", "2/2", "--resume")
    assert main(["merge", "out.jsonl"]) == 1
    assert images_of(Path("out.jsonl")) == [f"photos/{number}.png" for number in range(7)]


@pytest.fixture
def three(tmp_path, monkeypatch) -> list[Path]:
    """Finished shards of seven images, as `predict` leaves them."""
    monkeypatch.chdir(tmp_path)
    images = [f"{number}.png" for number in range(7)]
    shards = {
        "0.png 1.png": "out.1-of-3.jsonl",
        "2.png 3.png": "out.2-of-3.jsonl",
        "4.png 5.png 6.png": "out.3-of-3.jsonl",
    }
    for names, file in shards.items():
        Path(file).write_text("".join(json.dumps({"image": name, "error": "x"}) + "\n" for name in names.split()))
        finish(Path(file), Facts(ImageList.of(images), ["a", "b"], False))
    return [*map(Path, shards.values())]


def test_they_are_whole(three):
    assert main(["merge", "out.jsonl"]) == 1
    assert images_of(Path("out.jsonl")) == [f"{number}.png" for number in range(7)]


def spoil(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files[1].unlink(), "1 of 3 shards of out.jsonl are missing, first 2/3"),
        (lambda files: files[1].with_suffix(".json").unlink(), "out.2-of-3.jsonl is not finished"),
        (lambda files: Path("out.1-of-2.jsonl").touch(), "overlap: there are some of 2 and some of 3"),
        (lambda files: Path("out.4-of-3.jsonl").touch(), "out.4-of-3.jsonl is no shard"),
        (
            lambda files: finish(files[2], Facts(ImageList.of("abc"), ["a", "b"], False)),
            "a list of images other than out.1-of-3",
        ),
        (
            lambda files: finish(files[2], read_facts(files[2])._replace(classes=["a"])),
            "made with classes or decisions other",
        ),
        (lambda files: shutil.copy(files[2], files[1]), "out.2-of-3.jsonl has too many lines"),
        (lambda files: spoil(files[1], "3.png", "1.png"), "the lines are not those of the images"),
        (lambda files: shutil.copy(files[1], files[0]), "the lines are not those of the images"),
        (lambda files: files[2].write_text(""), "out.3-of-3.jsonl has lost lines"),
        (lambda files: spoil(files[2], '"error"', '"oops"'), "out.3-of-3.jsonl was not written with this model"),
        (lambda files: files[2].with_suffix(".json").write_text("{}"), "out.3-of-3.json: no classes"),
        (lambda files: Path("out.jsonl").touch(), "out.jsonl exists"),
        (lambda files: [file.unlink() for file in files], "no shards of out.jsonl"),
    ],
)
def test_what_is_not_every_image_once_is_one_line(three, capsys, change, message):
    change(three)
    before = sorted(path.name for path in Path().iterdir())
    assert main(["merge", "out.jsonl"]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert sorted(path.name for path in Path().iterdir()) == before


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "1/0", "-1/3", "a/b", "1/3/5"])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(ValueError, match="such as 1/8"):
        Shard.parse(text)


def test_a_shard_needs_a_file(run, photos, capsys):
    assert predict(run, "--shard", "1/2") == 2
    assert "--shard needs a file: name it with --out" in capsys.readouterr().err
