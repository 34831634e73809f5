"""Which gradient teaches a scorer? A trained network that reads, a scorer that knows nothing, and labels.

python benchmarks/scorer_learning.py RUN

RUN is a run of patch selection with the selection `perturbed`, such as one of `saccade reproduce gradients`. Its
scorer is drawn anew and everything else held still, so that the only thing to learn is where to look, and the only
teacher the gradient through the selection. All gradients have the same scorers, images and steps.
"""

import argparse
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch
from measure import print_table

from saccade.building import build_model, load_model
from saccade.cli.memory import keep_freed_memory
from saccade.data.dataset import ImageDataset
from saccade.evaluation import Predictions, gather, measure, predict_batch
from saccade.images import unit_range
from saccade.training.batches import evaluation_loader, open_records, open_split, training_loader
from saccade.training.phases import Training
from saccade.training.recipe import Recipe, load_recipe

GRADIENTS = ("conditional", "score", "diagonal")
SIGMA, LEARNING_RATE = 0.05, 3e-3


def forgetful(trained: Any, gradient: str, seed: int) -> Any:
    """The trained model with a scorer drawn from the seed, which alone is to learn."""
    config = trained.config
    torch.manual_seed(seed)
    model: Any = build_model(replace(config, selection={**config.selection, "gradient": gradient, "sigma": SIGMA}))
    known = {name: value for name, value in trained.state_dict().items() if not name.startswith("scorer.")}
    model.load_state_dict(known, strict=False)
    model.eval().requires_grad_(False)
    model.scorer.requires_grad_(True)
    return model


def look(model: Any, images: ImageDataset, recipe: Recipe, count: int) -> dict[str, float]:
    """Accuracy and hit rate on the first images, with hard patches."""
    batches = islice(evaluation_loader(images, recipe), count // recipe.batch)
    parts: list[Predictions] = [predict_batch(model, batch) for batch in batches]
    return measure(gather(parts))


def learn(
    model: Any, data: dict[str, ImageDataset], recipe: Recipe, every: int, count: int
) -> Iterator[dict[str, float]]:
    """The scorer learns; what is measured before the first step and after every `every` steps."""
    optimizer = torch.optim.AdamW(model.scorer.parameters(), lr=LEARNING_RATE)
    yield look(model, data["val"], recipe, count)
    for step, batch in enumerate(training_loader(data["train"], recipe, first=0), start=1):
        model.selection.train()
        torch.manual_seed(step)
        output = model(unit_range(batch.image))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(output.logits, batch.label).backward()
        optimizer.step()
        if step % every == 0:
            model.selection.eval()
            yield look(model, data["val"], recipe, count)


def show(points: Sequence[float]) -> str:
    return f"{100 * statistics.mean(points):.1f}% ({100 * min(points):.0f} to {100 * max(points):.0f})"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--images", type=int, default=320, help="validation images")
    return parser.parse_args()


def main() -> None:
    args = parse()
    keep_freed_memory()
    recipe = load_recipe(args.run / "recipe.yaml")
    recipe = replace(recipe, steps=args.steps, training=Training())
    records = open_records(recipe.data, seed=recipe.seed)
    data = {split: open_split(records, split, recipe.data, recipe.model.preparation) for split in ("train", "val")}
    trained = load_model(args.run / "best")
    full = look(trained, data["val"], recipe, args.images)
    print(f"the run's own scorer: accuracy {full['accuracy']:.1%}, hit rate {full['hit_rate']:.3f}", flush=True)
    curves: dict[str, list[list[dict[str, float]]]] = {gradient: [] for gradient in GRADIENTS}
    for gradient, seed in product(GRADIENTS, range(args.seeds)):
        model = forgetful(trained, gradient, seed)
        curve = [*learn(model, data, replace(recipe, seed=seed), args.every, args.images)]
        print(gradient, seed, *(f"{point['accuracy']:.3f}/{point['hit_rate']:.3f}" for point in curve), flush=True)
        curves[gradient].append(curve)
    head = ["gradient", *(f"{step} steps" for step in range(0, args.steps + 1, args.every))]
    for name in ("accuracy", "hit_rate"):
        rows = [
            [gradient, *(show([point[name] for point in at]) for at in zip(*its_curves, strict=True))]
            for gradient, its_curves in curves.items()
        ]
        title = f"Validation {name.replace('_', ' ')}, mean (worst to best) of {args.seeds} scorers, σ = {SIGMA}"
        print_table(title, head, rows)


if __name__ == "__main__":
    main()
