"""Tests for machines with a GPU: `pytest -m gpu`, once, and send us what it prints.

Without a GPU they are skipped. None can pass on a processor: each must have used memory of the GPU.
"""

import pytest
import torch


@pytest.fixture(autouse=True)
def cuda():
    """The GPU, and the proof that a test used it."""
    if not torch.cuda.is_available():
        pytest.skip("no GPU that torch can use")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.max_memory_allocated()
    yield torch.device("cuda")
    assert torch.cuda.max_memory_allocated() > before, "the test never used the GPU"


@pytest.fixture
def two_gpus():
    """Two of them, or a skip that says so."""
    if torch.cuda.device_count() < 2:
        pytest.skip(f"{torch.cuda.device_count()} GPU, two are needed")
