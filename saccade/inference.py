"""model → the same model for inference only: batch norms folded into the convolutions before them, channels last.

In evaluation mode a batch norm is a fixed scale and shift of each channel, which the convolution before it can do:

    γ (W x + b − μ) / √(v + ε) + β = W′ x + b′,    W′ = γ W / √(v + ε),    b′ = γ (b − μ) / √(v + ε) + β

Where no other layer reads the convolution's own output, that is. The graph that torch.fx traces tells.
"""

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, TypeVar

import torch
from timm.layers import BatchNormAct2d, Conv2dSame  # pyright: ignore[reportPrivateImportUsage]
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from saccade.features.cells import FixedPadding
from saccade.system import System

Model = TypeVar("Model", bound=nn.Module)


def for_inference(model: Model, *, compile: bool = False) -> Model:
    """A copy of `model` in evaluation mode without gradients that gives the same answers in less time.

    compile: let torch compile the feature network of a system, with its weights as constants laid out as the processor
             reads them best; its first call for each number and size of patches then takes up to a minute.

    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    >>> for_inference(model)
    Sequential(
      (0): Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
      (1): Identity()
      (2): ReLU()
    )
    """
    model = deepcopy(model).eval().requires_grad_(False)
    fold_batch_norms(model)
    model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    if isinstance(model, System):
        model.folded = True
        if compile and isinstance(model.features, nn.Module):
            model.features.compile(dynamic=False, options={"freezing": True})
    return model


def fold_batch_norms(model: nn.Module) -> int:
    """Fold in place what can be folded, and say how many; what torch.fx cannot trace is tried part by part."""
    places = Counter(id(layer) for _, layer in model.named_modules(remove_duplicate=False))
    return _fold_parts(model, {layer for layer, count in places.items() if count > 1})


def _fold_parts(model: nn.Module, shared: set[int]) -> int:
    """`shared` layers stand in several parts, each of which sees only one of their uses."""
    try:
        pairs = [(conv, norm) for conv, norm in _pairs(model) if id(_layer(model, conv)) not in shared]
    except Exception:  # any: a forward may do with a tracer's stand-ins whatever fails; its parts may be simpler
        return sum(_fold_parts(child, shared) for child in model.children())
    for conv_name, norm_name in pairs:
        conv, norm = _layer(model, conv_name), _layer(model, norm_name)
        _fold(conv, norm)
        # Some of timm's norms bring their activation.
        parts: list[Any] = [norm.drop, norm.act] if isinstance(norm, BatchNormAct2d) else []
        rest = nn.Sequential(*parts) if parts else nn.Identity()
        model.set_submodule(norm_name, rest)
    return len(pairs)


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        # timm's layers look at shapes, of which a tracer knows none; those around a norm do not.
        library = m.__module__.startswith(("torch.nn", "timm.layers", "torchvision.ops"))
        around = any(isinstance(child, nn.BatchNorm2d) for child in m.children())
        return isinstance(m, nn.Conv2d) or (library and not around and not isinstance(m, nn.Sequential))


def _pairs(model: nn.Module) -> Iterator[tuple[str, str]]:
    """Names of each convolution and the batch norm that alone reads it; both must run once in a forward."""
    graph = _Tracer().trace(model)
    runs = Counter(node.target for node in graph.nodes if node.op == "call_module")
    for node in graph.nodes:
        before = node.args[0] if node.op == "call_module" and node.args else None
        if not isinstance(before, fx.Node) or before.op != "call_module" or len(before.users) != 1:
            continue
        conv, norm = _layer(model, before.target), _layer(model, node.target)
        once = runs[before.target] == runs[node.target] == 1
        if once and _is_plain(conv) and _is_fixed_norm(norm):
            yield str(before.target), str(node.target)


def _layer(model: nn.Module, name: Any) -> Any:
    return model.get_submodule(name)


def _is_plain(layer: nn.Module) -> bool:
    """A convolution by its own weight: not by one that is standardized or made of others at every call."""
    return type(layer) in (nn.Conv2d, Conv2dSame, FixedPadding) and "weight" in layer._parameters


def _is_fixed_norm(layer: nn.Module) -> bool:
    """A batch norm whose scale and shift do not depend on the batch."""
    return isinstance(layer, nn.BatchNorm2d) and layer.track_running_stats and layer.running_var is not None


def _fold(conv: nn.Conv2d, norm: Any) -> None:
    weight, bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
    )
    conv.weight, conv.bias = (nn.Parameter(value, requires_grad=False) for value in (weight, bias))
