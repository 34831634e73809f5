"""`examine` and what is said about it: counts, sizes, copies across splits, unreadable files."""

import io
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image
from rich.console import Console

from saccade.data.inspection import Finding, Report, examine, follow, show
from saccade.data.loading import load
from saccade.data.records import Record, Records

RNG = np.random.default_rng(0)


def put(path: Path, pixels: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


def noise(height: int = 8, width: int = 8) -> np.ndarray:
    return RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)


def examined(records: Records, **options) -> Report:
    return Report(records, tuple(examine(records, **options)))


def shown(report: Report) -> str:
    console = Console(file=io.StringIO(), width=40)
    show(report, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_pyramid_above_the_limit_is_looked_at_in_parts(tmp_path):
    picture = noise(96, 64)
    for name in ("a.tif", "b.tif"):
        tifffile.imwrite(tmp_path / name, picture, tile=(16, 16), photometric="rgb")
    cut = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "c.tif").write_bytes(cut[: len(cut) // 2])
    put(tmp_path / "d.png", picture)
    names, splits = ("a.tif", "b.tif", "c.tif", "d.png"), ("train", "test", "train", "train")
    images = tuple(Record(tmp_path / name, "cat", split) for name, split in zip(names, splits, strict=True))
    report = examined(Records(tmp_path, ("cat",), images), max_pixels=1000, stream=True)
    assert [finding.size for finding in report.findings] == [(96, 64), (96, 64), None, None]
    assert [[record.image.name for record in group] for group in report.leaks()] == [["a.tif", "b.tif"]]
    assert len(examined(Records(tmp_path, ("cat",), images), max_pixels=1000).bad()) == 4  # which decodes whole files


def test_stray_thumbnails_are_named(tmp_path):
    images = [put(tmp_path / f"{n}.png", noise(40, 40)) for n in range(9)] + [put(tmp_path / "icon.png", noise(4, 5))]
    report = examined(Records(tmp_path, ("cat",), tuple(Record(image, "cat", "train") for image in images)))
    assert f"warning: far from the size of most: {tmp_path / 'icon.png'} has 4×5 px\n" in shown(report)


def test_the_same_picture_in_two_splits_is_found_in_any_lossless_format(tmp_path):
    picture, gray = noise(), RNG.integers(0, 256, (8, 8), dtype=np.uint8)
    records = (
        Record(put(tmp_path / "a.png", picture), "cat", "train"),
        Record(put(tmp_path / "b.bmp", picture), "cat", "test"),
        Record(put(tmp_path / "c.png", noise()), "cat", "test"),
        Record(put(tmp_path / "d.png", gray), "dog", "val"),
        Record(put(tmp_path / "e.tif", np.repeat(gray[..., None], 3, axis=-1)), "dog", "train"),
        Record(put(tmp_path / "f.png", gray), "dog", "train"),
    )
    report = examined(Records(tmp_path, ("cat", "dog"), records))
    assert [[record.image.name for record in group] for group in report.leaks()] == [
        ["a.png", "b.bmp"],
        ["d.png", "e.tif", "f.png"],
    ]
    assert f"{tmp_path / 'a.png'} (train)  =  {tmp_path / 'b.bmp'} (test)" in shown(report)
    assert "warning: 2 pictures lie in several splits" in shown(report)


def test_groups_in_several_splits_and_pictures_in_several_groups_are_named(tmp_path):
    picture = noise()
    records = (
        Record(put(tmp_path / "a.png", picture), "cat", "train", group="Tom", fold="0"),
        Record(put(tmp_path / "b.png", noise()), "cat", "test", group="Tom", fold="0"),
        Record(put(tmp_path / "c.png", picture), "dog", "train", group="Rex", fold="1"),
        Record(put(tmp_path / "d.png", noise()), "dog", "train", group="Rex", fold="0"),
    )
    text = shown(examined(Records(tmp_path, ("cat", "dog"), records)))
    assert "folds: 0 (3 images), 1 (1 images)\n" in text
    assert "warning: the group 'Tom' lies in several splits: test, train\n" in text
    assert "warning: the group 'Rex' lies in several folds: 0, 1\n" in text
    same = f"{tmp_path / 'a.png'} (train, Tom, fold 0)  =  {tmp_path / 'c.png'} (train, Rex, fold 1)"
    assert f"warning: the same picture in several groups and folds: {same}\n" in text
    assert "2 groups, 1 in several splits\n" in text


def test_copies_within_a_split_and_the_same_bytes_in_another_shape_are_no_leak(tmp_path):
    picture = noise()
    records = (
        Record(put(tmp_path / "a.png", picture), "cat", "train"),
        Record(put(tmp_path / "b.png", picture), "cat", "train"),
        Record(put(tmp_path / "c.png", np.zeros((4, 9, 3), np.uint8)), "cat", "train"),
        Record(put(tmp_path / "d.png", np.zeros((6, 6, 3), np.uint8)), "dog", "test"),
        Record(put(tmp_path / "e.png", np.zeros((9, 4, 3), np.uint8)), "dog", "test"),
    )
    assert examined(Records(tmp_path, ("cat", "dog"), records)).leaks() == []


def test_every_unreadable_file_is_named_with_its_reason(tmp_path):
    for number in range(10):
        put(tmp_path / "cat" / f"{number}.png", noise())
        put(tmp_path / "dog" / f"{number}.png", noise(6, 9))
    (tmp_path / "cat" / "3.png").write_bytes(b"")
    whole = (tmp_path / "dog" / "5.png").read_bytes()
    (tmp_path / "dog" / "5.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "dog" / "7.png").write_text("not a picture")
    report = examined(load(tmp_path), workers=3)
    assert [bad.path.relative_to(tmp_path).as_posix() for bad in report.bad()] == [
        "cat/3.png",
        "dog/5.png",
        "dog/7.png",
    ]
    assert report.sizes() == {(8, 8): 9, (6, 9): 8}
    text = shown(report)
    for bad in report.bad():
        assert f"unreadable: {bad.path}: {bad.reason}\n" in text  # on one line, however narrow the terminal
    assert "sizes: 2 different, from 6×9 to 8×8 (height×width), most often 8×8 (9 images)" in text
    assert "20 images, 3 unreadable, 0 in several splits" in text
    assert "note: no splits given: drew val and test" in text


def test_the_table_counts_classes_and_splits(tmp_path):
    for label, count in {"[red]": 20, "dog": 40}.items():
        for number in range(count):
            put(tmp_path / label / f"{number}.png", noise())
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in shown(examined(load(tmp_path))).splitlines()
        if "│" in line
    ]
    assert rows == [["[red]", "14", "3", "3", "20"], ["dog", "28", "6", "6", "40"], ["all", "42", "9", "9", "60"]]


def test_the_findings_do_not_depend_on_the_number_of_workers(shared_data):
    records = load(shared_data / "speed_limits").split("val")
    one, four = (list(examine(records, workers=workers)) for workers in (1, 4))
    assert one == four
    assert len({finding.digest for finding in one}) == len(records.records)


def test_real_leaks(shared_data):
    kolektor = load(shared_data / "kolektor")
    with_test = [group for group in examined(kolektor).leaks() if any(record.split == "test" for record in group)]
    names = {tuple(sorted(record.image.stem for record in group)) for group in with_test}
    assert names == {("train_101", "train_228"), ("train_097", "train_224"), ("train_103", "train_230")}
    for group in with_test:
        assert len({record.image.read_bytes() for record in group}) == 1


@pytest.mark.parametrize("total", [1, 7, 10, 1000])
def test_without_a_terminal_progress_is_a_few_plain_lines(total):
    console = Console(file=io.StringIO(), force_terminal=False)
    findings = [Finding((1, number), b"", None) for number in range(total)]
    assert list(follow(iter(findings), total, console)) == findings
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[-1] == f"decoded {total} of {total} images"
    assert len(lines) == min(total, 10)


def test_on_a_terminal_progress_is_a_bar_that_goes_away():
    console = Console(file=io.StringIO(), force_terminal=True, width=60)
    findings = [Finding((1, number), b"", None) for number in range(5)]
    assert list(follow(iter(findings), 5, console)) == findings
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "5/5" in text
    assert "decoded" not in text
