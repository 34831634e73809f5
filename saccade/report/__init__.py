"""A run folder → what people look at: the HTML report, and comparisons of runs.

Nothing here is imported before it is used, so that the command line's help waits neither for torch nor for matplotlib.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saccade.runs import RunFolder


def write_report(folder: "RunFolder | Path | str", out: Path | None = None) -> Path:
    """Write the report of the run in `folder` to `out` (default: into the folder) and return its path."""
    from saccade.report.page import write_page

    return write_page(folder, out)
