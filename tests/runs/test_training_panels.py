import numpy as np
import pytest

from saccade.looking import Look
from saccade.runs import RunFolder
from saccade.runs.training_panels import Panel


def make_look(seed: int) -> Look:
    rng = np.random.default_rng(seed)
    return Look(
        size=(64, 90 + seed),
        boxes=rng.integers(-5, 90, (3, 4)),
        strength=rng.random(3).astype(np.float32),
        scores=rng.random((4, 6)).astype(np.float32),
        extent=(-1.5, 0.0, 90.25, 64.0),
        crops=rng.integers(0, 256, (2, 8, 9, 3), np.uint8),
        picture=rng.integers(0, 256, (32, 45, 3), np.uint8),
    )


def test_a_panel_is_read_as_it_was_written(tmp_path):
    panel = Panel(12, 0.75, 0.02, (make_look(0), make_look(1), Look((5, 6))))
    folder = RunFolder(tmp_path)
    folder.write_panel(panel)
    read = folder.panel(12)
    assert (read.step, read.progress, read.sigma) == (12, 0.75, 0.02)
    for one, other in zip(read.looks, panel.looks, strict=True):
        assert (one.size, one.extent) == (other.size, other.extent)
        for name in ("boxes", "box_scores", "strength", "scores", "crops", "picture", "truth"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
            assert getattr(one, name).dtype == getattr(other, name).dtype
    assert [path.name for path in (tmp_path / "panels").iterdir()] == ["0000012.npz"]


def test_panels_are_forgotten_by_step(tmp_path):
    folder = RunFolder(tmp_path)
    assert folder.panel_steps() == []
    for step in (16, 4, 10):
        folder.write_panel(Panel(step, 0.0, 0.0, ()))
    RunFolder(tmp_path, writes=False).forget_panels(lambda step: True)
    assert folder.panel_steps() == [4, 10, 16]
    folder.forget_panels(lambda step: step > 4)
    assert folder.panel_steps() == [4]


@pytest.mark.parametrize("content", [b"", b"PK", b"words"])
def test_a_damaged_panel_is_named(tmp_path, content):
    RunFolder(tmp_path).write_panel(Panel(4, 0.0, 0.0, ()))
    (tmp_path / "panels" / "0000004.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"0000004.npz: .*delete it"):
        RunFolder(tmp_path).panel(4)
