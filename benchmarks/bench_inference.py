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

from saccade.inference import for_inference
from saccade.reproduce.speed.contestants import Contestant, Setting
from saccade.reproduce.speed.measure import make_model

SETTING, ROUNDS, BATCHES = Setting(), 5, (1, 4)
SYSTEMS = Contestant("resnet50"), Contestant("resnet50", 10, 100)


def make_ways(system: Contestant) -> dict[str, Callable[[Tensor], Any]]:
    """The same model as PyTorch runs it, folded, and compiled."""
    model = make_model(system, SETTING).eval()
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
    for system in SYSTEMS:
        for count in BATCHES:
            images = torch.rand(count, 3, SETTING.side_px, SETTING.side_px).contiguous(
                memory_format=torch.channels_last
            )
            ways = make_ways(system)
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
                [system.name, str(count), name, f"{1000 * each:.0f}", f"{plain / each:.2f}×"]
                for name, each in medians.items()
            ]
            print(f"{system.name}, {count} images a batch: done", flush=True)
    print_table("Made for inference", ["system", "batch", "way", "ms an image", "speed-up"], rows)


if __name__ == "__main__":
    main()
