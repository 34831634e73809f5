"""The released Sinkhorn top-K: where plain iterations end, its gradient, and what is wrong with its plan."""

import pytest
import torch
from oracles import plain_sinkhorn, seeded
from torch import Tensor
from torch.testing import assert_close

from saccade import sinkhorn_topk
from saccade.selection import SinkhornTopK
from saccade.selection.sinkhorn_released import released_sinkhorn_topk


def rand(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=seeded(0), dtype=torch.float64)


@pytest.mark.parametrize(("n", "epsilon", "iterations"), [(60, 1e-4, 2000), (60, 0.01, 300), (10, 0.1, 1)])
def test_it_ends_where_plain_iterations_do(n, epsilon, iterations):
    scores = rand(2, n)
    expected = plain_sinkhorn(scores, 4, epsilon=epsilon, iterations=iterations)
    got = released_sinkhorn_topk(scores, 4, epsilon=epsilon, iterations=iterations).dense(n)
    assert_close(got, expected, atol=1e-7, rtol=1e-6)


SPREADS = {
    "uniform": lambda s: s,
    "peaked": lambda s: s**8,
    "three values": lambda s: (3 * s).floor() / 3,
    "partly outside": lambda s: torch.where(s < 0.3, -100.0, s),
}


@pytest.mark.parametrize("spread", SPREADS)
def test_it_reads_every_candidate_with_a_weight(spread):
    scores = SPREADS[spread](rand(3, 100))
    selection = released_sinkhorn_topk(scores, 5)
    assert (selection.dense(100) - plain_sinkhorn(scores, 5, epsilon=1e-4, iterations=2000)).abs().max() < 1e-7


def test_it_fills_several_slots_with_one_candidate():
    """Once a score stands out: its slots' sums are right and its candidates' wrong. The solved plan has both."""
    scores = 0.5 * rand(1, 500)
    scores[:, 7] = 1.0
    released = released_sinkhorn_topk(scores, 5).dense(500)
    solved = sinkhorn_topk(scores, 5, epsilon=1e-4).dense(500)
    assert_close(released.sum(dim=2), torch.ones(1, 5).double())
    assert released[0, :, 7].round().sum() >= 3
    assert solved.sum(dim=1).max() <= 1 + 1e-9


def test_its_gradient_is_the_right_one_where_its_plan_is():
    scores = rand(2, 12).requires_grad_()
    upstream = torch.randn(2, 3, 12, generator=seeded(1), dtype=torch.float64)
    ended = released_sinkhorn_topk(scores, 3, epsilon=0.1, iterations=600).dense(12)
    solved = sinkhorn_topk(scores, 3, epsilon=0.1, tolerance=1e-12).dense(12)
    (got,), (expected,) = (torch.autograd.grad((plan * upstream).sum(), scores) for plan in (ended, solved))
    assert_close(got, expected, atol=1e-6, rtol=1e-6)


def test_its_gradient_solves_the_algorithms_equations_elsewhere():
    """The whole system of N + K + 1 unknowns, with the marginals as they should be and the plan as it is."""
    n, k, epsilon = 9, 3, 0.02
    scores = rand(1, n).requires_grad_()
    upstream = torch.randn(k, n, generator=seeded(1), dtype=torch.float64)
    slots = released_sinkhorn_topk(scores, k, epsilon=epsilon, iterations=4).dense(n)
    (got,) = torch.autograd.grad((slots[0] * upstream).sum(), scores)
    with torch.no_grad():
        # Place 0 is the first column of the plan, which a selection does not keep.
        cost = (scores[0, :, None] - torch.arange(k + 1)) ** 2 / epsilon
        log_plan = -cost
        for _ in range(4):
            log_plan = log_plan - log_plan.logsumexp(dim=1, keepdim=True)
            log_plan = log_plan - log_plan.logsumexp(dim=0) + torch.tensor([n - k] + [1] * k).double().log()
        plan = log_plan.exp()  # N K+1
        assert (plan.sum(dim=1) - 1).abs().max() > 0.1
        grad = torch.cat([torch.zeros(1, n).double(), upstream]).T
        system = torch.cat(
            [
                torch.cat([torch.eye(n).double(), plan[:, 1:]], dim=1),
                torch.cat([plan[:, 1:].T, torch.eye(k).double()], dim=1),
            ]
        )
        known = torch.cat([(grad * plan).sum(dim=1), (grad * plan).sum(dim=0)[1:]])
        alpha, beta = torch.linalg.solve(system, known).split([n, k])
        beta = torch.cat([torch.zeros(1).double(), beta])
        slope = 2 * (scores[0, :, None] - torch.arange(k + 1)) / epsilon
        expected = ((alpha[:, None] + beta - grad) * plan * slope).sum(dim=1)
    assert_close(got[0], expected, atol=1e-6, rtol=1e-6)


def test_it_stays_finite_where_slots_are_hard():
    scores = torch.linspace(0, 1, 20).repeat(2, 1).requires_grad_()
    selection = released_sinkhorn_topk(scores, 4)
    selection.weight.backward(torch.randn(selection.weight.shape, generator=seeded(0)))
    assert scores.grad.isfinite().all()


def test_the_module_takes_the_solver_it_is_told():
    scores = rand(2, 30)
    for solver, function in (("newton", sinkhorn_topk), ("released", released_sinkhorn_topk)):
        assert torch.equal(SinkhornTopK(4, solver=solver)(scores).dense(30), function(scores, 4).dense(30))
    with pytest.raises(ValueError, match="k is 5 of 5 candidates"):
        released_sinkhorn_topk(rand(1, 5), 5)
