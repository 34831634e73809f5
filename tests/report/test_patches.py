"""The figure of a run's patches shows images that nobody picked."""

import pytest
from tiny import make_spots
from tiny_run import make_tiny_run

from saccade.cli import main
from saccade.report.patches import draw_patches
from saccade.runs import RunFolder
from saccade.training.run import evaluate


def test_a_run_is_drawn_once_it_has_answers(tmp_path, capsys):
    run = make_tiny_run(tmp_path / "run", make_spots(tmp_path / "data"))
    with pytest.raises(ValueError, match="has no answers to test images"):
        draw_patches(RunFolder(run).read())
    assert main(["report", str(run), "--patches", str(tmp_path / "a.bmp")]) == 2
    assert "expected the name of a picture" in capsys.readouterr().err
    evaluate(run)
    read = RunFolder(run).read()
    figure, rows = draw_patches(read, 3), read.predictions["test"].rows
    answers = [rows[place * len(rows) // 3].predicted for place in range(3)]  # whatever they are worth
    assert [axes.get_title().partition(",")[0] for axes in figure.axes[:3]] == answers
