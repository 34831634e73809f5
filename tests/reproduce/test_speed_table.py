"""`saccade reproduce speed`: exact numbers from a clock that is told the time, a plot that can be read, whole files."""

import csv
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

import saccade.cli.reproduce as command
from saccade.cli import main
from saccade.reproduce.collect import PROVENANCE
from saccade.reproduce.speed import measure, speed_table, steps
from saccade.reproduce.speed.contestants import Contestant, Setting, Timing
from saccade.reproduce.speed.figure import speed_plot

TINY = Setting(64, 0.5, "test_resnet", "test_efficientnet", (1, 2), (16,), draws=20, batches=(1, 2))
TINY = TINY._replace(steps_px=250, step_flags=("--model.features.model=test_resnet",))
# Of a quiet machine, in the order of the systems.
SPEEDS = (0.55, 0.79, 2.10, 23.12, 27.60, 21.61, 22.32, 15.44, 16.59, 16.18, 17.08, 11.66, 11.96, 6.59, 6.81)
FACTS = dict.fromkeys(PROVENANCE, "x") | {"finished": "2026-11-16T10:00:00+00:00"}


def timed(speeds=SPEEDS, *, rounds: int = 1) -> list[Timing]:
    """Rounds that are each a tenth faster than the one before, the middle one as told."""
    return [
        Timing(system, system.share(1000), turn, 4, speed * 1.1 ** (turn - (rounds + 1) / 2))
        for system, speed in zip(Setting().systems(), speeds, strict=True)
        for turn in range(1, rounds + 1)
    ]


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(command.speed, "Setting", lambda: TINY)


def test_systems_are_the_papers():
    systems = Setting().systems()
    assert [system.name for system in systems[:5]] == [
        "resnet50, whole image, plain PyTorch",
        "resnet50, whole image",
        "resnet18, whole image",
        "soft, K=3 P=50",
        "hard, K=3 P=50",
    ]
    assert len(set(systems)) == 15
    assert [system.share(1000) for system in systems[3::2]] == [0.0075, 0.0125, 0.025, 0.03, 0.05, 0.1]
    assert [system.name for system in systems if system.paper == "5×"] == ["soft, K=10 P=100", "hard, K=10 P=100"]


def test_speed_is_that_of_the_batch_with_the_best_median_after_a_warm_up():
    now, calls, said = [0.0], [], []
    # Seconds of each call, by size of the batch: the first is the warm-up.
    seconds = {1: iter([64.0, 0.5, 0.125, 0.5]), 4: iter([64.0, 1.0, 2.0, 1.0])}

    def run(batch):
        calls.append(len(batch))
        now[0] += next(seconds[len(batch)])

    images = [torch.zeros(n, 3, 20, 20) for n in (1, 4)]
    system = Contestant("net", 2, 5)
    found = measure.time_all({system: run}, images, rounds=3, say=said.append, clock=lambda: now[0])
    # By round 2, 8, 2 images per second one by one, whose mean is better; 4, 2, 4 in fours.
    assert found == [Timing(system, 0.125, turn, 4, speed) for turn, speed in ((1, 4.0), (2, 2.0), (3, 4.0))]
    assert calls == [1, 4] * 4
    assert said == [
        "warm-up: hard, K=2 P=5",
        "round 1 of 3: hard, K=2 P=5, 4.00 images per second",
        "round 2 of 3: hard, K=2 P=5, 8.00 images per second",
        "round 3 of 3: hard, K=2 P=5, 4.00 images per second",
    ]


def test_every_round_goes_through_all_systems():
    calls = []
    runs = {Contestant(name): lambda _, name=name: calls.append(name) for name in "abc"}
    measure.time_all(runs, [torch.zeros(1, 3, 4, 4)], rounds=2, say=str, clock=iter(range(99)).__next__)
    assert calls == [*"abc"] * 3


def test_a_batch_that_memory_does_not_hold_is_passed_over():
    def run(batch):
        if len(batch) > 2:
            raise torch.OutOfMemoryError("too large")

    images = [torch.zeros(n, 3, 4, 4) for n in (1, 2, 4)]
    found = measure.time_all({Contestant("net"): run}, images, rounds=1, say=str, clock=iter(range(99)).__next__)
    assert [(timing.batch, timing.images_per_second) for timing in found] == [(2, 2.0)]


def test_soft_blends_more_candidates_than_hard_and_shares_its_network():
    torch.manual_seed(0)
    runs: dict[Contestant, Any] = measure.build_all(TINY, torch.device("cpu"))
    assert list(runs) == TINY.systems()
    soft, hard = (runs[Contestant("test_resnet", 2, 16, soft)] for soft in (True, False))
    assert soft.func is hard
    image = torch.rand(1, 3, 64, 64)
    assert hard(image).selection.index.shape == (1, 2)
    blended = soft(image).selection
    assert blended.weight.shape[1] == 2
    assert blended.index.shape[1] > 2
    assert not any(isinstance(layer, torch.nn.BatchNorm2d) for layer in hard.modules())


def test_rounds_are_counted_from_one():
    with pytest.raises(ValueError, match="rounds is 0, expected 1 or more"):
        measure.measure(TINY, rounds=0, say=str)


def test_the_csv_gives_the_timings_back(tmp_path):
    path = tmp_path / "speed.csv"
    timings = [each._replace(images_per_second=round(each.images_per_second, 3)) for each in timed(rounds=3)]
    path.write_text(speed_table.table_of_rounds(timings, FACTS))
    assert speed_table.read_timings(path) == timings
    path.write_text("system,k\nresnet50,0\n")
    with pytest.raises(ValueError, match=r"speed.csv lacks kind, plain, network, patch, .*: expected speed.csv of"):
        speed_table.read_timings(path)


def test_the_table_has_medians_ratios_and_the_papers_numbers():
    text = speed_table.markdown(timed(rounds=3), Setting(), FACTS)
    lines = text.splitlines()
    assert "| resnet50, whole image, plain PyTorch | 100% | 0.55 ± 0.05 | 1.0× | 0.7× | 1× | 4 |" in lines
    assert "| resnet50, whole image | 100% | 0.79 ± 0.07 | 1.4× | 1.0× | – | 4 |" in lines
    assert "| hard, K=10 P=100 | 10% | 6.81 ± 0.62 | 12.4× | 8.6× | 5× | 4 |" in lines  # 6.81 / 0.55, 6.81 / 0.79
    assert sum(line.startswith(("| soft", "| hard", "| resnet")) for line in lines) == 15
    assert "Hard over soft: +3% to +19%" in text  # 11.96 / 11.66, 27.60 / 23.12
    assert "x, x threads; 2026-11-16; saccade x, commit x" in text


def test_the_plot_has_medians_over_shares():
    axes = speed_plot(timed(rounds=3)).axes[0]
    lines = {str(line.get_label()): [*zip(line.get_xdata(), line.get_ydata(), strict=True)] for line in axes.lines}
    hard = [(0.75, 27.60), (1.25, 22.32), (2.5, 16.59), (3, 17.08), (5, 11.96), (10, 6.81)]
    assert lines["resnet50 on patches, hard top-K"] == [pytest.approx(point) for point in hard]
    assert lines["resnet18, whole image"][0][1] == pytest.approx(2.10)


@pytest.mark.parametrize(
    "speeds",
    [
        SPEEDS,
        [0.7 * speed if number % 2 else speed for number, speed in enumerate(SPEEDS)],
        [9, 10, 27, 80, 88, 78, 85, 70, 76, 69, 75, 61, 66, 49, 53],  # five times as fast at 10%: nearer to the paper's
    ],
    ids=["quiet", "soft slower", "level"],
)
def test_no_label_touches_another_or_a_point(speeds):
    figure = speed_plot(timed(speeds))
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    axes = figure.axes[0]
    labels = {text.get_text(): text.get_window_extent(renderer) for text in axes.texts}
    assert len(labels) == 6
    for (one, box), (two, other) in combinations(labels.items(), 2):
        assert not box.overlaps(other), (one, two)
    for line in axes.lines[3:]:
        # Between the points, too: labels are not crossed by a curve.
        path = line.get_path().interpolated(50)
        for name, box in labels.items():
            assert not any(box.contains(*point) for point in line.get_transform().transform(path.vertices)), name
    for name, box in labels.items():
        assert axes.get_window_extent(renderer).containsx(box.x0), name
        assert axes.get_window_extent(renderer).containsx(box.x1), name


def test_the_command_writes_four_files_and_nothing_else(tiny, tmp_path, capsys):
    out = tmp_path / "results"
    assert main(["reproduce", "speed", "--out", str(out), "--rounds", "1"]) == 0
    assert {path.name for path in out.iterdir()} == {"speed.csv", "speed-steps.csv", "speed.md", "speed.png"}
    said = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("warm-up: ") for line in said) == 7
    assert sum(line.startswith("round 1 of 1: ") for line in said) == 7
    timings = speed_table.read_timings(out / "speed.csv")
    assert [each.system for each in timings] == TINY.systems()
    assert all(each.images_per_second > 0 and each.batch in (1, 2) for each in timings)
    assert Image.open(out / "speed.png").size[0] > 600
    with (out / "speed-steps.csv").open(newline="") as file:
        cnn, topk, *shares = csv.DictReader(file)
    assert (cnn["of"], topk["of"]) == ("billiard/cnn", "billiard/perturbed")
    assert [each["of"] for each in shares] == ["soft, K=2 P=16", "hard, K=2 P=16"]
    assert all(0 < float(each["value"]) < 1 for each in shares)
    longer = float(cnn["value"]) / float(topk["value"]) - 1
    assert f"takes {longer:+.0%} on the whole image" in (out / "speed.md").read_text()
    assert "images of 64², view of 32², test_resnet on the patches" in (out / "speed.md").read_text()


@pytest.mark.parametrize("at", ["saccade.reproduce.speed.measure._seconds", "matplotlib.figure.Figure.savefig"])
def test_a_stop_leaves_what_was_there(at, tiny, tmp_path, monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    (tmp_path / "speed.csv").write_text("of yesterday")
    monkeypatch.setattr(at, interrupt)
    assert main(["reproduce", "speed", "--out", str(tmp_path), "--rounds", "1"]) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["speed.csv"]
    assert (tmp_path / "speed.csv").read_text() == "of yesterday"
    assert capsys.readouterr().err == "stopped\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["speed", "--scale", "full"], "leave out --scale: speed trains nothing"),
        (["speed", "--seeds", "9", "--rows", "a"], "leave out --seeds, --rows: speed trains nothing"),
        (["speed", "--data", "x", "--weights", "y", "--jobs", "1"], "leave out --data, --weights, --jobs"),
        (["traffic", "--rounds", "3"], "--rounds is for the table speed alone"),
        (["speed", "--rounds", "0"], "see saccade reproduce --help"),
        (["speed", "--out", str(Path(__file__))], "File exists"),
    ],
)
def test_wrong_words_are_one_line(words, message, capsys):
    assert main(["reproduce", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_lists_name_it_and_its_systems(capsys):
    assert main(["reproduce", "--list"]) == 0
    assert "speed" in capsys.readouterr().out.split()
    assert main(["reproduce", "speed", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 15
    assert lines[-1] == "hard, K=10 P=100 (10% of the pixels; paper: 5×)"


def test_the_share_of_the_feature_network_is_what_its_calls_take(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(steps, "clock_now", lambda: now[0])

    class Features(torch.nn.Module):
        def forward(self, seconds):
            now[0] += seconds

    features = Features()

    def run(_):
        now[0] += 5.0
        features(1.0)
        features(2.0)

    assert steps._timed(run, features, torch.zeros(1)) == (8.0, 3.0)
    assert not features._forward_hooks


def test_what_is_told_of_steps_is_the_median_of_the_rounds():
    laps = [
        steps.Lap(turn, {steps.CNN: cnn, steps.TOPK: 2.0}, {"hard": share})
        for turn, cnn, share in ((1, 2.5, 0.2), (2, 2.2, 0.3), (3, 9.0, 0.9))
    ]
    text = steps.tell(laps, Setting())
    assert "takes +25% on the whole image" in text
    assert "(`billiard/cnn`, 1.25 s an image)" in text  # batches of two
    assert "hard 30%" in text
