"""Samples and batches: right pixels, boxes and padding; bad files stop the run or are left out."""

import logging
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close
from torch.utils.data import DataLoader

from saccade.data.dataset import Batch, ImageDataset, collate
from saccade.data.records import DataError, Record, Records
from saccade.data.sample import Sample
from saccade.images import unit_range
from saccade.images.decode import BadImage
from saccade.preparation import Preparation

RNG = np.random.default_rng(0)


@pytest.fixture
def records(tmp_path) -> Records:
    """Six images of different sizes; image n has boxes (n, 0, n + 2, 3)."""
    made = []
    for number in range(6):
        path = tmp_path / f"{number}.png"
        Image.fromarray(RNG.integers(0, 256, (8 + number, 20 - number, 3), dtype=np.uint8)).save(path)
        made.append(Record(path, "dog" if number % 2 else "cat", "train", ((number, 0, number + 2, 3),)))
    return Records(tmp_path, ("bat", "cat", "dog"), tuple(made))


def test_a_sample_is_the_files_pixels_and_its_class_number(records):
    dataset = ImageDataset(records)
    assert len(dataset) == 6
    for number, sample in enumerate(dataset[n] for n in range(6)):
        stored = torch.from_numpy(np.array(Image.open(records.records[number].image)))
        assert torch.equal(sample.image, stored.permute(2, 0, 1))
        assert (sample.label, sample.index) == (1 + number % 2, number)
        assert sample.boxes.tolist() == [[number, 0, number + 2, 3]]


def test_samples_are_kept_as_long_as_there_is_room(records):
    room = 8 * 20 * 3 / 1e9  # the pixels of the first image, and nothing beyond
    dataset, read = ImageDataset(records, cache_gb=room), [ImageDataset(records)[n] for n in range(6)]
    before = [dataset[n] for n in range(6)]
    for record in records.records:
        Image.new("RGB", Image.open(record.image).size, "red").save(record.image)
    after = [dataset[n] for n in range(6)]
    assert after[0] is before[0]
    assert all(torch.equal(sample.image, plain.image) for sample, plain in zip(before, read, strict=True))
    assert all((sample.image[0] == 255).all() for sample in after[1:])
    assert (ImageDataset(records)[0].image[0] == 255).all(), "without a cache the file is read again"


def test_kept_samples_share_blocks_and_stay_in_their_process(records):
    dataset, read = ImageDataset(records, cache_gb=1), ImageDataset(records)
    kept = [dataset[n].image for n in range(6)]
    assert len({image.untyped_storage().data_ptr() for image in kept}) == 1
    assert all(torch.equal(image, read[n].image) for n, image in enumerate(kept))
    assert len(pickle.dumps(dataset)) < 2 * len(pickle.dumps(read))


def test_a_batch_pads_at_the_right_and_below_with_zeros(records):
    samples = [ImageDataset(records)[n] for n in (0, 5)]  # 8×20 and 13×15
    batch = collate(samples, multiple_px=8)
    assert batch.image.shape == (2, 3, 16, 24)
    assert batch.size.tolist() == [[8, 20], [13, 15]]
    for image, (height, width), sample in zip(batch.image, batch.size.tolist(), samples, strict=True):
        assert torch.equal(image[:, :height, :width], sample.image)
        assert image.sum() == sample.image.sum()
    assert batch.label.tolist() == [1, 2]
    assert batch.index.tolist() == [0, 5]
    assert [boxes.tolist() for boxes in batch.boxes] == [[[0, 0, 2, 3]], [[5, 0, 7, 3]]]


@pytest.mark.parametrize("multiple_px", [1, 4])
def test_images_of_one_size_are_not_padded(multiple_px):
    samples = [
        Sample(torch.full((3, 5, 7), value, dtype=torch.uint8), 0, torch.zeros(0, 4, dtype=torch.int64), 0)
        for value in (64, 255)
    ]
    batch = collate(samples, multiple_px=multiple_px)
    assert torch.equal(batch.image, torch.stack([sample.image for sample in samples]))


def test_resizing_moves_the_boxes_along(tmp_path):
    pixels = np.zeros((40, 60, 3), dtype=np.uint8)
    pixels[10:20, 30:45] = 255
    Image.fromarray(pixels).save(tmp_path / "a.png")
    boxes = ((30, 10, 45, 20), (31, 11, 44, 19), (0, 0, 61, 41))  # the last leaves the image by a pixel
    records = Records(tmp_path, ("a",), (Record(tmp_path / "a.png", "a", "train", boxes),))
    sample = ImageDataset(records, preparation=Preparation(resize=(20, 20)))[0]
    assert sample.image.shape == (3, 20, 20)
    assert sample.boxes.tolist() == [[10, 5, 15, 10], [10, 5, 15, 10], [0, 0, 20, 20]]
    assert sample.image[:, 6:9, 11:14].min() >= 252  # inside the box, away from its blurred edge
    assert ImageDataset(records)[0].boxes.tolist() == [[30, 10, 45, 20], [31, 11, 44, 19], [0, 0, 60, 40]]


def test_resizing_keeps_a_flat_picture_flat_and_a_ramp_a_ramp(tmp_path):
    ramp = np.repeat(np.arange(0, 240, dtype=np.uint8)[None, :, None], 3, axis=-1).repeat(8, axis=0)
    Image.fromarray(ramp).save(tmp_path / "a.png")
    records = Records(tmp_path, ("a",), (Record(tmp_path / "a.png", "a", "train"),))
    image = ImageDataset(records, preparation=Preparation(resize=(4, 60)))[0].image
    centers = torch.arange(60) * 4 + 1.5  # the middle of four pixels
    assert_close(image[0, 0, 2:-2].float(), centers[2:-2], atol=0.5, rtol=0)  # bytes are rounded


def test_finer_files_are_rounded_to_bytes(tmp_path):
    values = np.array([[0, 128, 129, 65535], [257, 257 * 200, 30_000, 12_345]], dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    records = Records(tmp_path, ("a",), (Record(tmp_path / "a.png", "a", "train"),))
    assert torch.equal(ImageDataset(records)[0].image[1], torch.from_numpy(np.rint(values / 257)).byte())


def test_batches_are_channels_last_and_scale_to_the_unit_range(records):
    batch = collate([ImageDataset(records)[n] for n in (0, 3)])
    assert isinstance(batch.image, torch.Tensor)
    floats = unit_range(batch.image)
    assert batch.image.is_contiguous(memory_format=torch.channels_last)
    assert floats.is_contiguous(memory_format=torch.channels_last)
    assert_close(floats, batch.image / 255)


def test_no_boxes_is_an_empty_table(records):
    bare = records._replace(records=tuple(record._replace(boxes=()) for record in records.records))
    assert ImageDataset(bare)[0].boxes.shape == (0, 4)


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:60])


def error_of(loader: DataLoader) -> BadImage:
    try:
        list(loader)
    except BadImage as error:
        # The traceback keeps the loader's iterator alive; collected later, it would wait ten seconds for its workers.
        return error.with_traceback(None)
    pytest.fail("no bad image was met")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_file_stops_the_run_with_its_name(records, workers):
    damage(records.records[3].image)
    loader = DataLoader(ImageDataset(records), batch_size=2, num_workers=workers, collate_fn=collate)
    error = error_of(loader)
    assert error.path == records.records[3].image
    assert str(error).startswith(f"{records.records[3].image}: damaged or truncated (")
    assert "\n" not in str(error)


def test_skip_bad_leaves_them_out_and_says_so(records, caplog):
    damage(records.records[3].image)
    records.records[4].image.unlink()
    with caplog.at_level(logging.WARNING):
        dataset = ImageDataset(records, skip_bad=True)
    assert len(dataset) == 4
    assert [bad.path.name for bad in dataset.bad] == ["3.png", "4.png"]
    assert [dataset.records.records[sample.index].image.name for sample in map(dataset.__getitem__, range(4))] == [
        "0.png",
        "1.png",
        "2.png",
        "5.png",
    ]
    assert f"left out {records.records[3].image}: damaged" in caplog.text
    assert "left out 2 of 6 images that cannot be read" in caplog.text


def test_nothing_left_to_read(records):
    with pytest.raises(DataError, match="no images to read"):
        ImageDataset(records.split("test"))
    for record in records.records:
        damage(record.image)
    with pytest.raises(DataError, match="every file in it bad"):
        ImageDataset(records, skip_bad=True)


def test_workers_change_nothing(records):
    def batches(workers: int) -> list[Batch]:
        return list(
            DataLoader(
                ImageDataset(records),
                batch_size=4,
                shuffle=True,
                num_workers=workers,
                generator=torch.Generator().manual_seed(3),
                collate_fn=partial(collate, multiple_px=16),
            )
        )

    for one, two in zip(batches(0), batches(2), strict=True):
        assert isinstance(two, Batch)
        assert torch.equal(one.image, two.image)
        assert one.index.tolist() == two.index.tolist()
