"""The oracle looks at sets without controllers, and sees what is not right. That it is silent where
all is: `test_pair_runs`."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from maxq.harness.cli.given.asked import asked_from
from maxq.harness.run.stored_run import run_test
from maxq.harness.simulation.oracle.oracle import OracleAnomaly
from maxq.histories.store import ORACLE
from maxq.reference.broker.replication.plain.plain_events import Append
from maxq.reference.broker.replication.plain.plain_ports import PlainClient

GIVEN: dict[str, Any] = {
    "environment": "simulated", "seed": 11, "mode": "pair", "workload": ("queue",),
    "nemesis": ("kill", "partition", "pause", "restart"), "time_limit": 30_000_000_000,
    "concurrency": 10, "mutant": None, "target": "reference", "timing": "fast", "keys": (),
}  # fmt: skip


def found(folder: Path, **more: Any) -> dict[str, OracleAnomaly]:
    """What the oracle saw in a run, the first of each invariant."""
    run_test(asked_from({**GIVEN, **more}), folder, quiet=True)
    lines = (folder / "latest" / ORACLE).read_bytes().splitlines()
    anomalies = [msgspec.json.decode(line, type=OracleAnomaly) for line in lines]
    return {a.invariant: a for a in reversed(anomalies)}


@pytest.mark.parametrize("mutant", ["pair_acks_alone", "sent_is_copied", "near_is_copied"])
def test_a_promise_of_copies_that_are_not_there_is_seen(tmp_path: Path, mutant: str) -> None:
    seen = found(tmp_path, mutant=mutant, replicas=3)["promised-beyond-replicas"]
    assert seen.detail.startswith(("b0: acknowledges", "b1: acknowledges"))
    assert seen.detail.endswith("which 1 logs have, of 2")


def test_a_slave_with_other_bytes_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = PlainClient._append

    async def append(self: PlainClient, group: Any, effect: Append) -> bool:
        """The last byte of each piece is another one."""
        data = bytes(effect.data)
        changed = data[:-1] + bytes([data[-1] ^ 1])
        return await honest(self, group, msgspec.structs.replace(effect, data=changed))

    monkeypatch.setattr(PlainClient, "_append", append)
    seen = found(tmp_path, nemesis=("none",))["log-agreement"]
    assert "both logs reach" in seen.detail
