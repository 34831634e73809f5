"""The time, told once a GPU has done what it was told."""

import time

import torch


def clock_now() -> float:
    """Seconds since some moment."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
