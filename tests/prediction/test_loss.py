import math

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from saccade import score_entropy, selection_loss
from saccade.prediction import LinearHead, MLPHead, mixture_loss


def test_entropy_is_in_nats_and_averaged_over_the_batch():
    raw = torch.tensor([[0.0, 0.0, 0.0, 0.0], [100.0, 0.0, 0.0, 0.0]])
    assert_close(score_entropy(raw), torch.tensor(math.log(4) / 2))
    p = torch.tensor([0.1, 0.2, 0.3, 0.4])
    assert_close(score_entropy(p.log()[None]), -(p * p.log()).sum())


def test_entropy_survives_extreme_scores():
    assert score_entropy(torch.tensor([[1e30, -1e30, 0.0]])) == 0


def test_loss_rewards_entropy():
    logits, label = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 3])
    raw = torch.randn(3, 9, generator=torch.Generator().manual_seed(1))
    expected = F.cross_entropy(logits, label) - 0.05 * score_entropy(raw)
    assert_close(selection_loss(logits, label, raw, entropy_coefficient=0.05), expected)


def test_class_weights_reach_the_cross_entropy():
    logits, label, raw = torch.zeros(2, 2), torch.tensor([0, 1]), torch.zeros(2, 3)
    logits[0, 0] = 5.0
    weight = torch.tensor([0.0, 1.0])
    loss = selection_loss(logits, label, raw, entropy_coefficient=0.0, class_weight=weight)
    assert_close(loss, torch.tensor(math.log(2)))


def test_heads_have_the_released_layers():
    assert [type(m).__name__ for m in MLPHead(8, 3)] == ["Linear", "SiLU", "Linear"]
    assert sum(p.numel() for p in MLPHead(8, 3).parameters()) == 8 * 8 + 8 + 8 * 3 + 3
    assert LinearHead(8, 3)(torch.zeros(2, 8)).shape == (2, 3)


def test_mixture_is_the_likelihood_of_a_mixture_of_patches():
    torch.manual_seed(0)
    logits, scores, label = torch.randn(3, 4, 5).double(), torch.randn(3, 4).double(), torch.tensor([0, 4, 2])
    expected = []
    for image in range(3):
        prior, answer = scores[image].softmax(0), logits[image].softmax(1)[:, label[image]]
        expected.append(-torch.log(sum(p * a for p, a in zip(prior, answer, strict=True))))
    assert_close(mixture_loss(logits, scores, label), torch.stack(expected).mean())
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).double()
    weighted = sum(w * e for w, e in zip(weight[label], expected, strict=True)) / weight[label].sum()
    assert_close(mixture_loss(logits, scores, label, class_weight=weight), weighted)


def test_a_score_rises_by_how_much_its_patch_explains_the_label():
    """The gradient is prior minus posterior; nothing is pushed where all patches answer alike."""
    torch.manual_seed(0)
    logits, scores = torch.randn(1, 4, 3).double(), torch.randn(1, 4).double().requires_grad_()
    mixture_loss(logits, scores, torch.tensor([1])).backward()
    prior = scores.detach().softmax(1)
    posterior = prior * logits.softmax(2)[..., 1]
    assert_close(scores.grad, prior - posterior / posterior.sum())
    scores.grad = None
    mixture_loss(logits[:, :1].expand(1, 4, 3), scores, torch.tensor([1])).backward()
    assert_close(scores.grad, torch.zeros(1, 4).double())
