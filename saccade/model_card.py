"""`README.md` beside a model: what it is, what it was trained on, how good it is, what it is for and where it ends.

`save_pretrained` writes one that says what the config tells; the run that trained the model knows the rest (`Story`).
A card without the line `MARK` is somebody's own text, and stays as it is.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from saccade.config import ModelConfig
from saccade.files import shown, write_whole

CARD = "README.md"
MARK = "<!-- Written by Saccade; without this line it is your own text, and is never written over. -->"
NAMES = 40  # classes that are listed
FRONT = """---
library_name: saccade
pipeline_tag: image-classification
tags:
- saccade
- patch-selection
---"""
ELSEWHERE = (
    "Figures hold for images like those it was measured on. Another camera, other light, other resolution or other "
    "classes: measure it there before anything depends on it."
)
ALWAYS_ANSWERS = "It has an answer for every image, also for one that shows nothing it knows."
LOOKS_CLOSELY = (
    "It looks closely at {k} patches of {patch}. What is neither in one of them nor visible in the small view can not "
    "change its answer, and boxes show where it looked, not why it decided."
)


class Figure(NamedTuple):
    """A number, the two ends of its 95% interval where there is one, and what it means."""

    split: str
    name: str
    value: str
    interval: str
    meaning: str


class Story(NamedTuple):
    """What a run knows of its model.

    trained_on: facts, each a sentence; limits likewise.
    picture:    a file beside the card that shows where the model looks.
    """

    title: str
    trained_on: Sequence[str]
    figures: Sequence[Figure]
    limits: Sequence[str] = ()
    picture: str | None = None


UNKNOWN = Story("A model of Saccade", ["It was saved by hand, so this card does not know what it was trained on."], [])


def write_card(folder: Path, config: ModelConfig, parameters: int, story: Story = UNKNOWN) -> Path:
    """Write the card of the model in `folder`, unless somebody's own is there."""
    path = folder / CARD
    if path.is_file() and MARK not in path.read_text(encoding="utf-8", errors="replace"):
        return path
    text = "\n\n".join(_paragraphs(config, parameters, story)) + "\n"
    return write_whole(path, text.encode(errors="backslashreplace"))


def _paragraphs(config: ModelConfig, parameters: int, story: Story) -> Iterator[str]:
    yield f"{FRONT}\n{MARK}"
    yield f"# {_plain(story.title)}"
    yield _what_it_is(config, parameters)
    if story.picture:
        yield f"![Where the model looked, what it said, and what is true]({story.picture})"
    yield "## Use"
    yield '```python\nfrom saccade import Predictor\n\nprediction = Predictor("hf://OWNER/MODEL")("image.jpg")\n```'
    yield "The folder holds weights as safetensors and a config as JSON; no code comes with it."
    yield "## Training"
    yield "\n".join(f"- {_plain(line)}" for line in story.trained_on)
    yield "## Figures"
    yield _table(story.figures) if story.figures else "Nobody has measured it, as far as this card knows."
    yield "## Intended use"
    yield f"To {_purpose(config)} in images like those above, by people who look at its mistakes first."
    yield "## Limits"
    yield "\n".join(f"- {_plain(line)}" for line in (*story.limits, *_limits(config)))


def _what_it_is(config: ModelConfig, parameters: int) -> str:
    height, width = config.image_size
    system = config.system.replace("_", " ")
    names = [_code(name) for name in config.classes[:NAMES]]
    more = f" and {len(config.classes) - NAMES} more" if len(config.classes) > NAMES else ""
    listed = f" It knows {', '.join(names)}{more}." if names else ""
    return (
        f"A {system} model of {parameters:,} parameters, for images of about {width}×{height} px.{listed} Features: "
        f"{_code(config.features.get('model') or config.features.get('name'))}."
    )


def _purpose(config: ModelConfig) -> str:
    return {
        "multi": "tell which of these labels apply",
        "ordinal": "tell the level",
        "regression": "estimate the number",
        "questions": "answer these questions",
    }.get(config.task.get("name", "single"), "tell these classes apart")


def _limits(config: ModelConfig) -> Iterator[str]:
    yield ELSEWHERE
    if config.task.get("name") != "regression":
        yield ALWAYS_ANSWERS
    if config.system == "patch_selection" and (k := config.selection.get("k")):
        sizes = config.extraction.get("sizes") or [config.extraction.get("patch", 0)]
        sides = [size if isinstance(size, list | tuple) else [size, size] for size in sizes]
        yield LOOKS_CLOSELY.format(k=k, patch=" or ".join(f"{width}×{height} px" for height, width in sides))


def _table(figures: Sequence[Figure]) -> str:
    rows = [[_plain(cell).replace("|", "\\|") for cell in figure] for figure in figures]
    lines = [["images", "figure", "value", "95% interval", "meaning"], ["---"] * 5, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _plain(text: str) -> str:
    """Text of files in one line, of which nothing is markup."""
    return "".join(f"\\{letter}" if letter in r"\`*_[]<>#" else letter for letter in shown(text))


def _code(text: object) -> str:
    return f"`{shown(text).replace('`', chr(39))}`"
