"""`panels/<step>.npz`: how the model looked at the same few images at one moment of training."""

from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from saccade.files import told, whole_file
from saccade.looking import Look


class Panel(NamedTuple):
    """The same few images at one moment of training.

    progress: the share of training that was done, without phases that use no labels.
    sigma:    NaN where the selection has no noise.
    looks:    each with a small picture of its image.
    """

    step: int
    progress: float
    sigma: float
    looks: tuple[Look, ...]


def write_panel(path: Path, panel: Panel) -> None:
    """Write `panel`; the file appears whole or not at all."""
    values: dict[str, Any] = {"step": panel.step, "progress": panel.progress, "sigma": panel.sigma}
    values["looks"] = len(panel.looks)
    for place, look in enumerate(panel.looks):
        values |= {f"{name}_{place}": np.array(value) for name, value in look._asdict().items()}
    with whole_file(path) as part, part.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **values)


def read_panel(path: Path) -> Panel:
    """The panel in a file."""
    try:
        with np.load(path) as file:
            values = {name: file[name] for name in file.files}
        looks = tuple(_read_look(values, place) for place in range(int(values["looks"])))
        return Panel(int(values["step"]), float(values["progress"]), float(values["sigma"]), looks)
    except Exception as error:  # of NumPy, zip and zlib
        raise ValueError(f"{path}: not a panel of this version ({told(error)}); delete it, or train again") from error


def _read_look(values: dict[str, Any], place: int) -> Look:
    arrays = {name: values[f"{name}_{place}"] for name in Look._fields}
    for name, annotation in get_type_hints(Look).items():
        if name not in ("size", "extent") and not isinstance(arrays[name], annotation):
            raise ValueError(f"{name}_{place} has the shape {arrays[name].shape} and holds {arrays[name].dtype}")
    return Look(**{**arrays, "size": tuple(arrays["size"].tolist()), "extent": tuple(arrays["extent"].tolist())})
