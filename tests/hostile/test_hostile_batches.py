"""No file stops a batch: damaged files and odd names through `predict`, `data check` and `train --skip-bad`."""

import logging

import pytest

from saccade.cli import main
from saccade.images.guarded import SUPPORTED
from tests.hostile.batches import COMMANDS, Ended, write_set

COUNT = 54  # two of each kind


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.skipif(not SUPPORTED, reason="without a process that can be killed a damaged file may end the tests")
def test_a_command_goes_through_whatever_lies_in_a_folder(tmp_path, capfd, caplog, monkeypatch, name):
    # A page of pictures takes longer than all the rest, and reads none of these files; `make fuzz` has it made.
    monkeypatch.setattr("saccade.report.write_report", lambda run: run.report_file)

    def run(words) -> Ended:
        code = main(words)
        return Ended(code, "".join(capfd.readouterr()) + caplog.text)

    images = write_set(tmp_path / "images", COUNT, seed=500_000)
    with caplog.at_level(logging.WARNING):
        assert COMMANDS[name](images, tmp_path, run) is None
