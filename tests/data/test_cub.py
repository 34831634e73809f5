"""CUB-200-2011 in its own layout, on eight real species and on a small made one."""

from pathlib import Path

import pytest
from PIL import Image

from saccade.data.dataset import ImageDataset
from saccade.data.loading import load
from saccade.data.records import DataError


@pytest.fixture
def made(tmp_path) -> Path:
    root = tmp_path / "CUB_200_2011"
    names = [f"{n:03}.Bird_{n}/x y_{k}.jpg" for n in (1, 2) for k in range(4)]  # with a space, as a name may have
    for name in names:
        (root / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (20, 10)).save(root / "images" / name)
    tables = {
        "images.txt": names,
        "image_class_labels.txt": ["1"] * 4 + ["2"] * 4,
        "train_test_split.txt": ["1", "1", "1", "0"] * 2,
        "bounding_boxes.txt": ["1.5 2.0 10.0 6.5"] * 8,
    }
    for file, values in tables.items():
        (root / file).write_text("".join(f"{n} {value}\n" for n, value in enumerate(values, start=1)))
    (root / "classes.txt").write_text("1 001.Bird_1\n2 002.Bird_2\n3 003.Not_here\n")
    return root


def test_real_sparrows(shared_data):
    records = load(shared_data / "cub_sparrows")
    assert len(records.records) == 467
    assert len(records.split("test").records) == 227
    assert len(records.split("val").records) == round(240 * 994 / 5994) == 40
    assert set(records.counts()["val"].values()) == {5}
    assert [name.partition(".")[0] for name in records.classes] == [str(n) for n in range(113, 121)]
    assert all(record.image.parent.name == record.label for record in records.records)
    first = next(r for r in records.records if r.image.name == "Baird_Sparrow_0009_106882.jpg")
    assert first.boxes == ((66, 56, 337, 372),)
    assert first.split in ("train", "val")


def test_the_official_split_is_the_same_for_every_seed(shared_data):
    one, two = load(shared_data / "cub_sparrows", seed=1), load(shared_data / "cub_sparrows", seed=2)
    assert one.split("test") == two.split("test")._replace(notes=one.notes)
    assert one.split("val").records != two.split("val").records


def test_real_boxes_lie_in_their_pictures(shared_data):
    dataset = ImageDataset(load(shared_data / "cub_sparrows").split("val"))
    for sample in map(dataset.__getitem__, range(len(dataset))):
        (left, top, right, bottom), (height, width) = sample.boxes[0].tolist(), sample.image.shape[-2:]
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height


def test_a_made_set(made):
    records = load(made)
    assert records.classes == ("001.Bird_1", "002.Bird_2")
    assert {split: sum(n.values()) for split, n in records.counts().items()} == {"train": 4, "val": 2, "test": 2}
    assert records.records[0].boxes == ((1, 2, 12, 9),)
    sample = ImageDataset(records)[0]  # gray, as eight of the real ones
    assert sample.image.shape == (3, 10, 20)


def test_missing_parts_are_named(made):
    (made / "images" / "002.Bird_2" / "x y_1.jpg").unlink()
    with pytest.raises(DataError, match=r"002.Bird_2/x y_1.jpg is listed and not in"):
        load(made)
    (made / "bounding_boxes.txt").write_text("1 2 3\n")
    with pytest.raises(DataError, match=r"bounding_boxes.txt, line 1: expected an id and 4 more fields, got '1 2 3'"):
        load(made)
    (made / "bounding_boxes.txt").unlink()
    with pytest.raises(DataError, match=r"bounding_boxes.txt: no such file"):
        load(made)


def test_an_image_without_a_box_is_named(made):
    (made / "bounding_boxes.txt").write_text("1 1 2 3 4\n")
    with pytest.raises(DataError, match=r"image 2 .* is missing in one of the list files"):
        load(made)
