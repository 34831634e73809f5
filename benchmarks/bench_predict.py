"""`saccade predict` on a folder of photographs, against decoding alone and a plain script; and from start to answer.

python benchmarks/bench_predict.py [--photos 300]

Takes about three minutes with 60 photographs of 12 megapixels. The model has a ResNet-18 on four patches of 128² and
random weights, which cost what trained ones do. Everyone has the same number of readers beside the process of the
network, and threads as torch chooses them:

    decoding alone   readers hand over pixels and nobody looks at them
    network alone    the answers for photographs that are read already
    predict          `Predictor.stream`, which is what `saccade predict` calls
    plain, resized   torchvision decodes and resizes in a loader's processes; timm's ResNet-18 on the whole image, as
                     small as has the same multiply-adds
    plain, whole     timm's ResNet-50 on all pixels, measured on two images
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import timm
import torch
from bench_images import make_texture
from measure import print_table
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms.v2 import functional as v2

from saccade.cli.memory import keep_freed_memory
from saccade.config import ModelConfig
from saccade.evaluation import multiply_adds
from saccade.model import PatchSelectionModel
from saccade.predict import Predictor
from saccade.predict.reading import Reader
from saccade.predict.stream import read_ahead

SIZE, PATCH, K, BATCH, ROUNDS = (3000, 4000), 128, 4, 8, 3
READERS = max((os.cpu_count() or 2) // 2, 1)


def write_photos(folder: Path, count: int) -> list[Path]:
    """Crops of one texture, 0.3 bytes a pixel."""
    texture = make_texture(SIZE[0] // 16 * 16 + 160, SIZE[1] + 160)
    for number in range(count):
        part = texture[number % 64 : number % 64 + SIZE[0], number : number + SIZE[1]]
        Image.fromarray(part[:, : SIZE[1]]).save(folder / f"{number:03d}.jpg", quality=95)
    return sorted(folder.iterdir())


def make_model() -> PatchSelectionModel:
    torch.manual_seed(0)
    config = ModelConfig(
        num_classes=4,
        image_size=SIZE,
        view={"scale": 1 / 8},
        selection={"name": "perturbed", "k": K},
        extraction={"patch": PATCH},
        features={"name": "backbone", "model": "resnet18"},
    )
    return PatchSelectionModel.from_config(config).eval()


class Resized(Dataset[torch.Tensor]):
    """What a plain script reads: whole images, made small."""

    def __init__(self, paths: list[Path], size: tuple[int, int] | None):
        self.paths, self.size = paths, size

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        image = decode_image(str(self.paths[index]), ImageReadMode.RGB)
        return v2.resize(image, list(self.size), antialias=True) if self.size else image


@torch.inference_mode()
def plain(network: str, paths: list[Path], size: tuple[int, int] | None, batch: int) -> None:
    model = timm.create_model(network, num_classes=4).eval().to(memory_format=torch.channels_last)
    for images in DataLoader(Resized(paths, size), batch, num_workers=READERS):
        model((images.float() / 255).to(memory_format=torch.channels_last))


def size_for(work: float) -> tuple[int, int]:
    """Height and width, in the shape of the photographs, at which a ResNet-18 has so many multiply-adds."""
    of_224 = 1.82e9
    side = 224 * (work / of_224) ** 0.5
    ratio = (SIZE[0] / SIZE[1]) ** 0.5
    return round(side * ratio), round(side / ratio)


def decode_all(paths: list[Path]) -> None:
    for loaded in read_ahead(Reader(), paths, workers=READERS):
        assert loaded.image


def predict_all(predictor: Predictor, paths: list[Path]) -> None:
    for _ in predictor.stream(paths, batch=BATCH, workers=READERS):
        pass


def per_second(step: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    step()
    return count / (time.perf_counter() - start)


def compare(paths: list[Path]) -> None:
    model = make_model()
    work = multiply_adds(model, SIZE)["total"]
    small, predictor = size_for(work), Predictor(model, device="cpu")
    read = [predictor.reader(path) for path in paths[:BATCH]]
    ways: dict[str, tuple[Callable[[], object], int]] = {
        "decoding alone": (lambda: decode_all(paths), len(paths)),
        "network alone": (lambda: [predictor.answer([image]) for image in read], len(read)),
        "saccade predict": (lambda: predict_all(predictor, paths), len(paths)),
        f"ResNet-18, resized to {small[0]}×{small[1]}": (lambda: plain("resnet18", paths, small, BATCH), len(paths)),
        "ResNet-50, whole image": (lambda: plain("resnet50", paths[:2], None, 1), 2),
    }
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS):
        for name, (step, count) in ways.items():
            if count > 2 or not number:
                speeds[name].append(per_second(step, count))
    base = max(speeds["decoding alone"])
    rows = [[name, f"{max(each):.2f}", f"{max(each) / base:.2f}"] for name, each in speeds.items()]
    title = f"{len(paths)} JPEGs of 12 megapixels, {READERS} reader(s), {work / 1e9:.1f} G multiply-adds an image"
    print_table(title, ["what", "images per second", "of decoding alone"], rows)


def seconds_of(command: list[str]) -> tuple[float, float]:
    """On the clock, and of the processor."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, used


def compare_starts(path: Path, folder: Path) -> None:
    make_model().save_pretrained(folder)
    commands = {
        "import torch, timm": [sys.executable, "-c", "import torch, timm"],
        "saccade predict RUN one.jpg": [sys.executable, "-m", "saccade.cli", "predict", str(folder), str(path)],
    }
    times = [{name: seconds_of(command) for name, command in commands.items()} for _ in range(5)]
    best = {name: [min(each[name][kind] for each in times) for kind in (0, 1)] for name in commands}
    base = best["import torch, timm"]
    rows = [
        [name, f"{clock:.2f}", f"{clock / base[0]:.2f}", f"{cpu:.2f}", f"{cpu / base[1]:.2f}"]
        for name, (clock, cpu) in best.items()
    ]
    print_table("From start to first answer", ["what", "s", "ratio", "processor s", "ratio"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=int, default=60)
    count = parser.parse_args().photos
    keep_freed_memory()  # as the command does
    with tempfile.TemporaryDirectory() as folder:
        (photos := Path(folder, "photos")).mkdir()
        paths = write_photos(photos, count)
        compare_starts(paths[0], Path(folder, "model"))
        compare(paths)


if __name__ == "__main__":
    main()
