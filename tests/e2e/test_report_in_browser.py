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
ROOT = Path(__file__).resolve().parents[2]
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


# What is found, by which seeded bug, under its own schedule; and what must be read at a glance.
FOUND = {
    "loss": ("ack_without_replicas", ("acknowledged messages", "acknowledged by b0-", "in epoch")),
    "lock held twice": (
        "locks_forgotten_at_restart",
        ("two clients held one queue's lock", "to client", "by b0-", "kill b0-1 b0-2"),
    ),
    "id given twice": ("claim_always_granted", ("broker ids were given twice", "id 2 of a0")),
    "replica out of the set": (
        "set_from_stale_base",
        ("never came back into the SyncStateSet", "b0-0, broker set b0", "kill b0-0 at"),
    ),
}
BOTTOM = "(what) => document.querySelector(what).getBoundingClientRect().bottom"


@pytest.fixture(scope="module")
def found_in(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pages = {}
    for name, (mutant, _) in FOUND.items():
        folder = tmp_path_factory.mktemp(mutant)
        script = ROOT / "maxq" / "harness" / "schedule" / "directed" / f"{mutant}.jsonl"
        words = ("replay", str(script), "--env", "simulated", "--mutant", mutant)
        assert run_cli([*words, "--store", str(folder)]) == 1
        pages[name] = (folder / "latest").resolve() / "report.html"
    return pages


# A phone's screen is 844 px high.
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 2 * 844)])
@pytest.mark.parametrize("name", FOUND)
def test_the_first_screen_says_what_how_often_when_where_and_by_what(
    browser: Browser, found_in: dict[str, Path], name: str, width: int, height: int
) -> None:
    browser.go(found_in[name], width=width)
    for what in ("h1", "table.first", ".plots.small", "#cluster", ".tally", "#top"):
        assert 0 < browser.ask(f"({BOTTOM})('{what}')") <= height, what
    assert browser.ask(FITS)[0]
    said = " ".join(browser.ask("document.getElementById('top').innerText").split())
    for part in (*FOUND[name][1], "INVALID", " s "):
        assert part in said, said
    assert found_in[name].stat().st_size < 2_000_000
    assert asked_elsewhere(browser, found_in[name]) == []
    assert browser.complaints == []


def test_a_long_run_fits_in_the_first_screen(browser: Browser, report: Path) -> None:
    browser.go(report, width=1280)
    assert 0 < browser.ask(f"({BOTTOM})('#top')") <= 900
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
