"""image → image with two more channels that say where each pixel lies: the paper's "concat. position".

"We also tried concatenating [0, 1] normalized fixed positional encodings as two extra channels in the input". At pixel
centers, as everywhere in this library: the pixel in row i and column j of H×W holds

    x = (j + ½) / W,    y = (i + ½) / H.

So a position keeps its value when the image is made smaller: but for its borders, the view of the channels is the
channels of the view.
"""

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor


def add_positions(image: Float[Tensor, "B C H W"], size: Int[Tensor, "B 2"] | None = None) -> Float[Tensor, "B C2 H W"]:
    """`image` with the channels x and y appended, in its memory format.

    size: height and width of each image where the rest of its H×W is padding; positions are then those in the picture
          itself, and zero in the padding, as its pixels are.

    >>> add_positions(torch.zeros(1, 1, 1, 2))[0, 1:]
    tensor([[[0.2500, 0.7500]],
    <BLANKLINE>
            [[0.5000, 0.5000]]])
    """
    height, width = image.shape[-2:]
    if size is None:
        size = torch.tensor([[height, width]], device=image.device).expand(image.shape[0], 2)
    y = (torch.arange(height, device=image.device) + 0.5)[:, None] / size[:, :1, None]  # B H 1
    x = (torch.arange(width, device=image.device) + 0.5) / size[:, 1:, None]  # B 1 W
    inside = (y < 1) & (x < 1)  # B H W
    channels = torch.stack([x * inside, y * inside], dim=-1).to(image.dtype)  # B H W 2
    # Channels last: torch.cat gives this format if all have it, and the other one otherwise.
    return torch.cat([image, rearrange(channels, "b h w two -> b two h w")], dim=1)
