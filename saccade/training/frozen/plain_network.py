"""Where patches do not help: the network on the view, whole, with a linear head.

The pixels that patches would have had go to the view, if the answer is better by it: s² + K P² / (H W) is the square of
the larger scale, so it costs what the patches would have cost.
"""

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.data.dataset import Batch
from saccade.system import System
from saccade.training.frozen.judge import Answer, Judge
from saccade.training.frozen.seen import images_of


class PlainStart(NamedTuple):
    """What a plain network answers, and the network with each of the heads that are kept."""

    answer: Answer
    models: tuple[System, ...]


def fit_plain(config: ModelConfig, judge: Judge, batches: Callable[[], Iterable[Batch]]) -> PlainStart:
    """The better of a view as large as `config` has it, and one with the pixels of its patches, too."""
    scales = {"glance": config.view["scale"], "glance at a larger view": larger_scale(config)}
    fitted = [_fit(name, config, scale, judge, batches()) for name, scale in scales.items()]
    return min(fitted, key=lambda start: start.answer.loss)


def larger_scale(config: ModelConfig) -> float:
    """That of a view with as many pixels as the view and the patches of `config` have together.

    >>> options = {"selection": {"name": "perturbed", "k": 5}, "extraction": {"patch": 60}, "view": {"scale": 0.4}}
    >>> larger_scale(ModelConfig(num_classes=2, image_size=(300, 400), **options))
    0.557
    """
    k, patch = config.selection["k"], config.extraction["patch"]
    height, width = patch if isinstance(patch, (list, tuple)) else (patch, patch)
    share = k * height * width / math.prod(config.image_size)
    return min(1.0, round(math.sqrt(config.view["scale"] ** 2 + share), 3))


def _fit(name: str, config: ModelConfig, scale: float, judge: Judge, batches: Iterable[Batch]) -> PlainStart:
    network = {key: config.features[key] for key in ("model", "pretrained", "weights") if key in config.features}
    features = {"name": "backbone", **network}
    view = {**config.view, "scale": scale}
    plain = replace(config, system="cnn", view=view, features=features, prediction={"name": "linear"})
    model: Any = build_model(plain).eval().requires_grad_(False)
    with torch.inference_mode():
        whole = torch.cat([model.features(model.view(image)) for image in images_of(model, batches)]).clone()
    heads, answer = judge.glance(name, whole)
    made = []
    for head in heads.kept:
        copied = deepcopy(model)
        copied.prediction.weight.copy_(answer.parts[name] * head.weight)
        copied.prediction.bias.copy_(answer.parts[name] * head.bias)
        made.append(copied.requires_grad_(True))
    return PlainStart(answer, tuple(made))
