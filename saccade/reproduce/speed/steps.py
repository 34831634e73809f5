"""Two sentences of the paper in numbers: how much longer a CNN trains, and what of an answer is the feature network.

A step of training is that of the full recipes billiard/cnn and billiard/perturbed (transformer), ResNet-18 in both, on
random images, in turn; shares are of ten patches of 100² with ResNet-50, as they are timed for the figure.
"""

import csv
import io
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from saccade.reproduce.clock import clock_now
from saccade.reproduce.collect import PROVENANCE
from saccade.reproduce.speed.contestants import Contestant, Setting
from saccade.reproduce.speed.measure import Run, build_all
from saccade.reproduce.stand_in import Shape, StandIn
from saccade.training.recipe import load_recipe

CNN, TOPK = "billiard/cnn", "billiard/perturbed"
CLASSES = 9


class Lap(NamedTuple):
    """A round, counted from 1: seconds of a step by recipe, and shares of the time of an answer by system."""

    round: int
    steps: dict[str, float]
    shares: dict[str, float]

    @property
    def longer(self) -> float:
        """How much longer the CNN's step takes: 0.24 if by 24%."""
        return self.steps[CNN] / self.steps[TOPK] - 1


def time_steps(setting: Setting, *, rounds: int, say: Callable[[str], None]) -> list[Lap]:
    """Both steps and both shares once a round, after a round to warm up."""
    say(f"training steps of {setting.steps_px}² px and shares of inference")
    shape = Shape((setting.steps_px, setting.steps_px), CLASSES)
    trained = {name: StandIn(load_recipe(name, setting.step_flags), shape) for name in (CNN, TOPK)}
    batch = trained[CNN].batch(setting.step_batch)
    asked = _asked(setting, trained[CNN].fabric.device)
    laps = []
    for turn in range(rounds + 1):
        steps = {name: each.step(batch, turn) for name, each in trained.items()}
        shares = {system.name: run() for system, run in asked.items()}
        laps.append(Lap(turn, steps, {name: each.features / each.whole for name, each in shares.items()}))
    return laps[1:]


def _asked(setting: Setting, device: torch.device) -> dict[Contestant, Callable[[], "Seconds"]]:
    """The largest systems on patches, soft and hard, on an image each."""
    k, patch = setting.slots[-1], setting.patches[-1]
    few = setting._replace(slots=(k,), patches=(patch,))
    image = torch.rand(1, 3, setting.side_px, setting.side_px, device=device)
    runs = build_all(few, device)
    model: Any = runs[Contestant(setting.network, k, patch)]
    return {system: partial(_timed, run, model.features, image) for system, run in runs.items() if system.k}


class Seconds(NamedTuple):
    """Of an answer, and of them those in the feature network."""

    whole: float
    features: float


@torch.inference_mode()
def _timed(run: Run, features: nn.Module, image: Tensor) -> Seconds:
    times: list[float] = []
    hooks = (
        features.register_forward_pre_hook(lambda *_: times.append(-clock_now())),
        features.register_forward_hook(lambda *_: times.append(clock_now())),
    )
    start = clock_now()
    try:
        run(image)
        return Seconds(clock_now() - start, sum(times))
    finally:
        for hook in hooks:
            hook.remove()


def tell(laps: Sequence[Lap], setting: Setting) -> str:
    """Ours beside the paper's two numbers."""
    longer = statistics.median(lap.longer for lap in laps)
    spent = ", ".join(f"{name} {_share(laps, name):.0%}" for name in laps[0].shares)
    seconds = {name: statistics.median(lap.steps[name] for lap in laps) / setting.step_batch for name in (CNN, TOPK)}
    return (
        f"A step of training on {setting.steps_px}² px takes {longer:+.0%} on the whole image (`{CNN}`, "
        f"{seconds[CNN]:.3g} s an image) than with top-K and a transformer (`{TOPK}`, {seconds[TOPK]:.3g} s), "
        f"batches of {setting.step_batch}; in the paper +24%. The feature network's share of an answer's time, one "
        f"image at a time: {spent}; in the paper 28% with ten patches of 100². Medians of {len(laps)} rounds."
    )


def _share(laps: Sequence[Lap], name: str) -> float:
    return statistics.median(lap.shares[name] for lap in laps)


def table_of_laps(laps: Sequence[Lap], setting: Setting, facts: Mapping[str, str]) -> str:
    """The CSV: what, of which, round, value, batch, and the facts of `PROVENANCE` in every line."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("what", "of", "round", "value", "batch", *PROVENANCE))
    made = [facts[name] for name in PROVENANCE]
    for lap in laps:
        for name, seconds in lap.steps.items():
            writer.writerow(
                ("seconds of a training step", name, lap.round, f"{seconds:.6g}", setting.step_batch, *made)
            )
        for name, share in lap.shares.items():
            writer.writerow(("share of the feature network", name, lap.round, f"{share:.6g}", 1, *made))
    return text.getvalue()
