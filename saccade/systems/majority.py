"""image → logits that do not look: one learned number per class, the floor under every accuracy.

Cross-entropy over the training images, −Σ_y n_y log softmax(b)_y, is smallest where softmax(b)_y = n_y / n. So the
probabilities become the classes' frequencies, and the answer is the majority class.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.config import ModelConfig
from saccade.images import Sources
from saccade.output import Output
from saccade.registry import register
from saccade.system import System


@register("system", "majority")
class Majority(System):
    """One learned number per class, whatever the image: none of the stages.

    >>> config = ModelConfig(system="majority", num_classes=2, image_size=(8, 8))
    >>> Majority(config).eval()(torch.rand(3, 3, 8, 8)).logits.softmax(dim=1)[0]
    tensor([0.5000, 0.5000], grad_fn=<SelectBackward0>)
    """

    takes_sources = True
    why_not_export = "it does not look at the image"

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.bias = nn.Parameter(torch.zeros(self.task.outputs))

    def forward(self, image: Float[Tensor, "B C H W"] | Sources, size: Int[Tensor, "B 2"] | None = None) -> Output:
        """The learned bias, once for each image."""
        return Output(self.bias.repeat(len(image), 1))
