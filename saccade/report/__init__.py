"""A run folder → what people look at: the HTML report, and comparisons of runs.

Nothing here is imported before it is used, so that the command line's help waits neither for torch nor for matplotlib.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saccade.runs import RunFolder


def write_report(folder: "RunFolder | Path | str", out: Path | None = None) -> Path:
    """Write the report of the run, or the runs in folds, in `folder` to `out` (default: into it); returns its path."""
    from saccade.report.fold_page import write_fold_page
    from saccade.report.page import write_page
    from saccade.runs import FoldFolder, RunFolder

    folds = FoldFolder(folder.path if isinstance(folder, RunFolder) else folder)
    if folds.is_folds:
        return write_fold_page(folds, out)

    return write_page(folder, out)
