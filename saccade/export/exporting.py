"""A run → a checked file: traced, written beside its place, compared with PyTorch, and only then put there."""

import json
import os
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from saccade.building import load_model
from saccade.evaluation.calibration import with_temperatures
from saccade.export.formats import OPSET, choose_format
from saccade.export.parity import Check, Images, compare, find_images, vary
from saccade.export.program import HardModel, first_line, name_of, trace
from saccade.runs import find_model_folder


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
    model = load_model(find_model_folder(run))
    size = image_size or model.config.image_size
    images = find_images(run, check, config=model.config, image_size=size)
    hard = HardModel(model)
    graph = trace(hard, size, static=static)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}-") as beside:
        part = Path(beside) / path.name
        varied = Images(vary(images.batches, graph.fixed), images.source)
        try:
            chosen.write(graph, part, describe(model), opset)
            found = compare(hard, chosen.open(part), varied, graph.outputs)
        except ValueError:
            raise
        except Exception as error:  # exporters and runtimes meet what they lack with almost any exception
            raise ValueError(f"{name_of(model)} cannot be exported as {path.suffix}: {first_line(error)}") from error
        os.replace(part, path)
    return Exported(path, graph.fixed, found)


def describe(model: Any) -> dict[str, str]:
    """What a user of the file must know, as the file's metadata; each value is JSON, null where there is no such thing.

    preparation: what to do with an image first: resize it to a height and width, cut the center out.
    task:        without the temperature, by which the file's logits are divided already.
    decision:    the rule for the probabilities, as in the model's config.
    """
    config = model.config
    facts = {
        "task": with_temperatures(config.task, []),
        "decision": config.decision,
        "classes": model.task.classes,
        "image_size": config.image_size,
        "preparation": asdict(config.preparation),
        "system": config.system,
        "patch": model.extraction and model.extraction.patch,
        "view_scale": model.view and model.view.scale,
        "saccade": version("saccade"),
    }
    return {name: json.dumps(value, ensure_ascii=False) for name, value in facts.items()}
