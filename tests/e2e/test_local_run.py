"""Real processes in Linux network namespaces, driven through the command line as a user would."""

import json
import os
import re
import signal
from pathlib import Path

import pytest
from local_cluster import (
    check_json,
    journal_lines,
    missing,
    processes_of,
    run_json,
    start,
)
from waiting import eventually

from maxq.harness.run.process.signals import ENDING
from maxq.histories.store import RESULTS

MISSING = missing()
pytestmark = [pytest.mark.local, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


def test_kill_and_restart_lose_nothing(tmp_path: Path) -> None:
    """S6, S10, S11 on real processes; every fault proven; nothing left behind."""
    code, verdict = run_json(tmp_path, "--time-limit", "10s", "--seed", "5")
    assert (code, verdict["valid"]) == (0, True)
    faults = verdict["faults"]
    ending = {"await-recovery", "last-look"}
    assert {f["f"] for f in faults} == {"inspect", "kill", "start", *ending}
    assert all(f["holds"] for f in faults)
    run = Path(verdict["run"])
    assert (run / "results.edn").read_text().startswith("{")
    assert (run / "nodes" / "b0-0" / "node.log").stat().st_size > 0
    logs = list((run / "nodes" / "b0-0" / "store" / "commitlog").iterdir())
    assert 0 < sum(f.stat().st_size for f in logs) < 16 << 20, "cut to their end"
    assert not processes_of(tmp_path)


def test_the_first_mutant_is_caught(tmp_path: Path) -> None:
    """S6: a broker that acknowledges at once and writes a second later."""
    code, verdict = run_json(
        tmp_path, "--time-limit", "8s", "--mutant", "ack_before_write", "--seed", "1"
    )
    assert code == 1
    assert any(a["name"] in ("lost-write", "lost-tail") for a in verdict["anomalies"])


def test_a_killed_harness_leaves_nothing_behind_but_its_history(tmp_path: Path) -> None:
    """kill -9 in mid-run: processes and namespaces go, the journal can be judged."""
    harness = start(tmp_path, "--time-limit", "60s")
    try:
        assert eventually(lambda: journal_lines(tmp_path) > 200, 60)
        assert len(processes_of(tmp_path)) >= 7, "the harness, its agent, five nodes"
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.communicate()
    assert eventually(lambda: not processes_of(tmp_path), 5)
    code, verdict, told = check_json(tmp_path / "latest")
    assert code == 2, "the final reads are missing, so it must be unknown"
    assert "did not end properly" in told
    assert verdict["valid"] == "unknown"


@pytest.mark.parametrize(
    ("number", "accept"), [*((n, ()) for n in ENDING), (signal.SIGINT, ("--accept-partial",))]
)
def test_a_signal_heals_reads_and_gives_a_verdict(
    tmp_path: Path, number: signal.Signals, accept: tuple[str, ...]
) -> None:
    """Control-C, SIGTERM, and SIGHUP of a terminal ask for an end: it comes in good order, long
    before the time limit. Its exit code is no success unless that was asked for."""
    harness = start(tmp_path, "--time-limit", "300s", "--rate", "10", *accept)
    assert eventually(lambda: journal_lines(tmp_path) > 200, 60)
    harness.send_signal(number)
    out, told = harness.communicate(timeout=60)
    assert f"interrupted by {number.name}: healing, reading everything, judging" in told
    assert harness.returncode == (0 if accept else 128 + number)
    assert "healed, and all works again" in told
    assert "verdict: valid" in out
    assert re.search(r"Only \d+ s of 300 s were run\.", " ".join(out.split()))
    assert eventually(lambda: not processes_of(tmp_path), 5)


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_second_signal_ends_it_at_once(tmp_path: Path, number: signal.Signals) -> None:
    """Whichever they are; what was recorded can be judged."""
    harness = start(tmp_path, "--time-limit", "300s")
    assert eventually(lambda: journal_lines(tmp_path) > 0, 60)
    harness.send_signal(number)
    assert harness.stderr is not None
    assert any(f"interrupted by {number.name}: healing" in line for line in harness.stderr)
    second = signal.SIGINT if number is signal.SIGTERM else signal.SIGTERM
    harness.send_signal(second)
    _, told = harness.communicate(timeout=30)
    assert harness.returncode == 128 + second
    assert f"interrupted by {second.name}; what was recorded can be judged" in told
    assert re.search(r"repeat:  .* test ", told)
    assert "Traceback" not in told
    assert eventually(lambda: not processes_of(tmp_path), 5)


def test_a_terminal_that_goes_asks_for_a_verdict(tmp_path: Path) -> None:
    """Whatever is printed from then on is printed nowhere, and the run comes to its end."""
    terminal, theirs = os.openpty()
    harness = start(tmp_path, "--time-limit", "300s", "--rate", "10", terminal=theirs)
    os.close(theirs)
    try:
        assert eventually(lambda: journal_lines(tmp_path) > 200, 60)
    finally:
        os.close(terminal)
    assert harness.wait(timeout=60) == 129
    results = json.loads((tmp_path / "latest" / RESULTS).read_bytes())
    assert results["valid"] is True
    assert (tmp_path / "latest" / "report.html").exists()
    assert eventually(lambda: not processes_of(tmp_path), 5)
