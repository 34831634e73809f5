"""Pixels from one process to another in shared memory that is used again: nothing is copied, and little is fresh.

Fresh memory costs a third of decoding a JPEG into it, a copy as much, and to map memory again a tenth. So the process
that decodes has a few blocks, and the one that asked (`LentBlocks`) keeps them mapped, says with each request which of
them hold nobody's pixels any more, and which it gives back.
"""

import ctypes
import fcntl
import math
import mmap
import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np

KEPT_BYTES = 2**27  # in blocks that hold nobody's pixels, for pictures of 44 megapixels

SEALED = 0x0002 | 0x0004  # F_SEAL_SHRINK, F_SEAL_GROW: shared memory that shrinks would end whoever reads it
_SEAL_SEAL = 0x0001


class Block(NamedTuple):
    """Memory that can be shared."""

    number: int
    descriptor: int
    size: int


class Shared:
    """An array in memory that is handed over to another process, and comes back as room for a later one."""

    def __init__(self):
        self._blocks: dict[int, Block] = {}
        self._free: set[int] = set()
        self._numbers = count()
        self._array: tuple[np.ndarray, Block] | None = None

    def sort_out(self, free: Iterable[int], gone: Iterable[int]) -> None:
        """What the other side says of the blocks: which it has no pixels in, and which it has no use for."""
        self._drop()
        self._free = set(free)
        for number in gone:
            os.close(self._blocks.pop(number).descriptor)

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """As `np.empty`, but that the array before is lost."""
        self._drop()
        size = math.prod(shape) * np.dtype(dtype).itemsize
        fits = [block for block in self._blocks.values() if block.number in self._free and block.size >= size]
        block = min(fits, key=lambda block: block.size) if fits else Block(next(self._numbers), _new_memory(size), size)
        memory = mmap.mmap(block.descriptor, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self._array = np.frombuffer(memory, dtype).reshape(shape), block
        return self._array[0]

    def _drop(self) -> None:
        """Let go of an array that was not handed over: its file was bad after all."""
        if self._array and self._array[1].number not in self._blocks:
            os.close(self._array[1].descriptor)
        self._array = None

    def hand_over(self, pixels: np.ndarray) -> tuple[Block, list[int]]:
        """Where `pixels` are, with the descriptor if it is new to the other side; copied if they lie elsewhere."""
        if self._array is None or pixels is not self._array[0]:
            self.allocate(pixels.shape, pixels.dtype)[:] = pixels
        assert self._array
        block, self._array = self._array[1], None
        known = block.number in self._blocks
        self._blocks[block.number] = block
        return block, [] if known else [block.descriptor]


def _new_memory(size: int) -> int:
    descriptor = os.memfd_create("pixels", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEAL_SEAL | SEALED)  # type: ignore[attr-defined]
    return descriptor


class LentBlocks:
    """The same blocks on the side that asked."""

    def __init__(self):
        self._blocks: dict[int, LentBlock] = {}  # the oldest first

    def sort_out(self) -> dict[str, list[int]]:
        """Of the blocks that hold nobody's pixels any more, those to use again and those to give back."""
        free = {number: block for number, block in self._blocks.items() if not block.is_lent}
        gone, size = [], sum(len(block.memory) for block in free.values())
        while size > KEPT_BYTES:
            gone.append(next(iter(free)))
            size -= len(free.pop(gone[-1]).memory)
            del self._blocks[gone[-1]]
        return {"free": [*free], "gone": gone}

    def array(self, about: Mapping[str, Any], descriptors: Sequence[int]) -> np.ndarray:
        """The pixels that were told of; a block that is new comes with its descriptor."""
        if descriptors:
            self._blocks[about["block"]] = LentBlock(_map(descriptors[0], about["bytes"]))
        return self._blocks[about["block"]].lend(about["shape"], np.dtype(about["dtype"]))


class LentBlock:
    """One of them, mapped."""

    def __init__(self, memory: mmap.mmap):
        self.memory = memory
        self._lease: Callable[[], object | None] = lambda: None

    @property
    def is_lent(self) -> bool:
        """Whether anybody still has an array that lies in it."""
        return self._lease() is not None

    def lend(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """The array that lies in it."""
        # Arrays that are made of this one refer to what has the memory, and skip it itself.
        lease: Any = (ctypes.c_ubyte * (math.prod(shape) * dtype.itemsize)).from_buffer(self.memory)
        self._lease = weakref.ref(lease)
        return np.frombuffer(lease, dtype).reshape(shape)


def _map(descriptor: int, size: int) -> mmap.mmap:
    try:
        sealed = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & SEALED == SEALED  # type: ignore[attr-defined]
        if not sealed or os.fstat(descriptor).st_size != size:
            raise RuntimeError(f"the process that reads images announced {size} bytes and sent others")
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)
