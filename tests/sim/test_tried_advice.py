"""The settings that are tried where messages were lost: the one that keeps them is named.

The files of an operator, a fault, and the change that must be among those that kept everything; and
one that must not be, as it is no matter of it.
"""

from pathlib import Path
from typing import Any

import pytest

from maxq.harness.cli.given.asked import asked_from
from maxq.harness.contracts.environment import Role
from maxq.harness.experiments.losses import Losses
from maxq.harness.schedule.fixes import said_of_trials
from maxq.harness.targets.settings_files import read

POOL = "transientStorePoolEnable=true\n"
THREE = "enableControllerMode=true\ntotalReplicas=3\nflushDiskType=ASYNC_FLUSH\n"
CASES = {
    "a transient pool": (
        f"brokerRole=ASYNC_MASTER\n{POOL}", "kill", 8,
        "transientStorePoolEnable=false", "brokerRole=SYNC_MASTER",
    ),
    "a sync master that waits for nobody": (
        f"brokerRole=SYNC_MASTER\n{POOL}", "kill", 8,
        "inSyncReplicas=2", "enableSlaveActingMaster=true and supportActingMaster=true",
    ),
    "no all-ack": (THREE, "partition", 15, "allAckInSyncStateSet=true", "flushDiskType=SYNC_FLUSH"),
    "no sync, and a loss of power": (
        THREE, "power", 15, "flushDiskType=SYNC_FLUSH", "minInSyncReplicas=2",
    ),
}  # fmt: skip
LONG = ("no all-ack", "no sync, and a loss of power")


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=pytest.mark.campaign if c in LONG else ()) for c in CASES]
)
def test_the_setting_that_keeps_messages_is_named(tmp_path: Path, case: str) -> None:
    text, fault, seconds, keeps, is_no_help = CASES[case]
    (tmp_path / "broker.conf").write_text(text)
    given: dict[str, Any] = {
        "environment": "simulated", "seed": 2, "nemesis": (fault,), "workload": ("queue",),
        "time_limit": seconds * 10**9, "rate": 100.0 if case not in LONG else 50.0,
        "concurrency": 10, "mutant": None, "target": "reference", "timing": "fast",
        "profile": None, "keys": (), "mode": None,
        "broker_conf": (read(tmp_path / "broker.conf", Role.BROKER),),
    }  # fmt: skip
    losses = Losses(tmp_path / "losses", asked_from(given), tries=1)
    losses.run(lambda _: None)
    (row,), trials = losses.rows(), losses.trials(fault)
    assert row.messages.lost
    kept = {trial.fix: trial.kept for trial in trials}
    assert kept[keeps]
    assert not kept[is_no_help]
    (line,) = (line for line in said_of_trials(fault, trials) if f"  {keeps} " in line)
    assert line.startswith("  kept  ")
    assert " 0 of " in line
