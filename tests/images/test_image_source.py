"""The same picture from a tensor, a file and a slide: same size, same view within the resampler, same regions."""

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from torch.testing import assert_close
from torch.utils.data import DataLoader, Dataset

from saccade.images import make_view, view_size
from saccade.images.file import FileImage
from saccade.images.image_source import open_image
from saccade.images.slide import SlideImage
from saccade.images.source_batch import ImageSource
from saccade.images.tensor import TensorImage

AMPLITUDE, WAVE_PX = 0.25, 64


def waves(height: int, width: int) -> np.ndarray:
    """A smooth color picture as bytes: waves of `AMPLITUDE` and `WAVE_PX` along both axes."""
    y, x = np.mgrid[:height, :width] * (2 * np.pi / WAVE_PX)
    channels = [AMPLITUDE * (np.sin(x + phase) + np.cos(y + 2 * phase)) for phase in range(3)]
    return np.round(255 * (0.5 + np.stack(channels, axis=-1))).astype(np.uint8)


def write_tiff(path: Path, picture: np.ndarray, *, levels: int, subifds: bool, **options) -> Path:
    """A TIFF whose further levels are averages of 2×2, 4×4, … pixels."""
    with tifffile.TiffWriter(path) as tiff:
        tiff.write(picture, photometric="rgb", subifds=levels - 1 if subifds else 0, **options)
        for level in range(1, levels):
            height, width = (side >> level for side in picture.shape[:2])
            cells = picture[: height << level, : width << level].reshape(height, 1 << level, width, 1 << level, 3)
            tiff.write(np.round(cells.mean((1, 3))).astype(np.uint8), photometric="rgb", subfiletype=1, **options)
    return path


PICTURE = waves(396, 524)
TENSOR = torch.from_numpy(PICTURE).permute(2, 0, 1) / 255
TILES = {"tile": (64, 48), "compression": "deflate"}


def save(path: Path, **options) -> Path:
    Image.fromarray(PICTURE).save(path, **options)
    return path


LOSSLESS: dict[str, Callable[[Path], object]] = {
    "tensor": lambda folder: TENSOR,
    "array": lambda folder: PICTURE,
    "pillow": lambda folder: Image.fromarray(PICTURE),
    "png": lambda folder: save(folder / "a.png"),
    "strips": lambda folder: write_tiff(folder / "a.tif", PICTURE, levels=1, subifds=False, rowsperstrip=7),
    "tiles": lambda folder: write_tiff(folder / "b.tif", PICTURE, levels=1, subifds=False, **TILES),
}
PYRAMIDS: dict[str, Callable[[Path], object]] = {
    "pages": lambda folder: write_tiff(folder / "c.tif", PICTURE, levels=3, subifds=False, **TILES),
    "subifds": lambda folder: write_tiff(folder / "d.tif", PICTURE, levels=3, subifds=True, **TILES),
}
EVERYWHERE = torch.tensor(
    [
        [0, 0, 50, 40],
        [311, 200, 361, 240],
        [474, 356, 524, 396],  # bottom right corner
        [-20, -10, 30, 30],
        [500, 100, 550, 140],
        [60, 380, 110, 420],
        [-50, 10, 0, 50],  # touches from outside
        [600, 900, 650, 940],
    ]
)


@pytest.fixture(params=LOSSLESS | PYRAMIDS)
def exact_source(request, tmp_path) -> ImageSource:
    return open_image((LOSSLESS | PYRAMIDS)[request.param](tmp_path))


def test_regions_are_those_of_the_tensor_and_zero_outside(exact_source):
    regions = exact_source.regions(EVERYWHERE)
    padded = torch.nn.functional.pad(TENSOR, (50, 700, 50, 700))
    for region, (left, top, right, bottom) in zip(regions, EVERYWHERE.tolist(), strict=True):
        # 1e-7: x / 255 and x · (1 / 255) differ in the last bit.
        assert_close(region, padded[:, top + 50 : bottom + 50, left + 50 : right + 50], atol=1e-7, rtol=0)
    assert not regions[-2:].any()
    assert isinstance(exact_source, ImageSource)
    assert exact_source.size == (396, 524)


@pytest.mark.parametrize("scale", [1.0, 0.7, 1 / 2, 1 / 3, 0.11, 1 / 100])
@pytest.mark.parametrize("kind", LOSSLESS)
def test_views_from_full_resolution_are_make_view(kind, scale, tmp_path):
    source = open_image(LOSSLESS[kind](tmp_path))
    view, expected = source.view(scale), make_view(TENSOR[None], scale)[0]
    if isinstance(source, SlideImage) or kind == "tensor":
        # 1e-4: torch computes the resampling weights in single precision.
        return assert_close(view, expected, atol=1e-4, rtol=0)
    # Of bytes it is a whole number of steps, at most one off, and on the whole neither lighter nor darker.
    assert_close(view * 255, (view * 255).round(), atol=1e-4, rtol=0)
    assert_close(view, expected, atol=1.02 / 255, rtol=0)
    if view.numel() > 1000:
        assert_close(view.mean(), expected.mean(), atol=0.2 / 255, rtol=0)  # halves are rounded up


def slope_over_an_eighth(level_px: int) -> float:
    """How far a view may be off that comes by way of a level whose pixels are `level_px` wide.

    Two filters with a level between them do not have quite the center of one, at the borders above all. The difference
    is up to an eighth of the level's pixel along both axes, on the steepest slope of the waves.
    """
    return 2 * AMPLITUDE * (2 * np.pi / WAVE_PX) * level_px / 8 if level_px > 1 else 0.0


@pytest.mark.parametrize(("scale", "level_px"), [(1.0, 1), (1 / 2, 2), (0.4, 2), (1 / 3, 2), (1 / 4, 4), (0.11, 4)])
@pytest.mark.parametrize("kind", PYRAMIDS)
def test_views_from_a_level_differ_by_its_averaging_only(kind, scale, level_px, tmp_path):
    view = open_image(PYRAMIDS[kind](tmp_path)).view(scale)
    rounding = 1 / 255
    assert_close(view, make_view(TENSOR[None], scale)[0], atol=rounding + slope_over_an_eighth(level_px), rtol=0)


@pytest.mark.parametrize(("scale", "level_px"), [(1.0, 1), (1 / 2, 1), (1 / 3, 2), (1 / 5, 2), (1 / 12, 8)])
def test_a_jpeg_gives_the_same_within_its_loss(scale, level_px, tmp_path):
    source = open_image(save(tmp_path / "a.jpg", quality=100, subsampling=0))
    assert isinstance(source, FileImage)
    assert source.size == (396, 524)
    # At this quality only roundings are lost, of coefficients and of YCbCr; those of Cb reach blue 1.8-fold.
    loss = 4.1 / 255
    assert_close(source.regions(EVERYWHERE), TensorImage(TENSOR).regions(EVERYWHERE), atol=loss, rtol=0)
    assert not source.regions(EVERYWHERE)[-2:].any()
    expected = make_view(TENSOR[None], scale)[0]
    assert_close(source.view(scale), expected, atol=loss + slope_over_an_eighth(level_px), rtol=0)


@pytest.mark.parametrize("size", [(1, 1), (37, 53), (129, 256)])
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif"])
def test_views_have_the_size_that_view_size_says(size, suffix, tmp_path):
    path = tmp_path / f"a{suffix}"
    if suffix == ".tif":
        tifffile.imwrite(path, waves(*size), tile=(16, 16), photometric="rgb")
    else:
        Image.fromarray(waves(*size)).save(path)
    for scale in (1.0, 0.999, 0.51, 1 / 3, 1 / 9):
        if min(size) * scale >= 1:
            assert open_image(path).view(scale).shape == (3, *view_size(size, scale))


@pytest.mark.parametrize("kind", ["png", "tiles", "subifds"])
def test_a_source_travels_as_its_path(kind, tmp_path):
    source = open_image((LOSSLESS | PYRAMIDS)[kind](tmp_path))
    expected = source.regions(EVERYWHERE)
    parcel = pickle.dumps(source)
    assert len(parcel) < 1000  # bytes: the path, no pixels
    assert_close(pickle.loads(parcel).regions(EVERYWHERE), expected)


class Regions(Dataset):
    """Reads from one source in whatever process asks."""

    def __init__(self, source: ImageSource):
        self.source = source

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.source.regions(box_at(index))[0]


def box_at(index: int) -> torch.Tensor:
    return torch.tensor([[10 * index, 8 * index, 10 * index + 70, 8 * index + 60]])


@pytest.mark.parametrize("kind", ["png", "tiles", "subifds"])
def test_forked_workers_and_threads_read_one_open_source(kind, tmp_path):
    source = open_image((LOSSLESS | PYRAMIDS)[kind](tmp_path))
    source.view(1 / 2)  # the file is open before the fork
    expected = TensorImage(TENSOR).regions(torch.cat([box_at(index) for index in range(40)]))
    loader = DataLoader(Regions(source), batch_size=40, num_workers=2, multiprocessing_context="fork")
    assert_close(next(iter(loader)), expected)
    with ThreadPoolExecutor(4) as pool:
        assert_close(torch.stack(list(pool.map(Regions(source).__getitem__, range(40)))), expected)


def test_open_image_takes_integers_grays_and_alpha():
    deep = torch.tensor([[[0, 65535]]], dtype=torch.uint16)
    assert_close(open_image(deep).view(1.0), torch.tensor([[[0.0, 1.0]]]))
    gray = open_image(np.array([[0, 51]], dtype=np.uint8))
    assert_close(gray.view(1.0), torch.tensor([0.0, 0.2]).expand(3, 1, 2))
    bgr = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    assert_close(open_image(bgr[..., ::-1]).view(1.0), open_image(bgr).view(1.0).flip(0))
    clear = open_image(Image.new("RGBA", (2, 1), (255, 0, 0, 0)))
    assert_close(clear.view(1.0), torch.ones(3, 1, 2))


@pytest.mark.parametrize(
    ("image", "says"),
    [
        (3, "a int is not an image source: expected a path"),
        (torch.zeros(1, 3, 8, 8), "expected C H W"),
        (np.zeros((8, 8, 4)), "expected H W 3 or H W"),
        (np.zeros((8, 8, 3), np.int64), "give bytes"),  # scaled by its own largest value it would be black
        (np.zeros((0, 8, 3)), "has no pixels"),
        (Image.new("F", (2, 2)), "scale its array"),
        ("nowhere/a.png", "no image at nowhere"),
    ],
)
def test_open_image_says_what_it_cannot_open(image, says):
    with pytest.raises((TypeError, ValueError, FileNotFoundError), match=says):
        open_image(image)


@pytest.mark.parametrize(
    ("boxes", "says"),
    [
        ([[0, 0, 10, 10], [0, 0, 10, 11]], "10×10, 10×11: expected one positive size"),
        ([[10, 10, 5, 20]], "-5×10"),
        ([], "are none"),
    ],
)
def test_boxes_of_several_sizes_are_refused(boxes, says, tmp_path):
    boxes = torch.tensor(boxes, dtype=torch.int64).reshape(-1, 4)
    for source in (TensorImage(TENSOR), SlideImage(LOSSLESS["tiles"](tmp_path))):  # pyright: ignore[reportArgumentType]
        with pytest.raises(ValueError, match=says):
            source.regions(boxes)
