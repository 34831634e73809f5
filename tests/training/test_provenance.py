"""What a run was made with: all of it is kept, and one process writes it."""

import pytest
import torch

from saccade.training import provenance
from saccade.training.provenance import Facts
from saccade.training.recipe import Recipe


@pytest.mark.parametrize("fact", ["commit", "hardware"])
def test_all_that_a_run_was_made_with_is_kept(fact, tmp_path, monkeypatch):
    recipe, model = Recipe(), torch.nn.Linear(1, 1)
    for name in ("abc", "abc", "def", "abc"):
        monkeypatch.setattr(provenance, fact, lambda *_, name=name: name)
        Facts(tmp_path / "run.json").begin(recipe, model)
    assert Facts(tmp_path / "run.json").get(fact) == "abc then def"


def test_other_processes_know_the_facts_and_leave_writing_to_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance.rank_zero_only, "rank", 1)
    recipe, facts = Recipe(seed=7), Facts(tmp_path / "run.json")
    facts.begin(recipe, torch.nn.Linear(1, 1))
    facts.start_clock()
    facts.count_seconds()
    assert facts.get("seed") == recipe.seed
    assert not (tmp_path / "run.json").exists()
