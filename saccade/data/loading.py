"""A path → `Records`: which kind of data set it is, found by looking."""

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from saccade.data import billiard, cub, folders_and_tables, megapixel_images, swedish
from saccade.data.archives import READERS, is_archive, unpack
from saccade.data.folds import hold_out, with_folds
from saccade.data.groups import group_by_name
from saccade.data.records import DataError, Records, describe_alike
from saccade.data.splits import complete, describe_parted
from saccade.places import fetch_table, is_url


class Format(NamedTuple):
    """A kind of data set: how to tell it, how to load it, and the share of train it validates on where not given."""

    recognize: Callable[[Path], bool]
    load: Callable[..., Records]
    val_share: float = 0.15


def _labels_file(folder: Path) -> Path:
    return next(
        (
            folder / f"labels{suffix}"
            for suffix in folders_and_tables.DELIMITERS
            if (folder / f"labels{suffix}").is_file()
        ),
        folder,
    )


def _refuse_canvases(path: Path) -> Records:
    raise DataError(
        f"{path}: canvases of Megapixel MNIST, which are drawn when they are read and are not image files; "
        'open them with saccade.data.megapixel_mnist.MegapixelMNIST(path, "train"), or make them as pictures with '
        "`saccade data make megapixel-mnist-images`"
    )


# In this order, the first that fits: a published set also looks like a folder of folders.
FORMATS = {
    "manifest": Format(folders_and_tables.is_manifest, folders_and_tables.load_manifest),
    "labels": Format(
        lambda path: folders_and_tables.is_manifest(_labels_file(path)),
        lambda path, group=None, labels=None: folders_and_tables.load_manifest(_labels_file(path), group, labels),
    ),
    "megapixel-mnist-images": Format(megapixel_images.is_megapixel_images, megapixel_images.load_megapixel_images),
    "swedish": Format(swedish.is_swedish, swedish.load_swedish),
    "billiard": Format(billiard.is_billiard, billiard.load_billiard),
    "cub": Format(cub.is_cub, cub.load_cub, cub.VAL_SHARE),
    "megapixel-mnist": Format(lambda path: any(path.glob("*/[0-9]*.npy")), _refuse_canvases),
    "folder": Format(folders_and_tables.is_class_folders, folders_and_tables.load_folder),
}


def load(
    path: Path | str,
    *,
    seed: int = 0,
    val_share: float | None = None,
    test_share: float = 0.15,
    cache: Path | None = None,
    group: str | None = None,
    folds: int | None = None,
    fold: str | None = None,
    labels: str | None = None,
    **options: str,
) -> Records:
    """The data set at `path`: a folder, a table or an archive of one, with all its splits; or the URL of shards.

    An archive is unpacked beside itself, or into `cache`. `options` go to the loader of a published set
    (`rule` for Swedish signs, `task` for billiard).

    group: which images belong together and are never parted: a column of a table (default: `group`, if there is one),
           or for folders a regular expression that finds the group in an image's path.
    folds: draw so many folds, where the data set has no folds of its own.
    fold:  test on this fold and train on the others, whatever the splits are.
    labels: what labels of one's own mean: single, multi, ordinal or regression (default: what they look like).

    >>> load("flowers").counts()["val"]  # doctest: +SKIP
    {'daisy': 12, 'rose': 9}
    """
    name, found = _find(path, cache)
    if unknown := options.keys() - _options(name):
        raise DataError(f"{path} is of the kind {name!r}, which has no option {', '.join(sorted(unknown))}")
    share = FORMATS[name].val_share if val_share is None else val_share
    records = _read(name, found, group, labels, options)
    if folds or fold is not None:
        records = with_folds(records, folds, seed=seed)
    if fold is not None:
        records = hold_out(records, fold)
    return complete(records, seed=seed, val_share=share, test_share=test_share)


def load_folds(
    path: Path | str,
    *,
    seed: int = 0,
    group: str | None = None,
    folds: int | None = None,
    labels: str | None = None,
    **options: str,
) -> Records:
    """The data set at `path` with its folds, as `load` has them for any `fold`; splits stay as they are given."""
    name, found = _find(path, None)
    records = with_folds(_read(name, found, group, labels, options), folds, seed=seed)
    return records._replace(notes=(*records.notes, *describe_parted(records, "fold")))


def has_folds(path: Path | str) -> bool:
    """Whether the data set at `path` is a table with a column `fold`."""
    name, found = _find(path, None)
    return name in ("manifest", "labels") and "fold" in folders_and_tables.read_columns(_labels_file(found))


def load_as_given(path: Path | str, *, labels: str | None = None, **options: str) -> Records:
    """The data set at `path` as it comes: no split is drawn, and an image without one has the split `UNSPLIT`.

    `options` may be those of another kind of data set: what the loader does not take is left out.
    """
    name, found = _find(path, None)
    return _read(name, found, None, labels, {key: options[key] for key in options if key in _options(name)})


def table_of(path: Path | str) -> Path:
    """The table that has the labels of one's own images; of class folders the one that would have them."""
    if is_archive(Path(path)):
        raise DataError(f"{path}: labels in an archive cannot be corrected; unpack it, and train on the folder")
    name, found = _find(Path(os.path.abspath(path)), None)
    if name not in ("manifest", "labels", "folder"):
        raise DataError(f"{path} is of the kind {name!r}: only labels of a table or of class folders can be corrected")
    return found / "labels.csv" if name == "folder" else _labels_file(found)


def _read(name: str, found: Path, group: str | None, labels: str | None, options: Mapping[str, str]) -> Records:
    read, taken = FORMATS[name].load, {"labels": labels} if labels else {}
    known = inspect.signature(read).parameters
    if labels and "labels" not in known:
        raise DataError(f"{found} is of the kind {name!r}, whose labels have a meaning of their own: leave --task out")
    if "group" in known:
        records = read(found, group=group, **taken)
    else:
        records = read(found, **taken, **options)
        records = records if group is None else group_by_name(records, group)
    return records._replace(notes=(*records.notes, *describe_alike(records.classes)))


def source_name(path: Path | str) -> str:
    """What to call a data set, or a recipe: by its folder, where its table has the name that all tables have.

    >>> [source_name(path) for path in ("~/photos/labels.csv", "photos.tar.gz", "my/photos/", "photos_v1.5")]
    ['photos', 'photos', 'photos', 'photos_v1.5']
    """
    path = Path(os.path.abspath(path))  # "." has no name
    if path.stem == "labels" and path.suffix.lower() in folders_and_tables.DELIMITERS:
        return path.parent.name
    endings = [
        ending
        for ending in (*READERS, *folders_and_tables.DELIMITERS, ".yaml", ".yml")
        if path.name.lower().endswith(ending)
    ]
    return path.name if path.is_dir() or not endings else path.name[: -max(map(len, endings))]


def _options(name: str) -> set[str]:
    """What the loader of a format can be asked for."""
    return inspect.signature(FORMATS[name].load).parameters.keys() - {"path", "root", "group", "labels"}


def _find(place: Path | str, cache: Path | None) -> tuple[str, Path]:
    """The format and the folder or file that has it; archives often wrap everything in one more folder."""
    path = fetch_table(place) if isinstance(place, str) and is_url(place) else Path(os.path.abspath(place))
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; check the path")
    folder = unpack(path, cache) if is_archive(path) else path
    while True:
        for name, candidate in FORMATS.items():
            if candidate.recognize(folder):
                return name, folder
        inner = folders_and_tables.subfolders(folder) if folder.is_dir() else []
        if len(inner) != 1:
            raise DataError(
                f"{path}: not a data set; expected a folder with one folder of images per class, a .csv or .tsv table "
                "with the columns image,label[,split][,boxes][,group][,fold], a published set (Swedish signs, "
                "billiard, CUB), or an archive of one of these"
            )
        folder = inner[0]
