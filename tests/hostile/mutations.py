"""Thousands of damaged images out of a few sound ones, each a function of its seed."""

import io
import struct
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

RNG = np.random.default_rng(0)
PIXELS = np.asarray(Image.fromarray(RNG.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((64, 48)))
NUMBERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def sound_files() -> dict[str, bytes]:
    """One or more of each kind, slides and kinds that are not read included: suffix with a number before it → bytes."""
    picture = Image.fromarray(PIXELS)
    saved = {
        "0.jpg": picture,
        "1.jpg": (picture, {"progressive": True}),
        "2.jpg": picture.convert("CMYK"),
        "3.jpg": (picture, {"exif": _turned()}),
        "0.png": picture,
        "1.png": picture.convert("P"),
        "2.png": picture.convert("RGBA"),
        "3.png": Image.fromarray(PIXELS[..., 0].astype(np.uint16) * 257),
        "0.webp": picture,
        "1.webp": (picture, {"lossless": True}),
        "0.avif": picture,
        "0.gif": picture,
        "0.bmp": picture,
        "0.ppm": picture,
        "0.jp2": picture,
        "0.dds": picture,
        "0.ico": picture,
        "0.tif": picture,
        "1.tif": (picture, {"compression": "tiff_lzw"}),
        "2.tif": (picture, {"compression": "jpeg"}),
    }
    files = {}
    for name, made in saved.items():
        image, options = made if isinstance(made, tuple) else (made, {})
        files[name] = _save(image, name, options)
    return files | _tiffs()


def _save(image: Image.Image, name: str, options: dict) -> bytes:
    file = io.BytesIO()
    image.save(file, Image.registered_extensions()[Path(name).suffix], **options)
    return file.getvalue()


def _turned() -> Image.Exif:
    exif = Image.Exif()
    exif[274] = 6
    return exif


def _tiffs() -> dict[str, bytes]:
    options = {
        "3.tif": {"data": PIXELS.astype(np.uint16) * 257, "photometric": "rgb"},
        "4.tif": {"data": PIXELS.astype(np.float32) / 255, "photometric": "rgb", "compression": "zlib"},
        "5.tif": {"data": PIXELS, "photometric": "rgb", "tile": (16, 16), "compression": "zlib"},
        "6.tif": {"data": PIXELS.transpose(2, 0, 1), "photometric": "rgb", "planarconfig": "separate"},
        "7.tif": {"data": PIXELS, "photometric": "rgb", "tile": (16, 16), "bigtiff": True},
        "0.svs": {
            "data": PIXELS,
            "photometric": "rgb",
            "tile": (16, 16),
            "description": "Aperio Image Library v11\n64x48 (16x16) RAW|AppMag = 20",
        },
    }
    files = {}
    for name, given in options.items():
        file = io.BytesIO()
        tifffile.imwrite(file, metadata=None, **given)
        files[name] = file.getvalue()
    pyramid = io.BytesIO()
    with tifffile.TiffWriter(pyramid) as tiff:
        for step in (1, 2):
            tiff.write(PIXELS[::step, ::step], photometric="rgb", tile=(16, 16), subfiletype=step - 1, metadata=None)
    return files | {"8.tif": pyramid.getvalue()}


def mutate(data: bytes, seed: int) -> bytes:
    """One to eight wounds: bits, numbers where headers have them, zeros, cuts, parts twice or elsewhere."""
    rng = np.random.default_rng([seed, len(data)])
    wounded = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        WOUNDS[int(rng.integers(len(WOUNDS)))](wounded, rng)
    return bytes(wounded)


def _place(data: bytearray, rng: np.random.Generator) -> int:
    # Headers are where readers go astray: half of the wounds are in the first 200 bytes.
    return int(rng.integers(max(min(len(data), 200 if rng.random() < 0.5 else len(data)), 1)))


def _flip(data: bytearray, rng: np.random.Generator) -> None:
    if data:
        data[_place(data, rng) % len(data)] ^= 1 << int(rng.integers(8))


def _number(data: bytearray, rng: np.random.Generator) -> None:
    kind = str(rng.choice(["<H", ">H", "<I", ">I"]))
    number = int(rng.choice(NUMBERS)) & (0xFFFF if kind[1] == "H" else 0xFFFFFFFF)
    place = _place(data, rng)
    packed = struct.pack(kind, number)
    data[place : place + len(packed)] = packed


def _zeros(data: bytearray, rng: np.random.Generator) -> None:
    place, count = _place(data, rng), int(rng.integers(1, 64))
    data[place : place + count] = bytes(count)


def _cut(data: bytearray, rng: np.random.Generator) -> None:
    if rng.random() < 0.3:
        del data[int(rng.integers(len(data) + 1)) :]


def _repeat(data: bytearray, rng: np.random.Generator) -> None:
    begin, place, count = _place(data, rng), _place(data, rng), int(rng.integers(1, 128))
    data[place:place] = data[begin : begin + count]


def _drop(data: bytearray, rng: np.random.Generator) -> None:
    place = _place(data, rng)
    del data[place : place + int(rng.integers(1, 32))]


WOUNDS = (_flip, _flip, _number, _number, _zeros, _cut, _repeat, _drop)


def write_mutations(folder: Path, count: int, *, first_seed: int = 0) -> list[Path]:
    """`count` damaged files, the kinds in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = list(sound_files().items())
    paths = []
    for seed in range(first_seed, first_seed + count):
        name, data = kinds[seed % len(kinds)]
        paths.append(folder / f"{seed:07d}_{name}")
        paths[-1].write_bytes(mutate(data, seed))
    return paths
