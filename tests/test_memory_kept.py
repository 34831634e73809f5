"""Freed memory is kept: the same block again costs no page faults."""

import subprocess
import sys

import pytest

COUNT = """
import resource, sys
import torch
from saccade.cli.memory import keep_freed_memory
if sys.argv[1] == "kept" and not keep_freed_memory():
    sys.exit(3)
torch.ones(2**24)  # 64 MB
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def count_page_faults(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", COUNT, mode], capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip("the C library is not glibc")
    return int(done.stdout)


def test_blocks_that_were_freed_are_used_again():
    assert count_page_faults("kept") < count_page_faults("given back") / 5
