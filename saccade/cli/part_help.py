"""The parts a model can be made of and their options, read from the sources: help must not wait for torch.

A part is what `@register(stage, name)` stands over. Its options are the parameters of the function or constructor, but
for what the model passes (`saccade.registry.STAGES`); of a system they are the fields of its `own_options`.
"""

import ast
import json
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from saccade.registry import STAGES

REQUIRED = "…"
PACKAGE = Path(__file__).parents[1]
# Stages of which there is one part, without a name.
ONLY = {"view": ("saccade.images.view", "View"), "extraction": ("saccade.extraction.extract", "Extraction")}
ORDER = ["system", *ONLY, *(stage for stage in STAGES if stage != "system")]
KEYS = {"system": "model.system (its options: model.options)", "augmentation": "data.augmentation"}


class PartHelp(NamedTuple):
    """A part: what it is, in one line, and its options with their defaults as YAML has them."""

    stage: str
    name: str
    summary: str
    options: dict[str, str]

    @property
    def signature(self) -> str:
        """All options on one line."""
        return ", ".join(f"{name}={default}" for name, default in self.options.items())


class Found(NamedTuple):
    """What a name stands for, and in which module."""

    module: str
    node: Any


def list_parts() -> list[PartHelp]:
    """Every part that comes with the package, stage by stage.

    >>> [part.signature for part in list_parts() if part.name == "attention"]
    ['hidden=128']
    """
    only = [_describe(stage, "", _find(*home)) for stage, home in ONLY.items()]
    return sorted([*only, *_registered()], key=lambda part: (ORDER.index(part.stage), part.name))


def show_parts() -> str:
    """All parts, for a terminal."""
    lines = [f"parts by stage, each with its own options ({REQUIRED} must be given):"]
    for stage, parts in groupby(list_parts(), key=lambda part: part.stage):
        lines += ["", f"  {KEYS.get(stage, f'model.{stage}')}"]
        for part in parts:
            title = f"{part.name}: {part.summary}".removeprefix(": ")
            lines += textwrap.wrap(title, 100, initial_indent=" " * 4, subsequent_indent=" " * 6)
            lines += textwrap.wrap(part.signature, 100, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines)


def write_page() -> str:
    """All parts, as docs/parts.md has them."""
    lines = [
        "# Parts and their options",
        "",
        "Stage by stage, what a recipe or a `ModelConfig` can name, as `saccade train --help` lists it; "
        f"what is {REQUIRED} must be given.",
        "[Write your own selector](write_your_own_selector.md) shows how to add one. `make parts` writes this page.",
    ]
    for stage, parts in groupby(list_parts(), key=lambda part: part.stage):
        lines += ["", f"## {KEYS.get(stage, f'model.{stage}')}", "", "| name | what | options |", "|---|---|---|"]
        for part in parts:
            options = "<br>".join(f"`{name}`: {default}" for name, default in part.options.items())
            lines.append(f"| {part.name} | {part.summary} | {options} |")
    return "\n".join([*lines, ""])


def _registered() -> Iterator[PartHelp]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if "@register(" in path.read_text():
            module = ".".join(("saccade", *path.relative_to(PACKAGE).with_suffix("").parts))
            for node in _read(module).values():
                for decorator in node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef) else ():
                    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "register":
                        stage, name = map(ast.literal_eval, decorator.args)
                        yield _describe(stage, name, Found(module, node))


def _describe(stage: str, name: str, part: Found) -> PartHelp:
    summary = (ast.get_docstring(part.node) or "").split("\n")[0]
    if stage == "system":
        return PartHelp(stage, name, summary, _parameters(_own_options(part)))
    inputs, context = (STAGES[stage].inputs, STAGES[stage].context) if stage in STAGES else ((), ())
    options = list(_parameters(part).items())[len(inputs) :]
    return PartHelp(stage, name, summary, {option: default for option, default in options if option not in context})


def _own_options(system: Found) -> Found:
    """The dataclass that a system, or the one it derives from, names as its options."""
    for each in _lineage(system):
        for line in each.node.body:
            if isinstance(line, ast.Assign | ast.AnnAssign) and line.value and "own_options" in ast.unparse(line):
                return _find(each.module, ast.unparse(line.value))
    raise ValueError(f"{system.node.name} in {system.module} has no own_options: derive it from System")


def _parameters(part: Found) -> dict[str, str]:
    """Names and defaults of what a function, a dataclass or a constructor takes."""
    if isinstance(part.node, ast.FunctionDef):
        return _arguments(part.module, part.node.args)
    for each in _lineage(part):
        if "dataclass" in " ".join(map(ast.unparse, each.node.decorator_list)):
            fields = [line for line in each.node.body if isinstance(line, ast.AnnAssign)]
            return {ast.unparse(line.target): _show(each.module, line.value) for line in fields}
        for line in each.node.body:
            if isinstance(line, ast.FunctionDef) and line.name == "__init__":
                return dict(list(_arguments(each.module, line.args).items())[1:])  # without self
    return {}


def _arguments(module: str, arguments: ast.arguments) -> dict[str, str]:
    missing = [None] * (len(arguments.args) - len(arguments.defaults))
    pairs = zip(
        [*arguments.args, *arguments.kwonlyargs], [*missing, *arguments.defaults, *arguments.kw_defaults], strict=True
    )
    return {argument.arg: _show(module, default) for argument, default in pairs}


def _show(module: str, default: ast.expr | None) -> str:
    """A default as it would stand in YAML; … if there is none."""
    if default is None:
        return REQUIRED
    constant: ast.expr = _find(module, default.id).node.value if isinstance(default, ast.Name) else default
    try:
        value = ast.literal_eval(constant)
    except ValueError:  # such as 1 / 3
        return ast.unparse(constant)
    return value if isinstance(value, str) else json.dumps(value)


def _lineage(part: Found) -> Iterator[Found]:
    """A class and those in this package that it derives from."""
    yield part
    for base in part.node.bases:
        if isinstance(base, ast.Name) and base.id in _read(part.module):
            found = _find(part.module, base.id)
            if isinstance(found.node, ast.ClassDef):
                yield from _lineage(found)


def _find(module: str, name: str) -> Found:
    """What `name` is in a module, or in the module of this package that it was imported from."""
    node = _read(module)[name]
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("saccade"):
        return _find(str(node.module), name)
    return Found(module, node)


@cache
def _read(module: str) -> dict[str, ast.stmt]:
    """The lines of a module by the names that they define."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    names: dict[str, ast.stmt] = {}
    for line in ast.parse(path.read_text()).body:
        if isinstance(line, ast.ClassDef | ast.FunctionDef):
            names[line.name] = line
        elif isinstance(line, ast.ImportFrom):
            names |= {alias.asname or alias.name: line for alias in line.names}
        elif isinstance(line, ast.Assign | ast.AnnAssign):
            targets = line.targets if isinstance(line, ast.Assign) else [line.target]
            names |= {ast.unparse(target): line for target in targets}
    return names
