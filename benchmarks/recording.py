"""Short simulated runs whose histories stay in memory: for what is done to many histories.

Nothing of a run is kept on disk, and no report is written, so that a run of a few seconds takes
half a second.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from maxq.checkers.judgement.runner import Results
from maxq.harness.run.execute import run_in_world
from maxq.harness.run.judging import judge
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import config_of
from maxq.harness.schedule.options import Options
from maxq.histories.history import History
from maxq.histories.store import Run, open_run

SECOND_NS = 1_000_000_000


class Recorded(NamedTuple):
    """What was asked of a run, and what happened."""

    options: Options
    history: History

    def judged(self, history: History | None = None) -> Results:
        """The verdict on the history; or on another one, as if it were of this run."""
        return judge(self.options, self.history if history is None else history)


def small(*, seed: int, seconds: int, **more: Any) -> Options:
    """A simulated run of few operations a second; `more` are other options."""
    given = {"rate": 20.0, "concurrency": 4, **more}
    return Options(environment="simulated", seed=seed, time_limit_ns=seconds * SECOND_NS, **given)


def record(options: Options) -> Recorded:
    """Perform a run in the simulator.

    Raises:
        Exception: there was no run, as `maxq.harness.run.lifecycle.perform`.
    """
    folder = Path(tempfile.mkdtemp(prefix="maxq-short-"))
    try:
        run = Run(folder)
        run.save_config(config_of(options))
        run_in_world(options, run, RunContext(collect=False), lambda: True)
        return Recorded(options, open_run(folder).history)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
