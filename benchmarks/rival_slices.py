"""Two contestants of `rival_pipelines.py`: a linear layer on slices of the whole image, as it comes and tuned."""

import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from rival_job import NETWORK, Job, numbers, read_image

SLICE_PX, OVERLAP = 128, 0.2
SIZES_PX, DECAYS, REFITS = (128, 224), (1e-3, 1e-2, 1e-1), (0, 3)  # what `tuned` chooses from


class Kept(NamedTuple):
    """The features of all slices of each image, by its name, and the seconds that an image took."""

    of: dict[str, Any]
    seconds: float


def _kept_features(job: Job, size: int) -> Kept:
    """Of all images, since they are the same in all folds: read once, then from the disk."""
    import torch

    file = job.out / f"slices-{size}.pt"
    if not file.is_file():
        began, network = time.process_time(), _network(job.weights)
        pairs = [*job.learn, *job.test]
        of = {}
        for number, (path, _) in enumerate(pairs):
            of[path.name] = _features(network, path, size)
            if number % 50 == 0:
                print(f"slices of {size} px: {number} of {len(pairs)} images", file=sys.stderr, flush=True)
        part = file.with_suffix(".part")
        torch.save(Kept(of, (time.process_time() - began) / len(pairs))._asdict(), part)
        part.replace(file)
    return Kept(**torch.load(file))


def _pile(job: Job, kept: Kept) -> tuple[Any, Any]:
    """The slices of all images to learn from, each with its image's label."""
    import torch

    found = [kept.of[path.name] for path, _ in job.learn]
    marks = [torch.full((len(each),), int(defect)) for each, (_, defect) in zip(found, job.learn, strict=True)]
    return torch.cat(found), torch.cat(marks)


def _network(weights: Path) -> Any:
    import timm
    from safetensors.torch import load_file

    network = timm.create_model(NETWORK, num_classes=0).eval()
    network.load_state_dict(load_file(weights), strict=False)
    return network


def _features(network: Any, path: Path, size: int) -> Any:
    import torch

    image = read_image(path)[0]
    steps = [_starts(side, size) for side in image.shape[-2:]]
    cut = [image[:, top : top + size, left : left + size] for top in steps[0] for left in steps[1]]
    with torch.inference_mode():
        return network(torch.stack(cut)).clone()


def _starts(side: int, size: int) -> list[int]:
    return sorted({*range(0, side - size, int(size * (1 - OVERLAP))), side - size})


def slices(job: Job) -> Iterator[float]:
    from saccade.tasks.single import Single
    from saccade.training.frozen.heads import fit_glance

    began = time.process_time()
    kept = _kept_features(job, SLICE_PX)
    features, labels = _pile(job, kept)
    head = fit_glance(features, labels, Single(("sound", "defect")))
    yield time.process_time() - began + kept.seconds * len(job.learn)
    network = _network(job.weights)
    for path, _ in job.test:
        yield float(head(_features(network, path, SLICE_PX)).diff(dim=1).max())


def tuned(job: Job) -> Iterator[float]:
    began = time.process_time()
    kept = {size: _kept_features(job, size) for size in SIZES_PX}
    folds = sorted({*job.learn_folds})

    def precision(size: int, decay: float, refits: int) -> float:
        found = []
        for fold in folds:  # learnt from the others, told of this one
            inner = [pair for pair, of in zip(job.learn, job.learn_folds, strict=True) if of != fold]
            asked = [pair for pair, of in zip(job.learn, job.learn_folds, strict=True) if of == fold]
            layer = _fit_layer(job._replace(learn=inner), kept[size], decay, refits)
            scores = [float((kept[size].of[path.name] @ layer[:-1]).max()) for path, _ in asked]
            found.append(numbers(scores, [defect for _, defect in asked])["ap"])
        return sum(found) / len(found)

    size, decay, refits = max(product(SIZES_PX, DECAYS, REFITS), key=lambda each: precision(*each))
    print(f"fold {job.fold}: slices of {size} px, decay {decay}, fitted anew {refits} times", file=sys.stderr)
    layer = _fit_layer(job, kept[size], decay, refits)
    yield time.process_time() - began + sum(each.seconds for each in kept.values()) * len(job.learn)
    network = _network(job.weights)
    for path, _ in job.test:
        yield float((_features(network, path, size) @ layer[:-1]).max())


def _fit_layer(job: Job, kept: "Kept", decay: float, refits: int) -> Any:
    """Weights and a bias by logistic regression; anew for the worst slice of each defective image."""
    import torch

    features, labels = _pile(job, kept)
    mean, std = features.mean(dim=0), features.std(dim=0) + 1e-6
    layer = _regress((features - mean) / std, labels, decay)
    for _ in range(refits):
        worst = [int(((kept.of[path.name] - mean) / std @ layer[:-1]).argmax()) for path, _ in job.learn]
        some = [
            kept.of[path.name][place : place + 1] if defect else kept.of[path.name]
            for (path, defect), place in zip(job.learn, worst, strict=True)
        ]
        marks = torch.cat([torch.full((len(f),), int(d)) for f, (_, d) in zip(some, job.learn, strict=True)])
        layer = _regress((torch.cat(some) - mean) / std, marks, decay)
    return torch.cat([layer[:-1] / std, layer[-1:]])  # a constant changes no order of images


def _regress(features: Any, labels: Any, decay: float) -> Any:
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    layer = torch.zeros(features.shape[1] + 1, requires_grad=True)
    weight = torch.where(labels == 1, len(labels) / labels.sum(), len(labels) / (1 - labels).sum()) / 2
    optimizer = torch.optim.LBFGS([layer], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Any:
        optimizer.zero_grad()
        logits = features @ layer[:-1] + layer[-1]
        value = binary_cross_entropy_with_logits(logits, labels.float(), weight) + decay * layer[:-1].square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return layer.detach()


OF_SLICES = {  # what one writes oneself
    "slices": (slices, _features, _network, _pile, _starts),
    "tuned": (tuned, _fit_layer, _regress, _features, _network, _pile, _starts),
}
