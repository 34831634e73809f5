"""What somebody typed → image files: a file, a folder, a pattern such as `photos/**/*.jpg`, or a list of paths in a
.txt file, one a line, relative to the current folder. Files, folders and lists may also be URLs, and so may what is in
a list; a list behind a URL names URLs alone, or files in its own folder.

Folders are walked as they are read, sorted by name, hidden files left out, linked folders entered; each folder once.
So are those that `**` stands for.
"""

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

from saccade.data.folders_and_tables import IMAGE_SUFFIXES, walk
from saccade.places import fetch, find_files, is_folder, is_url, name_of, parent_of, url_within

LIST_SUFFIX = ".txt"
SEPARATORS = re.escape(os.sep + (os.altsep or ""))
ANY_FOLDERS = re.compile(rf"(^|[{SEPARATORS}])\*\*(?:[{SEPARATORS}]+|$)")


def find_images(sources: Iterable[str]) -> Iterator[str]:
    """The images of all `sources`, one after the other; what a list or somebody names is taken whatever its suffix."""
    for source in sources:
        if is_url(source):
            yield from _find_remote(source)
        elif os.path.isdir(source):
            yield from _walk(source)
        elif os.path.exists(source):  # what is no ordinary file is refused where it is read
            yield from _read_list(source) if is_list(source) else (source,)
        else:
            yield from _match(source)


def refuse_nothing(sources: Sequence[str]) -> None:
    """A name that is no file is that image's error, but where nothing at all is there, somebody mistyped."""
    if not any(is_url(source) or glob.has_magic(source) or os.path.lexists(source) for source in sources):
        raise FileNotFoundError(
            f"{', '.join(sources[:3])}: no such file or folder; give images, a folder of them, a pattern such as "
            f"'photos/*.jpg', or a {LIST_SUFFIX} file that lists them"
        )


def _find_remote(url: str) -> Iterator[str]:
    suffix = os.path.splitext(name_of(url))[1].lower()
    if suffix == LIST_SUFFIX:
        # Whoever wrote it may be a stranger: it names no file of this machine.
        for line in _read_list(os.fspath(copy := fetch(url))):
            yield line if is_url(line) else url_within(parent_of(url), line)
        del copy  # which stayed until here
    elif suffix not in IMAGE_SUFFIXES and is_folder(url):
        yield from (file for file in find_files(url) if os.path.splitext(name_of(file))[1].lower() in IMAGE_SUFFIXES)
    else:
        yield url


def is_list(source: str) -> bool:
    """Whether `source` is a file that lists images."""
    if is_url(source):
        return name_of(source).lower().endswith(LIST_SUFFIX)
    return os.path.isfile(source) and source.lower().endswith(LIST_SUFFIX)


def _walk(folder: str) -> Iterator[str]:
    for where, files in walk(folder):
        for name in sorted(files):
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES:
                yield os.path.join(where, name)


def _read_list(path: str) -> Iterator[str]:
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        for line in file:
            if line.strip():
                yield line.rstrip("\r\n")


def _match(pattern: str) -> Iterator[str]:
    """What a pattern stands for; a name that is none, and no file either, is told by whoever reads it."""
    if glob.has_magic(pattern):
        yield from sorted(path for path in _expand(pattern) if not os.path.isdir(path))
    else:
        yield pattern


def _expand(pattern: str) -> set[str]:
    """What `glob.glob(pattern, recursive=True)` finds, but for ways through folders that ** has entered already."""
    deep = ANY_FOLDERS.search(pattern)
    if deep is None:
        return set(glob.glob(pattern))
    if not deep.end(1):  # starts with **
        here = os.path.join(os.curdir, "")
        return {path.removeprefix(here) for path in _expand(here + pattern)}
    tops, rest = glob.glob(pattern[: deep.end(1)]), pattern[deep.end() :] or "*"
    folders = (where for top in tops for where, _ in walk(top))
    return {path for where in folders for path in _expand(os.path.join(glob.escape(where), rest))}


def may_find(source: str, folder: Path) -> bool:
    """Whether pictures (.png) that are written below `folder` would be among the images of `source`.

    >>> may_find("photos/**/*", Path("photos/seen")), may_find("photos/*.png", Path("photos/seen"))
    (True, False)
    """
    if is_url(source):
        return False
    if os.path.isdir(source):
        return folder.resolve().is_relative_to(Path(source).resolve())
    if os.path.isfile(source):
        return False
    parts = Path(source).parts
    fixed = tuple(takewhile(lambda part: not glob.has_magic(part), parts))
    root, suffix = Path(*fixed).resolve(), os.path.splitext(source)[1]
    if not folder.resolve().is_relative_to(root) or (suffix and not fnmatchcase(".png", suffix)):
        return False
    return _reaches(parts[len(fixed) :], folder.resolve().relative_to(root).parts)


def _reaches(pattern: Sequence[str], folder: Sequence[str]) -> bool:
    """Whether something below `folder` can match, both given part by part."""
    if not pattern or not folder or pattern[0] == "**":
        return bool(pattern)
    return fnmatchcase(folder[0], pattern[0]) and _reaches(pattern[1:], folder[1:])


def common_folder(sources: Iterable[str]) -> Path:
    """The deepest folder that holds all images of `sources`, and each folder given: names are told relative to it."""
    here = [source for source in sources if not is_url(source)]
    folders = {os.path.abspath(folder) for source in here for folder in _folders(source)}
    return Path(os.path.commonpath(folders) if folders else os.getcwd())


def _folders(source: str) -> Iterator[str]:
    if os.path.isdir(source):
        yield source
    else:
        yield from {os.path.dirname(image) for image in find_images([source])}
