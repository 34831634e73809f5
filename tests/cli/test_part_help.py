"""What help reads from the sources is what Python itself says of the imported parts."""

from pathlib import Path

import pytest

from saccade.cli import main
from saccade.cli.part_help import ONLY, REQUIRED, list_parts, write_page
from saccade.extraction import Extraction
from saccade.images import View
from saccade.options import Option, read_options
from saccade.registry import STAGES, part_options, parts

PAGE = Path(__file__).parents[2] / "docs" / "parts.md"
LISTED = list_parts()


def imported(stage: str, name: str) -> list[Option]:
    return read_options({"view": View, "extraction": Extraction}[stage]) if stage in ONLY else part_options(stage, name)


def test_every_part_is_listed_once():
    assert sorted((part.stage, part.name) for part in LISTED) == sorted(
        [*((stage, "") for stage in ONLY), *((stage, name) for stage in STAGES for name in parts(stage))]
    )


@pytest.mark.parametrize("part", LISTED, ids=lambda part: f"{part.stage}-{part.name}")
def test_options_and_defaults_are_those_of_the_imported_part(part):
    options = imported(part.stage, part.name)
    assert list(part.options) == [option.name for option in options]
    for option in options:
        listed = part.options[option.name]
        assert (listed == REQUIRED) == option.required
        if not option.required and not isinstance(option.default, str):
            value = eval(listed, {"null": None, "true": True, "false": False})
            assert value == (list(option.default) if isinstance(option.default, tuple) else option.default)
        elif not option.required:
            assert listed == option.default
    assert part.summary


def test_help_shows_them(capsys):
    assert main(["train", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for part in LISTED:
        assert part.summary in shown
        assert part.signature in shown


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == write_page(), "run `make parts`"
