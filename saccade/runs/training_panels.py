"""`panels/<step>.npz`: how the model looked at the same few images at one moment of training."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

from saccade.files import whole_file


class Glance(NamedTuple):
    """How one image was looked at in the middle of training: `weight` says how much of each box is in each patch."""

    label: int
    image: UInt8[np.ndarray, "h w 3"]
    size: tuple[int, int]
    scores: Float[np.ndarray, "rows cols"]
    patches: UInt8[np.ndarray, "K P Q 3"]
    boxes: Int[np.ndarray, "S 4"]
    weight: Float[np.ndarray, "K S"]


class Panel(NamedTuple):
    """The same few images at one moment of training.

    progress: the share of training that was done, without phases that use no labels.
    sigma:    NaN where the selection has no noise.
    """

    step: int
    progress: float
    sigma: float
    glances: tuple[Glance, ...]


def write_panel(path: Path, panel: Panel) -> None:
    """Write `panel`; the file appears whole or not at all."""
    values: dict[str, Any] = {"step": panel.step, "progress": panel.progress, "sigma": panel.sigma}
    values["label"] = np.array([glance.label for glance in panel.glances])
    for place, glance in enumerate(panel.glances):
        values |= {f"{name}_{place}": np.array(value) for name, value in glance._asdict().items() if name != "label"}
    with whole_file(path) as part, part.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **values)


def read_panel(path: Path) -> Panel:
    """The panel in a file."""
    try:
        with np.load(path) as file:
            values = {name: file[name] for name in file.files}
        glances = tuple(_read_glance(values, place, int(label)) for place, label in enumerate(values["label"]))
        return Panel(int(values["step"]), float(values["progress"]), float(values["sigma"]), glances)
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise ValueError(f"{path}: not a panel of this version ({error}); delete it, or train again") from error


def _read_glance(values: dict[str, Any], place: int, label: int) -> Glance:
    height, width = values[f"size_{place}"]
    parts = {part: values[f"{part}_{place}"] for part in ("image", "scores", "patches", "boxes", "weight")}
    return Glance(label=label, size=(int(height), int(width)), **parts)
