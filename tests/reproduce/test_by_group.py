"""A table with a line for each data set, by runs that nobody trained, against what one writes by hand."""

from saccade.reproduce.by_group import lines_by_group
from saccade.reproduce.collect import Result
from saccade.reproduce.table_types import ACCURACY, HIT_RATE, MEAN, Group, Measure, Plan, Row, Table

PRECISION = Measure("average_precision", "average precision", 1.0, 3)
PLAN = Plan("data/signs", own=True)
ROWS = (
    Row("signs_default", "default", small=PLAN, group="signs"),
    Row("signs_cnn", "CNN", small=PLAN, group="signs"),
    Row("cracks_default_1", "default", small=PLAN, group="cracks"),
    Row("cracks_default_2", "default", small=PLAN, group="cracks"),
)
GROUPS = (Group("signs", "signs", ACCURACY, "99", "98"), Group("cracks", "cracks", PRECISION, "0.9", "–"))
TABLE = Table("t", "T", "nowhere", MEAN, ROWS, measures=(HIT_RATE,), groups=GROUPS)


def made(row: Row, seed: int = 0, **numbers: float) -> Result:
    return Result(row, seed, "", "", {"minutes": 2.0, **numbers}, (), {})


def test_a_line_for_each_set_and_a_column_for_each_way_to_train():
    results = [
        made(ROWS[0], accuracy=0.98, hit_rate=0.5),
        made(ROWS[0], 1, accuracy=1.0, hit_rate=0.7),
        made(ROWS[1], accuracy=0.4, same_answer=0.5),  # below half of the best
        made(ROWS[2], average_precision=0.8, same_answer=0.9),
        made(ROWS[3], average_precision=0.9, same_answer=1.0),  # names one class
    ]
    lines = list(lines_by_group(TABLE, results))
    assert "| signs: accuracy [%] | 99 | 98 | 99.0 ± 1.4 (2) | 40.0 (1) |" in lines
    assert "| cracks: average precision | 0.9 | – | 0.850 ± 0.071 (2) | – |" in lines  # folds count as runs
    assert "| signs | 60.0 ± 14.1 (2) | – |" in lines
    assert lines[-4:] == ["| --- | ---: | ---: |", "| signs | 0 of 2 | 1 of 1 |", "| cracks | 1 of 2 | – |", ""]
