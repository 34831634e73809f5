"""Properties that hold for any scores: extreme, tied, duplicated; and the linear program that top-K solves."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch.testing import assert_close

from saccade import hard_topk, perturbed_topk

VALUES = st.one_of(
    st.floats(-(2.0**100), 2.0**100, width=32),
    st.floats(-1, 1, width=32),
    st.sampled_from([0.0, 1.0, -1.0, 1e-38, 3e38, -3e38]),
)


@st.composite
def score_batches(draw):
    batch, n = draw(st.integers(1, 3)), draw(st.integers(1, 12))
    values = draw(st.lists(VALUES, min_size=batch * n, max_size=batch * n))
    return torch.tensor(values, dtype=torch.float32).view(batch, n), draw(st.integers(1, n))


@settings(deadline=None, max_examples=150)
@given(
    score_batches(),
    st.sampled_from([0.0, 1e-6, 0.05, 10.0]),
    st.sampled_from(["normal", "gumbel"]),
    st.sampled_from(["conditional", "score", "diagonal"]),
    st.integers(0, 1000),
)
def test_perturbed_selection_is_well_formed(batch, sigma, noise, gradient, seed):
    scores, k = batch
    leaf = scores.clone().requires_grad_()
    options = {"sigma": sigma, "noise": noise, "gradient": gradient, "num_samples": 20}
    selection = perturbed_topk(leaf, k, generator=torch.Generator().manual_seed(seed), **options)
    dense = selection.dense(scores.shape[1])
    assert (selection.index.diff(dim=1) > 0).all()  # ascending, none twice
    assert_close(dense.sum(dim=2), torch.ones(len(scores), k))  # every slot is a mixture
    assert (dense.sum(dim=1) <= 1 + 1e-5).all()  # no candidate in two slots of one draw
    mean_index = dense.double() @ torch.arange(scores.shape[1], dtype=torch.float64)
    assert (mean_index.diff(dim=1) > 0).all()  # slots in index order: the paper's last constraint
    dense.square().sum().backward()
    assert leaf.grad.isfinite().all()


@settings(deadline=None, max_examples=150)
@given(score_batches())
def test_hard_topk_takes_the_best_and_the_first_among_equals(batch):
    scores, k = batch
    for row, index in zip(scores.tolist(), hard_topk(scores, k).index.tolist(), strict=True):
        expected = sorted(sorted(range(len(row)), key=lambda i: (-row[i], i))[:k])
        assert index == expected


@pytest.mark.parametrize(("n", "k"), [(3, 1), (4, 2), (5, 3), (6, 6)])
@pytest.mark.parametrize("seed", range(3))
def test_index_sorted_topk_solves_the_linear_program(n, k, seed):
    """max ⟨Y, s1ᵀ⟩ over the paper's constraint set: no feasible Y beats the indicators of hard_topk.

    For integral solutions the strict order of the slots is Σ_i i·Y[i, k] + 1 ≤ Σ_j j·Y[j, k+1]; the relaxation below
    (≤ 0) contains it, so the optimum over the relaxation bounds the paper's, and hard_topk attains it strictly ordered.
    """
    scores = np.random.default_rng(seed).normal(size=n)
    objective = -np.repeat(scores, k)  # Y[i, k] at i·K + k
    one_per_slot = np.tile(np.eye(k), (1, n))
    at_most_once = np.kron(np.eye(n), np.ones((1, k)))
    order = np.zeros((k - 1, n * k))
    for slot in range(k - 1):
        order[slot, slot::k] = np.arange(n)
        order[slot, slot + 1 :: k] = -np.arange(n)
    best = linprog(
        objective,
        A_ub=np.vstack([at_most_once, order]),
        b_ub=np.concatenate([np.ones(n), np.zeros(k - 1)]),
        A_eq=one_per_slot,
        b_eq=np.ones(k),
        bounds=(0, None),
    )
    indicators = hard_topk(torch.from_numpy(scores)[None], k).dense(n)[0].numpy()  # K N
    y = indicators.T.flatten()
    np.testing.assert_allclose(one_per_slot @ y, 1)
    assert (at_most_once @ y <= 1).all()
    assert (order @ y <= -1).all()
    np.testing.assert_allclose(objective @ y, best.fun, atol=1e-9)
