"""The readers fuzzed by coverage, where atheris is installed: `python tests/hostile/fuzz_readers.py --seconds 300`.

atheris changes the sound files of `mutations` towards lines of Python that no file has reached yet (C code it does not
see). It ends with 1, and keeps the file, at anything but a picture, a `BadImage` with the file's name or "no slide".
"""

import argparse
import importlib.util
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.hostile.mutations import sound_files


def read(path: Path) -> None:
    """All that is done with a file of a stranger."""
    from saccade.images.bad_image import BadImage
    from saccade.images.decode import read_pixels
    from saccade.images.image_formats import header_size
    from saccade.images.pyramid import Box, NotASlideError, open_pyramid

    try:
        header_size(path)
        try:
            slide = open_pyramid(path, single_file=True)
        except NotASlideError:
            slide = None
        if slide:
            (height, width), level = slide.sizes[-1], len(slide.sizes) - 1
            with suppress(Exception):  # `SlideImage` makes its file's error of whatever a tile raises
                slide.read(level, Box(0, 0, min(width, 64), min(height, 64)))
        read_pixels(path, max_pixels=10**6)
    except BadImage as error:
        if path.name not in str(error):
            raise AssertionError(f"an error without its name: {error}") from error


def main() -> int:
    """Fuzz for a while; 0 also where there is no atheris."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=300)
    args = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("the readers are not fuzzed by coverage: atheris is not installed (pip install atheris)")
        return 0
    import atheris

    with atheris.instrument_imports(include=["saccade.images", "PIL", "tifffile"]):
        import PIL.Image
        import tifffile  # noqa: F401

        import saccade.images.decode
        import saccade.images.pyramid  # noqa: F401
    PIL.Image.init()
    folder = Path(tempfile.mkdtemp(prefix="saccade-atheris-"))
    for name, data in sound_files().items():
        (folder / name).write_bytes(data)
    target = folder / "target.bin"

    def one(data: bytes) -> None:
        target.write_bytes(data)
        read(target)

    limits = [f"-max_total_time={args.seconds}", "-timeout=20", "-rss_limit_mb=4096"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={folder}/bad-", str(folder)], one)
    atheris.Fuzz()  # ends the process
    return 0


if __name__ == "__main__":
    sys.exit(main())
