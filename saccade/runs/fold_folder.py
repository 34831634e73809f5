"""`FoldFolder`, the owner of the files of a run in folds: one run folder for each fold, and what they say together.

RUN/folds.json        the command and the folds       RUN/fold-NAME      the run that is tested on fold NAME
RUN/out_of_fold.csv   what was said of each image by the model that had not seen its fold
RUN/summary.json      mean ± s.d. over the folds, and figures of all images together with intervals
RUN/report.html       all of it to look at            RUN/fold-NAME.log  what the run printed
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from saccade.files import write_whole
from saccade.plain_trees import differences, read_json, write_json
from saccade.runs.csv_cells import read_rows
from saccade.runs.prediction_tables import PredictionRow, PredictionTable, format_predictions, read_predictions
from saccade.runs.run_folder import RunFolder
from saccade.tasks.labels import Question, questions_of


class FoldRow(NamedTuple):
    """What was said of an image, by which fold's model, its group, and whether its picture lies in other folds too."""

    said: PredictionRow
    fold: str
    group: str
    repeated: bool


class OutOfFold(NamedTuple):
    """The predictions of all folds, as a `PredictionTable` has them."""

    classes: tuple[str, ...]
    rows: tuple[FoldRow, ...]
    task: str = "single"
    questions: tuple[Question, ...] = ()

    @property
    def table(self) -> PredictionTable:
        """Without the folds."""
        return PredictionTable(self.classes, tuple(row.said for row in self.rows), self.task, self.questions)

    def where(self, keep: Callable[[FoldRow], bool]) -> "OutOfFold":
        """Some of the rows."""
        return self._replace(rows=tuple(filter(keep, self.rows)))


class FoldFolder:
    """A folder of runs, one for each fold; it need not exist yet."""

    def __init__(self, path: Path | str):
        self.path = Path(path)
        self.report_file = self.path / "report.html"
        self.summary_file = self.path / "summary.json"
        self.out_of_fold_file = self.path / "out_of_fold.csv"
        self._folds_file = self.path / "folds.json"

    @property
    def name(self) -> str:
        """What people call it."""
        return self.path.resolve().name

    @property
    def is_folds(self) -> bool:
        """Whether runs in folds have begun there."""
        return self._folds_file.is_file()

    def facts(self) -> dict[str, Any]:
        """The command and the folds."""
        return read_json(self._folds_file, "restore it from a copy, or train again in another folder")

    def runs(self) -> dict[str, RunFolder]:
        """The run of each fold."""
        return {name: self.run(name) for name in self.facts()["folds"]}

    def run(self, fold: str) -> RunFolder:
        """The run that is tested on `fold`."""
        return RunFolder(self.path / f"fold-{fold}")

    def models(self, fold: str | None = None) -> list[Path]:
        """The folders of the runs to ask, all of them or that of one fold; each must have a model."""
        names = self.facts()["folds"]
        if fold is not None and fold not in names:
            raise ValueError(f"{self.path} has no fold {fold!r}: choose one of {', '.join(names)}")
        return [self.run(name).path for name in names if fold in (None, name)]

    def claim(self, **facts: Any) -> None:
        """Note the command and the folds, unless they are there already; a folder of something else is refused."""
        if self.is_folds:
            if lines := differences(self.facts(), facts):
                raise ValueError(
                    f"{self.path} holds folds with other settings ({'; '.join(lines)}): give another folder with "
                    "--out, or the same settings to resume"
                )
            return
        if not RunFolder(self.path).is_free():
            raise ValueError(f"{self.path} holds a run without folds: give another folder with --out")
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self._folds_file, facts)

    def write_out_of_fold(self, found: OutOfFold) -> Path:
        """Keep what was said of each image."""
        more = {
            "fold": [row.fold for row in found.rows],
            "group": [row.group for row in found.rows],
            "repeated": ["yes" if row.repeated else "" for row in found.rows],
        }
        return write_whole(self.out_of_fold_file, format_predictions(found.table, more))

    def out_of_fold(self) -> OutOfFold:
        """What was said of each image."""
        if not self.out_of_fold_file.is_file():
            raise FileNotFoundError(
                f"{self.path}: its folds are not finished; the command that began them resumes them"
            )
        spec = self.facts().get("task", {"name": "single"})
        table = read_predictions(self.out_of_fold_file, spec["name"], questions_of(spec))
        cells = read_rows(self.out_of_fold_file)
        rows = (
            FoldRow(said, row.get("fold") or "", row.get("group") or "", row.get("repeated") == "yes")
            for said, row in zip(table.rows, cells, strict=True)
        )
        return OutOfFold(table.classes, tuple(rows), table.task, table.questions)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Keep the numbers."""
        write_json(self.summary_file, dict(summary))
