"""The report in Chromium: axe-core finds nothing serious, in light and dark and on a phone, and nothing sticks out."""

import pytest

from saccade.report import write_report


@pytest.fixture(scope="module")
def report(made_run, tmp_path_factory):
    return write_report(made_run, tmp_path_factory.mktemp("report") / "report.html").as_uri()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1100), ("dark", 1100), ("light", 390)])
def test_the_report_is_for_everybody_and_fits(browser, report, scheme, width):
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
    page.goto(report)
    response = Axe().run(page).response
    assert response["passes"]
    assert [one["id"] for one in response["violations"] if one["impact"] in ("serious", "critical")] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()
