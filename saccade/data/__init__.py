"""Data sets: one's own images and published sets as `Records`, and `Records` as samples and batches.

Names are imported on first use: listing a data set or making one must not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saccade.data.dataset import Batch, ImageDataset, collate
    from saccade.data.inspection import Report, examine
    from saccade.data.loading import load
    from saccade.data.records import DataError, Record, Records
    from saccade.data.sample import Sample

_HOME = {
    "load": "loading",
    "Record": "records",
    "Records": "records",
    "DataError": "records",
    "ImageDataset": "dataset",
    "Sample": "sample",
    "Batch": "dataset",
    "collate": "dataset",
    "examine": "inspection",
    "Report": "inspection",
}

__all__ = [
    "Batch",
    "DataError",
    "ImageDataset",
    "Record",
    "Records",
    "Report",
    "Sample",
    "collate",
    "examine",
    "load",
]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
