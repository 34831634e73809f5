"""Lightning's numbers → the run folder's table."""

from typing import Any

from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities import rank_zero_only

from saccade.runs.step_tables import MetricsTable


class CSVLog(Logger):
    """Adds what Lightning logs to a table that keeps the rows of the run before it was resumed."""

    def __init__(self, table: MetricsTable):
        super().__init__()
        self.table = table

    @property
    def name(self) -> str:
        """Of the logger."""
        return "csv"

    @property
    def version(self) -> str:
        """There is one."""
        return ""

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Nothing: the recipe is a file of its own."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Add to the row of `step`."""
        if step is not None:
            self.table.add(step, {name: value for name, value in metrics.items() if name != "epoch"})

    @rank_zero_only
    def save(self) -> None:
        """Write the table."""
        self.table.save()
