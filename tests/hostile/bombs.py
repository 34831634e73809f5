"""Small files that take much, and files that name others: all made by code, none larger than a few megabytes."""

import io
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

NOISE = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)


def png(width: int, height: int, *, bits: int = 8, color: int = 2) -> bytes:
    """A PNG of zeros: colors 0 gray, 2 RGB, 3 palette, 6 RGBA."""
    samples = {0: 1, 2: 3, 3: 1, 6: 4}[color]
    row = bytes(1 + -(-width * samples * bits // 8))
    packer = zlib.compressobj(9)
    data = b"".join(packer.compress(row * 64) for _ in range(height // 64)) + packer.compress(row * (height % 64))
    palette = _chunk(b"PLTE", bytes(768)) if color == 3 else b""
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + palette
        + _chunk(b"IDAT", data + packer.flush())
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def icon_that_lies(side: int) -> bytes:
    """An ICO whose directory says 64×64 and whose only picture is a PNG of `side`²."""
    inside = png(side, side)
    return struct.pack("<HHH", 0, 1, 1) + struct.pack("<BBBBHHII", 64, 64, 0, 0, 1, 24, len(inside), 22) + inside


def apple_icon(side: int) -> bytes:
    inside = png(side, side, color=6)
    return b"icns" + struct.pack(">I", 16 + len(inside)) + b"ic09" + struct.pack(">I", 8 + len(inside)) + inside


def gif(width: int, height: int) -> bytes:
    """35 bytes: a screen of any size, of which one pixel is drawn."""
    screen = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    return screen + b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00;"


def jpeg_of_many_scans(scans: int, side: int = 4096) -> bytes:
    """A progressive JPEG that says the same nothing about one coefficient again and again."""
    file = io.BytesIO()
    Image.new("L", (side, side)).save(file, "JPEG", progressive=True)
    whole = file.getvalue()[:-2]
    refine = b"\xff\xda" + struct.pack(">HBBBBBB", 8, 1, 1, 0, 1, 63, 0x00)
    begin = whole.rindex(b"\xff\xda")
    return whole + (whole[begin : begin + 10] + bytes(8)) * scans + refine + b"\xff\xd9"


Tags = dict[int, tuple[int, list[int]]]


def tiff(*levels: Tags, extra: bytes = b"") -> bytes:
    """A little-endian TIFF of an IFD per level; tags: number → (type 3 short or 4 long, values)."""
    written = b"II*\0" + struct.pack("<I", 8)
    for number, tags in enumerate(levels):
        written += _ifd(tags, len(written), last=number == len(levels) - 1)
    return written + extra


def _ifd(tags: Tags, begin: int, *, last: bool) -> bytes:
    count = len(tags)
    place, entries, values = begin + 2 + 12 * count + 4, b"", b""
    for number, (kind, items) in sorted(tags.items()):
        packed = struct.pack(f"<{len(items)}{'H' if kind == 3 else 'I'}", *items)
        if len(packed) > 4:
            entry, values = struct.pack("<I", place + len(values)), values + packed
        else:
            entry = packed.ljust(4, b"\0")
        entries += struct.pack("<HHI", number, kind, len(items)) + entry
    following = 0 if last else place + len(values)
    return struct.pack("<H", count) + entries + struct.pack("<I", following) + values


def _rgb_tags(width: int, height: int, *, bits: int = 8) -> Tags:
    return {
        256: (4, [width]),
        257: (4, [height]),
        258: (3, [bits] * 3),
        259: (3, [1]),
        262: (3, [2]),
        277: (3, [3]),
    }


def sparse_tiff(*sides: int, bits: int = 8, compression: int = 1, tile: int = 1024) -> bytes:
    """Tiles that are not there: a picture of any size, or a pyramid of several, in a few kilobytes."""
    levels = []
    for side in sides:
        tiles = (-(-side // tile)) ** 2
        layout = {322: (4, [tile]), 323: (4, [tile]), 324: (4, [0] * tiles), 325: (4, [0] * tiles)}
        levels.append(_rgb_tags(side, side, bits=bits) | layout | {259: (3, [compression])})
    return tiff(*levels)


def tiff_of_one_tile(tile: int) -> bytes:
    """64×64 px, in a tile that is far larger."""
    data = zlib.compress(bytes(1000))
    layout = {259: (3, [8]), 322: (4, [tile]), 323: (4, [tile]), 324: (4, [400]), 325: (4, [len(data)])}
    return tiff(_rgb_tags(64, 64) | layout).ljust(400, b"\0") + data


def deep_tiff(depth: int) -> bytes:
    """64×64 px, but `depth` planes of them (ImageDepth)."""
    return tiff(_rgb_tags(64, 64, bits=16) | {273: (4, [400]), 278: (4, [64]), 279: (4, [24576]), 32997: (4, [depth])})


def planes_in_words(path: Path) -> None:
    """An OME-TIFF and an ImageJ one that say they have a hundred million planes."""
    ome = (
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image ID="Image:0"><Pixels ID="Pixels:0" '
        'DimensionOrder="XYZCT" Type="uint8" SizeX="64" SizeY="64" SizeC="1" SizeZ="100000000" SizeT="1">'
        "<TiffData/></Pixels></Image></OME>"
    )
    tifffile.imwrite(path, NOISE[..., 0], tile=(16, 16), description=ome, metadata=None)


def imagej_planes(path: Path) -> None:
    tifffile.imwrite(path, NOISE[..., 0], description="ImageJ=1.11a\nimages=100000000\nslices=100000000", metadata=None)


def scanimage_planes(path: Path) -> None:
    words = "state.acq.numberOfFrames=100000000\nstate.acq.framesPerFile=100000000\nscanimage.SI4."
    tifffile.imwrite(path, NOISE[..., 0], description=words, metadata=None)


def wide_tiff(path: Path) -> None:
    """Two billion columns of tiles that are not there."""
    tags = _rgb_tags(2**31 - 1, 16) | {322: (4, [16]), 323: (4, [16]), 324: (4, [0] * 8), 325: (4, [0] * 8)}
    path.write_bytes(tiff(tags))


def webp(side: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (side, side)).save(file, "WEBP", lossless=True, method=0)
    return file.getvalue()


def _bytes(make: Callable[[], bytes]) -> Callable[[Path], None]:
    return lambda path: (path.write_bytes(make()), None)[1]


# Each takes gigabytes, minutes or both where limits are looked at too late, or count pixels instead of bytes.
BOMBS: dict[str, Callable[[Path], None]] = {
    "icon.ico": _bytes(lambda: icon_that_lies(8_000)),
    "icon_called_png.png": _bytes(lambda: icon_that_lies(8_000)),
    "apple.icns": _bytes(lambda: apple_icon(8_000)),
    "screen.gif": _bytes(lambda: gif(17_000, 17_000)),
    "scans.jpg": _bytes(lambda: jpeg_of_many_scans(3_000)),
    "sparse.tif": _bytes(lambda: sparse_tiff(16_000)),
    "sparse_packed.tif": _bytes(lambda: sparse_tiff(16_000, compression=8)),
    "sparse_deep.tif": _bytes(lambda: sparse_tiff(16_000, bits=16)),
    "tile.tif": _bytes(lambda: tiff_of_one_tile(26_000)),
    "depth.tif": _bytes(lambda: deep_tiff(100_000_000)),
    "ome_planes.tif": planes_in_words,
    "imagej_planes.tif": imagej_planes,
    "scanimage_planes.tif": scanimage_planes,
    "wide.tif": wide_tiff,
}

# Beyond a second to make or to read, but for which the same holds.
LARGE_BOMBS: dict[str, Callable[[Path], None]] = {
    "rgba.png": _bytes(lambda: png(16_000, 16_000, color=6)),
    "palette.png": _bytes(lambda: png(16_000, 16_000, color=3)),
    "gray16.png": _bytes(lambda: png(11_000, 11_000, bits=16, color=0)),
    "largest_gray16.png": _bytes(lambda: png(16_000, 16_000, bits=16, color=0)),
    "large.webp": _bytes(lambda: webp(9_000)),
    "screen_within_limits.gif": _bytes(lambda: gif(16_000, 16_000)),
    "progressive.jpg": lambda path: Image.new("RGB", (11_000, 11_000)).save(path, progressive=True),
    "lossless.jp2": lambda path: Image.new("RGB", (6_000, 6_000)).save(path, irreversible=False),
    "large.avif": lambda path: Image.new("RGB", (6_000, 6_000)).save(path, speed=10),
    "turned.tif": lambda path: Image.new("RGB", (13_000, 13_000)).save(path, compression="tiff_lzw", tiffinfo={274: 6}),
    "largest.jpg": lambda path: Image.new("RGB", (16_384, 16_384)).save(path),
}


# Within the limits of a server of 100 megapixels, and as much as they allow: minutes of work, or most of its memory.
WITHIN_LIMITS: dict[str, Callable[[Path], None]] = {
    "screen.gif": _bytes(lambda: gif(9_990, 9_990)),
    "rgba.png": _bytes(lambda: png(9_990, 9_990, color=6)),
    "scans.jpg": _bytes(lambda: jpeg_of_many_scans(90, side=9_900)),
    "sparse.tif": _bytes(lambda: sparse_tiff(9_990, compression=8)),
    "large.webp": _bytes(lambda: webp(6_000)),
    "progressive.jpg": lambda path: Image.new("RGB", (7_000, 7_000)).save(path, "JPEG", progressive=True),
    "pyramid.tif": _bytes(lambda: sparse_tiff(65_536, 32_768, tile=4096)),
    "steep_pyramid.tif": _bytes(lambda: sparse_tiff(32_000, 8_000, tile=4000)),
}


VMS = """[Virtual Microscope Specimen]
NoLayers=1
NoJpegColumns=1
NoJpegRows=1
ImageFile={other}
MapFile={other}
OptimisationFile={other}
MacroImage={other}
PhysicalWidth=1000
"""

VMU = """[Uncompressed Virtual Microscope Specimen]
NoLayers=1
ImageFile={other}
MapFile={other}
MacroImage={other}
BitsPerPixel=36
PixelOrder=RGB
"""


def _ome_naming(other: str) -> str:
    plane = f'<TiffData IFD="0" FirstZ="{{}}"><UUID FileName="{other}">urn:uuid:0</UUID></TiffData>'
    return (
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:1"><Image ID="Image:0"><Pixels '
        'ID="Pixels:0" DimensionOrder="XYZCT" Type="uint8" SizeX="64" SizeY="64" SizeC="1" SizeZ="2" SizeT="1">'
        f"{plane.format(0)}{plane.format(1)}</Pixels></Image></OME>"
    )


def write_files_that_name_others(folder: Path) -> list[Path]:
    """Files that, by what they say, make some readers open `secret.jpg` or wait at `pipe` for ever."""
    secret, pipe = folder / "secret.jpg", folder / "pipe"
    Image.fromarray(NOISE).save(secret)
    os.mkfifo(pipe)
    uploads = folder / "uploads"
    uploads.mkdir()
    for number, other in enumerate((secret, pipe)):
        for suffix in (".vms", ".jpg", ""):  # OpenSlide looks at what is inside, not at the name
            (uploads / f"vms{number}{suffix}").write_text(VMS.format(other=f"../{other.name}"))
            (uploads / f"vmu{number}{suffix}").write_text(VMU.format(other=f"../{other.name}"))
        tifffile.imwrite(
            uploads / f"ome{number}.ome.tif",
            NOISE[..., 0],
            tile=(16, 16),
            description=_ome_naming(f"../{other.name}"),
            metadata=None,
        )
    _write_mirax(uploads)
    _write_trestle(uploads)
    tifffile.imwrite(uploads / "ndtiff.tif", NOISE[..., 0], tile=(16, 16), software="NDTiffStorage", metadata=None)
    (uploads / "NDTiff.index").write_bytes(bytes(64))
    (uploads / "script.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(../secret.jpg) run\n")
    (uploads / "script.jpg").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(../secret.jpg) run\n")
    (uploads / "meta.wmf").write_bytes(b"\xd7\xcd\xc6\x9a\x00\x00" + struct.pack("<HHHHHIH", 0, 0, 9, 9, 96, 0, 0))
    (uploads / "meta.png").write_bytes((uploads / "meta.wmf").read_bytes())
    (uploads / "drawing.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><image href="../secret.jpg"/></svg>')
    (uploads / "drawing.png").write_text((uploads / "drawing.svg").read_text())
    os.mkfifo(uploads / "waits.jpg")
    (uploads / "folder.jpg").mkdir()
    (uploads / "gone.jpg").symlink_to(uploads / "nowhere.jpg")
    (uploads / "to_a_pipe.jpg").symlink_to(pipe)
    (uploads / "endless.jpg").symlink_to("/dev/zero")
    return sorted(uploads.iterdir())


def _write_mirax(uploads: Path) -> None:
    for name, begin in {"slide": b"\0" * 1000, "tiff_in_name": b"II*\0"}.items():
        (uploads / f"{name}.mrxs").write_bytes(begin)
        (uploads / name).mkdir()
        (uploads / name / "Slidedat.ini").write_text("[GENERAL]\nSLIDE_VERSION=01.02\nSLIDE_ID=0\n")


def _write_trestle(uploads: Path) -> None:
    tifffile.imwrite(
        uploads / "trestle.tif",
        NOISE,
        tile=(32, 32),
        photometric="rgb",
        software="MedScan",
        description="OverlapsXY=0;",
        metadata=None,
    )
    (uploads / "trestle.Full").write_bytes((uploads.parent / "secret.jpg").read_bytes())
