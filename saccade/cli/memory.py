"""Memory that was freed is kept for the next step instead of being given back to the system.

A step makes and frees the same hundreds of megabytes again and again: images as floats, activations. The C library of
Linux gives large blocks back at once, and the system has to clear every page of them anew at the next step. How much
time that takes is measured by `benchmarks/bench_training_step.py`: half of a step on a virtual machine whose page
faults are slow. GPUs have torch's own cache and are not concerned.
"""

import ctypes

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_MOST_KEPT = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell the C library; False where it is not glibc, and nothing is changed.

    The resident memory of the process then stays at its peak until it ends, within 2 GB.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, _MOST_KEPT))
