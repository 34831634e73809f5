"""A million candidates within two gigabytes, in a process of its own."""

import subprocess
import sys

import pytest

STEP = """
import resource, torch
from saccade import perturbed_topk
scores = torch.rand(1, 1_000_000).requires_grad_()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
selection = perturbed_topk(scores, 100, sigma=0.05, num_samples=500)
selection.weight.backward(torch.randn_like(selection.weight))
assert scores.grad.abs().sum() > 0
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux only")
def test_a_million_candidates_stay_within_two_gigabytes():
    run = subprocess.run([sys.executable, "-c", STEP], check=True, capture_output=True, text=True)
    assert float(run.stdout) < 2.0
