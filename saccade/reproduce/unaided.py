"""Flags that take every aid of ours out of a recipe: its training is then the paper's, and so are noise and gradient.

Softly chosen patches from the first step on, cross-entropy and entropy bonus alone, σ falling to zero.
"""


def unaided(entropy: float = 0.01) -> tuple[str, ...]:
    """The paper's training with an entropy coefficient of `entropy`."""
    return (
        "--training.name=paper",
        "--training.label_free.steps=0",
        "--training.guided=0.0",
        "--training.scorer.rate=1.0",
        "--training.scorer.start=1.0",
        "--training.evenly=false",
        f"--training.loss.entropy_coefficient={entropy}",
    )


def topk(sigma: float = 0.05) -> tuple[str, ...]:
    """Of the perturbed top-K alone: 500 draws at one of the σ that the paper tunes, its gradient not scaled by it."""
    return (
        "--model.selection.gradient_per_sigma=false",
        f"--model.selection.sigma={sigma}",
        "--model.selection.num_samples=500",
    )
