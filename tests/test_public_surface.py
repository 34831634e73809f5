"""The public names and their signatures. A change here is a change for everybody who uses the package.

After a change that is meant: `python tests/test_public_surface.py` writes `public_surface.txt` anew.
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import saccade

SURFACE = Path(__file__).with_name("public_surface.txt")


def describe(name: str) -> str:
    """`name(parameters) -> what comes back`, with module names left out."""
    thing = getattr(saccade, name)
    if getattr(thing, "_is_protocol", False):
        members = sorted(key for key in vars(thing) if not key.startswith("_"))
        return f"{name}: {', '.join(members)}"
    signature = inspect.signature(thing)
    parameters = [_plain(parameter) for parameter in signature.parameters.values()]
    text = f"{name}{signature.replace(parameters=parameters)}"
    text = re.sub(r"\b(?:_?[a-zA-Z_]+\.)+(?=[A-Za-z])", "", text)  # torch.Tensor, saccade.selection.selection.Selection
    return text.replace("'", "")


class _Default:
    def __repr__(self) -> str:
        return "…"


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """Defaults that are not numbers or words look different in every version of their libraries."""
    plain = parameter.default is inspect.Parameter.empty or isinstance(parameter.default, int | float | str | None)
    return parameter if plain else parameter.replace(default=_Default())


def surface() -> str:
    return "".join(f"{describe(name)}\n" for name in saccade.__all__)


def test_the_public_surface_is_as_written_down():
    assert surface() == SURFACE.read_text(), "if this is meant: python tests/test_public_surface.py"


def test_every_public_name_has_a_docstring():
    assert [name for name in saccade.__all__ if not inspect.getdoc(getattr(saccade, name))] == []


def test_importing_the_package_does_not_wait_for_torch():
    subprocess.run([sys.executable, "-c", "import saccade, sys; assert 'torch' not in sys.modules"], check=True)


if __name__ == "__main__":
    SURFACE.write_text(surface())
