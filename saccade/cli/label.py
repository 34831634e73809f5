"""`saccade label RUN`: a page to correct the labels that a run is surest against."""

from pathlib import Path
from typing import TYPE_CHECKING

from jsonargparse import ArgumentParser, Namespace

from saccade.cli.command import Command
from saccade.cli.listening import add_entry_arguments, guard_entry, listen
from saccade.extras import require
from saccade.files import shown

if TYPE_CHECKING:
    from saccade.serve.labelling import Labelling


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="a run folder, one of folds too, as `saccade train` made it")
    add_entry_arguments(parser)
    parser.add_argument("--device", help="cpu, cuda, … (default: the predictor's own choice)")


def label(args: Namespace) -> int:
    """Show doubtful labels until Ctrl+C, and write what is corrected into their table."""
    require("serve", "saccade label")
    import uvicorn

    from saccade.serve.labelling import create_label_app

    work = find_work(args.run, args.device)
    with listen(args.host, int(args.port)) as sock:
        entry = guard_entry(args, sock)
        app = create_label_app(work, hosts=entry.hosts, token=entry.token)
        print(f"{len(work.suspects)} labels to look at on {entry.address} (Ctrl+C to stop)", flush=True)
        config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=5)
        uvicorn.Server(config).run(sockets=[sock])
    return 0


def find_work(run: Path, device: str | None) -> "Labelling":
    """The doubtful labels of a run, and the table they are in."""
    from saccade.data.label_table import LabelTable
    from saccade.data.loading import table_of
    from saccade.runs import FoldFolder, RunFolder
    from saccade.runs.suspects import find_suspects
    from saccade.serve.labelling import Labelling
    from saccade.training.batches import open_records
    from saccade.training.recipe import load_recipe

    folds = FoldFolder(run)
    first = next(iter(folds.runs().values())) if folds.is_folds else RunFolder(run)
    first.check()
    recipe = load_recipe(first.recipe_file)
    path = recipe.data.path
    if path is None or recipe.data.generate is not None:
        raise ValueError(f"{run}: its images were generated, and their labels are right")
    table_file, records = table_of(path), open_records(recipe.data, seed=recipe.seed)
    table = LabelTable(table_file, records, recipe.data.group)
    suspects = find_suspects(run, table.labels)
    if not suspects:
        print(f"{shown(run)}: every image that the model was asked about was answered as its label says")
    if not folds.is_folds and not first.evaluated("train"):
        print(f"labels of training images: `saccade evaluate {shown(run)} --split train`, then this command again")
    print(f"corrections are written to {shown(table.path)}, of which a copy is made first")
    return Labelling(table, records, suspects, device)


LABEL = Command("correct the labels that a run is surest against, on a page", _add_arguments, label)
