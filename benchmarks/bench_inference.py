"""What `for_inference` brings, switch by switch: batch norms folded and channels last, then compiled.

python benchmarks/bench_inference.py

ResNet-50 on the whole image of 1000² and on the ten best of its patches of 100², hard, random weights. All ways take
turns in one run, so that whatever else the machine does befalls all alike; compiling itself is not counted.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from measure import print_table
from torch import Tensor

from saccade.config import ModelConfig
from saccade.inference import for_inference
from saccade.systems import build_model

SIDE, ROUNDS, BATCHES = 1000, 5, (1, 4)
STAGES: dict[str, dict[str, Any]] = {
    "whole image": {"system": "cnn", "view": {"scale": 1.0}},
    "K=10 P=100, hard": {
        "view": {"scale": 0.25},
        "selection": {"name": "perturbed", "k": 10},
        "extraction": {"patch": 100},
        "aggregation": {"name": "mean"},
    },
}


def make_ways(stages: dict[str, Any]) -> dict[str, Callable[[Tensor], Any]]:
    """The same model as PyTorch runs it, folded, and compiled."""
    features = {"name": "backbone", "model": "resnet50"}
    model = build_model(ModelConfig(num_classes=10, image_size=(SIDE, SIDE), features=features, **stages)).eval()
    return {
        "plain PyTorch": lambda images: model(images.contiguous()),
        "for_inference": for_inference(model),
        "for_inference, compiled": for_inference(model, compile=True),
    }


@torch.inference_mode()
def main() -> None:
    """Print a table."""
    torch.manual_seed(0)
    rows = []
    for label, stages in STAGES.items():
        for count in BATCHES:
            images = torch.rand(count, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last)
            ways = make_ways(stages)
            seconds: dict[str, list[float]] = {name: [] for name in ways}
            for turn in range(ROUNDS + 1):
                for name, run in ways.items():
                    start = time.perf_counter()
                    run(images)
                    if turn:  # the first compiles
                        seconds[name].append(time.perf_counter() - start)
            medians = {name: statistics.median(each) / count for name, each in seconds.items()}
            plain = medians["plain PyTorch"]
            rows += [
                [label, str(count), name, f"{1000 * each:.0f}", f"{plain / each:.2f}×"]
                for name, each in medians.items()
            ]
            print(f"{label}, {count} images a batch: done", flush=True)
    print_table("Made for inference", ["system", "batch", "way", "ms an image", "speed-up"], rows)


if __name__ == "__main__":
    main()
