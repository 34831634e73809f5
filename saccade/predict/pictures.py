"""Pictures of where the model looked, into folders that mirror those of the images.

    photos/a/1.jpg  →  OVERLAYS/a/1.jpg.png,  CROPS/a/1.jpg/01.png, 02.png, …  (best first)

The suffix stays in the name: 1.jpg and 1.png may lie side by side.
"""

import os
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from saccade.drawing import Caption, overlay
from saccade.predict.outcomes import Prediction

DPI = 160  # 1600 pixels wide: sharp on a slide


class Album(NamedTuple):
    """Where pictures go, each folder if it is wanted; names are told relative to `root`, which holds all images."""

    root: Path
    overlays: Path | None
    crops: Path | None

    def draw(self, image: str, prediction: Prediction) -> None:
        """The pictures of one image, from a prediction that has them."""
        name = os.path.relpath(os.path.abspath(image), self.root)
        if self.overlays:
            picture = self.overlays / f"{name}.png"
            picture.parent.mkdir(parents=True, exist_ok=True)
            caption = Caption(prediction.label, prediction.confidence)
            tags = [", ".join(names) for names in prediction.speaks_for]
            overlay(prediction.look, caption, tags=tags).savefig(picture, dpi=DPI)
        if self.crops:
            (self.crops / name).mkdir(parents=True, exist_ok=True)
            for number, crop in enumerate(prediction.look.crops, start=1):
                Image.fromarray(crop).save(self.crops / name / f"{number:02d}.png")
