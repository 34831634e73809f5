"""Selection + extraction at the size of the traffic signs, against one-hot indicators times all patches.

python benchmarks/bench_extraction.py
"""

import torch
from bench_operator import DRAWS, SIGMA, K, make_scores
from measure import comparison_rows, extra_peak_mb, extra_peak_mb_elsewhere, median_seconds, memory_case, print_table
from rival_operators import OneHotTopK, extract_from_all

from saccade import extract, perturbed_topk
from saccade.extraction import make_grid
from saccade.scorer import ConvScorer

BATCH, IMAGE, VIEW, PATCH, STRIDE = 8, (960, 1280), (320, 426), 100, 24


def step_of(method: str, kind: str, batch: int = BATCH):
    """Scores and image to patches and back to the scores' gradient."""
    scores = make_scores(kind, batch=batch).requires_grad_()
    torch.manual_seed(0)
    image = torch.rand(batch, 3, *IMAGE)
    if method == "saccade, channels last":
        image = image.contiguous(memory_format=torch.channels_last)
    grad = torch.randn(batch, K, 3, PATCH, PATCH)
    field = ConvScorer(tiles=False).field
    grid = make_grid("stretched", image_size=IMAGE, view_size=VIEW, patch=(PATCH, PATCH), field=field)

    def ours():
        selection = perturbed_topk(scores, K, sigma=SIGMA, num_samples=DRAWS)
        extract(image, selection, grid).backward(grad)

    def theirs():
        indicators = OneHotTopK.apply(scores, K, SIGMA, DRAWS)
        patches = extract_from_all(image, indicators, patch=PATCH, stride=STRIDE, pad=(PATCH - STRIDE) // 2)
        patches.backward(grad.flatten(2))

    return theirs if method == "one-hot + unfold" else ours


METHODS = ["one-hot + unfold", "saccade", "saccade, channels last"]


def main() -> None:
    for kind in ("uniform", "peaked"):
        seconds = {method: median_seconds(step_of(method, kind), repeats=5) for method in METHODS}
        memory = {method: extra_peak_mb_elsewhere(__file__, f"{method}|{kind}") for method in METHODS}
        rows = comparison_rows(seconds, memory, unit=1000, time_digits=0, ratio_digits=1)
        title = f"Operator + extraction, {kind} scores, B={BATCH} {IMAGE[0]}×{IMAGE[1]}×3 P={PATCH} K={K} n={DRAWS}"
        print_table(title, ["method", "ms", "speed-up", "extra MB", "memory"], rows)


if __name__ == "__main__":
    if case := memory_case():
        method, kind = case.split("|")
        step_of(method, kind, batch=1)()
        print(extra_peak_mb(step_of(method, kind)))
    else:
        main()
