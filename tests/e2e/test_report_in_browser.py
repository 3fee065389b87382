"""The report in a real browser: nothing leaves it, nothing is wrong with it, it fits and zooms."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, found, running
from report_evidence import hostile

from maxq.harness.cli.main import run_cli
from maxq.harness.report.page import render

PROGRAM = found()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine"),
]
FITS = "[document.documentElement.scrollWidth <= innerWidth, document.body.scrollWidth]"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running(str(PROGRAM), tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    words = ("test", "--environment", "simulated", "--time-limit", "20s", "--seed", "1")
    assert run_cli([*words, "--mutant", "ack_without_replicas", "--store", str(folder)]) == 1
    return (folder / "latest").resolve() / "report.html"


@pytest.fixture(autouse=True)
def fresh(browser: Browser) -> None:
    browser.requests.clear()
    browser.complaints.clear()


def asked_elsewhere(browser: Browser, page: Path) -> list[str]:
    return [url for url in browser.requests if url.split("#")[0] != page.as_uri()]


@pytest.mark.parametrize("width", [390, 800, 1600])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_is_asked_for_nothing_complains_and_all_fits(
    browser: Browser, report: Path, width: int, dark: bool
) -> None:
    browser.go(report, width=width, dark=dark)
    fits, wide = browser.ask(FITS)
    assert fits, wide
    assert browser.ask("document.getElementById('toolbar').hidden") is False
    background = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")
    assert asked_elsewhere(browser, report) == []
    assert browser.complaints == []


# A phone's screen is 844 px high.
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 2 * 844)])
def test_the_first_screen_has_the_sentence_the_findings_and_the_timeline(
    browser: Browser, report: Path, width: int, height: int
) -> None:
    browser.go(report, width=width)
    bottom = "(what) => document.querySelector(what).getBoundingClientRect().bottom"
    for what in ("h1", "table.first", ".plots.small", "#cluster", ".tally", "#top"):
        assert 0 < browser.ask(f"({bottom})('{what}')") <= height, what
    assert browser.ask(FITS)[0]
    said = browser.ask("document.getElementById('top').innerText")
    for part in (" acknowledged messages", " lost", "acknowledged by b0-", "in epoch", "blamed"):
        assert part in said
    assert browser.ask("document.querySelectorAll('.small text.fault').length") >= 3


def test_a_slider_moves_the_cluster_through_the_run(browser: Browser, report: Path) -> None:
    browser.go(report, width=1280)
    state = "[document.getElementById('when').textContent, +document.getElementById('now-line')"
    state += ".getAttribute('x1'), document.querySelector('#cluster').innerHTML]"
    first = browser.ask(state)
    moved = "(() => { const m = document.getElementById('moment'); m.value = 9990; "
    moved += "m.dispatchEvent(new Event('input')); })()"
    browser.ask(moved)
    last = browser.ask(state)
    assert last[1] == 9990
    assert all(one != other for one, other in zip(first, last, strict=True))
    cut = "document.querySelectorAll('#cluster path.cut:not([visibility=hidden])').length"
    assert browser.ask(cut) == 0  # all is healed by then
    seen = set()
    for _ in range(12):
        browser.ask("document.querySelector('[data-step=\\'-1\\']').click()")
        seen.add(browser.ask(cut))
    assert max(seen) > 0
    assert browser.complaints == []


def test_an_attack_runs_nothing_and_loads_nothing(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "attack.html"
    page.write_text(render(hostile()))
    browser.go(page, width=800)
    assert browser.ask("typeof attack") == "undefined"
    assert browser.ask("document.images.length + document.scripts.length") == 1
    assert browser.ask(FITS)[0]
    assert asked_elsewhere(browser, page) == []
    assert browser.complaints == []


def test_a_drag_zooms_all_plots_and_a_button_shows_the_whole_run(
    browser: Browser, report: Path
) -> None:
    browser.go(report, width=1600, height=1000)
    views = "[...new Set([...document.querySelectorAll('svg.x')].map(s => +s.viewBox.baseVal.width"
    views += ".toFixed(3)))]"
    assert browser.ask(views) == [10_000]
    place = "(() => { document.getElementById('timeline').scrollIntoView(); const b = document."
    place += "querySelector('#timeline .lane svg.plot').getBoundingClientRect(); "
    place += "return [b.x, b.y, b.width]})"
    x, y, width = browser.ask(f"{place}()")
    browser.press("mouseMoved", x + width / 4, y + 8)
    browser.press("mousePressed", x + width / 4, y + 8)
    browser.press("mouseMoved", x + width / 2, y + 8)
    browser.press("mouseReleased", x + width / 2, y + 8)
    (zoomed,) = browser.ask(views)
    assert zoomed == pytest.approx(2500, rel=0.02)
    ticks = "[...document.querySelectorAll('.axis text')].map(t => t.textContent)"
    assert len(browser.ask(ticks)) >= 6
    browser.ask("document.querySelector('[data-do=whole]').click()")
    assert browser.ask(views) == [10_000]
    assert browser.complaints == []


def test_links_unfold_what_they_lead_to_and_mark_operations(browser: Browser, report: Path) -> None:
    browser.go(report, width=1600)
    folded = "document.querySelectorAll('details.anomaly')[2].open"
    assert browser.ask(folded) is False
    browser.ask("location.hash = document.querySelectorAll('details.anomaly')[2].id; 1")
    assert browser.ask(f"new Promise(r => setTimeout(() => r({folded}), 200))") is True
    browser.ask("document.querySelector('a.show').click()")
    assert browser.ask("document.querySelectorAll('#marks line').length") >= 2
    assert browser.complaints == []
