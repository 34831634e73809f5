"""The card of a run's best model: the figures are the report's, and somebody's own card is never written over."""

import pytest
import yaml

from saccade.model_card import CARD, MARK
from saccade.report.card import PICTURE, write_model_card
from saccade.report.numbers import headline, show_interval, show_number
from saccade.runs import RunFolder


def test_it_has_every_figure_of_the_report_with_its_interval(run_folder):
    text = write_model_card(run_folder).read_text()
    run = RunFolder(run_folder).read()
    for number in headline(run.predictions["test"], run.positive):
        cells = (number.name, show_number(number), show_interval(number))
        assert f"| {' | '.join(cells)} |" in text
    assert "the data set spots" in text
    assert "/" not in text.partition("the data set")[2].splitlines()[0]  # nobody's folders
    assert (run_folder / "best" / PICTURE).read_bytes().startswith(b"\xff\xd8")


def test_without_a_picture_there_is_none(run_folder):
    write_model_card(run_folder)
    text = write_model_card(run_folder, picture=False).read_text()
    assert PICTURE not in text
    assert not (run_folder / "best" / PICTURE).exists()


def test_ones_own_card_stays(run_folder):
    card = run_folder / "best" / CARD
    card.write_text(card.read_text().replace(MARK, "") + "by me")
    before = card.read_text()
    write_model_card(run_folder)
    RunFolder(run_folder).load_best().save_pretrained(run_folder / "best")
    assert card.read_text() == before


@pytest.mark.parametrize(
    ("weights", "told"),
    [({}, "without any"), ({"weights": "/home/me/net.safetensors"}, "with the weights net.safetensors")],
)
def test_it_names_the_weights_that_the_run_began_with(run_folder, weights, told):
    recipe = yaml.safe_load((run_folder / "recipe.yaml").read_text())
    recipe["model"]["features"] |= weights
    (run_folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    assert f"Its network began {told}" in write_model_card(run_folder, picture=False).read_text()


def test_names_are_no_markup(tmp_path):
    from saccade import ModelConfig, build_model

    names = ("`<script>`", "![a](b)\n# title")
    model = build_model(ModelConfig(system="cnn", num_classes=2, image_size=(60, 80), classes=names))
    model.save_pretrained(tmp_path)
    text = (tmp_path / CARD).read_text()
    assert "`'<script>'`, `![a](b)\\n# title`" in text
