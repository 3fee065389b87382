"""Folders of runs with any history, as a harness leaves them that ended, or was killed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from history_recorder import Recorder
from small import SMALL

from maxq.harness.run.stored_run import config_of
from maxq.harness.schedule.options import Options
from maxq.histories.op import Op
from maxq.histories.store import Run, RunStore

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
OPTIONS = Options(environment="simulated", seed=1, time_limit_ns=10**10, **SMALL)


def history(messages: int = 3, *, lost: bool = False) -> list[Op]:
    """Messages that are sent and read, and a fault; or one of them is `lost`."""
    recorder = Recorder()
    recorder.assign(1, 0, seek=True)
    recorder.fault("kill", **{"b0-0": True})
    for offset in range(messages):
        recorder.send(0, 10 + offset, offset, broker="x:1")
    read = [(n, 10 + n) for n in range(messages) if not lost or n != messages // 2]
    recorder.poll(1, *read, end={0: messages})
    return recorder.ops


def stored(root: Path, ops: Sequence[Op], number: int = 0, *, ended: bool = True) -> Path:
    """A run in a store; of one that `ended` there is a table, and a verdict."""
    run: Run = RunStore(root).create("queue", BEGIN + timedelta(minutes=number))
    run.save_config(config_of(OPTIONS))
    journal = run.open_journal()
    for op in ops:
        journal.append(op)
    if not ended:
        journal.abandon()
        return run.path
    journal.close()
    run.save_results(ops, {"valid": True, "verdict": "valid: as it seemed then"})
    return run.path
