"""Where the time of a training step goes at the size of the traffic signs: each stage, forward and backward.

python benchmarks/bench_training_step.py
"""

import time

import torch
from measure import median_seconds, print_table
from torch import Tensor

from saccade import ModelConfig, PatchSelectionModel, selection_loss
from saccade.cli.memory import keep_freed_memory

BATCH, IMAGE, K = 8, (960, 1280), 10


def make(memory_format: torch.memory_format) -> tuple[PatchSelectionModel, Tensor, Tensor]:
    torch.manual_seed(0)
    config = ModelConfig(num_classes=4, image_size=IMAGE, selection={"name": "perturbed", "k": K})
    model = PatchSelectionModel.from_config(config).to(memory_format=memory_format)
    image = torch.rand(BATCH, 3, *IMAGE).contiguous(memory_format=memory_format)
    return model, image, torch.arange(BATCH) % 4


def whole_step(model: PatchSelectionModel, image: Tensor, label: Tensor) -> None:
    output = model(image)
    selection_loss(output.logits, label, output.raw_scores).backward()


def staged_step(model: PatchSelectionModel, image: Tensor, label: Tensor) -> dict[str, list[float]]:
    """The model's forward cut at the stages; gradients are handed back by hand. Seconds forward and backward."""
    seconds: dict[str, list[float]] = {}
    handed: list[tuple[str, Tensor, Tensor]] = []  # stage, what it gave, what the next stage took

    def run(stage: str, forward):
        start = time.perf_counter()
        given = forward()
        seconds[stage] = [time.perf_counter() - start]
        return given

    def cut(stage: str, given: Tensor) -> Tensor:
        taken = given.detach().requires_grad_()
        handed.append((stage, given, taken))
        return taken

    grid = model.grid(image.shape[-2:])
    view = run("view", lambda: model.view(image))
    raw = cut("scorer", run("scorer", lambda: model.scorer(view).scores))
    selection = run("selection", lambda: model.selection(model.selection.normalize(raw)))
    selection = selection._replace(weight=cut("selection", selection.weight))
    patches = run("extraction", lambda: model.extraction(image, selection, grid))
    patches = cut("extraction", patches).flatten(0, 1)
    features = cut("features", run("features", lambda: model.features(patches)))
    features = features.unflatten(0, (BATCH, K))
    loss = run(
        "aggregation, head, loss",
        lambda: selection_loss(model.prediction(model.aggregation(features, selection, grid)), label, raw.detach()),
    )
    start = time.perf_counter()
    loss.backward()
    seconds["aggregation, head, loss"].append(time.perf_counter() - start)
    for stage, given, taken in reversed(handed):
        start = time.perf_counter()
        given.backward(taken.grad)
        seconds[stage].append(time.perf_counter() - start)
    return seconds


def main(repeats: int = 5) -> None:
    for name, memory_format in (("contiguous", torch.contiguous_format), ("channels last", torch.channels_last)):
        model, image, label = make(memory_format)
        whole = median_seconds(lambda: whole_step(model, image, label), repeats=repeats)  # noqa: B023
        runs = [staged_step(model, image, label) for _ in range(repeats + 1)][1:]
        rows = []
        for stage in runs[0]:
            ways = zip(*((*run[stage], 0.0)[:2] for run in runs), strict=True)  # the view has no backward
            forward, backward = (sorted(way)[repeats // 2] for way in ways)
            share = f"{100 * (forward + backward) / whole:.0f}%"
            rows.append([stage, f"{1000 * forward:.0f}", f"{1000 * backward:.0f}", share])
        rows.append(["whole step", "", f"{1000 * whole:.0f}", "100%"])
        title = f"Training step, {name}, B={BATCH} {IMAGE[0]}×{IMAGE[1]}×3 K={K} P=100, ATS net, untrained scorer"
        print_table(title, ["stage", "forward ms", "backward ms", "share"], rows)
    # Last, since it cannot be taken back.
    model, image, label = make(torch.channels_last)
    seconds = [median_seconds(lambda: whole_step(model, image, label), repeats=repeats)]
    if keep_freed_memory():
        seconds.append(median_seconds(lambda: whole_step(model, image, label), repeats=repeats))
        rows = [[name, f"{1000 * s:.0f}"] for name, s in zip(("given back", "kept"), seconds, strict=True)]
        print_table(f"Freed memory, channels last: {seconds[0] / seconds[1]:.2f}×", ["memory", "whole step ms"], rows)


if __name__ == "__main__":
    main()
