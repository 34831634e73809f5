from saccade.runs.step_tables import MetricsTable, TrainingWarning, WarningsTable, read_metrics, read_warnings


def write(path, *, step=0, rows=()):
    table = MetricsTable(path, step=step)
    for at, values in rows:
        table.add(at, values)
    table.save()


def test_what_is_logged_can_be_read(tmp_path):
    write(tmp_path / "m.csv", rows=[(0, {"loss": 0.1}), (5, {"val/loss": 2.0}), (5, {"loss": 1 / 3})])
    assert read_metrics(tmp_path / "m.csv") == [{"step": 0, "loss": 0.1}, {"step": 5, "val/loss": 2.0, "loss": 1 / 3}]


def test_resuming_keeps_what_was_known_then_and_no_more(tmp_path):
    """Validation after step 5 belongs to the first five steps; the loss of step 5 comes with the sixth."""
    rows = [(at, {"loss": float(at), "val/loss": float(at)}) for at in (0, 5, 10)]
    write(tmp_path / "m.csv", rows=rows)
    write(tmp_path / "m.csv", step=5, rows=[(6, {"loss": 6.0})])
    assert read_metrics(tmp_path / "m.csv") == [
        {"step": 0, "loss": 0.0, "val/loss": 0.0},
        {"step": 5, "val/loss": 5.0},
        {"step": 6, "loss": 6.0},
    ]


def test_a_run_that_starts_over_starts_empty(tmp_path):
    write(tmp_path / "m.csv", rows=[(3, {"loss": 1.0})])
    write(tmp_path / "m.csv", rows=[(4, {"loss": 2.0})])
    assert read_metrics(tmp_path / "m.csv") == [{"step": 4, "loss": 2.0}]


def test_no_table_has_no_rows(tmp_path):
    assert read_metrics(tmp_path / "none.csv") == []


def test_a_number_that_is_not_one_stays_what_it_is(tmp_path):
    write(tmp_path / "m.csv", rows=[(0, {"loss": float("nan"), "sigma": 0.5})])
    before = (tmp_path / "m.csv").read_bytes()
    write(tmp_path / "m.csv", step=1)
    assert (tmp_path / "m.csv").read_bytes() == before


def test_other_processes_than_the_first_write_nothing(tmp_path):
    metrics = MetricsTable(tmp_path / "m.csv", step=0, writes=False)
    metrics.add(3, {"loss": 1.0})
    metrics.save()
    WarningsTable(tmp_path / "w.csv", step=0, writes=False).add(TrainingWarning(3, "edge", "a, b"))
    assert list(tmp_path.iterdir()) == []


def test_warnings_after_the_step_that_a_run_resumes_from_are_dropped_and_so_is_a_line_cut_off(tmp_path):
    path = tmp_path / "w.csv"
    first, second = TrainingWarning(5, "edge", 'a, "b"\nc'), TrainingWarning(9, "one class", "always cats")
    table = WarningsTable(path, step=0)
    table.add(first)
    table.add(second)
    assert read_warnings(path) == [first, second]
    with path.open("a") as file:
        file.write("11,ed")
    assert read_warnings(path) == [first, second]
    WarningsTable(path, step=8)
    assert read_warnings(path) == [first]
