"""The formulations that Saccade is compared with, written plainly: one-hot indicators, all patches unfolded."""

import torch
import torch.nn.functional as F
from torch import Tensor


class OneHotTopK(torch.autograd.Function):
    """Perturbed top-K as the paper's listing formulates it: B·n·K·N one-hot indicators, diagonal gradient."""

    @staticmethod
    def forward(ctx, scores: Tensor, k: int, sigma: float, num_samples: int) -> Tensor:
        noise = torch.randn(scores.shape[0], num_samples, scores.shape[1], device=scores.device)
        chosen = (scores[:, None] + sigma * noise).topk(k, dim=-1, sorted=False).indices.sort(dim=-1).values
        indicators = F.one_hot(chosen, scores.shape[1]).float()  # B n K N
        ctx.save_for_backward(indicators, noise)
        ctx.scale = 1 / (num_samples * sigma)
        return indicators.mean(dim=1)

    @staticmethod
    def backward(ctx, grad: Tensor):
        indicators, noise = ctx.saved_tensors
        jacobian = torch.einsum("bmkn,bmn->bkn", indicators, noise) * ctx.scale
        return torch.einsum("bkn,bkn->bn", grad, jacobian), None, None, None


def extract_from_all(image: Tensor, indicators: Tensor, *, patch: int, stride: int, pad: int) -> Tensor:
    """Yᵀ P with every patch of a stretched grid unfolded: B·N·C·P·P numbers."""
    rows, cols = image.shape[-2] // stride, image.shape[-1] // stride
    far = patch - pad - stride
    padded = F.pad(image, (pad, far, pad, far))
    windows = padded.unfold(2, patch, stride).unfold(3, patch, stride)[:, :, :rows, :cols]
    patches = windows.permute(0, 2, 3, 1, 4, 5).reshape(len(image), -1, image.shape[1] * patch * patch)
    return torch.einsum("bkn,bnd->bkd", indicators, patches[:, : indicators.shape[2]])
