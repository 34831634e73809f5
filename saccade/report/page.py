"""A run → `report.html`: one file that tells how good the model is, where it looks, how it learned, and what it is.

Every section is a function from what it shows to what its part of the template takes, None if the run has nothing of
it. Those with pictures of images are in `shown_images`.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from saccade.report.answers import show_answers
from saccade.report.decision_sections import show_decisions, show_reliability
from saccade.report.numbers import (
    Cost,
    amount,
    cost,
    headline,
    interval,
    measured,
    percent,
    show_interval,
    show_number,
)
from saccade.report.plots import learning_curves
from saccade.report.rendering import chart, write_rendered
from saccade.report.shown_images import show_examples, show_gallery, show_sharpening
from saccade.report.task_numbers import Number
from saccade.runs import RunFolder
from saccade.runs.prediction_tables import PredictionTable
from saccade.runs.run_contents import Run
from saccade.system import System


class Tile(NamedTuple):
    """A number to see at once: its name, what it is, what it means and perhaps its 95% interval."""

    name: str
    value: str
    meaning: str
    interval: str = ""


def write_page(folder: RunFolder | Path | str, out: Path | None = None) -> Path:
    """Write the report of the run in `folder` to `out` (default: into the folder) and return its path."""
    run = (folder if isinstance(folder, RunFolder) else RunFolder(folder)).read()
    table = run.predictions.get(run.split or "")
    numbers = headline(table, run.positive) if table else []
    model, trouble = _load(run) if table else (None, None)
    return write_rendered(
        out or run.folder.report_file,
        "report.html.jinja",
        title=run.name,
        summary=summarize(run, table, numbers) if table else f"Step {run.steps_done:,}: not evaluated yet.",
        tiles=[tile(number) for number in (*numbers, *measured(run))] + _cost_tiles(run) if table else [],
        warnings=run.warnings,
        curves=chart(learning_curves(run), "Loss, accuracy and more over the training steps") if run.metrics else None,
        answers=show_answers(table) if table else [],
        reliability=show_reliability(run) if table else None,
        decisions=show_decisions(run, table) if table else None,
        trouble=trouble,
        examples=show_examples(model, table) if model and table else None,
        gallery=show_gallery(model, table) if model and table else None,
        moments=show_sharpening(run.folder),
        facts=_facts(run),
        recipe=run.folder.recipe_text(),
    )


def _load(run: Run) -> tuple[System | None, str | None]:
    # The numbers are worth a report even where the model is not there to be asked again.
    try:
        return run.folder.load_best(), None
    except (OSError, ValueError, RuntimeError) as error:
        return None, str(error)


def summarize(run: Run, table: PredictionTable, numbers: Sequence[Number]) -> str:
    """The run in a few sentences."""
    known, spent = {number.name: number.estimate for number in numbers}, cost(run)
    said = _say_first(run, table, numbers)
    if "hit rate" in known:
        said += f" A chosen patch shows the evidence in {percent(known['hit rate'].value)}."
    if not math.isnan(spent.patch_pixels):
        said += f" The model looks closely at {percent(spent.patch_pixels / spent.image_pixels)} of an image."
    if run.recipe.get("final"):
        said += " It was trained on the validation images too: how good it is on them says nothing of others."
    return said


def _say_first(run: Run, table: PredictionTable, numbers: Sequence[Number]) -> str:
    images, first = f"{len(table.rows):,} {run.split} images", numbers[0]
    if table.task == "single":
        return (
            f"Of {images} of {len(table.classes)} classes, {percent(first.estimate.value)} are answered right "
            f"(95% interval {interval(first.estimate)}%)."
        )
    ends = show_interval(first)
    sure = f" (95% interval {ends})" if ends else ""
    if table.task != "questions":
        return f"Over {images}, {first.name} is {show_number(first)}{sure}: {first.meaning}."
    each = {
        name.partition(": ")[0]: number for name, number in reversed([(n.name, n) for n in numbers if ": " in n.name])
    }
    told = [f"{number.name} {show_number(number)}" for number in reversed(each.values())]
    return f"Over {images}, {len(table.questions)} questions are answered: {', '.join(told)}."


def tile(number: Number) -> Tile:
    """A share to see at once."""
    return Tile(number.name, show_number(number), number.meaning, show_interval(number))


def _cost_tiles(run: Run) -> list[Tile]:
    spent = cost(run)
    share = percent(spent.patch_pixels / spent.image_pixels)
    closely = f"{amount(spent.patch_pixels)} of {amount(spent.image_pixels)} pixels, in patches"
    tiles = [
        Tile("time per image", amount(spent.milliseconds, " ms", 1), run.evaluation.get("hardware", "")),
        Tile("multiply-adds", amount(spent.multiply_adds / 1e6, " million", 1), _scorer_share(spent)),
        Tile("memory", amount(spent.memory_mb, " MB"), "at most, of the process, training included"),
        Tile("looked at closely", share, closely),
        Tile("view", amount(spent.view_pixels), f"pixels, of {amount(spent.image_pixels)} in the image"),
        Tile("training", amount(spent.minutes, " min", 1), f"{spent.images_seen:,} images seen"),
        Tile("parameters", amount(spent.parameters), run.system),
    ]
    return [tile for tile in tiles if tile.value != "–"]


def _scorer_share(spent: Cost) -> str:
    if math.isnan(spent.scorer_multiply_adds):
        return "for one image"
    return f"for one image, {percent(spent.scorer_multiply_adds / spent.multiply_adds)} of them in the scorer"


def _facts(run: Run) -> list[tuple[str, Any]]:
    known, data, model = run.facts, run.recipe.get("data") or {}, run.recipe.get("model") or {}
    rows = {
        "data": data.get("path"),
        "system": run.system,
        "patches": _stage(model, "selection", "extraction") if run.system == "patch_selection" else None,
        "options": _stage(model, "options"),
        "features": _stage(model, "features"),
        "steps": f"{run.steps_done:,} of {run.recipe.get('batch')} images{_phases(run)}",
        "seed": known.get("seed", run.recipe.get("seed")),
        **{name: known.get(name) for name in ("began", "finished", "hardware", "threads", "saccade", "commit")},
        "python": known.get("python"),
        "versions": ", ".join(f"{name} {version}" for name, version in (known.get("versions") or {}).items()),
        "command": known.get("command"),
    }
    return [(name, value) for name, value in rows.items() if value not in (None, "")]


def _phases(run: Run) -> str:
    spans = [f"{phase.name} {phase.end - phase.first:,}" for phase in run.phases]
    return f": {', '.join(spans)}" if len(spans) > 1 else ""


def _stage(model: dict[str, Any], *names: str) -> str:
    options = {key: value for name in names for key, value in (model.get(name) or {}).items()}
    return ", ".join(str(value) if key == "name" else f"{key} {value}" for key, value in options.items())
