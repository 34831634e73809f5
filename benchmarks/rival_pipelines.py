"""What one might use instead, on the same small defects, network, weights, split and machine: accuracy, time, memory.

    python benchmarks/rival_pipelines.py DATA --weights FILE [--fold 0] [--anomalib PYTHON] [--only METHOD …]

    saccade     `saccade train DATA --weights FILE`, as it is typed
    slices      every slice of the image as SAHI cuts it (a fifth overlaps), read by the network held still, and one
                linear layer that learns the image's label for each of its slices; the worst slice decides
    patchcore   anomalib's PatchCore: sound images alone, a memory of their cells, and how far an image is from it

DATA has two classes, splits by fold and files that one network reads whole: KolektorSDD's three published folds, or a
table like it. The network is tf_efficientnet_lite0, one thread; test images are measured once. PatchCore needs
anomalib, which wants an older jsonargparse than saccade: install it in an environment of its own and give that one's
PYTHON. Takes about half an hour.
"""

import argparse
import csv
import inspect
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

NETWORK = "tf_efficientnet_lite0"
SLICE_PX, OVERLAP = 128, 0.2
SIZE = (640, 256)  # what PatchCore sees: of KolektorSDD half of each side
CELLS = ("blocks.2", "blocks.4")  # 1/8 and 1/16
CORESET = 0.002  # of the cells; by its own default of 0.1 choosing them would take hours of one thread
SEEDS = 0


def rows_of(data: Path) -> list[dict[str, str]]:
    with (data / "labels.csv").open() as table:
        return list(csv.DictReader(table))


def split(data: Path, fold: str, positive: str) -> tuple[list[tuple[Path, bool]], list[tuple[Path, bool]]]:
    """Images to learn from and to test, each with whether it is `positive`."""
    found: tuple[list[tuple[Path, bool]], list[tuple[Path, bool]]] = [], []
    for row in rows_of(data):
        found[row["fold"] == fold].append((next(data.rglob(row["image"])), row["label"] == positive))
    return found


def rarer_class(data: Path) -> str:
    labels = [row["label"] for row in rows_of(data)]
    return min({*labels}, key=labels.count)


# ---- the methods: each yields first the seconds it took to learn, then a score for each test image


def patchcore(learn: list[tuple[Path, bool]], test: list[tuple[Path, bool]], weights: Path) -> Iterator[float]:
    import torch
    from anomalib.models.image.patchcore.torch_model import PatchcoreModel  # pyright: ignore[reportMissingImports]
    from safetensors.torch import load_file

    torch.manual_seed(SEEDS)
    began = time.perf_counter()
    model = PatchcoreModel(backbone=NETWORK, layers=CELLS, pre_trained=False)
    missing, _ = model.feature_extractor.feature_extractor.load_state_dict(load_file(weights), strict=False)
    assert not missing, missing
    model.train()
    with torch.no_grad():
        for path, defect in learn:
            if not defect:
                model(_read(path, SIZE))
        model.subsample_embedding(CORESET)
        model.eval()
        yield time.perf_counter() - began
        for path, _ in test:
            yield float(model(_read(path, SIZE)).pred_score)


def slices(learn: list[tuple[Path, bool]], test: list[tuple[Path, bool]], weights: Path) -> Iterator[float]:
    import timm
    import torch
    from safetensors.torch import load_file

    from saccade.tasks.single import Single
    from saccade.training.frozen.heads import fit_glance

    network = timm.create_model(NETWORK, num_classes=0).eval()
    network.load_state_dict(load_file(weights), strict=False)

    def features(path: Path) -> torch.Tensor:
        image = _read(path)[0]
        steps = [_starts(side) for side in image.shape[-2:]]
        cut = [image[:, top : top + SLICE_PX, left : left + SLICE_PX] for top in steps[0] for left in steps[1]]
        with torch.inference_mode():
            return network(torch.stack(cut)).clone()

    began = time.perf_counter()
    seen = [(features(path), defect) for path, defect in learn]
    labels = torch.cat([torch.full((len(found),), int(defect)) for found, defect in seen])
    head = fit_glance(torch.cat([found for found, _ in seen]), labels, Single(("sound", "defect")))
    yield time.perf_counter() - began
    for path, _ in test:
        with torch.inference_mode():
            yield float(head(features(path)).diff(dim=1).max())


def _starts(side: int) -> list[int]:
    step = int(SLICE_PX * (1 - OVERLAP))
    return sorted({*range(0, side - SLICE_PX, step), side - SLICE_PX})


def _read(path: Path, size: tuple[int, int] | None = None) -> Any:
    """1 3 H W, as the network's weights want it; of `size` (height, width)."""
    import numpy as np
    import torch
    from PIL import Image

    image = Image.open(path).convert("RGB")
    image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR) if size else image
    return (torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255 - 0.5) / 0.5


METHODS = {"patchcore": patchcore, "slices": slices}


# ---- measuring


def measure(method: str, data: Path, fold: str, weights: Path) -> dict[str, float]:
    """In a process of its own."""
    import numpy as np

    positive = rarer_class(data)
    learn, test = split(data, fold, positive)
    told = METHODS[method](learn, test, weights)
    seconds = next(told)
    began = time.perf_counter()
    scores = np.array(list(told))
    each = (time.perf_counter() - began) / len(test)
    return _numbers(scores, np.array([defect for _, defect in test])) | {
        "minutes": seconds / 60,
        "ms": 1000 * each,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _numbers(scores: Any, there: Any) -> dict[str, float]:
    import torch
    from torchmetrics.functional.classification import binary_auroc, binary_average_precision

    told, target = torch.tensor(scores).double().argsort().argsort() / len(scores), torch.tensor(there).long()
    return {"ap": float(binary_average_precision(told, target)), "auroc": float(binary_auroc(told, target))}


def by_saccade(data: Path, fold: str, weights: Path) -> dict[str, float]:
    """The command as it is typed; the time of an image is that of `saccade predict` on the test images."""
    learn_test = split(data, fold, rarer_class(data))
    with tempfile.TemporaryDirectory() as folder:
        run, saccade = Path(folder) / "run", [sys.executable, "-m", "saccade.cli"]
        began = time.perf_counter()
        flags = [f"--weights={weights}", f"--data.fold={fold}", f"--out={run}", f"--seed={SEEDS}"]
        subprocess.run([*saccade, "train", str(data), *flags], check=True, stdout=sys.stderr)
        minutes = (time.perf_counter() - began) / 60
        told = json.loads((run / "evaluation" / "test.json").read_text())
        began = time.perf_counter()
        images = [str(path) for path, _ in learn_test[1]]
        predict = [*saccade, "predict", str(run), *images, f"--out={folder}/lines.jsonl"]
        subprocess.run(predict, check=True, stdout=sys.stderr)
        each = (time.perf_counter() - began) / len(images)
        return {
            "ap": told["average_precision"],
            "auroc": told["auroc"],
            "minutes": minutes,
            "ms": 1000 * each,
            "mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--fold", default="0")
    parser.add_argument("--anomalib", default="", help="the Python of an environment that has anomalib")
    parser.add_argument("--only", nargs="+", choices=("saccade", *METHODS), default=("saccade", *METHODS))
    parser.add_argument("--measure", choices=METHODS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    data, weights = given.data.absolute(), given.weights.absolute()
    if given.measure:
        print(json.dumps(measure(given.measure, data, given.fold, weights)))
        return
    from measure import print_table

    rows = []
    for method in given.only:
        if method == "patchcore" and not given.anomalib:
            print("patchcore is left out: give --anomalib PYTHON", file=sys.stderr)
            continue
        if method == "saccade":
            found = by_saccade(data, given.fold, weights)
        else:
            python = given.anomalib if method == "patchcore" else sys.executable
            command = [python, __file__, str(data), f"--weights={weights}", f"--fold={given.fold}"]
            done = subprocess.run([*command, f"--measure={method}"], check=True, stdout=subprocess.PIPE, text=True)
            found = json.loads(done.stdout.splitlines()[-1])
        numbers = f"{found['ap']:.3f}", f"{found['auroc']:.3f}", f"{found['minutes']:.1f}", f"{found['ms']:.0f}"
        # A command, or the function above.
        lines = 1 if method == "saccade" else len(inspect.getsource(METHODS[method]).splitlines())
        rows.append([method, *numbers, f"{found['mb']:,.0f}", str(lines)])
    header = ["", "average precision", "AUROC", "minutes to learn", "ms an image", "MB at most", "lines of yours"]
    print_table(f"**{data.name}, fold {given.fold}, class {rarer_class(data)}**", header, rows)


if __name__ == "__main__":
    main()
