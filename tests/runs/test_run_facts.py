"""What a run was made with: all of it is kept, and one process writes it."""

import pytest

from saccade.runs import RunFolder, run_facts

MADE = {"seed": 7, "parameters": 2, "phases": [{"name": "paper", "from": 0, "to": 9}], "accelerator": "cpu"}


@pytest.mark.parametrize("fact", ["commit", "hardware"])
def test_all_that_a_run_was_made_with_is_kept(fact, tmp_path, monkeypatch):
    for name in ("abc", "abc", "def", "abc"):
        monkeypatch.setattr(run_facts, fact, lambda *_, name=name: name)
        RunFolder(tmp_path).begin(**MADE)
    assert RunFolder(tmp_path).facts()[fact] == "abc then def"


def test_other_processes_know_the_facts_and_leave_writing_to_the_first(tmp_path):
    folder = RunFolder(tmp_path, writes=False)
    facts = folder.begin(**MADE)
    facts.start_clock()
    facts.count_seconds()
    assert facts.known["seed"] == 7
    assert folder.facts() == {}


def test_training_time_adds_up_over_resumptions(tmp_path, monkeypatch):
    clock = iter([10.0, 15.0, 100.0, 101.0])
    monkeypatch.setattr(run_facts.time, "monotonic", lambda: next(clock))
    for _ in range(2):
        facts = RunFolder(tmp_path).begin(**MADE)
        facts.start_clock()
        facts.count_seconds()
    assert RunFolder(tmp_path).facts()["seconds_of_training"] == 6.0
    assert not RunFolder(tmp_path).finished
    RunFolder(tmp_path).begin(**MADE).finish()
    assert RunFolder(tmp_path).finished


@pytest.mark.parametrize(
    ("schema", "advice"), [("", "train again"), ('"schema": 1,', "train again"), ('"schema": 99,', "update")]
)
def test_a_run_of_another_version_is_refused_in_one_line_that_names_the_file_and_says_what_to_do(
    tmp_path, schema, advice
):
    (tmp_path / "run.json").write_text(f'{{{schema} "saccade": "0.0.7"}}')
    with pytest.raises(ValueError, match=rf"run.json: .*0\.0\.7.*{advice}") as raised:
        RunFolder(tmp_path).facts()
    assert "\n" not in str(raised.value)
