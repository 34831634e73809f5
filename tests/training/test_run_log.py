"""A log that finds no room on the disk says so, and hides nothing that was known before."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from full_disk import FullDisk

from saccade.runs import RunFolder
from saccade.training.interrupts import Stopped
from saccade.training.run_log import RunLog
from saccade.training.tracking import Tracker


@pytest.fixture
def log(tmp_path) -> RunLog:
    return RunLog(RunFolder(tmp_path), 0, Tracker())


def fill_the_disk(log: RunLog) -> None:
    """TensorBoard's thread dies of it, whenever it comes to writing."""
    writer = log.board.experiment.file_writer.event_writer
    with FullDisk(10):
        with suppress(OSError):  # told at once, or to whoever writes next
            log.board.experiment.add_text("long", "x" * 10**5, 1)
        writer._async_writer._worker.join()


def end(log: RunLog, raise_: Callable[[], None]) -> None:
    """A run whose disk is full ends."""
    with log:
        fill_the_disk(log)
        raise_()


def raising(error: Exception) -> Callable[[], None]:
    def raise_() -> None:
        raise error

    return raise_


@pytest.mark.parametrize("error", [OSError("the model has no room"), ValueError("something else")], ids=repr)
def test_what_failed_before_is_told_and_not_what_the_same_full_disk_made_of_the_log(log, error):
    with pytest.raises(type(error), match=str(error)):
        end(log, raising(error))


def test_a_run_that_was_only_stopped_tells_that_its_log_has_no_room(log):
    with pytest.raises(OSError, match=r"/tensorboard cannot be written"):
        end(log, raising(Stopped()))


@pytest.mark.parametrize("use", [lambda log: log.add(1, {"loss": 1.0}), lambda log: log.save(), lambda log: None])
def test_the_line_names_the_log(log, use):
    with pytest.raises(OSError, match=r"/tensorboard cannot be written \(File too large\).* the same command again$"):
        end(log, lambda: use(log))
