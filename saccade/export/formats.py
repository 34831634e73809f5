"""graph → file, and file → answers: one entry of `FORMATS` per kind of file, chosen by its suffix."""

import json
import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from saccade.export.program import DIMENSIONS, Graph
from saccade.extras import require

Run = Callable[[np.ndarray], Sequence[np.ndarray]]

OPSET = 18  # the first whose resize knows antialiasing


class Format(NamedTuple):
    """How a graph is written with its metadata and opset, and how the file is run."""

    write: Callable[[Graph, Path, dict[str, str], int], None]
    open: Callable[[Path], Run]
    extra: str | None = None


def choose_format(path: Path) -> Format:
    """The format of a file, by its suffix; an error if it needs a package that is not there."""
    if path.suffix not in FORMATS:
        raise ValueError(
            f"{path} ends in {path.suffix!r}, expected {' or '.join(FORMATS)}: the suffix says what to write"
        )
    chosen = FORMATS[path.suffix]
    if chosen.extra:
        require(chosen.extra, f"a file that ends in {path.suffix}")
    return chosen


def _write_onnx(graph: Graph, path: Path, metadata: dict[str, str], opset: int) -> None:
    from saccade.export.operators import TRANSLATIONS

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        onnx: Any = torch.onnx.export(
            graph.program,
            dynamo=True,
            input_names=["image"],
            output_names=list(graph.outputs),
            opset_version=opset,
            custom_translation_table=TRANSLATIONS,
            verbose=False,
        )
    onnx.model.metadata_props.update(metadata)
    _name_dimensions(onnx.model)
    onnx.save(path, external_data=False)


def _name_dimensions(model: Any) -> None:
    """Batch, height and width instead of torch's s17, s42 …, wherever the file mentions them."""
    from onnxscript import ir

    shape = model.graph.inputs[0].shape
    names = {shape[axis]: ir.SymbolicDim(name) for name, axis in DIMENSIONS.items() if not isinstance(shape[axis], int)}
    values = [*model.graph.inputs, *(value for node in model.graph for value in node.outputs)]
    for value in values:
        if value.shape is not None:
            value.shape = ir.Shape([names.get(side, side) for side in value.shape])


def _open_onnx(path: Path) -> Run:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda image: [np.asarray(output) for output in session.run(None, {"image": image})]


def _write_program(graph: Graph, path: Path, metadata: dict[str, str], opset: int) -> None:
    for node in graph.program.graph.nodes:
        if node.target is math.floor:  # the format has no floor; of sizes, which are positive, it is the same
            node.target = math.trunc
    torch.export.save(graph.program, path, extra_files={"saccade.json": json.dumps(metadata)})


def _open_program(path: Path) -> Run:
    module = torch.export.load(path).module()
    return lambda image: [output.numpy() for output in module(torch.from_numpy(image))]


FORMATS = {".onnx": Format(_write_onnx, _open_onnx, "export"), ".pt2": Format(_write_program, _open_program)}
