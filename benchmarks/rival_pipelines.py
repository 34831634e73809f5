"""What one might use instead, on the same small defects, network, weights, folds and machine: accuracy, time, memory.

    python benchmarks/rival_pipelines.py DATA --weights FILE [--folds 0 1 2] [--anomalib PYTHON] [--out FOLDER]

    saccade     `saccade train DATA --weights FILE`, as it is typed
    slices      every slice of the image as SAHI cuts it (a fifth overlaps), read by the network held still, and one
                linear layer that learns the image's label for each of its slices; the worst slice decides
    tuned       the same, with the size of slices, the decay of weights, and how often the layer is fitted anew to the
                worst slices of defective images alone, chosen on the folds that it learns from, by precision
    patchcore   anomalib's PatchCore: sound images alone, a memory of their cells, and how far an image is from it

DATA has two classes, splits by fold and files that one network reads whole: KolektorSDD's three published folds, or a
table like it. The network is tf_efficientnet_lite0, one thread. Times are the processor's, so that they hold where
others work, too; of runs that --runs brings along, what learning took is not known.

PatchCore needs anomalib, which wants an older jsonargparse than saccade: install it in an environment of its own and
give that one's PYTHON. Every contestant and fold is a process of its own, kept in FOLDER when it has ended: the same
command goes on where it was stopped. Features of slices are computed once. Takes about an hour of one thread.
"""

import argparse
import inspect
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rival_job import NETWORK, Job, make_job, numbers, rarer_class, read_image
from rival_slices import OF_SLICES, slices, tuned

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

SIZE = (640, 256)  # what PatchCore sees: of KolektorSDD half of each side
CELLS = ("blocks.2", "blocks.4")  # 1/8 and 1/16
CORESET = 0.002  # of the cells; by its own default of 0.1 choosing them would take hours of one thread
SEED = 0


# ---- the methods: each yields first the seconds it took to learn, then a score for each test image


def by_command(job: Job) -> Iterator[float]:
    from saccade.predict import Predictor
    from saccade.runs import RunFolder

    if not RunFolder(job.run).finished:
        command = [sys.executable, "-m", "saccade.cli", "train", str(job.data), f"--weights={job.weights}"]
        flags = [f"--data.fold={job.fold}", f"--out={job.run}", f"--seed={SEED}"]
        subprocess.run([*command, *flags], check=True, stdout=sys.stderr)
    took = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield took.ru_utime + took.ru_stime
    predictor = Predictor(job.run, device="cpu")
    for path, _ in job.test:
        yield predictor(path).probabilities[rarer_class(job.data)]


def patchcore(job: Job) -> Iterator[float]:
    import torch
    from anomalib.models.image.patchcore.torch_model import PatchcoreModel  # pyright: ignore[reportMissingImports]
    from safetensors.torch import load_file

    torch.manual_seed(SEED)
    began = time.process_time()
    model = PatchcoreModel(backbone=NETWORK, layers=CELLS, pre_trained=False)
    missing, _ = model.feature_extractor.feature_extractor.load_state_dict(load_file(job.weights), strict=False)
    assert not missing, missing
    model.train()
    with torch.no_grad():
        for path, defect in job.learn:
            if not defect:
                model(read_image(path, SIZE))
        model.subsample_embedding(CORESET)
        model.eval()
        yield time.process_time() - began
        for path, _ in job.test:
            yield float(model(read_image(path, SIZE)).pred_score)


METHODS = {"saccade": by_command, "slices": slices, "tuned": tuned, "patchcore": patchcore}
OWN = {**OF_SLICES, "patchcore": (patchcore,)}  # what one writes oneself; of saccade a command


# ---- measuring


def measure(method: str, job: Job) -> dict[str, float]:
    """In a process of its own."""
    reused = method == "saccade" and (job.run / "best").is_dir()  # nobody saw what its training took
    told = METHODS[method](job)
    learnt = next(told)
    began = time.process_time()
    scores = list(told)
    each = (time.process_time() - began) / len(job.test)
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    found = numbers(scores, [defect for _, defect in job.test])
    return {**found, "ms": 1000 * each, **({} if reused else {"mb": peak, "minutes": learnt / 60})}


def _row(method: str, found: list[dict[str, float]]) -> list[str]:
    def mean(name: str, digits: int) -> str:
        values = [each[name] for each in found if name in each]
        return f"{sum(values) / len(values):,.{digits}f}" if values else "–"

    each = ", ".join(f"{one['ap']:.3f}" for one in found)
    source = [inspect.getsource(part) for part in OWN.get(method, ())]
    lines = sum(bool(line.strip()) for text in source for line in text.splitlines()) or 1
    return [method, mean("ap", 3), each, mean("auroc", 3), mean("minutes", 1), mean("ms", 0), mean("mb", 0), str(lines)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--folds", nargs="+", default=["0", "1", "2"])
    parser.add_argument("--anomalib", default="", help="the Python of an environment that has anomalib")
    parser.add_argument("--only", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--out", type=Path, default=Path("results/runs/rivals"), help="what is done is kept here")
    parser.add_argument("--runs", type=Path, help="runs of saccade, fold-0 and so on (default: trained in --out)")
    parser.add_argument("--measure", choices=METHODS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    data, weights, out = given.data.absolute(), given.weights.absolute(), given.out.absolute()
    runs = (given.runs or out).absolute()
    if given.measure:
        (fold,) = given.folds
        print(json.dumps(measure(given.measure, make_job(data, weights, fold, out, runs / f"fold-{fold}"))))
        return
    from measure import print_table

    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for method in given.only:
        if method == "patchcore" and not given.anomalib:
            print("patchcore is left out: give --anomalib PYTHON", file=sys.stderr)
            continue
        found = []
        for fold in given.folds:
            file = out / f"{method}-{fold}.json"
            if not file.is_file():
                print(f"{method}, fold {fold}", file=sys.stderr, flush=True)
                python = given.anomalib if method == "patchcore" else sys.executable
                command = [python, __file__, str(data), f"--weights={weights}", f"--out={out}", f"--runs={runs}"]
                command += ["--folds", fold, "--measure", method]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                part = file.with_suffix(".part")
                part.write_text(done.stdout.splitlines()[-1])
                part.replace(file)
            found.append(json.loads(file.read_text()))
        rows.append(_row(method, found))
    header = ["", "average precision", "of each fold", "AUROC", "minutes to learn", "ms an image", "MB at most"]
    folds = ", ".join(given.folds)
    print_table(f"**{data.name}, folds {folds}, class {rarer_class(data)}**", [*header, "lines of yours"], rows)


if __name__ == "__main__":
    main()
