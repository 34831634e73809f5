"""Folds: every image is tested once, by a model that was trained on the other folds.

The folds are those of a table's column `fold`, or are drawn: by group, stratified by class (`groups.deal`). The test
images of run i are fold i; its validation images are drawn from the others, as always.
"""

from saccade.data.groups import count_units, deal
from saccade.data.records import DataError, Records
from saccade.tasks.labels import DEALT_BY, sort_labels


def fold_names(records: Records) -> tuple[str, ...]:
    """The folds there are, in order; none where the data set has no folds."""
    return sort_labels({record.fold for record in records.records} - {""})


def with_folds(records: Records, count: int | None, *, seed: int) -> Records:
    """The records with their folds, which are drawn where the data set has none; `notes` tell how."""
    names = fold_names(records)
    if names:
        if len(names) == 1:
            raise DataError(f"{records.root}: all images are in the fold {names[0]!r}; folds need at least two")
        given = f"the data set has {len(names)} folds of its own ({', '.join(names)}), which are used"
        note = given if count in (None, len(names)) else f"{given} instead of {count} drawn ones"
        return records._replace(notes=(*records.notes, note))
    if count is None or count < 2:
        raise DataError(f"{records.root}: no folds; give a column fold, or at least two with --folds")
    if count > (units := count_units(records.records)):
        raise DataError(
            f"{records.root}: {count} folds and {units} groups, which are never parted (an image alone is one, and "
            f"groups with the same picture are one): give at most --folds {units}"
        )
    names = records.strata(records.records)
    parts = deal(records.records, [1 / count] * count, names=names, seed=seed)
    drawn = (record._replace(fold=str(part)) for record, part in zip(records.records, parts, strict=True))
    by = DEALT_BY[records.task]
    note = f"drew {count} folds from all {len(parts)} images, whatever their splits, by group and {by}, seed {seed}"
    return records._replace(records=tuple(drawn), notes=(*records.notes, note))


def hold_out(records: Records, fold: str) -> Records:
    """One fold is for the test, the others are for training."""
    if fold not in (names := fold_names(records)):
        raise DataError(f"{records.root}: no fold {fold!r}; there are {', '.join(names) or 'none'}")
    split = {True: "test", False: "train"}
    return records._replace(records=tuple(each._replace(split=split[each.fold == fold]) for each in records.records))
