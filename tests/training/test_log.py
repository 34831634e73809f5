from saccade.training.log import CSVLog, read_metrics


def write(path, *, step=0, rows=()):
    log = CSVLog(path, step=step)
    for at, values in rows:
        log.log_metrics(values, at)
    log.save()


def test_what_is_logged_can_be_read(tmp_path):
    write(tmp_path / "m.csv", rows=[(0, {"loss": 0.1, "epoch": 0}), (5, {"val/loss": 2.0}), (5, {"loss": 1 / 3})])
    assert read_metrics(tmp_path / "m.csv") == [{"step": 0, "loss": 0.1}, {"step": 5, "val/loss": 2.0, "loss": 1 / 3}]


def test_going_on_keeps_what_was_known_then_and_no_more(tmp_path):
    """Validation after step 5 belongs to the first five steps; the loss of step 5 comes with the sixth."""
    rows = [(at, {"loss": float(at), "val/loss": float(at)}) for at in (0, 5, 10)]
    write(tmp_path / "m.csv", rows=rows)
    write(tmp_path / "m.csv", step=5, rows=[(6, {"loss": 6.0})])
    assert read_metrics(tmp_path / "m.csv") == [
        {"step": 0, "loss": 0.0, "val/loss": 0.0},
        {"step": 5, "val/loss": 5.0},
        {"step": 6, "loss": 6.0},
    ]


def test_a_run_that_starts_anew_starts_empty(tmp_path):
    write(tmp_path / "m.csv", rows=[(3, {"loss": 1.0})])
    write(tmp_path / "m.csv", rows=[(4, {"loss": 2.0})])
    assert read_metrics(tmp_path / "m.csv") == [{"step": 4, "loss": 2.0}]


def test_no_table_has_no_rows(tmp_path):
    assert read_metrics(tmp_path / "none.csv") == []
