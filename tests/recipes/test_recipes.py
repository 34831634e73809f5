"""Recipes are found by name and by path, what was mistyped is named, and every one that ships can be built."""

import subprocess
import sys
from pathlib import Path

import pytest

from saccade import ModelConfig
from saccade.building import build_model
from saccade.recipes import Shipped, find_recipe, list_recipes
from saccade.training.recipe import load_recipe


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Three recipes in a folder of their own; the working directory is another, empty one."""
    recipes, elsewhere = tmp_path / "recipes", tmp_path / "elsewhere"
    for name, text in {
        "signs/perturbed.yaml": "# The paper's method on street scenes.\n# saccade train signs/perturbed\nsteps: 10\n",
        "signs/cnn.yml": "\n#   A plain CNN.\nsteps: 10\n",
        "birds/nts_net.yaml": "steps: 10\n",
    }.items():
        (recipes / name).parent.mkdir(parents=True, exist_ok=True)
        (recipes / name).write_text(text)
    (recipes / "signs" / "notes.txt").write_text("no recipe")
    (recipes / "__init__.py").write_text("")
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return recipes


def test_recipes_are_listed_by_name_with_their_first_comment(folder):
    assert list_recipes(folder) == [
        Shipped("birds/nts_net", folder / "birds/nts_net.yaml", ""),
        Shipped("signs/cnn", folder / "signs/cnn.yml", "A plain CNN."),
        Shipped("signs/perturbed", folder / "signs/perturbed.yaml", "The paper's method on street scenes."),
    ]


def test_a_recipe_is_found_by_name_and_by_path(folder):
    assert find_recipe("signs/cnn", folder) == folder / "signs/cnn.yml"
    own = Path("my.yaml")
    own.write_text("steps: 3\n")
    assert find_recipe("my.yaml", folder) == own
    assert find_recipe(str(own.absolute()), folder) == own.absolute()


def test_data_is_no_recipe(folder):
    Path("flowers").mkdir()
    Path("signs/cnn").mkdir(parents=True)
    Path("table.csv").write_text("image,label\n")
    for text in ("flowers", "./signs/cnn", "signs", "table.csv", "nowhere/to/be/found", "missing.csv"):
        assert find_recipe(text, folder) is None
    assert find_recipe("signs/cnn", folder) == folder / "signs/cnn.yml"  # a name that ships comes first


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("signs/pertubed", "signs/perturbed"),
        ("sign/perturbed", "signs/perturbed"),
        ("signs/perturbed.yaml", "signs/perturbed"),
        ("birds/nts-net", "birds/nts_net"),
        ("birds", "birds/nts_net"),
        ("signs", "signs/cnn or signs/perturbed"),
    ],
)
def test_a_mistyped_name_brings_the_nearest(folder, text, meant):
    with pytest.raises(ValueError, match=rf"no recipe '{text}': did you mean {meant}\?"):
        find_recipe(text, folder)


def test_a_missing_file_is_named(folder):
    with pytest.raises(ValueError, match=r"no recipe 'far/away/own\.yml': `saccade recipes` lists"):
        find_recipe("far/away/own.yml", folder)


def test_looking_for_recipes_does_not_wait_for_torch():
    code = "import sys, saccade.recipes as r; r.list_recipes(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("shipped", list_recipes(), ids=lambda shipped: shipped.name)
def test_every_recipe_that_ships_is_valid_and_builds_its_model(shipped):
    assert shipped.summary
    recipe = load_recipe(shipped.name)
    recipe.check_together()
    stages = dict(vars(recipe.model))
    # Weights lie where the user has them.
    stages["features"] = {
        key: value for key, value in stages["features"].items() if key not in ("weights", "pretrained")
    }
    size = tuple((recipe.data.generate or {}).get("size") or (960, 1280))
    build_model(ModelConfig(num_classes=4, image_size=recipe.model.preparation.seen_size(size), **stages))
