import shutil

import pytest
from rich.console import Console
from test_page import Reader

from saccade.evaluation import wilson_interval
from saccade.report.compare import COLUMNS, compare, rows, write_comparison
from saccade.runs import RunFolder


@pytest.fixture
def runs(made_run, run_folder):
    shutil.rmtree(run_folder / "evaluation")
    young = RunFolder(run_folder).read()
    return [RunFolder(made_run).read(), young._replace(name="[b]young | run")]


def test_a_row_holds_what_was_measured(runs):
    old, young = (dict(zip(COLUMNS, row, strict=True)) for row in rows(runs))
    answers = runs[0].predictions["test"].rows
    low, high = wilson_interval(sum(row.right for row in answers), len(answers))
    share = sum(row.right for row in answers) / len(answers)
    assert old["accuracy (95%)"] == f"{100 * share:.1f}% ({100 * low:.1f}–{100 * high:.1f})"
    assert old["looked at closely"] == "19.5%"
    assert old["minutes"] == "1.5"
    assert (old["images seen"], old["parameters"], old["pixels of the view"]) == ("64", "1,234", "256")
    assert young["accuracy (95%)"] == "not evaluated yet"
    assert young["ms / image"] == young["hit rate"] == young["looked at closely"] == "–"


def test_folders_are_as_good_as_runs(runs, made_run):
    assert rows([made_run, str(made_run)]) == rows([runs[0]]) * 2


def test_an_accuracy_on_other_images_says_so(runs):
    old = runs[0]
    validated = old._replace(predictions={"val": old.predictions["test"]})
    assert rows([validated])[0][2].endswith(" on val")


@pytest.mark.parametrize("count", [2, 6])
def test_the_terminal_shows_every_cell(runs, count):
    console = Console(width=300)
    with console.capture() as shown:
        console.print(compare([*runs, *runs, *runs][:count]))
    for cell in (*COLUMNS, *rows(runs)[0], *rows(runs)[1]):
        assert cell in shown.get()


def test_two_runs_fit_eighty_letters(runs):
    console = Console(width=80)
    with console.capture() as shown:
        console.print(compare(runs))
    assert len(shown.get().splitlines()) == len(COLUMNS)


def test_the_page_has_the_table_and_the_curves(runs, tmp_path):
    reader = Reader(write_comparison(runs, tmp_path / "new" / "comparison.html"))
    assert all(cell in reader.text for row in rows(runs) for cell in row)
    assert len(reader.images) == 1


def test_nothing_cannot_be_compared(tmp_path):
    with pytest.raises(ValueError, match="no runs to compare"):
        write_comparison([], tmp_path / "x.html")
