"""Run by tests in a process of its own: read the files given as arguments as the files of strangers are read.

Prints a line of JSON per file: what came of it, the seconds of the processor, the peak of memory so far, and every
other file opened and every program started meanwhile, as Python's audit hooks see them.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

from saccade.images.bad_image import BadImage
from saccade.images.decode import read_pixels
from saccade.images.pyramid import Box, NotASlideError, open_pyramid

WATCHED = ("open", "os.listdir", "os.scandir", "os.exec", "os.posix_spawn", "os.system", "subprocess.Popen", "socket.")
SIDE = 512


def read(path: Path) -> str:
    """All that is done with a file: a slide's corner, or the pixels of an ordinary image."""
    try:
        try:
            found = open_pyramid(path, single_file=True)
            for level, (height, width) in enumerate(found.sizes):
                found.read(level, Box(0, 0, min(width, SIDE), min(height, SIDE)))
            said = f"slide {found.sizes}"
        except NotASlideError:
            said = "no slide"
        return f"{said}, {read_pixels(path).shape}"
    except BadImage as error:
        return f"bad: {error.reason}" if path.name in str(error) else f"an error without its name: {error}"


def warm_up() -> None:
    """Modules are files too: let all that are needed be imported before anybody looks."""
    pixels = np.zeros((64, 64, 3), np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a.jpg", "a.png", "a.webp", "a.tif", "a.gif", "a.txt", "a.avif"):
            if name == "a.txt":
                Path(folder, name).write_text("no image")
            else:
                Image.fromarray(pixels).save(Path(folder, name))
            read(Path(folder, name))
        tifffile.imwrite(Path(folder, "deep.tif"), pixels.astype(np.uint16), photometric="rgb")
        read(Path(folder, "deep.tif"))


def peak_mb() -> float:
    """The peak of this process alone: `getrusage` would count the one that started it."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1000


if __name__ == "__main__":
    warm_up()
    events: list[str] = []
    sys.addaudithook(lambda event, about: events.append(f"{event} {about}") if event.startswith(WATCHED) else None)
    for name in sys.argv[1:]:
        events.clear()
        begin = time.process_time()
        said = read(Path(name))
        seconds = time.process_time() - begin
        others = [event for event in events if repr(name) not in event]
        # Read last: it is a file, too.
        print(json.dumps({"said": said, "seconds": seconds, "others": others, "peak_mb": peak_mb()}), flush=True)
