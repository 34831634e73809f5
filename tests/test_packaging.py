"""What is handed on: the source distribution, and whether its dependencies are known to be vulnerable."""

import json
import tarfile
from pathlib import Path

import pytest
from audit import CONSTRAINTS, audit
from hatchling.builders.sdist import SdistBuilder

ROOT = Path(__file__).parents[1]


def test_the_source_distribution_can_be_tested(tmp_path):
    (archive,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {"Makefile", "constraints.txt", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"} <= names
    assert {"saccade/__init__.py", "tests/conftest.py", "docs/security.md"} <= names


def answer(**vulnerable: list[str]) -> str:
    names = ("numpy", "torch", "pillow")
    packages = [{"name": n, "version": "1", "vulns": [{"id": i} for i in vulnerable.get(n, [])]} for n in names]
    return json.dumps({"dependencies": packages, "fixes": []})


SKIPPED = json.dumps({"dependencies": [{"name": "torch", "skip_reason": "Dependency not found on PyPI"}]})


@pytest.mark.parametrize(
    ("told", "code", "text"),
    [
        (answer(), 0, "none of 3 packages has a known vulnerability"),
        (answer(torch=["CVE-1"]), 1, "vulnerable: torch 1: CVE-1"),
        (SKIPPED, 2, "could not be asked about 1 of 1 packages (torch"),
        ("", 2, "could not be asked (ConnectionError: no network): try again"),
    ],
)
def test_no_answer_about_vulnerabilities_is_not_taken_for_a_good_one(told, code, text):
    result = audit(told, "Traceback\nConnectionError: no network")
    assert result[0] == code
    assert text in result[1]


def test_every_version_is_pinned():
    assert all(line.count("==") == 1 for line in CONSTRAINTS.read_text().splitlines())
