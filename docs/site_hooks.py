"""What MkDocs does not do by itself (see `hooks` in mkdocs.yml).

The README is the first page, and the changelog and `results/` are pages too, although they lie outside of `docs/`:
their links are made to fit. The notebooks of `examples/notebooks` run, and are pages with what they gave. Formulas
become MathML, which browsers draw without any script. Docstrings, which are plain text, become Markdown.
"""

import html
import re
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import griffe
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from notebook_pages import SOURCES, as_markdown, as_notebook, run_cells

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"^(\w+): +(\S.*)$", re.MULTILINE)
PLAIN = re.compile(r"\[(?:docs/)?(\w+\.md)\]\(([^)]*)")  # a link that is called like its file
FORMULA = re.compile(r'<(span|div) class="arithmatex">(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])</\1>', re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Pages and pictures from outside of `docs/`."""
    outside = {"index.md": ROOT / "README.md"}
    outside |= {name.lower(): ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md")}
    outside |= {f"results/{path.name}": path for path in sorted((ROOT / "results").iterdir()) if path.is_file()}
    for address, path in outside.items():
        files.append(File.generated(config, address, abs_src_path=str(path)))
    for path in sorted(SOURCES.glob("*.py")):
        with TemporaryDirectory() as folder:
            cells = run_cells(path, Path(folder))
        page = f"{as_markdown(cells)}\n[This page as a notebook]({path.stem}.ipynb)\n"
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
        files.append(File.generated(config, f"notebooks/{path.stem}.ipynb", content=as_notebook(cells)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links between `docs/` and what lies outside of it."""
    if page.file.src_uri in ("index.md", "changelog.md", "contributing.md", "code_of_conduct.md"):
        markdown = markdown.replace("](docs/", "](")
        for name in ("CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md"):
            markdown = markdown.replace(f"]({name}", f"]({name.lower()}")
        markdown = markdown.replace("](SECURITY.md", "](security.md")
    markdown = markdown.replace("](../results/", "](results/").replace("](../CHANGELOG.md", "](changelog.md")
    markdown = PLAIN.sub(lambda found: f"[{_title(found[1])}]({found[2]}", markdown)
    # What is no page is named, not linked: sources, examples, the licence.
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)?(?:saccade|examples|benchmarks|tests|[A-Z]+\.cff)[^)]*\)", r"\1", markdown)


def on_page_content(content: str, **_: Any) -> str:
    """TeX → MathML."""
    return FORMULA.sub(lambda found: _draw(html.unescape(found[2]), block=found[1] == "div"), content)


def _draw(formula: str, *, block: bool) -> str:
    drawn = convert(formula.strip(), display="block" if block else "inline")
    if "\\" in drawn:
        raise PluginError(f"a formula has a command that latex2mathml does not know: {formula}")
    return drawn


def _title(name: str) -> str:
    """What a page of `docs/` calls itself."""
    path = ROOT / "docs" / name
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") if path.is_file() else name


class PlainDocstrings(griffe.Extension):
    """Docstrings as Markdown, before they are drawn."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Whatever has a docstring."""
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(text: str) -> str:
    r"""Aligned `name:  what` become lists and examples blocks of code; the rest of a docstring stays.

    >>> print(to_markdown("The mean.\n\nsigma: noise level\nk:     slots,\n       at least 1"))
    The mean.
    <BLANKLINE>
    - `sigma`: noise level
    - `k`: slots, at least 1
    """
    return "\n\n".join(_part_to_markdown(part) for part in text.split("\n\n"))


def _part_to_markdown(part: str) -> str:
    if part.lstrip().startswith(">>>"):
        return f"```pycon\n{textwrap.dedent(part)}\n```"
    if NAMED.match(part) and all(NAMED.match(line) or line.startswith("  ") for line in part.splitlines()):
        return NAMED.sub(r"- `\1`: \2", re.sub(r"\n +", " ", part))
    return part
