"""Microns per pixel: the same tissue gives the same view and patches, whatever it was scanned at."""

from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from tiny import make_spots, tiny_recipe
from torch.testing import assert_close

from saccade import Predictor
from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.data.dataset import ImageDataset
from saccade.data.inspection import examine
from saccade.data.records import Record, Records
from saccade.images import BadImage, Guard, open_file
from saccade.images.bands import resize
from saccade.images.guarded import SUPPORTED
from saccade.images.pyramid import open_pyramid
from saccade.preparation import Preparation

LABELS = ("across", "along")


def picture(height: int, width: int) -> np.ndarray:
    """Waves and blobs, smooth enough that neither scale loses any of it."""
    y, x = (np.mgrid[:height, :width] + 0.5) / height
    waves = [np.sin(9 * x + 3 * y), np.cos(7 * y - 4 * x * y), np.exp(-20 * ((x - 0.5) ** 2 + (y - 0.4) ** 2))]
    return ((np.stack(waves, axis=-1) + 1) * 127).astype(np.uint8)


def write(path: Path, *levels: np.ndarray, mpp: float | None = None) -> Path:
    told = {} if mpp is None else {"resolution": (1e4 / mpp, 1e4 / mpp), "resolutionunit": "CENTIMETER"}
    with tifffile.TiffWriter(path) as tiff:
        for number, level in enumerate(levels):
            options = told if number == 0 else {"subfiletype": 1}
            tiff.write(level, photometric="rgb", tile=(32, 32), compression="deflate", **options)
    return path


@pytest.fixture
def scans(tmp_path) -> tuple[Path, Path]:
    """One slide at 40× and at 20×: 0.25 and 0.5 microns per pixel, each with half of it as a second level."""
    fine, middle, coarse = (picture(400 // n, 560 // n) for n in (1, 2, 4))
    return write(tmp_path / "40x.tif", fine, middle, mpp=0.25), write(tmp_path / "20x.tif", middle, coarse, mpp=0.5)


@pytest.mark.parametrize("mpp", [0.5, 0.8, 1.0, 1.7])
def test_two_scales_give_the_same_views_and_crops(scans, mpp):
    high, low = (open_file(path, mpp=mpp) for path in scans)
    assert high.size == low.size == (round(100 / mpp), round(140 / mpp))
    boxes = torch.tensor([[-9, -5, 23, 27], [30, 20, 62, 52], [60, 40, 92, 72]])
    assert_close(high.regions(boxes), low.regions(boxes), atol=0.012, rtol=0)
    assert_close(high.view(0.3), low.view(0.3), atol=0.012, rtol=0)


@pytest.mark.parametrize("mpp", [0.24, 0.25, 0.3, 0.61, 1.0])
def test_a_region_is_that_part_of_the_whole_at_this_scale(scans, mpp):
    source = open_file(scans[0], mpp=mpp)
    height, width = source.size
    whole, side = torch.zeros(3, height + 80, width + 80), 40
    whole[:, 40:-40, 40:-40] = source.view(1.0)
    for left, top in [(-40, -40), (-13, 7), (21, 30), (width - 9, height - 25)]:
        box = torch.tensor([[left, top, left + side, top + side]])
        expected = whole[:, top + 40 : top + 40 + side, left + 40 : left + 40 + side]
        assert_close(source.regions(box)[0], expected, atol=2e-6, rtol=0)


def test_the_view_is_torch_s_antialiased_resize(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (90, 70, 3), dtype=np.uint8)
    expected = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255
    for size in ((41, 33), (90, 70), (99, 80)):  # a little larger than it was, too
        whole = torch.nn.functional.interpolate(expected, size, mode="bilinear", antialias=True, align_corners=False)[0]
        assert_close(resize([pixels[:37], pixels[37:]], (90, 70), size), whole, atol=1e-5, rtol=0)


def test_what_a_file_does_not_say_is_one_clear_line(tmp_path, scans):
    unknown, printed = write(tmp_path / "a.tif", picture(64, 64)), tmp_path / "b.tif"
    tifffile.imwrite(printed, picture(64, 64), tile=(32, 32), photometric="rgb", resolution=(72, 72), resolutionunit=2)
    for path in (unknown, printed):
        with pytest.raises(BadImage, match="how many microns a pixel is, and images are to be seen at 0"):
            open_file(path, mpp=0.5)
    with pytest.raises(BadImage, match=r"scanned at 0\.5 microns per pixel, too coarse for 0\.25: ask for more"):
        open_file(scans[1], mpp=0.25)
    photo = make_spots(tmp_path / "spots", 2) / "images" / "000.png"
    with pytest.raises(BadImage, match="no slide or tiled pyramid, so it cannot be seen at"):
        open_file(photo, mpp=0.5)
    records = Records(tmp_path, LABELS, (Record(unknown, "along", "train"), Record(scans[0], "along", "train")))
    findings = list(examine(records, mpp=0.5, workers=1))
    assert [bool(finding.bad) for finding in findings] == [True, False]
    assert findings[1].size == open_file(records.records[1].image, mpp=0.5).size  # as it is seen


def test_ome_s_microns_are_read(tmp_path):
    ome = '<OME><Image><Pixels PhysicalSizeX="0.3" PhysicalSizeY="0.32" PhysicalSizeXUnit="µm"/></Image></OME>'
    tifffile.imwrite(tmp_path / "a.tif", picture(64, 64), tile=(32, 32), photometric="rgb", description=ome.encode())
    assert open_pyramid(tmp_path / "a.tif").mpp == (0.32, 0.3)


@pytest.mark.parametrize("name", ["thumbnail", "label"])
def test_thumbnails_and_labels_are_no_levels(name, tmp_path):
    whole, other = picture(256, 192), 255 - picture(128, 96 if name == "thumbnail" else 150)
    with tifffile.TiffWriter(tmp_path / "a.tif") as tiff:
        tiff.write(whole, photometric="rgb", tile=(32, 32), compression="deflate")
        if name == "thumbnail":  # in strips, half as large as the slide
            tiff.write(other, photometric="rgb", subfiletype=1, compression="deflate")
        else:  # in tiles, as a level is, and marked as one; of a shape of its own
            tiff.write(other, photometric="rgb", tile=(32, 32), subfiletype=1, compression="deflate", description=name)
    source = open_file(tmp_path / "a.tif")
    expected = resize([whole], (256, 192), (128, 96))
    assert_close(source.view(0.5), expected, atol=0.02, rtol=0)


@pytest.mark.skipif(not SUPPORTED, reason="no guards on this system")
def test_a_guard_tells_the_same(scans):
    with Guard() as guard:
        guarded, here = (open_file(scans[0], mpp=0.7, guard=each) for each in (guard, None))
        assert (guarded.size, guarded.file_size) == (here.size, here.file_size)
        assert torch.equal(guarded.view(0.5), here.view(0.5))


def test_the_data_set_streams_what_it_decodes_and_moves_boxes(scans):
    record = Record(scans[0], "along", "train", ((40, 80, 80, 200),))
    records = Records(scans[0].parent, LABELS, (record,))
    decoded = ImageDataset(records, preparation=Preparation(mpp=1.0))[0]
    streamed = ImageDataset(records, preparation=Preparation(mpp=1.0, stream=True))[0]
    assert decoded.image.shape == (3, *streamed.image.size) == (3, 100, 140)
    assert_close(decoded.image / 255, streamed.image.view(1.0), atol=0.5 / 255 + 1e-6, rtol=0)
    assert decoded.boxes.tolist() == streamed.boxes.tolist() == [[10, 20, 20, 50]]


@pytest.mark.parametrize("stream", [False, True])
def test_a_prediction_s_boxes_are_in_pixels_of_the_file(scans, stream):
    torch.manual_seed(0)
    stages = vars(tiny_recipe(Path("none")).model) | {"preparation": Preparation(mpp=0.5, stream=stream)}
    model = build_model(ModelConfig(**stages, num_classes=2, image_size=(200, 280), classes=LABELS)).eval()
    high, low = (Predictor(model, device="cpu")(path) for path in scans)
    assert (high.size, low.size) == ((400, 560), (200, 280))
    sides = {(box.right - box.left, box.bottom - box.top) for box in high.boxes}
    assert sides == {(40, 40)}  # patches of 20 px at half the resolution
    assert {box.right - box.left for box in low.boxes} == {20}
    for one, other in zip(high.boxes, low.boxes, strict=True):
        assert tuple(side / 2 for side in one[:4]) == other[:4]
    assert high.probabilities["along"] == pytest.approx(low.probabilities["along"], abs=0.01)


def test_a_real_slide_at_one_micron(shared_data):
    source = open_file(shared_data / "slides" / "cmu_small_region.svs", mpp=1.0)
    assert source.size == tuple(round(n * 0.499) for n in source.file_size)
    left, top = source.size[1] // 2, source.size[0] // 2
    expected = source.view(1.0)[:, top : top + 96, left : left + 96]
    assert_close(source.regions(torch.tensor([[left, top, left + 96, top + 96]]))[0], expected, atol=1e-4, rtol=0)
    with pytest.raises(BadImage, match="does not say how many microns a pixel is"):
        open_file(shared_data / "slides" / "tcga-cr-7395-01a-01-ts1.svs", mpp=1.0)
