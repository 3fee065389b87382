"""Whole runs with a transient store pool: what a plain kill takes, and what settings keep."""

from pathlib import Path

from maxq.harness.run.stored_run import run_test
from maxq.harness.schedule.options import Options

POOL = {"broker:transientStorePoolEnable": "true"}
COPIED = {**POOL, "broker:brokerRole": "SYNC_MASTER", "broker:inSyncReplicas": "2"}
ALL_ACK = {**POOL, "broker:allAckInSyncStateSet": "true"}


def lost(
    folder: Path, keys: dict[str, str], *, controllers: int = 0, replicas: int = 2
) -> int | None:
    """How many acknowledged messages a plain kill takes; it breaks no promise, and no invariant."""
    options = Options(
        environment="simulated", seed=2, nemesis=("kill",), workload=("queue",),
        time_limit_ns=8_000_000_000, profile="P-SHIPPED", keys=keys, broker_sets=1,
        controllers=controllers, replicas=replicas,
    )  # fmt: skip
    judged = run_test(options, folder, quiet=True)
    assert judged.exit_code == 0
    assert (folder / "latest" / "oracle.jsonl").read_bytes() == b""
    assert "S16" in judged.results.of("not promised")
    return judged.results.lost.lost


def test_a_kill_takes_what_only_the_pool_has(tmp_path: Path) -> None:
    assert lost(tmp_path, POOL)


def test_a_master_alone_in_its_sync_state_set_waits_for_nobody(tmp_path: Path) -> None:
    assert lost(tmp_path, ALL_ACK, controllers=3, replicas=1)


def test_a_slave_is_sent_only_what_is_in_the_masters_file(tmp_path: Path) -> None:
    """So what two logs have is not in the pool alone."""
    assert lost(tmp_path, COPIED) == 0
