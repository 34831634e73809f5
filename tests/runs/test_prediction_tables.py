"""What an evaluation writes down says what it measured."""

from pathlib import Path

import pytest
import torch

from saccade.data.records import Record, Records
from saccade.evaluation import Predictions, measure
from saccade.evaluation.tabulate import tabulate
from saccade.report.numbers import headline
from saccade.runs import RunFolder


def test_the_average_precision_of_the_table_is_the_measured_one(tmp_path):
    """Of sure answers: in float32, or with six digits, most of them would be 1 or 0 and have no order."""
    torch.manual_seed(0)
    count = 200
    sure = torch.empty(count).uniform_(-34, 34)
    label = (sure + 8 * torch.randn(count) > 0).long()
    unknown = torch.full((count,), torch.nan)
    logits = torch.stack([torch.zeros(count), sure], dim=1)
    predictions = Predictions(
        torch.arange(count),
        label,
        logits,
        unknown,
        unknown,
        unknown,
        unknown,
        torch.zeros(count, 0, 2),
        torch.zeros(count, 0),
    )
    records = tuple(Record(Path(f"{n}.png"), "ab"[int(each)], "test") for n, each in enumerate(label))
    folder, table = RunFolder(tmp_path), tabulate(predictions, Records(tmp_path, ("a", "b"), records))
    folder.write_evaluation("test", table, {})
    assert folder.evaluated("test")
    read = folder.predictions()["test"]
    assert read.classes == table.classes
    for one, other in zip(read.rows, table.rows, strict=True):  # NaN is not equal to itself
        assert (one[:4], one.probabilities) == (other[:4], other.probabilities)
    told = {number.name: number.estimate.value for number in headline(read)}
    expected = measure(predictions)["average_precision"]
    assert expected < 1
    assert told["average precision"] == pytest.approx(expected, abs=1e-6)
