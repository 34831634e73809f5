"""`saccade reproduce` from the command line to the files, on a table that trains in seconds."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure
from PIL import Image
from tiny_table import pretend

import saccade.cli.reproduce as command
from saccade.cli import main
from saccade.reproduce import figures
from saccade.reproduce.collect import collect
from saccade.reproduce.figures import box_plot, draw_all, learning_plot
from saccade.reproduce.results import write_results
from saccade.reproduce.table_types import Plan, Row


@pytest.fixture
def tabled(request_, monkeypatch):
    monkeypatch.setitem(command.TABLES, "spots", request_.table)
    return request_


@pytest.mark.slow
def test_a_table_is_trained_written_and_then_only_written(tabled, capsys):
    words = ["reproduce", "spots", "--out", str(tabled.out), "--seeds", "1"]
    assert main(words) == 0
    files = {path.name for path in tabled.out.iterdir() if path.is_file()}
    pictures = {"spots.png", "spots-two-init.jpg", "spots-two-end.jpg", "spots-two-test.jpg"}
    pictures |= {"spots-two-error.jpg", "spots-two-patches.jpg"}
    of_answers = {"spots-two-test.jpg", "spots-two-error.jpg"}  # if there is a right one, or a wrong one
    assert files - of_answers == {"spots.csv", "spots.md", *pictures} - of_answers
    for name in pictures & files:
        assert Image.open(tabled.out / name).size[0] > 300
    first = (tabled.out / "spots.csv").read_text()
    assert first.count("\n") == 3
    capsys.readouterr()
    assert main(words) == 0
    assert "2 of 2 runs are finished already" in capsys.readouterr().out
    assert (tabled.out / "spots.csv").read_text() == first


def test_the_list_has_both_commands_and_how_far_each_is(shared, monkeypatch, capsys):
    monkeypatch.setitem(command.TABLES, "spots", shared.table)
    pretend(shared, shared.table.rows[1], 0, 0.75)
    assert main(["reproduce", "spots", "--out", str(shared.out), "--list"]) == 0
    soft, train, evaluate, two, again = capsys.readouterr().out.splitlines()
    assert (soft, two) == ("soft, seed 0 (trained; paper: 89.0)", "two, seed 0 (finished; paper: 91.0)")
    assert train == again
    assert train.startswith("    saccade train ")
    assert evaluate == f"    saccade evaluate {shared.out / 'runs' / 'spots-seed0'} --selection=soft"


@pytest.mark.slow
def test_rows_that_share_a_run_are_trained_once_and_measured_twice(shared, monkeypatch, capsys):
    monkeypatch.setitem(command.TABLES, "spots", shared.table)
    assert main(["reproduce", "spots", "--out", str(shared.out)]) == 0
    said = capsys.readouterr().out
    assert said.count("starts") == 1
    assert "soft, seed 0: is evaluated" in said
    soft, two = collect(shared)
    assert soft.run.folder == two.run.folder
    assert soft.numbers["loss"] != two.numbers["loss"]  # noise blends patches
    assert soft.numbers["minutes"] == two.numbers["minutes"]


@pytest.mark.slow
def test_a_row_that_fails_gives_exit_code_1_and_the_rest_of_the_table(tabled, monkeypatch, tmp_path, capsys):
    lost = Path(tabled.table.rows[0].small.recipe).with_name("lost.yaml")
    lost.write_text("data: {path: nowhere/to/be/found}\nsteps: 1\n")
    rows = (Row("lost", "No data", small=Plan(str(lost))), tabled.table.rows[1])
    table = tabled.table._replace(rows=rows, shown=())
    monkeypatch.setitem(command.TABLES, "spots", table)
    pretend(tabled._replace(table=table), rows[1], 0, 0.75)
    assert main(["reproduce", "spots", "--out", str(tabled.out)]) == 1
    said = capsys.readouterr().out
    assert "failed: lost, seed 0" in said
    assert "no such file or folder" in said
    assert "| Two patches | 91.0 | 75.0 | 1 | 1.5 |" in (tabled.out / "spots.md").read_text()


@pytest.mark.slow
def test_data_that_cannot_be_made_fails_only_the_rows_that_need_it(tabled, monkeypatch, capsys):
    lost = Path(tabled.table.rows[0].small.recipe).with_name("lost.yaml")
    lost.write_text("data: {path: canvases, generate: {name: megapixel-mnist-images, source: nowhere}}\nsteps: 1\n")
    rows = (Row("lost", "No data", small=Plan(str(lost))), tabled.table.rows[1])
    table = tabled.table._replace(rows=rows, shown=())
    monkeypatch.setitem(command.TABLES, "spots", table)
    monkeypatch.chdir(lost.parent)
    pretend(tabled._replace(table=table), rows[1], 0, 0.75)
    assert main(["reproduce", "spots", "--out", str(tabled.out)]) == 1
    assert "`source` must be the folder of MNIST's four .gz files" in capsys.readouterr().out
    assert (tabled.out / "spots.md").is_file()


def test_windows_is_told_what_to_do_instead(tabled, monkeypatch, capsys):
    monkeypatch.setattr(command, "sys", SimpleNamespace(platform="win32"))
    words = ["reproduce", "spots", "--out", str(tabled.out)]
    assert main(words) == 2
    assert "the commands that --list shows one by one" in capsys.readouterr().err
    assert main([*words, "--list"]) == 0  # which works there, too


def test_the_plot_has_a_box_for_several_runs_a_dot_for_each_and_the_papers_number(request_):
    one, two, _ = request_.table.rows
    for seed, accuracy in enumerate((0.90, 0.92, 0.97)):
        pretend(request_, one, seed, accuracy)
    pretend(request_, two, 0, 0.5)
    axes = box_plot(request_, collect(request_)).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["One patch", "Two patches"]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [sorted(line.get_xdata()) for line in dots] == [pytest.approx([90, 92, 97]), pytest.approx([50])]
    medians = [line for line in axes.lines if line.get_color() == figures.SEVERAL[1]]
    assert [list(line.get_xdata()) for line in medians] == [pytest.approx([92, 92])]  # one run has no box
    theirs = [line for line in axes.lines if line.get_marker() == "D"]
    assert [list(zip(*line.get_data(), strict=True)) for line in theirs] == [[(90, 2), (91, 1)]]
    assert axes.get_title(loc="left") == "Spots, small scale"


def test_pictures_are_written_whole_and_tell_their_seed_unless_it_is_the_first(request_, monkeypatch):
    monkeypatch.setattr(figures, "looks", lambda run: [("end", Figure(figsize=(1, 1)))])
    one, two, _ = request_.table.rows
    pretend(request_, one, 0, 0.5)
    request = request_._replace(table=request_.table._replace(shown=("one", "two")))
    for seed in (1, 2):
        pretend(request, two, seed, 0.5)
    said = []
    draw_all(request, collect(request), said.append)
    files = ["spots.png", "spots-one-end.jpg", "spots-two-end.jpg"]
    assert said == [f"wrote {request.out / file}{of}" for file, of in zip(files, ("", "", " (of seed 1)"), strict=True)]
    assert [Image.open(request.out / file).format for file in files] == ["PNG", "JPEG", "JPEG"]
    assert sorted(path.name for path in request.out.iterdir()) == sorted([*files, "runs"])


def test_patches_are_those_of_the_best_run(request_, monkeypatch):
    shown = []
    monkeypatch.setattr(figures, "looks", lambda run: shown.append(("looks", run.folder.path.name)) or [])
    monkeypatch.setattr(figures, "patches", lambda run: shown.append(("patches", run.folder.path.name)) or [])
    for seed, accuracy in enumerate((0.5, 0.9, 0.7)):
        pretend(request_, request_.table.rows[1], seed, accuracy)
    draw_all(request_, collect(request_), str)
    assert shown == [("looks", "spots-seed0"), ("patches", "spots-seed1")]


def test_a_line_in_the_table_counts_as_done_unless_asked_for_again(tabled, monkeypatch, capsys):
    one = tabled.table.rows[0]
    folder = pretend(tabled, one, 1, 0.9).folder
    write_results(tabled, collect(tabled))
    shutil.rmtree(folder)
    words = ["reproduce", "spots", "--out", str(tabled.out)]
    assert main([*words, "--list"]) == 0
    assert capsys.readouterr().out.count("one, seed 1 (in spots.csv; paper") == 1
    assert main([*words, "--list", "--again"]) == 0
    assert capsys.readouterr().out.count("one, seed 1 (missing; paper") == 1

    ran = []
    monkeypatch.setattr(command, "_reproduce", lambda request, jobs, *_: ran.append([job.name for job in jobs]) or 0)
    assert main(words) == main([*words, "--again"]) == 0
    assert ran == [
        ["one, seed 0", "two, seed 0", "one, seed 2"],
        ["one, seed 0", "two, seed 0", "one, seed 1", "one, seed 2"],
    ]
    assert capsys.readouterr().out == "runs that are in spots.csv are done (1); --again makes them anew\n"


def test_a_table_that_is_done_needs_no_weights(tabled, monkeypatch):
    rows = tuple(row._replace(small=row.small._replace(pretrained=True), seeds=1) for row in tabled.table.rows[:2])
    request = tabled._replace(table=tabled.table._replace(rows=rows, shown=()), weights=Path("w.safetensors"))
    monkeypatch.setitem(command.TABLES, "spots", request.table)
    folders = [pretend(request, row, 0, 0.9).folder for row in rows]
    write_results(request, collect(request))
    for folder in folders:
        shutil.rmtree(folder)
    words = ["reproduce", "spots", "--out", str(request.out)]
    assert main(words) == 0
    assert main([*words, "--again"]) == 2  # to train they do


def test_learning_is_drawn_run_by_run_for_each_data_set(request_):
    rows = tuple(row._replace(group=group) for row, group in zip(request_.table.rows, ("a", "b", "b"), strict=True))
    request = request_._replace(table=request_.table._replace(rows=rows))
    pretend(request, rows[0], 0, 0.5, curve=(0.1, 0.4))
    pretend(request, rows[0], 1, 0.6, curve=(0.2, 0.5))
    pretend(request, rows[1], 0, 0.7, curve=(0.3,))
    figure = learning_plot(request.table, collect(request))
    left, right = figure.axes
    assert [axes.get_title(loc="left") for axes in (left, right)] == ["a", "b"]
    drawn = [list(zip(*line.get_data(), strict=True)) for line in left.lines]
    assert drawn == [[(100, 10.0), (200, 40.0)], [(100, 20.0), (200, 50.0)]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["One patch", "Two patches"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reproduce"], "no table: choose one of traffic"),
        (["reproduce", "trafic"], "no table 'trafic': choose one of traffic"),
        (["reproduce", "mnist", "--scale", "full"], "does not exist at scale full"),
        (["reproduce", "real"], "give their file with --weights"),
        (["reproduce", "mnist", "--data", "nowhere"], "nowhere: no such file or folder"),
    ],
)
def test_wrong_words_are_one_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
