"""What an evaluation writes down says what it measured."""

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from saccade.data.records import Record, Records
from saccade.evaluation import Predictions, measure
from saccade.report.numbers import headline
from saccade.report.run import _read_answers
from saccade.training.task import Task
from saccade.training.testing import _table


def test_the_average_precision_of_the_table_is_the_measured_one(tmp_path):
    """Of sure answers: in float32, or with six digits, most of them would be 1 or 0 and have no order."""
    torch.manual_seed(0)
    count = 200
    sure = torch.empty(count).uniform_(-34, 34)
    label = (sure + 8 * torch.randn(count) > 0).long()
    unknown = torch.full((count,), torch.nan)
    logits = torch.stack([torch.zeros(count), sure], dim=1)
    predictions = Predictions(
        torch.arange(count), label, logits, unknown, unknown, unknown, unknown, torch.zeros(count, 0, 2)
    )
    records = tuple(Record(Path(f"{n}.png"), "ab"[int(each)], "test") for n, each in enumerate(label))
    data = {"test": SimpleNamespace(records=Records(tmp_path, ("a", "b"), records))}
    task = Mock(spec=Task, predictions=predictions, data=data)
    (tmp_path / "test.csv").write_text(_table(task))
    told = {number.name: number.estimate.value for number in headline(_read_answers(tmp_path / "test.csv"))}
    expected = measure(predictions)["average_precision"]
    assert expected < 1
    assert told["average precision"] == pytest.approx(expected, abs=1e-6)
