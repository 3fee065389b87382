"""The runs of upgrades, done and to be done, and what was seen in each.

What a run showed is a line of a journal, so that a command that was cut off, or whose budget was
spent, goes on. A cluster that never comes up is an outcome like any other; that is said of a mixed
set where every process lived and answered, and not where an environment failed.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from maxq.checkers.evidence.faults import faults
from maxq.checkers.judgement.summary import lost_of
from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import EnvironmentLost, EnvironmentUnavailable
from maxq.harness.contracts.target import Profile
from maxq.harness.experiments.engine import JOURNAL, run_missing
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.experiments.upgrade.plans import AWAY_S, Expected, Upgrade, upgrades
from maxq.harness.run.replay import options_for
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule.format import SEND, digest_of
from maxq.histories.fault_facts import KILL, RELEASE, RESTART

FAILED_MAX = 2  # runs of one upgrade that say nothing, until it is left
ERROR_MAX = 300  # characters of why a cluster did not come up
Came = Literal["up", "never up", "failed"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be made."""

    name: str
    profile: Profile
    environment: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run. `recovered_ms` is from the kill or restart of a master until a send was
    acknowledged, None if none was; `struck` whether there was one. `replaced` counts nodes that
    proved to be of another release, of `asked`. `serves` is whether every queue took and returned a
    probe at the end."""

    job: Job
    digest: str
    date: str = ""
    came: Came = "up"
    acknowledged: int = 0
    lost: int = 0
    struck: bool = False
    recovered_ms: float | None = None
    replaced: int = 0
    asked: int = 0
    serves: bool = False
    found: tuple[str, ...] = ()
    run: str = ""
    error: str = ""

    @property
    def seen(self) -> str:
        """In words."""
        if self.came != "up":
            return self.came
        words = []
        if self.struck:
            words.append(_after(self.recovered_ms))
        if self.asked:
            words.append(f"{self.replaced} of {self.asked} nodes replaced")
        words.append(f"{self.lost:,} of {self.acknowledged:,} lost")
        words.append("serves at the end" if self.serves else "does not serve at the end")
        return ", ".join(words)

    def shows(self, expected: Expected) -> bool:
        """Whether it is as documented."""
        up = self.came == "up"
        switched = self.recovered_ms is not None and self.recovered_ms < AWAY_S * 1000
        match expected:
            case "never up":
                return self.came == "never up"
            case "switches":
                return up and self.struck and switched
            case "no switch":
                return up and self.struck and not switched
            case "stays away":
                return up and self.struck and self.recovered_ms is None
            case "keeps all":
                return up and self.replaced == self.asked and self.serves and not self.lost
        return False


def _after(ms: float | None) -> str:
    if ms is None:
        return "no send acknowledged after the master went"
    if ms >= AWAY_S * 1000:
        return f"no switch: the next send was acknowledged after {ms / 1000:.1f} s"
    return f"the next send was acknowledged after {ms / 1000:.1f} s"


def measure(job: Job, folder: Path) -> Entry:
    """Make a run, and say what was seen."""
    [upgrade] = [one for one in upgrades() if one.name == job.name]
    script = upgrade.schedule(job.profile)
    date = datetime.now(UTC).date().isoformat()
    entry = Entry(job=job, digest=digest_of(script), date=date)
    context = RunContext(script=script)
    try:
        options = options_for(script, job.environment)
        judged = run_test(options, folder / "runs", quiet=True, context=context)
    except SetupFailed as error:
        return msgspec.structs.replace(entry, came="never up", error=f"{error}"[:ERROR_MAX])
    except (EnvironmentLost, EnvironmentUnavailable, OSError) as error:
        return msgspec.structs.replace(entry, came="failed", error=f"{error}"[:ERROR_MAX])
    if context.stop.asked:
        raise KeyboardInterrupt
    return judged_entry(entry, judged, upgrade)


def judged_entry(entry: Entry, judged: Judged, upgrade: Upgrade) -> Entry:
    """What a run says."""
    history, results = judged.stored.history, judged.results
    ends = [r for r in judged.recoveries if r.f in (KILL, RESTART)]
    after = ends[0].after_ns if ends else None
    asked = [act for act in upgrade.acts if RELEASE in act.args]
    done = {str(fault.request): fault for fault in faults(history)}
    proven = {
        node
        for act in asked
        if act.id in done and isinstance(done[act.id].result, dict)
        for node, proof in done[act.id].result.items()
        if isinstance(proof, dict) and proof.get("to") and proof.get("holds")
    }
    service = results.claims.get("S13")
    return msgspec.structs.replace(
        entry,
        acknowledged=history.totals[SEND, "ok"],
        lost=lost_of(results)[0],
        struck=bool(ends),
        recovered_ms=None if after is None else after / 1e6,
        replaced=len(proven),
        asked=upgrade.replaced,
        serves=service is not None and service.status == "kept",
        found=tuple(sorted({a.signature for a in (*results.broken, *results.measured)})),
        run=str(judged.stored.path),
    )


class Trials:
    """The runs of upgrades.

    Args:
        folder: of the journal and of the runs.
        names: of the upgrades that are asked for.
        profiles: under which each is run.
        environment: where.
        rounds: how often each.
    """

    def __init__(
        self,
        folder: Path,
        *,
        names: Sequence[str],
        profiles: Sequence[Profile],
        environment: str,
        rounds: int = 1,
    ) -> None:
        self.folder = folder
        self.rounds = rounds
        self.environment = environment
        self._jobs = [
            Job(name=name, profile=profile, environment=environment)
            for name in names
            for profile in profiles
        ]
        folder.mkdir(parents=True, exist_ok=True)
        self._all = resumed(folder / JOURNAL, Entry)
        self._by_name = {one.name: one for one in upgrades()}

    def entries(self, name: str, profile: Profile) -> list[Entry]:
        """What is done of an upgrade as it is now."""
        digest = digest_of(self._by_name[name].schedule(profile))
        job = Job(name=name, profile=profile, environment=self.environment)
        return [e for e in self._all if e.job == job and e.digest == digest]

    def missing(self) -> Iterator[Job]:
        """What is not done yet, in the order in which it should be."""
        for turn in range(self.rounds):
            for job in self._jobs:
                done = self.entries(job.name, job.profile)
                failed = sum(e.came == "failed" for e in done)
                if len(done) - failed <= turn and failed < FAILED_MAX:
                    yield job

    def run(self, *, budget_ns: int | None, say: Callable[[str], None]) -> bool:
        """Run what is missing, one cluster at a time; whether nothing is missing any more.

        Args:
            budget_ns: no run begins after so long; None: no limit.
            say: called with a line for each run.
        """

        def next_job(at_work: Collection[Job]) -> Job | None:
            return next((job for job in self.missing() if job not in at_work), None)

        perform = partial(measure, folder=self.folder)
        done = run_missing(next_job, perform, self.folder, inline=True, budget_ns=budget_ns)
        for job, entry in done:
            self._all.append(entry)
            append(self.folder / JOURNAL, entry)
            what = f"{entry.seen} {entry.error}".strip()
            say(f"{job.name} {job.profile}: {what}  {entry.run}".rstrip())
        return next(self.missing(), None) is None
