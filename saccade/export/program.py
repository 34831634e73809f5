"""model → graph: the evaluation path, traced by torch.export, with as many free dimensions as the operators allow.

    image  B 3 H W in [0, 1]  →  logits B L,   boxes B K 4 (left, top, right, bottom in pixels),   scores B K

Logits are those of what is told: divided by the model's temperature, if it has one. Boxes and scores are those of the K
patches looked at, best first; scores are as the selection sees them, normalized per image. A system without a scorer
has no scores, one that does not choose has no boxes either.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from saccade.looking import best_first
from saccade.output import Output
from saccade.system import System

OUTPUTS = ("logits", "boxes", "scores")
DIMENSIONS = {"batch": 0, "height": 2, "width": 3}


class Graph(NamedTuple):
    """A traced model: the names of its outputs, and those of `DIMENSIONS` that are fixed, with their size."""

    program: ExportedProgram
    outputs: tuple[str, ...]
    fixed: dict[str, int]


class HardModel(nn.Module):
    """The outputs of a system as a plain tuple, the boxes best first."""

    def __init__(self, model: System):
        super().__init__()
        # A copy: neither the caller's gradients nor its mode are touched.
        self.model = deepcopy(model).eval().requires_grad_(False).to("cpu", torch.float32)

    def forward(self, image: Float[Tensor, "B C H W"]) -> tuple[Tensor, ...]:
        """As many of `OUTPUTS` as the system has."""
        output: Output = self.model(image)
        logits = self.model.task.temper(output.logits)
        if not output.chooses:
            return (logits,)
        boxes, scores = best_first(output)
        return (logits, boxes, scores) if scores.shape[1] else (logits, boxes)

    def margin(self, image: Float[Tensor, "B C H W"]) -> Float[Tensor, " B"]:
        """By how much a score must change before other patches are chosen, or the same in another order."""
        output: Output = self.model(image)
        if output.scores is None or output.selection is None:
            return torch.full((len(image),), torch.inf)
        # Down to the lowest that was chosen, which suppression of neighbors may have found far below the K best.
        lowest = output.scores.gather(1, output.selection.index).amin(dim=1, keepdim=True)
        best = min(int((output.scores >= lowest).sum(dim=1).max()) + 1, output.scores.shape[1])
        scores = output.scores.topk(best, dim=1).values
        return -scores.diff(dim=1).amax(dim=1) if best > 1 else torch.full((len(image),), torch.inf)


def trace(hard: HardModel, image_size: tuple[int, int], *, static: bool = False) -> Graph:
    """The graph of a model; with `static` for batches of one image of `image_size` (height, width) only."""
    _refuse(hard.model)
    static = static or not hard.model.exports_sizes
    graph = _trace(hard, image_size, batch=1 if static else 2, free=() if static else tuple(DIMENSIONS))
    if graph.fixed.get("batch", 1) != 1:  # a batch of two would be of no use
        graph = _trace(hard, image_size, batch=1, free=("height", "width"))
    return graph


@torch.no_grad()
def _trace(hard: HardModel, image_size: tuple[int, int], *, batch: int, free: tuple[str, ...]) -> Graph:
    image = torch.rand(batch, hard.model.config.channels, *image_size, generator=torch.Generator().manual_seed(0))
    shape = {DIMENSIONS[name]: Dim.AUTO for name in free}
    with _plain_attention():
        try:
            program = torch.export.export(
                hard, (image,), dynamic_shapes=(shape,), prefer_deferred_runtime_asserts_over_guards=True
            )
        except (RuntimeError, ValueError) as error:  # what torch's tracer raises where a graph would need values
            raise ValueError(f"{name_of(hard.model)} cannot be written as a graph: {first_line(error)}") from error
        outputs = OUTPUTS[: len(hard(image))]
    traced = next(node for node in program.graph.nodes if node.name == "image").meta["val"].shape
    fixed = {name: int(traced[axis]) for name, axis in DIMENSIONS.items() if isinstance(traced[axis], int)}
    return Graph(program, outputs, fixed)


def _refuse(model: System) -> None:
    system, selection = model.config.system, model.config.selection.get("name")
    if model.why_not_export:
        raise ValueError(f"the system {system} cannot be exported: {model.why_not_export}; choose another model")
    chooser: Any = model.selection
    if chooser and not chooser.repeatable:
        raise ValueError(
            f"the selection {selection} cannot be exported: it draws other patches at every call; choose another"
        )
    if chooser and not chooser.discrete:
        raise ValueError(
            f"{name_of(model)} cannot be exported: its patches stay soft in evaluation; set selection.discrete to true"
        )


def name_of(model: System) -> str:
    """A model in the words of an error."""
    config = model.config
    return f"the system {config.system} with the selection {config.selection.get('name')}"


def first_line(error: Exception) -> str:
    """What an error says, without the page of advice that follows."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def _plain_attention() -> Iterator[None]:
    """Transformer layers as matrix products: their fused kernel is known to torch alone."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
