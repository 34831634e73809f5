"""A model lent out in evaluation mode, or built to be filled with weights from a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import nn

_weights_follow = ContextVar("weights_follow", default=False)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, so that no running mean moves; then every part in the mode it was in.

    >>> model = nn.Sequential(nn.Dropout().eval(), nn.Dropout())
    >>> with evaluating(model):
    ...     [part.training for part in model.modules()]
    [False, False, False]
    >>> [part.training for part in model.modules()]
    [True, False, True]
    """
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def weights_follow() -> Iterator[None]:
    """What is built in here has its weights loaded next: what it would find out from those it begins with can wait.

    >>> with weights_follow():
    ...     do_weights_follow()
    True
    """
    token = _weights_follow.set(True)
    try:
        yield
    finally:
        _weights_follow.reset(token)


def do_weights_follow() -> bool:
    """Whether this is called within `weights_follow`."""
    return _weights_follow.get()
