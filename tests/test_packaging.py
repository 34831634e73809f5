"""What is handed on: the distributions, and whether their dependencies are known to be vulnerable."""

import json
import re
import shlex
import tarfile
import zipfile
from email.message import Message
from email.parser import HeaderParser
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from audit import CONSTRAINTS, audit
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

import saccade
from saccade.cli import build_parser
from saccade.extras import EXTRAS
from saccade.training.tracking import LOGGERS

ROOT = Path(__file__).parents[1]


class Wheel(NamedTuple):
    """The names of its files, and what it says of itself."""

    names: set[str]
    metadata: Message

    def needs(self, extra: str = "") -> set[str]:
        """The packages of the base, or those that an extra adds."""
        lines = [Requirement(line) for line in self.metadata.get_all("Requires-Dist", [])]
        base = {line.name for line in lines if line.marker is None or line.marker.evaluate({"extra": ""})}
        return {line.name for line in lines if line.marker is None or line.marker.evaluate({"extra": extra})} - (
            base if extra else set()
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Wheel:
    (archive,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    with zipfile.ZipFile(archive) as file:
        (metadata,) = (name for name in file.namelist() if name.endswith("/METADATA"))
        return Wheel(set(file.namelist()), HeaderParser().parsestr(file.read(metadata).decode()))


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    shipped = {str(path.relative_to(ROOT)) for path in (ROOT / "saccade").rglob("*") if path.is_file()}
    shipped = {name for name in shipped if "__pycache__" not in name}
    about = {name for name in wheel.names if name.startswith(f"saccade-{saccade.__version__}.dist-info/")}
    assert wheel.names - about == shipped
    assert {Path(name).suffix or name for name in shipped} == {
        *(".py", ".yaml", ".jinja", ".html", ".css", ".js", ".typed"),
    }


def test_there_is_one_version(wheel):
    assert wheel.metadata["Version"] == saccade.__version__
    heading = rf"^## {re.escape(saccade.__version__)} \(\d{{4}}-\d\d-\d\d\)$"
    assert re.search(heading, (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == saccade.__version__
    assert f"## {citation['version']} ({citation['date-released']})" in (ROOT / "CHANGELOG.md").read_text()


def test_the_extras_are_those_that_errors_ask_for(wheel):
    brought_by = packages_distributions()
    for extra, modules in EXTRAS.items():
        packages = {package.lower() for module in modules for package in brought_by[module]}
        assert packages <= wheel.needs(extra), f"{extra} does not bring what is asked for"
        assert not packages & wheel.needs(), f"{extra} is in the base already"
    assert wheel.needs("all") == set().union(*map(wheel.needs, EXTRAS.keys() - LOGGERS.keys()))


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


def test_the_docker_image_is_made_of_what_reaches_it_and_of_the_pinned_versions():
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", text, flags=re.MULTILINE)
    copied = {name for line in lines for name in line.split()}
    assert copied <= let_in
    assert all((ROOT / name).exists() for name in copied)
    pins = dict(line.split("==") for line in CONSTRAINTS.read_text().splitlines())
    found = dict(re.findall(r"(\w+)==([\d.]+)\+cpu", text))
    assert found == {name: pins[name] for name in ("torch", "torchvision")}
    assert re.findall(r"^USER (\d+)$", text, flags=re.MULTILINE)[-1] != "0"
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", text, flags=re.MULTILINE)
    served = shlex.split(json.loads(entry)[2].replace('"$@"', "example.org").replace("$SACCADE_TOKEN", "x" * 16))
    build_parser().parse_args(served[served.index("saccade") + 1 :])
