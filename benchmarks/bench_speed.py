"""The paper's speed figure: a network on the whole image against the same network on K patches of it.

python benchmarks/bench_speed.py [--out docs/images/speed.png] [--threads 2] [--rounds 5] [--clock wall|processor]

Images of 1000², view of 250², mean pooling, random weights. All contenders are as `for_inference` makes them, the whole
images too. As in the paper, each has the batch size that suits it best. Rounds go through all contenders in turn, so
that whatever else the machine does befalls all alike; times are medians over rounds. On a machine that is busy threads
wait for one another longer than they work: there take one thread and the processor's own clock.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from measure import print_table
from torch import Tensor

from saccade import ModelConfig
from saccade.inference import for_inference
from saccade.selection import perturbed_topk
from saccade.systems import build_model

SIDE, CLASSES, SIGMA, DRAWS = 1000, 10, 0.05, 500
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
SLOTS, PATCHES, BATCHES = (3, 5, 10), (50, 100), (1, 4)


class Contender(NamedTuple):
    name: str
    share: float  # of the image's pixels that the network sees
    run: Callable[[Tensor], Any]


def whole(network: str) -> Contender:
    model = build(system="cnn", view={"scale": 1.0}, features={"name": "backbone", "model": network})
    return Contender(f"{network}, whole image", 1.0, model)


def selected(k: int, patch: int, *, soft: bool) -> Contender:
    model = build(
        view={"scale": 0.25},
        selection={"name": "perturbed", "k": k},
        extraction={"patch": patch},
        features={"name": "backbone", "model": "resnet50"},
    )

    def select(scores: Tensor) -> Any:
        return perturbed_topk(scores, k, sigma=SIGMA, num_samples=DRAWS)

    run = (lambda image: model(image, select=select)) if soft else model
    return Contender(f"{'soft' if soft else 'hard'}, K={k} P={patch}", k * patch**2 / SIDE**2, run)


def build(**stages: Any) -> Any:
    torch.manual_seed(0)
    return for_inference(build_model(ModelConfig(num_classes=CLASSES, image_size=(SIDE, SIDE), **stages)))


@torch.inference_mode()
def measure(contenders: list[Contender], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Images per second of each contender at its best batch size."""
    images = {n: torch.rand(n, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last) for n in BATCHES}
    seconds: dict[tuple[str, int], list[float]] = {(c.name, n): [] for c in contenders for n in BATCHES}
    for turn in range(rounds + 1):  # the first is to warm up
        for contender in contenders:
            for n, batch in images.items():
                start = clock()
                contender.run(batch)
                if turn:
                    seconds[contender.name, n].append((clock() - start) / n)
    medians = {key: sorted(times)[len(times) // 2] for key, times in seconds.items()}
    return {c.name: 1 / min(medians[c.name, n] for n in BATCHES) for c in contenders}


def draw(contenders: list[Contender], speed: dict[str, float], out: Path) -> None:
    """Images per second over the share of pixels; whole images are level lines."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for style, contender in zip(("-", "--"), [c for c in contenders if c.share == 1], strict=True):
        axes.axhline(speed[contender.name], linestyle=style, color="0.4", label=contender.name)
    for kind, marker in (("soft", "o"), ("hard", "^")):
        points = sorted((100 * c.share, speed[c.name]) for c in contenders if c.name.startswith(kind))
        axes.plot(*zip(*points, strict=True), marker=marker, label=f"{kind} top-K, resnet50 on patches")
    axes.set(xlabel="pixels extracted (%)", ylabel="images per second", yscale="log", xlim=(0, 11.5), ymargin=0.1)
    label_points(axes, contenders, speed)
    axes.legend(fontsize=8)
    figure.savefig(out, dpi=150)


def label_points(axes: Any, contenders: list[Contender], speed: dict[str, float]) -> None:
    """K and P above the upper curve, which falls away under a label; below the lower one where the next point would
    stand in the label, being as near as a label is wide and not a label's height lower.
    """
    width, height = 1.3, 1.15  # in per cent of the pixels; as a ratio of speeds
    style = {"textcoords": "offset points", "fontsize": 8}
    points = []  # share, label, lower and higher speed
    for hard in sorted((c for c in contenders if c.name.startswith("hard")), key=lambda c: c.share):
        label = hard.name.removeprefix("hard, ")
        points.append((100 * hard.share, label, *sorted((speed[f"soft, {label}"], speed[hard.name]))))
    for (x, label, low, high), after in zip(points, [*points[1:], None], strict=True):
        crowded = after is not None and after[0] - x < width and after[3] * height > high
        if crowded:
            axes.annotate(label, (x, low), (0, -7), ha="center", va="top", **style)
        else:
            axes.annotate(label, (x, high), (4, 5), **style)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    contenders = [whole("resnet50"), whole("resnet18")]
    contenders += [selected(k, p, soft=soft) for p in PATCHES for k in SLOTS for soft in (True, False)]
    speed = measure(contenders, args.rounds, CLOCKS[args.clock])
    base = speed[contenders[0].name]
    rows = [[c.name, f"{100 * c.share:g}%", f"{speed[c.name]:.2f}", f"{speed[c.name] / base:.1f}×"] for c in contenders]
    title = f"Inference, {SIDE}²×3, n={DRAWS} σ={SIGMA}, the better of batches {BATCHES}, {args.clock} time"
    print_table(title, ["network", "pixels seen", "images per second", "against ResNet-50"], rows)
    if args.out:
        draw(contenders, speed, args.out)


if __name__ == "__main__":
    main()
