"""A run → `report.html`: one file that tells how good the model is, where it looks, how it learnt, and what it is.

Every section is a function from what it shows to markup, or to None if the run has nothing of it.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saccade.files import write_whole
from saccade.images.decode import BadImage
from saccade.report.examples import Examiner, confident_mistakes, of_class, open_examiner, typical_successes
from saccade.report.look import Look, extent, glance_look
from saccade.report.markup import Html, chart, element, enlargeable, join, page, photo, pixels, table
from saccade.report.numbers import Cost, Number, amount, cost, headline, interval, measured, percent
from saccade.report.overlay import Caption, overlay
from saccade.report.plots import confusion_matrix, count_confusions, learning_curves, mosaic
from saccade.runs import RunFolder
from saccade.runs.prediction_tables import PredictionRow, PredictionTable
from saccade.runs.run_contents import Run
from saccade.runs.training_panels import Panel

EXAMPLES = 6  # right answers, and wrong ones
GALLERY_CLASSES, GALLERY_IMAGES = 10, 40
SHARPENED = 3  # images whose selection is shown at each moment


def write_report(folder: Path | str, out: Path | None = None) -> Path:
    """Write the report of the run in `folder` to `out` (default: into the folder) and return its path."""
    run = RunFolder(folder).read()
    answers = run.predictions.get(run.split or "")
    examiner, trouble = _examiner(run) if answers else (None, None)
    body = [
        _opening(run, answers),
        _warnings(run),
        _curves(run),
        _confusions(answers) if answers else None,
        trouble,
        _answers(answers, examiner) if answers and examiner else None,
        _gallery(answers, examiner) if answers and examiner else None,
        _sharpening(run, examiner),
        _facts(run),
    ]
    return write_whole(out or run.folder.report_file, page(f"{run.name} · Saccade", *body))


def _examiner(run: Run) -> tuple[Examiner | None, Html | None]:
    # The numbers are worth a report even where the model is not there to be asked again.
    try:
        return open_examiner(run), None
    except (OSError, ValueError, RuntimeError) as error:
        said = element("p", f"The best model cannot be loaded, so nothing can be shown of where it looks: {error}")
        return None, _section("Where it looks", said)


def _section(title: str, *body: Html | None) -> Html:
    return element("section", element("h2", title), *body)


def _paragraph(text: str, kind: str = "soft") -> Html:
    return element("p", text, class_=kind)


# ---- numbers


def _opening(run: Run, answers: PredictionTable | None) -> Html:
    title = element("h1", run.name)
    if answers is None:
        return element("header", title, _paragraph(f"Step {run.steps_done:,}: not evaluated yet.", "lead"))
    numbers = headline(answers)
    tiles = [_tile(number) for number in (*numbers, *measured(run))] + _cost_tiles(run)
    lead, note = _paragraph(summary(run, answers, numbers), "lead"), _paragraph("Below each share: its 95% interval.")
    return element("header", title, lead, element("div", *tiles, class_="tiles"), note)


def summary(run: Run, answers: PredictionTable, numbers: Sequence[Number]) -> str:
    """The run in a few sentences."""
    known, spent = {number.name: number.estimate for number in numbers}, cost(run)
    said = (
        f"Of {len(answers.rows):,} {run.split} images of {len(answers.classes)} classes, "
        f"{percent(known['accuracy'].value)} are answered right (95% interval {interval(known['accuracy'])}%)."
    )
    if "hit rate" in known:
        said += f" A chosen patch shows the evidence in {percent(known['hit rate'].value)}."
    if not math.isnan(spent.patch_pixels):
        said += f" The model looks closely at {percent(spent.patch_pixels / spent.image_pixels)} of an image."
    if run.recipe.get("final"):
        said += " It was trained on the validation images too: how good it is on them says nothing of others."
    return said


def _tile(number: Number) -> Html:
    estimate = number.estimate
    ends = None if math.isnan(estimate.low) else element("em", f"{interval(estimate)}%")
    value = element("b", percent(estimate.value))
    return element("div", element("span", number.name), value, ends, element("small", number.meaning), class_="tile")


def _cost_tiles(run: Run) -> list[Html]:
    spent = cost(run)
    where = run.evaluations.get(run.split or "", {}).get("hardware", "")
    share = percent(spent.patch_pixels / spent.image_pixels)
    closely = f"{amount(spent.patch_pixels)} of {amount(spent.image_pixels)} pixels, in patches"
    tiles = [
        ("time per image", amount(spent.milliseconds, " ms", 1), where),
        ("multiply-adds", amount(spent.multiply_adds / 1e6, " million", 1), _scorer_share(spent)),
        ("memory", amount(spent.memory_mb, " MB"), "at most, of the process, training included"),
        ("looked at closely", share, closely),
        ("view", amount(spent.view_pixels), f"pixels, of {amount(spent.image_pixels)} in the image"),
        ("training", amount(spent.minutes, " min", 1), f"{spent.images_seen:,} images seen"),
        ("parameters", amount(spent.parameters), run.system),
    ]
    return [
        element("div", element("span", name), element("b", value), element("small", note), class_="tile")
        for name, value, note in tiles
        if value != "–"
    ]


def _scorer_share(spent: Cost) -> str:
    if math.isnan(spent.scorer_multiply_adds):
        return "for one image"
    return f"for one image, {percent(spent.scorer_multiply_adds / spent.multiply_adds)} of them in the scorer"


def _warnings(run: Run) -> Html | None:
    if not run.warnings:
        return None
    notes = [
        element(
            "div",
            element("p", element("b", f"Step {caution.step:,}, {caution.kind}: "), caution.message),
            class_="warn",
        )
        for caution in run.warnings
    ]
    return _section("Warnings during training", *notes)


def _curves(run: Run) -> Html | None:
    if not run.metrics:
        return None
    return _section("Learning curves", chart(learning_curves(run), "Loss, accuracy and more over the training steps"))


def _confusions(answers: PredictionTable) -> Html:
    counts = count_confusions(answers)
    of = counts.sum(axis=1)
    wrong = [
        (int(counts[i, j]), i, j) for i in range(len(counts)) for j in range(len(counts)) if i != j and counts[i, j]
    ]
    worst = [
        (answers.classes[i], answers.classes[j], f"{n:,} of {of[i]:,} ({percent(n / of[i])})")
        for n, i, j in sorted(wrong, key=lambda entry: (-entry[0], *entry[1:]))[:8]
    ]
    pairs = table(("it is", "the model says", "how often"), worst) if worst else _paragraph("No answer is wrong.")
    alt = "Confusion matrix: true classes in rows, answers in columns"
    matrix, most = chart(confusion_matrix(answers), alt), element("div", element("h3", "Most often"), pairs)
    return _section("What is taken for what", element("div", matrix, most, class_="beside"))


# ---- pictures


def _answers(answers: PredictionTable, examiner: Examiner) -> Html:
    groups = {
        "Wrong answers, the surest first": confident_mistakes(answers, EXAMPLES),
        "Right answers, of usual confidence": typical_successes(answers, EXAMPLES),
    }
    seen = {title: [(row, _see(examiner, row)) for row in rows] for title, rows in groups.items()}
    looks = [look for pairs in seen.values() for _, look in pairs if isinstance(look, Look)]
    parts: list[Html] = [_paragraph(_key(looks))]
    for title, pairs in seen.items():
        pictures = [_example(row, look) for row, look in pairs]
        found = element("div", *pictures, class_="pictures") if pictures else _paragraph("There are none.")
        parts += [element("h3", title), found]
    return _section("Answers and where they came from", *parts)


def _see(examiner: Examiner, answer: PredictionRow) -> Look | BadImage:
    try:
        return examiner.see(answer).look
    except BadImage as error:
        return error


def _key(looks: Sequence[Look]) -> str:
    """How to read the pictures, as far as the system has what they show."""
    lines = {
        "Brighter is a higher score.": any(look.scores.size for look in looks),
        "Boxes are the patches looked at.": any(len(look.boxes) for look in looks),
        "They are numbered from the highest score on.": any(len(look.values) for look in looks),
        "Dashed boxes are where the evidence is, where the data says so.": True,
        "Click a picture to enlarge it.": True,
    }
    return " ".join(line for line, applies in lines.items() if applies)


def _example(answer: PredictionRow, look: Look | BadImage) -> Html:
    caption = Caption(answer.predicted, answer.confidence, answer.label)
    said = element("span", caption.text, class_="right" if answer.right else "wrong")
    if isinstance(look, BadImage):
        return element("figure", element("figcaption", said, element("br"), f"{look.path.name}: {look.reason}"))
    name = Path(answer.image).name
    return enlargeable(photo(overlay(look, width_in=6.5), f"{name}: {caption.text}"), join((said, f" · {name}")))


def _gallery(answers: PredictionTable, examiner: Examiner) -> Html | None:
    each = max(3, min(8, GALLERY_IMAGES // len(answers.classes)))
    strips, scored, seen = [], False, False
    for name in answers.classes[:GALLERY_CLASSES]:
        looks = [_see(examiner, answer) for answer in of_class(answers, name, each)]
        looks = [look for look in looks if isinstance(look, Look)]
        patches = [look.crops[0] for look in looks if len(look.crops)]
        seen, scored = seen or bool(looks), scored or any(len(look.values) for look in looks)
        if patches:
            strip = pixels(mosaic(patches), f"Patches of {name}")
            strips.append(element("figure", strip, element("figcaption", name), class_="strip"))
    if not strips:
        return (
            _section("Patches", _paragraph("This system chooses none; there are no patches to show.")) if seen else None
        )
    left_out = len(answers.classes) - GALLERY_CLASSES
    more = f" {left_out} classes more are not shown." if left_out > 0 else ""
    which = "The patch with the highest score" if scored else "The first patch"
    return _section("Patches", _paragraph(f"{which}, in {each} images of each class.{more}"), *strips)


def _sharpening(run: Run, examiner: Examiner | None) -> Html | None:
    steps = run.folder.panel_steps()
    if not steps:
        return None
    moments = [run.folder.panel(steps[place]) for place in sorted({0, len(steps) // 2, len(steps) - 1})]
    key = (
        "The same images during training. A soft selection tries many places at once, and every patch is a blend of "
        "them, until it has sharpened. The fainter a box, the less of it is in the patches."
    )
    rows = [
        element("div", *(_moment(run, panel, number, examiner) for panel in moments), class_="pictures moments")
        for number in range(min(SHARPENED, *(len(panel.glances) for panel in moments)))
    ]
    return _section("How the selection sharpened", _paragraph(key), *rows)


def _moment(run: Run, panel: Panel, number: int, examiner: Examiner | None) -> Html:
    glance = panel.glances[number]
    grid = getattr(examiner.model, "grid", None) if examiner else None
    picture = overlay(glance_look(glance, extent(grid(glance.size)) if grid else None), width_in=5.0)
    done = panel.progress
    when = "start" if done <= 0 else "end" if done >= 1 else f"after {percent(done, 0)} of training"
    noise = "" if math.isnan(panel.sigma) else f", σ = {panel.sigma:.3f}" if panel.sigma else ", no noise"
    text = f"{when}: step {panel.step:,}{noise}"
    return enlargeable(photo(picture, f"Where the model looks; {text}"), element("span", text))


# ---- what the run was


def _facts(run: Run) -> Html:
    known, data, model = run.facts, run.recipe.get("data") or {}, run.recipe.get("model") or {}
    rows = {
        "data": data.get("path"),
        "system": run.system,
        "patches": _stage(model, "selection", "extraction") if run.system == "patch_selection" else None,
        "options": _stage(model, "options"),
        "features": _stage(model, "features"),
        "steps": f"{run.steps_done:,} of {run.recipe.get('batch')} images, {_phases(run)}",
        "seed": known.get("seed", run.recipe.get("seed")),
        "began": known.get("began"),
        "finished": known.get("finished"),
        "hardware": known.get("hardware"),
        "threads": known.get("threads"),
        "saccade": known.get("saccade"),
        "commit": known.get("commit"),
        "python": known.get("python"),
        "versions": ", ".join(f"{name} {version}" for name, version in (known.get("versions") or {}).items()),
        "command": known.get("command"),
    }
    recipe = run.folder.recipe_text()
    details = element("details", element("summary", "The whole recipe"), element("pre", recipe))
    told = [(name, value) for name, value in rows.items() if value not in (None, "")]
    return _section("What this run was", table((), told), details)


def _phases(run: Run) -> str:
    return ", ".join(f"{phase.name} {phase.end - phase.first:,}" for phase in run.phases)


def _stage(model: dict[str, Any], *names: str) -> str:
    options = {key: value for name in names for key, value in (model.get(name) or {}).items()}
    return ", ".join(str(value) if key == "name" else f"{key} {value}" for key, value in options.items())
