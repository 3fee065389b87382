"""Real processes in Linux network namespaces, driven through the command line as a user would."""

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


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_the_first_mutant_is_caught(tmp_path: Path, attempt: int) -> None:
    """S6: a broker that acknowledges at once and writes a second later."""
    code, verdict = run_json(
        tmp_path, "--time-limit", "8s", "--mutant", "ack_before_write", "--seed", str(attempt)
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


def test_a_polite_kill_cleans_up(tmp_path: Path) -> None:
    """SIGTERM ends the run, leaves nothing, and is our own failure (255)."""
    harness = start(tmp_path, "--time-limit", "60s")
    assert eventually(lambda: journal_lines(tmp_path) > 0, 60)
    harness.send_signal(signal.SIGTERM)
    _, told = harness.communicate(timeout=30)
    assert harness.returncode == 255
    assert "interrupted" in told
    assert "repeat:  maxq test" in told
    assert "Traceback" not in told
    assert eventually(lambda: not processes_of(tmp_path), 5)


def test_an_interrupt_heals_reads_and_gives_a_verdict(tmp_path: Path) -> None:
    """Control-C asks for an end: it comes in good order, long before the time limit."""
    harness = start(tmp_path, "--time-limit", "300s", "--rate", "10")
    assert eventually(lambda: journal_lines(tmp_path) > 200, 60)
    harness.send_signal(signal.SIGINT)
    out, told = harness.communicate(timeout=60)
    assert "interrupted: healing, reading everything, judging" in told
    assert harness.returncode == 2, "too few operations for what was asked"
    assert "await-recovery: cluster proven" in told
    assert "verdict: unknown" in out
    assert "only" in out
    assert eventually(lambda: not processes_of(tmp_path), 5)


def test_a_second_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    harness = start(tmp_path, "--time-limit", "300s")
    assert eventually(lambda: journal_lines(tmp_path) > 0, 60)
    harness.send_signal(signal.SIGINT)
    assert harness.stderr is not None
    assert any("interrupted: healing" in line for line in harness.stderr)
    harness.send_signal(signal.SIGINT)
    harness.communicate(timeout=30)
    assert harness.returncode in (2, 255)  # it may have come to its end meanwhile
    assert eventually(lambda: not processes_of(tmp_path), 5)
