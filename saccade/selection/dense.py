"""A drop-in for code that already has a perturbed top-K in the form of the paper's listing.

The listing's module returns dense B K N indicators and perturbs in evaluation too; so does this one, with the right
gradient. Adopting it is a change of one import.
"""

from jaxtyping import Float
from torch import Tensor, nn

from saccade.selection.perturbed import perturbed_topk


class DensePerturbedTopK(nn.Module):
    """scores B N → indicators B K N; the constructor and the output of the paper's listing.

    >>> import torch
    >>> DensePerturbedTopK(k=1, num_samples=100, sigma=0.05)(torch.tensor([[0.0, 1.0]]))
    tensor([[[0., 1.]]])
    """

    def __init__(self, k: int, num_samples: int = 1000, sigma: float = 0.05):
        super().__init__()
        self.k = k
        self.num_samples = num_samples
        self.sigma = sigma

    def forward(self, x: Float[Tensor, "B N"]) -> Float[Tensor, "B K N"]:
        """The mean of `num_samples` one-hot, index-sorted top-K selections."""
        return perturbed_topk(x, self.k, sigma=self.sigma, num_samples=self.num_samples).dense(x.shape[1])
