"""`saccade reproduce gradient-quality`: the table says what is known of each gradient, the command writes it down."""

import csv

import pytest
from PIL import Image

from saccade.cli import main
from saccade.reproduce.gradient_quality import gradient_study
from saccade.reproduce.gradient_quality.gradient_chart import LINES, draw_gradients
from saccade.reproduce.gradient_quality.gradient_study import NOISY, TUNED, Quality, Study, gradient_quality, write_csv

TINY = Study(
    candidates=60,
    k=4,
    draws=(10, 100, 4000),
    sigmas=(0.02, 0.05, 0.2),
    at_draws=100,
    problems=3,
    repeats=6,
)
SMALLEST = TINY._replace(draws=(10,), sigmas=(0.05,), at_draws=10, problems=1)


@pytest.fixture(scope="module")
def table() -> list[Quality]:
    return gradient_quality(TINY, seed=1)


def pick(table: list[Quality], gradient: str, draws: int, *, scores: str = "uniform", sigma: float = 0.05) -> Quality:
    (row,) = [row for row in table if row[:4] == (scores, sigma, draws, gradient)]
    return row


@pytest.mark.parametrize("scores", ["uniform", "peaked"])
@pytest.mark.parametrize("draws", [10, 100])
def test_conditional_is_nearer_to_the_truth_than_score_and_varies_less(table, scores, draws):
    conditional, score = (pick(table, name, draws, scores=scores) for name in ("conditional", "score"))
    assert conditional.cosine > score.cosine + 0.05
    assert conditional.variance < score.variance / 4


@pytest.mark.parametrize("scores", ["uniform", "peaked"])
def test_unbiased_gradients_go_to_the_truth_and_the_diagonal_one_does_not(table, scores):
    many = {name: pick(table, name, 4000, scores=scores) for name in NOISY}
    assert many["conditional"].cosine > 0.995
    assert many["score"].cosine > 0.95
    assert many["diagonal"].cosine < 0.9
    assert many["diagonal"].variance < 0.1  # what is missing is not draws


def test_variance_falls_as_one_over_the_draws(table):
    for name in NOISY:
        few, many = (pick(table, name, draws).variance for draws in (100, 4000))
        assert 40 / 2.5 < few / many < 40 * 2.5  # median of 3 ratios of 6-sample variances


def test_gradients_without_draws_take_their_best_setting_for_each_sigma(table):
    for name, tuned in TUNED.items():
        rows = [pick(table, name, 0, sigma=sigma) for sigma in TINY.sigmas]
        assert all(row.variance == 0 and row.option.startswith(f"{tuned.option} = ") for row in rows)
        settings = [float(row.option.split("= ")[1]) for row in rows]
        assert settings == sorted(settings)  # softer where the noise is larger
        assert settings[-1] > settings[0]
        assert all(0.2 < row.cosine < 0.999 for row in rows)


def test_the_same_seed_gives_the_same_table():
    assert gradient_quality(SMALLEST, seed=3) == gradient_quality(SMALLEST, seed=3)
    assert gradient_quality(SMALLEST, seed=3) != gradient_quality(SMALLEST, seed=4)


def test_cases_are_tracked():
    seen = []
    gradient_quality(SMALLEST, track=lambda cases: (seen.append(case) or case for case in cases))
    assert seen == [(scores, 0.05, draws) for scores in ("uniform", "peaked") for draws in (0, 10)]


def test_the_picture_shows_every_number(table):
    axes = draw_gradients(table, TINY).axes
    cosines, variances = axes[:4], axes[4:8]
    assert [a.get_title("left") for a in cosines] == ["uniform scores", "peaked scores"] * 2
    assert all(a.get_xscale() == "log" for a in axes[:8])
    assert all(a.get_yscale() == "log" for a in variances)
    for panel in cosines:
        assert {line.get_label() for line in panel.lines} == set(LINES)
    for panel in variances:
        assert len(panel.lines) == len(NOISY)
    line = next(line for line in variances[1].lines if line.get_color() == LINES["score"].color)
    assert list(line.get_ydata()) == [pick(table, "score", draws, scores="peaked").variance for draws in TINY.draws]


def test_the_csv_holds_the_table(table, tmp_path):
    with write_csv(table, tmp_path / "g.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == Quality._fields
    assert len(rows) == len(table)
    assert float(rows[5]["cosine"]) == pytest.approx(table[5].cosine, rel=1e-5)


def test_the_command_writes_both_files_and_prints_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gradient_study, "PAPER_SIZE", SMALLEST._replace(draws=(10, 100), sigmas=(0.05, 0.1)))
    assert main(["reproduce", "gradient-quality", "--out", str(tmp_path / "new"), "--seed", "2"]) == 0
    out = capsys.readouterr().out
    assert "measured 10 of 10 cases" in out  # plain lines, since this is not a terminal
    assert "straight-through" in out
    assert "no draws" in out
    assert (tmp_path / "new" / "gradient-quality.png").as_uri() in out
    assert (tmp_path / "new" / "gradient-quality.csv").is_file()
    assert Image.open(tmp_path / "new" / "gradient-quality.png").size[0] > 1000


def test_a_file_as_folder_is_refused_before_anything_is_measured(tmp_path, capsys):
    (tmp_path / "notes").write_text("")
    assert main(["reproduce", "gradient-quality", "--out", str(tmp_path / "notes")]) == 2
    assert "expected the folder for gradient-quality.png" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gradient-quality", "--seed", "-1"], "seed"),
        (["gradient-quality", "--draws", "10"], "--draws"),
        (["gradient-quality", "--rounds", "3"], "--rounds"),
        (["gradient-quality", "--seeds", "3"], "--seeds"),
        (["billiard", "--seed", "1"], "gradient-quality"),
        (["speed", "--seed", "1"], "--seed"),
    ],
)
def test_flags_that_mean_nothing_are_one_line(words, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())
