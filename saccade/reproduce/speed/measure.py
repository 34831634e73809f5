"""Systems → timings, on the GPU if there is one.

Weights and pixels are random. A network's speed does not depend on them; soft top-K blends as many candidates as an
untrained scorer leaves it. Systems are as `for_inference` makes them, those on whole images too, but for a plain one,
which is what most people run. Rounds go through all systems in turn, so that whatever else the machine does befalls all
alike. As in the paper, each system has the batch size that suits it best, of those its memory holds.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.building import build_model
from saccade.config import ModelConfig
from saccade.inference import for_inference
from saccade.reproduce.clock import clock_now
from saccade.reproduce.collect import as_text
from saccade.reproduce.speed.contestants import Contestant, Setting, Timing
from saccade.runs.run_facts import made_with, now
from saccade.selection import perturbed_topk
from saccade.system import System

CLASSES = 10
GPU_BATCHES = (1, 4, 16, 64)
GPU_STEP_BATCH = 8  # a whole image of 1000² keeps about a gigabyte for its backward pass
Run = Callable[[Tensor], Any]


def fit(setting: Setting) -> Setting:
    """The setting with batches for what this machine times on."""
    if not torch.cuda.is_available():
        return setting
    return setting._replace(batches=GPU_BATCHES, step_batch=GPU_STEP_BATCH)


def measure(setting: Setting, *, rounds: int, say: Callable[[str], None]) -> list[Timing]:
    """Time all systems on random images."""
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}, expected 1 or more: a round times every system once")
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    side = setting.side_px
    images = [torch.rand(n, 3, side, side).to(device, memory_format=torch.channels_last) for n in setting.batches]
    return time_all(build_all(setting, device), images, rounds=rounds, say=say)


def provenance() -> dict[str, str]:
    """What timings are taken with, as the CSV has it for every table."""
    made = made_with("auto")
    return as_text({**made, "commit": made["commit"] or "unknown", "finished": now()})


def build_all(setting: Setting, device: torch.device) -> dict[Contestant, Run]:
    """The systems of a setting; soft and hard are the same model."""
    systems = setting.systems()
    models = {system: _build(system, setting, device) for system in systems if not system.soft}
    soft = {
        system: partial(
            models[system._replace(soft=False)],
            select=partial(perturbed_topk, k=system.k, sigma=setting.sigma, num_samples=setting.draws),
        )
        for system in systems
        if system.soft
    }
    runs = models | soft
    return {system: runs[system] for system in systems}


def _build(system: Contestant, setting: Setting, device: torch.device) -> Any:
    model = make_model(system, setting).to(device)
    return _plainly(model) if system.plain else for_inference(model)


def make_model(system: Contestant, setting: Setting) -> System:
    """The model of a system, its weights random, as PyTorch runs it."""
    stages: dict[str, Any] = {"system": "cnn", "view": {"scale": 1.0}}
    if system.k:
        stages = {
            "view": {"scale": setting.view_scale},
            "selection": {"name": "perturbed", "k": system.k},
            "extraction": {"patch": system.patch},
            "aggregation": {"name": "mean"},
        }
    size, features = (setting.side_px, setting.side_px), {"name": "backbone", "model": system.network}
    return build_model(ModelConfig(num_classes=CLASSES, image_size=size, features=features, **stages))


def _plainly(model: nn.Module) -> Run:
    """Batch norms and all, on pixels in PyTorch's own order."""
    model.eval()
    return lambda images: model(images.contiguous())


@torch.inference_mode()
def time_all(
    runs: Mapping[Contestant, Run],
    images: Sequence[Float[Tensor, "_ C H W"]],
    *,
    rounds: int,
    say: Callable[[str], None],
    clock: Callable[[], float] = clock_now,
) -> list[Timing]:
    """Time each system on each batch once a round, after a round to warm up; a line for each as it goes."""
    speeds: dict[Contestant, list[dict[int, float]]] = {system: [] for system in runs}  # by round, then by batch
    for turn in range(rounds + 1):
        for system, run in runs.items():
            speed = {len(batch): len(batch) / _seconds(run, batch, clock) for batch in images}
            if turn:
                speeds[system].append(speed)
                say(f"round {turn} of {rounds}: {system.name}, {max(speed.values()):.2f} images per second")
            else:
                say(f"warm-up: {system.name}")
    side_px = images[0].shape[-1]
    return [timing for system, each in speeds.items() for timing in _at_best(system, system.share(side_px), each)]


def _seconds(run: Run, batch: Float[Tensor, "n C H W"], clock: Callable[[], float]) -> float:
    start = clock()
    try:
        run(batch)
    except torch.OutOfMemoryError:
        return math.inf  # no images per second: another batch suits it better
    return clock() - start


def _at_best(system: Contestant, share: float, speeds: Sequence[Mapping[int, float]]) -> list[Timing]:
    best = max(speeds[0], key=lambda batch: statistics.median(speed[batch] for speed in speeds))
    return [Timing(system, share, turn, best, speed[best]) for turn, speed in enumerate(speeds, start=1)]
