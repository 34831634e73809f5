"""What somebody typed → image files: a file, a folder, a pattern such as `photos/**/*.jpg`, or a list of paths in a
.txt file, one a line, relative to the current folder.

Folders are walked as they are read, sorted by name, hidden files left out, linked folders entered.
"""

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from saccade.datasets.own import IMAGE_SUFFIXES

LIST_SUFFIX = ".txt"


def find_images(sources: Iterable[str]) -> Iterator[str]:
    """The images of all `sources`, one after the other; what a list or somebody names is taken whatever its suffix."""
    for source in sources:
        if os.path.isdir(source):
            yield from _walk(source)
        elif os.path.isfile(source):
            yield from _read_list(source) if source.lower().endswith(LIST_SUFFIX) else (source,)
        else:
            yield from _match(source)


def _walk(folder: str) -> Iterator[str]:
    for where, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES:
                yield os.path.join(where, name)


def _read_list(path: str) -> Iterator[str]:
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        for line in file:
            if line.strip():
                yield line.rstrip("\r\n")


def _match(pattern: str) -> Iterator[str]:
    if not glob.has_magic(pattern):
        raise FileNotFoundError(
            f"{pattern}: no such file or folder; give images, a folder of them, a pattern such as 'photos/*.jpg', or a "
            f"{LIST_SUFFIX} file that lists them"
        )
    yield from sorted(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))


def common_folder(sources: Iterable[str]) -> Path:
    """The deepest folder that holds all images of `sources`, and each folder given: names are told relative to it."""
    folders = {os.path.abspath(folder) for source in sources for folder in _folders(source)}
    return Path(os.path.commonpath(folders) if folders else os.getcwd())


def _folders(source: str) -> Iterator[str]:
    if os.path.isdir(source):
        yield source
    else:
        yield from {os.path.dirname(image) for image in find_images([source])}
