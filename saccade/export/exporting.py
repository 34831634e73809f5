"""A run → a checked file: traced, written beside its place, compared with PyTorch, and only then put there."""

import json
import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from saccade.building import load_model
from saccade.export.formats import OPSET, choose_format
from saccade.export.parity import Check, Images, compare, find_images, vary
from saccade.export.program import HardModel, first_line, name_of, trace
from saccade.predict.preparation import Preparation, find_model


class Exported(NamedTuple):
    """What was written, which dimensions of the image the file takes in one size only, and how it was checked."""

    path: Path
    fixed: dict[str, int]
    check: Check


def export_model(
    run: Path | str,
    path: Path | str,
    *,
    image_size: tuple[int, int] | None = None,
    opset: int = OPSET,
    static: bool = False,
    check: Path | None = None,
) -> Exported:
    """Write the best model of `run`, or one that `save_pretrained` wrote, as ONNX (.onnx) or for torch.export (.pt2).

    image_size: height and width to trace with, and the only ones if the file is `static` (default: those of training).
    opset:      of the ONNX file; from 18 on.
    check:      a folder of images to compare on (default: the run's own, else random ones).

    >>> export_model("runs/signs-perturbed", "signs.onnx").fixed  # doctest: +SKIP
    {}
    """
    run, path = Path(run), Path(path)
    chosen = choose_format(path)
    if opset < OPSET:
        raise ValueError(f"opset is {opset}, expected {OPSET} or later: earlier ones cannot resize with antialiasing")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no folder {path.parent} to write {path.name} into: make it first")
    folder, preparation = find_model(run)
    model = load_model(folder)
    size = image_size or model.config.image_size
    images = find_images(run, check, image_size=size, channels=model.config.channels)
    hard = HardModel(model)
    graph = trace(hard, size, static=static)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}-") as beside:
        part = Path(beside) / path.name
        varied = Images(vary(images.batches, graph.fixed), images.source)
        try:
            chosen.write(graph, part, describe(model, preparation), opset)
            found = compare(hard, chosen.open(part), varied, graph.outputs)
        except ValueError:
            raise
        except Exception as error:  # exporters and runtimes meet what they lack with almost any exception
            raise ValueError(f"{name_of(model)} cannot be exported as {path.suffix}: {first_line(error)}") from error
        os.replace(part, path)
    return Exported(path, graph.fixed, found)


def describe(model: Any, preparation: Preparation) -> dict[str, str]:
    """What a user of the file must know, as the file's metadata; each value is JSON, null where there is no such thing.

    resize: height and width that all images are brought to first.
    crop:   height and width of the center that is then cut out.
    """
    config, crop = model.config, preparation.crop
    facts = {
        "classes": config.classes or [str(number) for number in range(config.num_classes)],
        "image_size": config.image_size,
        "resize": preparation.resize,
        "crop": crop and crop.size,
        "system": config.system,
        "patch": list(model.extraction.patch) if hasattr(model, "extraction") else None,
        "view_scale": model.view.scale if hasattr(model, "view") else None,
        "saccade": version("saccade"),
    }
    return {name: json.dumps(value, ensure_ascii=False) for name, value in facts.items()}
