"""How missing splits are drawn, and what to say about the splits there are.

The splits are train, val and test. A validation split always exists. What the data set does not give is drawn per
class (stratified) and depends on nothing but the seed and the names:

    no split at all        →  val and test are drawn from all images
    train, perhaps test    →  val is drawn from train; a test split is never made up

A class of n images gives q = share · n of them, rounded so that the total over the classes is right (largest
remainder), at least one where the class has one to spare; one image always stays in train. Where images belong to
groups, whole groups are drawn (`groups.deal`), and the shares are kept as well as groups allow.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import chain, repeat
from typing import Literal

import numpy as np

from saccade.data.groups import deal, have_groups, same_pictures
from saccade.data.records import SPLITS, UNSPLIT, DataError, Records
from saccade.tasks.labels import DEALT_BY


def complete(records: Records, *, seed: int = 0, val_share: float = 0.15, test_share: float = 0.15) -> Records:
    """The same images with every split in place; drawn splits and classes short of images are told in `notes`."""
    if not (0 < val_share < 1 and test_share >= 0 and val_share + test_share < 1):
        raise DataError(
            f"val_share is {val_share} and test_share {test_share}: val needs a share above 0, test one of at least 0, "
            "and together they must leave something to train on"
        )
    given = {record.split for record in records.records}
    if given == {UNSPLIT}:
        drawn = draw_splits(records, UNSPLIT, {"val": val_share, "test": test_share}, seed=seed)
        how = f"no splits given: drew val and test from all {len(records.records)} images"
    elif "val" not in given:
        drawn = draw_splits(records, "train", {"val": val_share}, seed=seed)
        how = f"no validation split given: drew it from the {len(records.split('train').records)} training images"
    else:
        drawn, how = records, ""
    _require_images(drawn)
    whole = " and whole groups" if have_groups(records.records) else ""
    notes = [f"{how}, stratified by {DEALT_BY[records.task]}{whole}, seed {seed}"] if how else []
    return drawn._replace(notes=(*records.notes, *notes, *_shortages(drawn), *describe_parted(drawn)))


def draw_splits(records: Records, source: str, shares: Mapping[str, float], *, seed: int) -> Records:
    """Move `shares` of the images of split `source` to other splits, by group; the rest becomes train."""
    if have_groups(records.records) or records.task != "single":
        return _draw_groups(records, source, shares, seed=seed)
    pool: dict[str, list[int]] = {label: [] for label in records.classes}
    # Sorted by name, so that neither the file system's order nor that of a manifest's lines changes the draw.
    for number in sorted(range(len(records.records)), key=lambda number: records.records[number].image):
        if records.records[number].split == source:
            pool[records.records[number].label].append(number)
    sizes = [len(members) for members in pool.values()]
    quotas = {split: _apportion(sizes, share) for split, share in shares.items() if share > 0}
    new_split = {}
    for class_number, members in enumerate(pool.values()):
        more = [split for split, quota in quotas.items() for _ in range(quota[class_number] - 1)]
        deal = chain(["train", *quotas], more, repeat("train"))  # one for each first, as far as the images go
        shuffled = np.random.default_rng([seed, class_number]).permutation(members)
        new_split |= dict(zip(shuffled.tolist(), deal, strict=False))
    return records._replace(
        records=tuple(r._replace(split=new_split.get(number, r.split)) for number, r in enumerate(records.records))
    )


def _draw_groups(records: Records, source: str, shares: Mapping[str, float], *, seed: int) -> Records:
    splits = ("train", *(split for split, share in shares.items() if share > 0))
    drawn_from = [number for number, record in enumerate(records.records) if record.split == source]
    pool = [records.records[number] for number in drawn_from]
    wanted = [1 - sum(shares.values()), *(shares[split] for split in splits[1:])]
    parts = deal(pool, wanted, names=records.strata(pool), seed=seed)
    moved = list(records.records)
    for number, part in zip(drawn_from, parts, strict=True):
        moved[number] = moved[number]._replace(split=splits[part])
    return records._replace(records=tuple(moved))


def parted_groups(records: Records, kind: Literal["split", "fold"] = "split") -> dict[str, tuple[str, ...]]:
    """The groups that lie in several splits, or folds, with these."""
    places = defaultdict(set)
    for record in records.records:
        if record.group:
            places[record.group].add(getattr(record, kind))
    return {group: tuple(sorted(found)) for group, found in places.items() if len(found) > 1}


def describe_parted(records: Records, kind: Literal["split", "fold"] = "split") -> list[str]:
    """One line, if what belongs together lies in several splits, or folds."""
    if not have_groups(records.records):
        return []
    groups, found = list(parted_groups(records, kind)), []
    if groups:
        found.append(f"{len(groups)} groups lie in several {kind}s ({_some(groups)})")
    same = [each for each in same_pictures(records.records) if len({getattr(r, kind) for r in each.records}) > 1]
    if same:
        pairs = list(dict.fromkeys(" and ".join(each.groups) for each in same))
        found.append(f"{len(same)} pictures lie in groups of different {kind}s ({_some(pairs)})")
    if not found:
        return []
    return [f"warning: {'; '.join(found)}: figures will be too good; `saccade data check` names them all"]


def _apportion(sizes: list[int], share: float) -> list[int]:
    exact = [share * size for size in sizes]
    quota = [math.floor(part) for part in exact]
    left_over = round(share * sum(sizes)) - sum(quota)
    for number in sorted(range(len(sizes)), key=lambda number: quota[number] - exact[number])[:left_over]:
        quota[number] += 1
    return quota


def _require_images(records: Records) -> None:
    if records.task == "single" and len(records.classes) < 2:
        raise DataError(
            f"{records.root}: only the class {records.classes}; a classifier needs at least two to tell apart"
        )
    sizes = records.sizes()
    if not sizes["train"]:
        raise DataError(f"{records.root}: no training images; put some into the split 'train'")
    if not sizes["val"]:
        alone = "all training images are of one group" if have_groups(records.records) else ""
        raise DataError(
            f"{records.root}: {alone or 'no class has two training images'}, so none can be held out for validation; "
            "add images"
        )


def _shortages(records: Records) -> list[str]:
    counts, sizes = records.counts(), records.sizes()
    notes = []
    single = [label for label, count in counts["train"].items() if count == 1]
    if single:
        notes.append(f"{_name_some(single)} one training image only: add more if you can")
    for split in SPLITS:
        empty = [label for label, count in counts[split].items() if count == 0]
        if not sizes[split]:
            notes.append("no test split given: no test accuracy can be measured")
        elif empty:
            notes.append(f"{_name_some(empty)} no {split} images")
    return notes


def _name_some(labels: list[str]) -> str:
    return f"class {_some(labels)} has" if len(labels) == 1 else f"{len(labels)} classes ({_some(labels)}) have"


def _some(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (", …" if len(names) > 5 else "")
