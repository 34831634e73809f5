"""features → pooled by gated attention over the slots: attention-based multiple-instance learning (Ilse et al., 2018).

a_k = softmax_k( wᵀ (tanh(V h_k) ⊙ sigm(U h_k)) ),    pooled = Σ_k a_k h_k.

The tanh alone is nearly linear around zero; the gate lets the attention tell more apart. Slots are a set here: neither
their order nor their place counts. With the selection `exhaustive` they are all patches of the image, the bag of MIL.
"""

from jaxtyping import Float
from torch import Tensor, nn

from saccade.aggregation.pool import Pool
from saccade.registry import register
from saccade.selection import Candidates, Selection


@register("aggregation", "attention")
class GatedAttention(Pool):
    """Gated attention over the slots, B K D → B D, without biases; `hidden` is the height of V and U.

    >>> import torch
    >>> GatedAttention(6).attention(torch.ones(1, 4, 6))  # equal slots share alike
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]], grad_fn=<SoftmaxBackward0>)
    """

    def __init__(self, width: int, *, hidden: int = 128):
        super().__init__(width)
        self.content = nn.Linear(width, hidden, bias=False)  # V
        self.gate = nn.Linear(width, hidden, bias=False)  # U
        self.score = nn.Linear(hidden, 1, bias=False)  # w

    def forward(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B D"]:
        """Pool the slots."""
        return (self.attention(features)[..., None] * features).sum(dim=1)

    def give(
        self, features: Float[Tensor, "B K D"], selection: Selection, grid: Candidates | None
    ) -> Float[Tensor, "B K D"]:
        """Its features as far as attention lets them count."""
        return self.attention(features)[..., None] * features

    def attention(self, features: Float[Tensor, "B K D"]) -> Float[Tensor, "B K"]:
        """How much each slot counts; sums to one."""
        return self.score(self.content(features).tanh() * self.gate(features).sigmoid())[..., 0].softmax(dim=1)
