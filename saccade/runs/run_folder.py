"""`RunFolder`, the owner of a run's files.

    RUN/recipe.yaml     the resolved recipe              RUN/run.json      seed, versions, commit, hardware, phases
    RUN/metrics.csv     numbers per step                 RUN/tensorboard   the same, and pictures
    RUN/best, RUN/last  models for `load_model`          RUN/checkpoints   what the run needs to resume
    RUN/evaluation      what the best model says of each image (SPLIT.csv), and how good that is (SPLIT.json)
    RUN/panels          how the selection sharpened      RUN/warnings.csv  what the collapse watch found
    RUN/frozen          the models of a frozen start: blind to the validation images, seeing them, and on trial
    RUN/report.html     all of it to look at             RUN/.lock         held by the process that trains there

Whoever wants something of a run asks here; no other module knows a file's name or what is in it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from saccade.files import write_whole
from saccade.plain_trees import check_types, read_json, read_yaml, write_json
from saccade.runs.prediction_tables import PredictionTable, format_predictions, read_predictions
from saccade.runs.run_contents import Run
from saccade.runs.run_facts import Facts, read_facts
from saccade.runs.step_tables import MetricsTable, TrainingWarning, WarningsTable, read_metrics, read_warnings
from saccade.runs.training_panels import Panel, read_panel, write_panel
from saccade.tasks.labels import questions_of

if TYPE_CHECKING:
    from saccade.system import System

# What a report takes them for; of a summary, all that is not named here is a number.
RECIPE_TYPES = {"data": dict[str, Any], "model": dict[str, Any], "batch": int, "seed": int, "final": bool}
STAGE_TYPES: dict[str, Any] = dict.fromkeys(("selection", "extraction", "features", "options"), dict[str, Any])
SUMMARY_TYPES = {
    "positive": str,
    "split": str,
    "task": dict[str, Any],
    "decision": dict[str, Any],
    "reliability": dict[str, Any],
    "hardware": str,
    "pixels": dict[str, float],
    "multiply_adds": dict[str, float],
}
WAIT_S = 10.0  # for a process that only asks whether a folder is in use, and for one that is about to end


class RunFolder:
    """A run folder, which need not exist yet.

    writes: False for all but the first of several processes that train together: they read, and write nothing.
    """

    def __init__(self, path: Path | str, *, writes: bool = True):
        self.path = Path(path)
        self.writes = writes
        self.recipe_file = self.path / "recipe.yaml"
        self.facts_file = self.path / "run.json"
        self.metrics_file = self.path / "metrics.csv"
        self.warnings_file = self.path / "warnings.csv"
        self.report_file = self.path / "report.html"
        self.best = self.path / "best"
        self.last = self.path / "last"
        self.checkpoints = self.path / "checkpoints"
        self.frozen_blind = self.path / "frozen" / "blind"
        self.frozen_seeing = self.path / "frozen" / "seeing"
        self.frozen_on_trial = self.path / "frozen" / "on_trial"
        self._evaluation = self.path / "evaluation"
        self._panels = self.path / "panels"
        self._lock_file = self.path / ".lock"
        self._best_model: tuple[int, System] | None = None

    @property
    def name(self) -> str:
        """What people call the run."""
        return self.path.resolve().name

    @property
    def trial(self) -> "RunFolder":
        """Where tuning is tried; gone when that is decided."""
        return RunFolder(self.path / "frozen" / "trial", writes=self.writes)

    # ---- whose folder it is

    @property
    def is_run(self) -> bool:
        """Whether there is a recipe; a run may have only begun."""
        return self.recipe_file.is_file()

    def check(self) -> None:
        """Refuse what is not a run, and a run whose files this version does not read.

        >>> RunFolder("/").check()
        Traceback (most recent call last):
        FileNotFoundError: /: no recipe.yaml in it, so it is not a run; give a folder that `saccade train` wrote
        """
        if not self.is_run:
            reason = "no recipe.yaml in it, so it is not a run" if self.path.is_dir() else "no such folder"
            raise FileNotFoundError(f"{self.path}: {reason}; give a folder that `saccade train` wrote")
        self.facts()

    def is_free(self) -> bool:
        """Whether a run may begin there: it is empty, or a run came to nothing there. Something else is refused."""
        if self.came_to_nothing():
            return True
        if self.is_run:
            return False
        if self.path.is_dir() and any(not path.name.startswith(".") for path in self.path.iterdir()):
            raise ValueError(f"{self.path} is not empty and does not hold a run: give another folder with --out")
        return True

    def came_to_nothing(self) -> bool:
        """Whether a run began there and ended before its first checkpoint, as one that cannot be trained does."""
        return self._holds_nothing() and not self.in_use()

    def _holds_nothing(self) -> bool:
        # Without run.json there was no run, and a recipe.yaml is what somebody wrote.
        kept = (self.checkpoints, self.best, self.last, self._evaluation, self.frozen_blind)
        return self.facts_file.is_file() and not any(path.exists() for path in kept)

    def claim(self, recipe: str) -> None:
        """Write the recipe (YAML) unless the run there has it already; from now on the folder is this run's.

        Not before the lock is held: no other run may be under way there.
        """
        if self.is_run:
            if not self._holds_nothing() or self.recipe_text() == recipe:
                return
            if self.writes:
                self.facts_file.unlink()  # says of the other run when it began, and with which command
        if self.writes:
            self.path.mkdir(parents=True, exist_ok=True)
            write_whole(self.recipe_file, recipe)

    # ---- one process at a time: two would write the same checkpoints under each other's hands

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Make the folder and hold its lock, or say that another process holds it.

        A process that dies lets go of it, however it dies; processes that it forked to read images never hold it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            held = FileLock(self._lock_file).acquire(timeout=WAIT_S)
        except Timeout:
            raise ValueError(
                f"another process trains in {self.path}: wait until it has ended, or give another folder with --out"
            ) from None
        with held:
            yield

    def in_use(self) -> bool:
        """Whether a process trains there now."""
        if not self._lock_file.is_file():
            return False
        try:
            with FileLock(self._lock_file, timeout=0):
                return False
        except Timeout:
            return True

    # ---- the recipe, and what the run was made with

    def recipe_text(self) -> str:
        """The resolved recipe as YAML."""
        return self.recipe_file.read_text()

    def recipe(self) -> dict[str, Any]:
        """The resolved recipe as a tree."""
        remedy = "restore it from the recipe the run was started with"
        tree = read_yaml(self.recipe_file, remedy)
        check_types(self.recipe_file, tree, RECIPE_TYPES, remedy)
        check_types(self.recipe_file, tree.get("model", {}), STAGE_TYPES, remedy)
        return tree

    def facts(self) -> dict[str, Any]:
        """What the run was made with (`Facts` says what that is); empty before it began. Other versions are refused."""
        if not self.facts_file.is_file():
            return {}
        return read_facts(self.facts_file)

    def begin(self, **facts: Any) -> Facts:
        """Note what the run is made with, as `Facts.begin` takes it."""
        known = Facts(self.facts_file, self.facts(), writes=self.writes)
        known.begin(**facts)
        return known

    @property
    def finished(self) -> bool:
        """Whether the run needs nothing more."""
        return "finished" in self.facts()

    # ---- numbers and warnings by step

    def metrics(self) -> list[dict[str, float]]:
        """The rows of `metrics.csv`, each with the numbers it has and its step; none if there are none yet."""
        return read_metrics(self.metrics_file)

    def open_metrics(self, *, step: int = 0) -> MetricsTable:
        """The table to add to, with what was known when `step` steps had been taken."""
        return MetricsTable(self.metrics_file, step=step, writes=self.writes)

    def warnings(self) -> list[TrainingWarning]:
        """What the collapse watch found."""
        return read_warnings(self.warnings_file)

    def open_warnings(self, *, step: int = 0) -> WarningsTable:
        """The table to add to, with what was found up to `step`: the rest will be found again."""
        return WarningsTable(self.warnings_file, step=step, writes=self.writes)

    def keep(self, model: Path) -> None:
        """The best model is from now on a copy of another one of the run."""
        if self.writes:
            self.best.mkdir(exist_ok=True)
            for file in model.iterdir():
                write_whole(self.best / file.name, file.read_bytes())

    def change_best(self, **changes: Any) -> None:
        """Change the config of the best model in what its weights do not depend on."""
        from saccade.system import rewrite_config

        if self.writes:
            rewrite_config(self.best, **changes)

    # ---- evaluations of the best model

    def evaluated(self, name: str) -> bool:
        """Whether there is an evaluation of that name: a split, perhaps of other data or with another selection."""
        return (self._evaluation / f"{name}.json").is_file()

    def summaries(self) -> dict[str, dict[str, Any]]:
        """The numbers of each evaluation."""
        found, remedy = {}, "run `saccade evaluate` again, or delete it"
        for path in sorted(self._evaluation.glob("*.json")):
            found[path.stem] = summary = read_json(path, remedy)
            check_types(path, summary, {name: SUMMARY_TYPES.get(name, float) for name in summary}, remedy)
        return found

    def predictions(self) -> dict[str, PredictionTable]:
        """What the model said of each image, by evaluation; those without images are left out."""
        tables, summaries = {}, self.summaries()
        for path in sorted(self._evaluation.glob("*.csv")):
            spec = summaries.get(path.stem, {}).get("task", {"name": "single"})
            tables[path.stem] = read_predictions(path, spec["name"], questions_of(spec))
        return {name: table for name, table in tables.items() if table.rows}

    def write_evaluation(self, name: str, table: PredictionTable, summary: dict[str, Any]) -> None:
        """Keep an evaluation: a row for each image, and the numbers over all of them."""
        if self.writes:
            self._evaluation.mkdir(parents=True, exist_ok=True)
            write_whole(self._evaluation / f"{name}.csv", format_predictions(table))
            write_json(self._evaluation / f"{name}.json", summary)

    # ---- panels

    def panel_steps(self) -> list[int]:
        """The steps of which there is a panel."""
        return sorted(int(path.stem) for path in self._panels.glob("*.npz") if path.stem.isdecimal())

    def panel(self, step: int) -> Panel:
        """How the model looked at a few images at `step`."""
        return read_panel(self._panel_file(step))

    def write_panel(self, panel: Panel) -> None:
        """Keep a panel, one of each step."""
        if self.writes:
            self._panels.mkdir(parents=True, exist_ok=True)
            write_panel(self._panel_file(panel.step), panel)

    def forget_panels(self, doomed: Callable[[int], bool]) -> None:
        """Delete the panels of the steps for which `doomed` holds."""
        for step in filter(doomed, self.panel_steps() if self.writes else ()):
            self._panel_file(step).unlink()

    def _panel_file(self, step: int) -> Path:
        return self._panels / f"{step:07d}.npz"

    # ---- all at once

    def read(self) -> Run:
        """Everything the run wrote down. A run still under way lacks some of it."""
        self.check()
        return Run(
            folder=self,
            name=self.name,
            recipe=self.recipe(),
            facts=self.facts(),
            metrics=tuple(self.metrics()),
            evaluations=self.summaries(),
            predictions=self.predictions(),
            warnings=tuple(self.warnings()),
        )

    def load_best(self) -> "System":
        """The best model, in evaluation mode. It is kept: whoever shares this object loads it once."""
        from saccade.building import load_model

        folder = find_model_folder(self.path)
        written = (folder / "config.json").stat().st_mtime_ns
        if self._best_model is None or self._best_model[0] != written:
            self._best_model = written, load_model(folder)
        return self._best_model[1].eval()


def find_model_folder(path: Path | str) -> Path:
    """The folder of a model: `best` in a run folder, or `path` itself if `save_pretrained` wrote it."""
    folder = RunFolder(path)
    model = folder.best if folder.is_run else folder.path
    if not (model / "config.json").is_file():
        if (folder.path / "folds.json").is_file():
            raise FileNotFoundError(f"{path}: a run in folds, whose models are in its folders; give one of those")
        what = "no model there yet" if folder.is_run else "no model there" if folder.path.is_dir() else "no such folder"
        raise FileNotFoundError(
            f"{path}: {what}; give a run folder, made by saccade train, or one written by save_pretrained"
        )
    return model
