"""The numbers of folds: against statistics of predictions written down here."""

import json
import math
import statistics

import pytest

from saccade.report import write_report
from saccade.report.fold_numbers import sum_up
from saccade.runs import FoldFolder, RunFolder
from saccade.runs.fold_folder import FoldRow, OutOfFold
from saccade.runs.prediction_tables import PredictionRow

# Probabilities of the class "bad", by fold; capitals are bad. The last of fold b lies in fold a, too.
SAID = {"a": [("X", 0.9), ("y", 0.2), ("Z", 0.4), ("w", 0.6)], "b": [("Q", 0.8), ("r", 0.1), ("S", 0.3), ("T", 0.2)]}


def average_precision(said) -> float:
    ranked = sorted(said, key=lambda pair: -pair[1])
    found = [place for place, (name, _) in enumerate(ranked, 1) if name.isupper()]
    return sum(number / place for number, place in enumerate(found, 1)) / len(found)


@pytest.fixture
def folds(tmp_path) -> FoldFolder:
    rows = []
    for fold, said in SAID.items():
        for name, share in said:
            label, predicted = "bad" if name.isupper() else "good", "bad" if share > 0.5 else "good"
            nan = math.nan
            row = PredictionRow(name, label, predicted, max(share, 1 - share), nan, nan, nan, (share, 1 - share))
            rows.append(FoldRow(row, fold, f"group {name}", name in "XT"))
    folder = FoldFolder(tmp_path / "folds")
    folder.claim(source="data", flags={}, folds=["a", "b"])
    for run in folder.runs().values():
        run.claim("seed: 0")
        run.write_evaluation("test", OutOfFold(("bad", "good"), tuple(rows[:1])).table, {"positive": "bad"})
    folder.write_out_of_fold(OutOfFold(("bad", "good"), tuple(rows)))
    return folder


def test_mean_and_deviation_over_folds_and_all_images_together(folds):
    summary = sum_up(folds)
    numbers = summary.everything
    areas = [average_precision(said) for said in SAID.values()]
    assert summary.positive == "bad"
    assert [fold["average precision"] for fold in numbers.folds.values()] == pytest.approx(areas)
    mean, deviation = numbers.spread("average precision")
    assert (mean, deviation) == pytest.approx((statistics.fmean(areas), statistics.stdev(areas)))
    assert numbers.spread("accuracy")[0] == pytest.approx((2 / 4 + 2 / 4) / 2)
    together = {number.name: number.estimate for number in numbers.together}
    assert together["average precision"].value == pytest.approx(average_precision(SAID["a"] + SAID["b"]))
    assert together["accuracy"].low < together["accuracy"].value < together["accuracy"].high


def test_pictures_of_several_folds_are_left_out_once_more(folds):
    rest = sum_up(folds).without_repeated
    assert rest is not None
    assert rest.images == 6
    expected = [average_precision([pair for pair in said if pair[0] not in "XT"]) for said in SAID.values()]
    assert [fold["average precision"] for fold in rest.folds.values()] == pytest.approx(expected)


def test_the_report_says_it_all(folds):
    page = write_report(folds.path).read_text()
    for part in ("of the class bad", "mean ± s.d.", 'href="fold-b/report.html"', "out_of_fold.csv", "several folds"):
        assert part in page
    tree = json.loads(folds.summary_file.read_text())
    assert (tree["positive"], tree["images"], tree["without_repeated"]["images"]) == ("bad", 8, 6)
    assert set(tree["together"]) == {"accuracy", "balanced accuracy", "average precision", "auroc"}


def test_folds_that_are_not_finished_have_no_numbers(tmp_path):
    folder = FoldFolder(tmp_path)
    folder.claim(source="data", flags={}, folds=["0", "1"])
    with pytest.raises(FileNotFoundError, match="its folds are not finished"):
        write_report(tmp_path)
    with pytest.raises(FileNotFoundError, match="not a run"):
        RunFolder(tmp_path).check()
