"""Whole runs of pairs in the simulator: valid where all is right, and what they say is true."""

from pathlib import Path
from typing import Any

import pytest

from maxq.harness.cli.given.asked import asked_from
from maxq.harness.run.stored_run import run_test
from maxq.harness.schedule.options import Options
from maxq.histories.store import ORACLE

GIVEN: dict[str, Any] = {
    "environment": "simulated", "seed": 11, "mode": "pair", "workload": ("queue", "lock"),
    "nemesis": ("kill", "partition", "pause", "restart"), "time_limit": 30_000_000_000,
    "concurrency": 10, "mutant": None, "target": "reference", "timing": "fast", "keys": (),
}  # fmt: skip


def asked(**more: Any) -> Options:
    return asked_from({**GIVEN, **more})


@pytest.mark.parametrize("profile", ["P-SYNC", "P-AUTO", "P-ASYNC"])
def test_a_run_of_pairs_is_valid(tmp_path: Path, profile: str) -> None:
    """Two sets of a master and two slaves; what cannot apply to them is n/a."""
    judged = run_test(asked(profile=profile, replicas=3), tmp_path, quiet=True)
    assert judged.exit_code == 0
    kept = set(judged.results.of("kept"))
    assert {"S8", "S13", "S15", "S16", "A4"} <= kept
    copied = {"S6", "S10", "S11", "S12", "A8"}
    promised = profile == "P-SYNC"
    assert copied <= (kept if promised else set(judged.results.of("not promised")))
    na = {"S1", "S2", "S3", "S4", "S5", "S7", "S8b", "S8c", "S9", "S9b", "S14", "S14b"}
    assert na <= set(judged.absent)
    assert not any(r.failed_over for r in judged.recoveries)
    assert (judged.stored.path / ORACLE).read_bytes() == b""
    page = judged.report
    assert page is not None
    assert "no controllers" in page.read_text()


def test_a_run_of_pairs_is_repeated_by_what_it_says() -> None:
    options = asked()
    assert (options.controllers, options.broker_sets, options.replicas) == (0, 2, 2)
    assert options.profile == "P-SYNC"
    assert "--mode pair" in options.command()
    assert "--controllers" not in options.command()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"nemesis": ("disk",)}, "--mode pair cannot do --nemesis disk; it can do kill,"),
        (
            {"workload": ("registration",)},
            "--mode pair cannot do --workload registration; it can do queue,",
        ),
        ({"profile": "P-SAFE"}, "P-SAFE is a profile of --mode controllers"),
        ({"mode": "controllers", "profile": "P-SYNC"}, "P-SYNC is a profile of --mode pair"),
        ({"releases": (("n0", "rocketmq:5.5.0"),)}, "--mode pair runs one target: not yet"),
        ({"target": "rocketmq:5.5.0:jraft"}, "--mode pair has no controllers: not --target"),
        ({"embedded": True}, "--mode pair has no controllers"),
        ({"controllers": 3}, "--mode pair has no controllers: not --controllers 3"),
        ({"replicas": 1}, "inSyncReplicas=2 needs --replicas 2"),
    ],
)
def test_what_a_run_of_pairs_cannot_have_is_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        asked(**more)
