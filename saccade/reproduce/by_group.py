"""Results → Markdown: a line for each data set and a column for each way to train; scores, then the other numbers."""

from collections.abc import Callable, Iterator, Sequence

from saccade.reproduce.collect import Result
from saccade.reproduce.summaries import show
from saccade.reproduce.table_types import Group, Measure, Table

SAME_ANSWER = 0.99  # of the images: such a run has learnt nothing

Cell = Callable[[Group, Sequence[Result]], str]


def lines_by_group(table: Table, results: Sequence[Result]) -> Iterator[str]:
    """A Markdown table for the groups' own measures, one for each of the table's, and two for runs and minutes."""
    cells: dict[str, Cell] = {"Score": lambda group, mine: _show(table, group.measure, mine)}
    cells |= {each.title.capitalize(): _of(table, each) for each in table.measures}
    cells["Minutes a run"] = _of(table, Measure("minutes", "minutes", 1.0, 1))
    cells["Failed runs"] = lambda group, mine: f"{sum(map(_failing(group, results), mine))} of {len(mine)}"
    labels = list(dict.fromkeys(row.label for row in table.rows))
    for title, cell in cells.items():
        with_goal = title == "Score"
        head = ["", *["goal", "before"] * with_goal, *labels]
        yield f"## {title}\n"
        yield _line(head)
        yield _line(["---", *["---:"] * (len(head) - 1)])
        for group in table.groups:
            of_group = [each for each in results if each.row.group == group.name]
            mine = [[each for each in of_group if each.row.label == label] for label in labels]
            told = [f"{group.label}: {group.measure.title}", group.goal, group.before] if with_goal else [group.label]
            yield _line([*told, *(cell(group, some) if some else "–" for some in mine)])
        yield ""


def _of(table: Table, measure: Measure) -> Cell:
    return lambda _, mine: _show(table, measure, mine)


def _show(table: Table, measure: Measure, mine: Sequence[Result]) -> str:
    values = [measure.scale * each.numbers[measure.name] for each in mine if measure.name in each.numbers]
    return show(values, measure, table.statistic, runs=len(mine)) + (f" ({len(values)})" if values else "")


def _failing(group: Group, results: Sequence[Result]) -> Callable[[Result], bool]:
    """Whether a run of a group has learnt nothing, next to the best one of its group."""
    name = group.measure.name
    best = max((each.numbers.get(name, 0.0) for each in results if each.row.group == group.name), default=0.0)
    return lambda each: each.numbers.get(name, 0.0) < best / 2 or each.numbers.get("same_answer", 0.0) >= SAME_ANSWER


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
