"""Memory that was freed: kept for the next step instead of being given back to the system, or given back at once.

A step makes and frees the same hundreds of megabytes again and again: images as floats, activations. The C library of
Linux gives large blocks back at once, and the system has to clear every page of them anew at the next step. How much
time that takes is measured by `benchmarks/bench_training_step.py`: half of a step on a virtual machine whose page
faults are slow. GPUs have torch's own cache and are not concerned.

A server has one large image now and then, between small ones; by default glibc would keep up to twice its memory.
"""

import ctypes

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_MOST_KEPT, _LEAST_KEPT = 2**31 - 1, 2**20


def keep_freed_memory() -> bool:
    """Tell the C library; False where it is not glibc, and nothing is changed.

    The resident memory of the process then stays at its peak until it ends, within 2 GB.
    """
    return _tell({_MMAP_MAX: 0, _TRIM_THRESHOLD: _MOST_KEPT})


def return_freed_memory() -> bool:
    """Tell the C library to give blocks of a megabyte and more back; False where it is not glibc."""
    return _tell({_MMAP_THRESHOLD: _LEAST_KEPT, _TRIM_THRESHOLD: _LEAST_KEPT})


def _tell(options: dict[int, int]) -> bool:
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return all(mallopt(option, value) for option, value in options.items())
