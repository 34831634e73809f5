"""image → view → features → logits: the feature network on the whole image, or on its low-resolution view.

At view scale 1 this is the paper's plain CNN, with `positions` its "concat. position". Below scale 1 it shows what is
lost when a large image is made small.
"""

from jaxtyping import Float, Int
from torch import Tensor

from saccade.config import ModelConfig
from saccade.images import Sources, View, view_size
from saccade.output import Output
from saccade.registry import build, build_one, register
from saccade.system import System, build_features


@register("system", "cnn")
class CNN(System):
    """The feature network on the whole view: the stages view, features and prediction.

    >>> import torch
    >>> config = ModelConfig(system="cnn", num_classes=4, image_size=(300, 400), view={"scale": 0.25})
    >>> CNN(config).eval()(torch.rand(2, 3, 300, 400)).logits.shape
    torch.Size([2, 4])
    """

    configured = ("view", "features", "prediction")
    takes_sources = True
    exports_sizes = True

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.view = build_one("view", View, config.view)
        size = view_size(config.image_size, self.view.scale)
        self.features = build_features(config, size)
        self.prediction = build("prediction", config.prediction, self.features.width, self.task.outputs)

    def forward(self, image: Float[Tensor, "B C H W"] | Sources, size: Int[Tensor, "B 2"] | None = None) -> Output:
        """Logits of each image; `size` tells the positions, if there are any, where each picture ends."""
        self.check_images(image)
        return Output(self.prediction(self.features(self.view(self.with_positions(image, size)))))
