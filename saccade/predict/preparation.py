"""What an evaluation does to an image before the model sees it, and back: boxes in pixels of the image as it came.

image ─ resize (data.resize) ─▶ shown ─ the augmentation's evaluation, a crop of the center ─▶ seen by the model
"""

from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor
from torchvision.transforms.v2 import CenterCrop

from saccade.data.augment import build_augmentation
from saccade.images.decode import MAX_PIXELS
from saccade.preparation import center_corner
from saccade.runs import find_model_folder
from saccade.training.recipe import load_recipe

Size = tuple[int, int]


class Preparation(NamedTuple):
    """resize: height and width every image is brought to; crop: the center that is then cut out of it.

    stream: images were read by parts, so nothing of this happened.
    """

    resize: Size | None = None
    crop: CenterCrop | None = None
    max_pixels: int = MAX_PIXELS
    stream: bool = False


def find_model(run: Path) -> tuple[Path, Preparation]:
    """The folder of the model, and how the run it comes from prepares images: not at all if there is no recipe."""
    model = find_model_folder(run)
    # RUN/best and RUN/last are parts of a run: their model expects what the run's recipe does to images.
    recipes = [model / "recipe.yaml", model.parent / "recipe.yaml"]
    recipe = next((path for path in recipes[: 1 + (model.name in ("best", "last"))] if path.is_file()), None)
    return model, read_preparation(recipe) if recipe else Preparation()


def read_preparation(recipe: Path) -> Preparation:
    """What the recipe in the file `recipe` does to images in evaluation."""
    data = load_recipe(recipe).data
    crop = build_augmentation(data.augmentation).evaluation
    return Preparation(
        resize=data.resize,
        crop=crop if isinstance(crop, CenterCrop) else None,
        max_pixels=data.max_pixels or MAX_PIXELS,
        stream=data.stream,
    )


def place_back(boxes: Int[Tensor, "K 4"], *, seen: Size, shown: Size, size: Size) -> Int[Tensor, "K 4"]:
    """Boxes in the `seen` center of an image of size `shown`, in pixels of the image that was resized to it.

    >>> place_back(torch.tensor([[0, 0, 8, 8]]), seen=(40, 40), shown=(60, 60), size=(120, 60))
    tensor([[10, 20, 18, 36]])
    """
    moved = boxes + boxes.new_tensor(center_corner(shown, seen) * 2)
    stretch = torch.tensor([size[1] / shown[1], size[0] / shown[0]] * 2, dtype=torch.float64)
    return (moved.cpu() * stretch).round().long()
