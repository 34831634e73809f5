"""`saccade export RUN model.onnx`: the trained model for other runtimes."""

from pathlib import Path

from jsonargparse import ArgumentParser, Namespace
from jsonargparse.typing import PositiveInt

from saccade.cli.command import Command


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run folder, or one written by save_pretrained")
    parser.add_argument("out", type=Path, help="the file to write: .onnx, or .pt2 for torch.export")
    parser.add_argument(
        "--image-size", type=PositiveInt, nargs=2, help="height and width to trace with (default: those of training)"
    )
    parser.add_argument("--opset", type=PositiveInt, help="of the ONNX file (default: 18)")
    parser.add_argument("--static", action="store_true", help="one image of one size a call; some runtimes need it")
    parser.add_argument("--check", type=Path, help="folder of images to compare on (default: the run's own)")


def export(args: Namespace) -> int:
    """Write the file and say what it takes and how far it is from PyTorch."""
    from rich.console import Console

    from saccade.export import export_model

    size = args.image_size and (args.image_size[0], args.image_size[1])
    options = {"opset": args.opset} if args.opset else {}
    done = export_model(args.run, args.out, image_size=size, static=args.static, check=args.check, **options)
    say = Console(soft_wrap=True, highlight=False, markup=False).print
    fixed = ", ".join(f"{name} is fixed at {side}" for name, side in done.fixed.items())
    say(f"image: {fixed or 'any batch, height and width'}")
    differences = ", ".join(f"{name} {value:.1e}" for name, value in done.check.difference.items())
    ties = f"; {done.check.ties} left out, whose scores are equal" if done.check.ties else ""
    say(f"checked against PyTorch on {done.check.source} ({done.check.images} with variants{ties})")
    say(f"largest difference, relative to 1 + the largest value: {differences}")
    say(f"written: {done.path.absolute().as_uri()}")
    return 0


EXPORT = Command("write a model as ONNX or for torch.export", _add_arguments, export)
