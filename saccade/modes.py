"""A model lent out in evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


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
