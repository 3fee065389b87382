"""The page of many runs in a real browser: filter, two beside each other, the running run."""

import fcntl
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from browser import Browser, found, running
from report_evidence import ATTACK
from waiting import eventually

from maxq.harness.experiments.overview.entries import Entry
from maxq.harness.experiments.overview.page import page, write_index
from maxq.harness.experiments.overview.serving import server
from maxq.harness.schedule.options import Options
from maxq.histories.jsonl import JournalWriter
from maxq.histories.op import Op
from maxq.histories.store import RESULTS, Run, RunStore

PROGRAM = found()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine"),
]
RUNS, DAMAGED = 200, 3
SHOWN = "[...document.querySelectorAll('#runs tbody tr')].filter(r => !r.hidden).length"
FITS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running(str(PROGRAM), tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(autouse=True)
def fresh(browser: Browser) -> None:
    browser.requests.clear()
    browser.complaints.clear()


def made(root: Path, number: int) -> Run:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    run = RunStore(root).create("queue", start)
    mutant = "lock_without_quorum" if number % 5 == 0 else ""
    options = Options(environment="simulated", seed=number, workload=("queue",), mutant=mutant)
    run.save_config({"options": msgspec.to_builtins(options)})
    return run


def store(root: Path) -> Path:
    for number in range(RUNS + DAMAGED):
        run = made(root, number)
        with run.open_journal() as journal:
            journal.append(Op("ok", 0, "send", [["send", 0, [0, 1]]], index=0, time=1))
        valid = number % 5 != 0
        said = "valid: kept." if valid else "INVALID: a lock was held twice. L1 is broken."
        first = [] if valid else [{"what": "x", "text": "a queue's lock was granted twice"}]
        run.save_verdict(
            {"valid": valid, "verdict": said, "first": first, "faults": [f"kill b0-{number % 3}"]}
        )
        if number >= RUNS:
            (run.path / RESULTS).write_text("{")
    return root


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_index(store(tmp_path_factory.mktemp("runs")))


@pytest.mark.parametrize("width", [390, 1280])
def test_runs_are_filtered_and_two_stand_beside_each_other(
    browser: Browser, index: Path, width: int
) -> None:
    browser.go(index, width=width)
    assert browser.ask(FITS)
    assert browser.ask(SHOWN) == RUNS + DAMAGED
    damaged = "[...document.querySelectorAll('#runs tr.damaged')].map(r => r.innerText).join()"
    assert browser.ask(damaged).count("results.json") == DAMAGED
    assert "203 runs" in browser.ask("document.querySelector('h1').textContent")
    typed = "(() => { const f = document.getElementById('filter'); f.value = 'without_quorum 1'; "
    typed += "f.dispatchEvent(new Event('input')); })()"
    browser.ask(typed)
    shown = browser.ask(SHOWN)
    assert 0 < shown < RUNS / 4
    assert browser.ask("document.getElementById('shown').textContent") == f"{shown} of 203 shown"
    browser.ask(typed.replace("without_quorum 1", ""))
    browser.ask("document.querySelector('[data-state=invalid]').click()")
    assert browser.ask(SHOWN) == RUNS + DAMAGED - RUNS // 5
    for pick in (3, 4):  # seeds 199 and 198
        browser.ask(f"document.querySelector('[data-pick=\"{pick}\"]').click()")
    beside = browser.ask("document.getElementById('beside').innerText")
    assert "seed\t199\t198" in beside
    assert "kill b0-1\tkill b0-0" in beside
    assert browser.ask(FITS)
    assert [url for url in browser.requests if url != index.as_uri()] == []
    assert browser.complaints == []


def test_what_runs_say_does_nothing(browser: Browser, tmp_path: Path) -> None:
    evil = [
        Entry(name=f"{ATTACK}{n}", state="invalid", said=ATTACK, started=ATTACK, report=True,
              settings={"workload": ATTACK, "nemesis": ATTACK, ATTACK: f"{n}"}, found=(ATTACK,),
              faults=(f"{ATTACK}{n}",), fault_count=1, claims={ATTACK: f"{n}"})
        for n in (1, 2)
    ]  # fmt: skip
    file = tmp_path / "index.html"
    file.write_text(page(evil, title=ATTACK, inner={ATTACK: ATTACK}))
    browser.go(file, width=1280)
    for pick in (0, 1):
        browser.ask(f"document.querySelector('[data-pick=\"{pick}\"]').click()")
    assert "<script>attack()" in browser.ask("document.getElementById('beside').innerText")
    assert browser.ask("typeof attack") == "undefined"
    assert browser.ask("document.images.length + document.scripts.length") == 1
    assert [url for url in browser.requests if url != file.as_uri()] == []
    assert browser.complaints == []


def over(browser: Browser) -> bool:
    """Whether the page shows a run that was valid, and none that goes on."""
    said = "document.querySelector('#runs tr.valid') && document.getElementById('running').hidden"
    try:
        return bool(browser.ask(said))
    except AssertionError:  # it is being loaded
        return False


def test_the_running_run_is_followed_live(browser: Browser, tmp_path: Path) -> None:
    run = made(tmp_path, 0)
    fd = os.open(run.path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    line = "document.querySelector('#live .line')?.textContent ?? ''"
    until = "new Promise(r => {{ const t = setInterval(() => {{ if (({0})) {{ clearInterval(t); "
    until += "r(true); }} }}, 50); }})"
    with server(tmp_path, 0) as site, JournalWriter(run.path / "history.jsonl") as journal:
        thread = threading.Thread(target=site.serve_forever, args=(0.05,))
        thread.start()
        try:
            sets = {"b0": {"master": 2, "master_epoch": 7}}
            journal.append(Op("ok", 9, "observe-controller", {"node": "c0", "sets": sets},
                              index=0, time=3_000_000_000))  # fmt: skip
            journal.flush()
            browser.go(f"http://127.0.0.1:{site.server_port}/", width=1280)
            assert browser.ask(until.format(f"({line}).startsWith('3 s, 60 s left · b0: id 2 in')"))
            journal.append(Op("ok", 0, "send", [], index=1, time=9_000_000_000))
            journal.flush()
            assert browser.ask(until.format(f"({line}).startsWith('9 s, 54 s left')"))
            run.save_verdict({"valid": True, "verdict": "valid: kept."})
            os.close(fd)
            assert eventually(lambda: over(browser), 20), "the page loads itself anew"
            assert {url.split(":")[1] for url in browser.requests} == {"//127.0.0.1"}
            assert browser.complaints == []
        finally:
            site.shutdown()
            thread.join()
