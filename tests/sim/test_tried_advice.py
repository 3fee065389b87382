"""The settings that are tried where messages were lost or clients waited: the one that helps is
named.

The files of an operator, a fault, and the change that must be among those that kept everything, or
had clients served sooner; and one that must not be, as it is no matter of it.
"""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from maxq.harness.cli.given.asked import asked_from
from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.environment import Role
from maxq.harness.experiments.losses import Losses
from maxq.harness.schedule.fixes import said_of_trials
from maxq.harness.targets.settings_files import read

# It commits seldom, so that enough is lost for one try of each change.
POOL = "transientStorePoolEnable=true\ncommitIntervalCommitLog=1000\n"
THREE = "enableControllerMode=true\ntotalReplicas=3\nflushDiskType=ASYNC_FLUSH\n"
ALL_ACK = f"{THREE}allAckInSyncStateSet=true\n"
ASYNC, SYNC = "brokerRole=ASYNC_MASTER\n", "brokerRole=SYNC_MASTER\n"
ACTING = "enableSlaveActingMaster=true and supportActingMaster=true"


class Case(NamedTuple):
    """`broker` and `controller` are files; `seconds` is how long a run lasts. Without `lost` the
    case costs time alone. Where what is not synced yet goes, a `seed` may find nothing unsynced."""

    broker: str
    fault: str
    helps: str
    is_no_help: str
    controller: str = ""
    seconds: int = 35
    rate: float = 50.0
    workload: tuple[str, ...] = ("queue",)
    lost: bool = True
    seed: int = 2


CASES = {
    "a sync master that waits for nobody": Case(
        SYNC + POOL, "kill", "inSyncReplicas=2", ACTING, seconds=8, rate=100.0
    ),
    "no all-ack": Case(
        THREE, "partition", "allAckInSyncStateSet=true", "flushDiskType=SYNC_FLUSH", seconds=15
    ),
    "no sync, and a loss of power": Case(
        THREE, "power", "flushDiskType=SYNC_FLUSH", "minInSyncReplicas=2", seconds=15
    ),
    "an unclean election": Case(
        ALL_ACK, "slaves-away-kill", "enableElectUncleanMaster=false", "flushDiskType=SYNC_FLUSH",
        controller="enableElectUncleanMaster=true\n",
    ),
    "a master that may be alone in its SyncStateSet": Case(
        ALL_ACK, "slaves-away-power", "minInSyncReplicas=2", "inSyncReplicas=2", rate=100.0
    ),
    "a pair that degrades by itself": Case(
        f"{SYNC}inSyncReplicas=2\nenableAutoInSyncReplicas=true\n", "slaves-away-power",
        "enableAutoInSyncReplicas=false", ACTING, rate=100.0, seed=1,
    ),
    "slaves that refuse reads": Case(
        ASYNC, "kill", "slaveReadEnable=true", ACTING, seconds=30, rate=20.0, lost=False
    ),
    "no slave that acts": Case(
        f"{ASYNC}slaveReadEnable=true\n", "kill", ACTING, "", seconds=30, rate=20.0,
        workload=("queue", "ordered"), lost=False,
    ),
}  # fmt: skip


@pytest.mark.campaign
@pytest.mark.parametrize("case", CASES)
def test_the_setting_that_helps_is_named(tmp_path: Path, case: str) -> None:
    asked = CASES[case]
    (tmp_path / "broker.conf").write_text(asked.broker)
    (tmp_path / "controller.conf").write_text(asked.controller)
    given: dict[str, Any] = {
        "environment": "simulated", "seed": asked.seed, "nemesis": (asked.fault,),
        "workload": asked.workload, "time_limit": asked.seconds * 10**9, "rate": asked.rate,
        "concurrency": 10, "mutant": None, "target": "reference", "timing": "fast",
        "profile": None, "keys": (), "mode": None,
        "broker_conf": (read(tmp_path / "broker.conf", Role.BROKER),),
    }  # fmt: skip
    if asked.controller:
        given["controller_conf"] = (read(tmp_path / "controller.conf", Role.CONTROLLER),)
    losses = Losses(tmp_path / "losses", asked_from(given), tries=1)
    losses.run(lambda _: None)
    (row,), trials = losses.rows(), losses.trials(asked.fault)
    assert bool(row.messages.lost) == asked.lost
    before = {} if asked.lost else row.silent_ms
    helped = {t.fix: bool(t.serves(before)) if before else t.kept for t in trials}
    assert helped[asked.helps]
    assert not helped.get(asked.is_no_help, False)
    (line,) = (
        line for line in said_of_trials(asked.fault, trials, before) if f"  {asked.helps} " in line
    )
    assert line.startswith("  kept  " if asked.lost else "  sooner  ")
    assert " 0 of " in line or not asked.lost


def test_one_run_says_what_may_be_tried_and_what_came_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that the screen names tries it, and the page and the JSON say it as well."""
    (tmp_path / "broker.conf").write_text(ASYNC + POOL)
    words = ["test", "--env", "simulated", "--broker-conf", str(tmp_path / "broker.conf"),
             "--workload", "queue", "--nemesis", "kill", "--time-limit", "8s", "--rate", "100",
             "--seed", "2", "--store", str(tmp_path / "runs")]  # fmt: skip
    assert run_cli(words) == 0
    screen = capsys.readouterr().out
    (run,) = (tmp_path / "runs" / "queue").glob("2*")
    assert "advice:  to try whether transientStorePoolEnable=false, " in screen
    (command,) = (line for line in screen.splitlines() if line.endswith(" --try-fix 1"))
    assert command.split()[-4:] == ["check", str(run), "--try-fix", "1"]
    assert run_cli(command.split()[-4:]) == 0
    screen = capsys.readouterr().out
    assert "The run of kill again, with other settings (" in screen
    assert "  kept  transientStorePoolEnable=false " in screen
    assert "        brokerRole=SYNC_MASTER " in screen, "which waits for nobody"
    assert "advice:" not in screen
    tried = msgspec.json.decode((run / "results.json").read_bytes())["tried"]
    assert "\n".join(tried) in screen
    assert "Settings, tried" in (run / "report.html").read_text()
