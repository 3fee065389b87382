"""The scorecard: what releases of RocketMQ keep and lose, under the same schedules for each.

A battery of schedules, one for each class of faults, is run on every release under every profile,
then drawn ones, of the same seeds for all. What a run showed is a line of a journal, so that a
command that was cut off, or whose budget was spent, goes on. Lines of equal battery, release and
profile are together a cell; the order of work is such that all cells fill at one pace.

Every claim is looked at in every profile, promised or measured; a table says where it is not
promised.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec

from maxq.checkers.availability.recovery import Recovery
from maxq.checkers.core.api import ClaimVerdict
from maxq.checkers.core.claims import unmade
from maxq.checkers.evidence.verdicts import late_harness
from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import EnvironmentLost, EnvironmentUnavailable
from maxq.harness.contracts.target import Profile, Settings, Topology
from maxq.harness.experiments.engine import JOURNAL, run_missing
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.report.measures import quantile
from maxq.harness.run import provenance as source
from maxq.harness.run.execute import drawn_in
from maxq.harness.run.process.signals import Stop
from maxq.harness.run.replay import Rate, options_for
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.sampling.draw import draw
from maxq.harness.sampling.factors import possible, row_of
from maxq.harness.sampling.pair_factors import pair_row
from maxq.harness.schedule.format import SEND, Schedule, digest_of, read
from maxq.harness.schedule.options import MODES, PAIR_PROFILES
from maxq.harness.targets.reference import effective
from maxq.histories.columns.timings import NO_TIMES, timings_of
from maxq.histories.fault_facts import KILL, PAUSE

SCHEDULES = Path(__file__).parents[1] / "schedule"
BATTERIES = dict(zip(MODES, ("battery", "battery_pairs"), strict=True))  # folders there
FAILED_MAX = 2  # runs of one schedule that do not come up, until it is left
DRAWN_LENGTH_MS = 60_000
LATENCY = {"one_sender": 1, "sixteen_senders": 16}  # schedules that measure it: of how many
RECOVERIES = {
    "kill of the master": (KILL, "master"),
    "kill of the controller leader": (KILL, "controller-leader"),
    "pause of the master": (PAUSE, "master"),
}
Came = Literal["kept", "broken", "unknown"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be made: a schedule, by its name, on a target under a profile."""

    name: str
    target: str
    profile: Profile
    environment: str
    base_image: str = ""
    mode: str = MODES[0]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run. `claims` are by id; `found` the signatures of what was broken; times
    are in milliseconds; `digest` is of the schedule, `source` of the harness. A run that did not
    come up says why in `error`."""

    job: Job
    digest: str
    source: str = ""
    date: str = ""
    claims: dict[str, Came] = {}
    absent: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    acknowledged: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    recovery_ms: dict[str, list[float | None]] = {}
    components: dict[str, str] = {}
    late: str = ""
    run: str = ""
    error: str = ""


def battery(mode: str = MODES[0]) -> list[str]:
    """The names of the schedules that every release gets.

    Args:
        mode: one of `maxq.harness.schedule.options.MODES`.
    """
    return sorted(path.stem for path in (SCHEDULES / BATTERIES[mode]).glob("*.jsonl"))


def script_of(name: str, environment: str, mode: str = MODES[0]) -> Schedule:
    """A schedule of a mode's battery, or the drawn one of a number."""
    if not name.isdigit():
        return read(SCHEDULES / BATTERIES[mode] / f"{name}.jsonl")
    drawn = pair_row(int(name)) if mode == MODES[1] else row_of(int(name))
    row = possible(drawn, drawn_in(environment))
    return draw(int(name), row, length_ms=DRAWN_LENGTH_MS)


def measure(job: Job, folder: Path) -> Entry:
    """Make a run, and say what came of it."""
    script = script_of(job.name, job.environment, job.mode)
    options = options_for(script, job.environment, target=job.target, profile=job.profile)
    entry = Entry(
        job=job,
        digest=digest_of(script),
        source=source.digest(),
        date=datetime.now(UTC).date().isoformat(),
    )
    stop = Stop(at_once=True)
    context = RunContext(script=script, base_image=job.base_image, stop=stop)
    try:
        judged = run_test(options, folder / "runs", quiet=True, context=context)
    except (SetupFailed, EnvironmentLost, EnvironmentUnavailable, ValueError) as error:
        return msgspec.structs.replace(entry, error=f"{type(error).__name__}: {error}"[:300])
    return judged_entry(entry, judged)


def judged_entry(entry: Entry, judged: Judged) -> Entry:
    """What a run says; of claims that its profile does not make, what was measured."""
    history, results = judged.stored.history, judged.results
    of_sends = [k for k in timings_of(history).kinds if k.f == SEND]
    sends = of_sends[0].latencies() if of_sends else NO_TIMES
    p50, p99 = quantile(sends, 0.5), quantile(sends, 0.99)
    return msgspec.structs.replace(
        entry,
        claims={claim: _came(verdict) for claim, verdict in results.claims.items()},
        absent=tuple(judged.absent),
        found=tuple(sorted({a.signature for a in (*results.broken, *results.measured)})),
        acknowledged=history.totals[SEND, "ok"],
        p50_ms=None if p50 is None else p50 / 1e6,
        p99_ms=None if p99 is None else p99 / 1e6,
        recovery_ms=_recoveries(judged.recoveries),
        components=dict(judged.stored.config.get("components") or {}),
        late=late_harness(history),
        run=str(judged.stored.path),
    )


def _came(verdict: ClaimVerdict) -> Came:
    """What a claim came to, promised or not."""
    if verdict.status == "broken" or verdict.measured:
        return "broken"
    measured = verdict.status == "not promised" and verdict.occasions and not verdict.doubt
    return "kept" if verdict.status == "kept" or measured else "unknown"


def _recoveries(found: Sequence[Recovery]) -> dict[str, list[float | None]]:
    return {
        name: [None if r.after_ns is None else r.after_ns / 1e6 for r in of]
        for name, (f, part) in RECOVERIES.items()
        if (of := [r for r in found if (r.f, r.part) == (f, part)])
    }


class Scorecard:
    """The runs of a scorecard, done and to be done.

    Args:
        folder: of the journal and of the runs.
        targets: as ``rocketmq:5.5.0``.
        profiles: the columns of each.
        environment: where.
        mode: with controllers, or without.
        seeds: how many random schedules beside the battery.
        rounds: how often each schedule is run.
        base_image: of the docker engine.
    """

    def __init__(
        self,
        folder: Path,
        *,
        targets: Sequence[str],
        profiles: Sequence[Profile],
        environment: str,
        mode: str = MODES[0],
        seeds: int = 0,
        rounds: int = 1,
        base_image: str = "",
    ) -> None:
        self.folder = folder
        self.targets = tuple(targets)
        self.profiles = tuple(profiles)
        self.environment, self.mode = environment, mode
        self.seeds, self.rounds = seeds, rounds
        self.names = (*battery(mode), *map(str, range(seeds)))
        self._base_image = base_image
        self._digests = {n: digest_of(script_of(n, environment, mode)) for n in self.names}
        folder.mkdir(parents=True, exist_ok=True)
        self._all = resumed(folder / JOURNAL, Entry)

    def title(self, name: str) -> str:
        """What a schedule does, in words."""
        return script_of(name, self.environment, self.mode).header.name or f"drawn {name}"

    def entries(self) -> list[Entry]:
        """What is done of what was asked for."""
        return [
            e
            for e in self._all
            if e.job.target in self.targets
            and e.job.profile in self.profiles
            and (e.job.environment, e.job.mode) == (self.environment, self.mode)
            and self._digests.get(e.job.name) == e.digest
        ]

    def missing(self) -> list[Job]:
        """What is not done yet, in the order in which it should be."""
        done: dict[Job, int] = {}
        failed: dict[Job, int] = {}
        for entry in self.entries():
            which = failed if entry.error else done
            which[entry.job] = which.get(entry.job, 0) + 1
        jobs = []
        for turn in range(self.rounds):
            for job in self._jobs():
                left = failed.get(job, 0) < FAILED_MAX
                if done.get(job, 0) <= turn and left:
                    jobs.append(job)
        return jobs

    def _jobs(self) -> Iterator[Job]:
        for name in self.names:
            for profile in self.profiles:
                for target in self.targets:
                    yield Job(
                        name=name,
                        target=target,
                        profile=profile,
                        environment=self.environment,
                        base_image=self._base_image,
                        mode=self.mode,
                    )

    def run(self, *, jobs: int, budget_ns: int | None, say: Callable[[str], None]) -> bool:
        """Run what is missing; whether nothing is missing any more.

        Args:
            jobs: clusters at a time.
            budget_ns: no run begins after so long; None: no limit.
            say: called with a line for each run.
        """

        def next_job(at_work: Collection[Job]) -> Job | None:
            return next((job for job in self.missing() if job not in at_work), None)

        perform = partial(measure, folder=self.folder)
        for _, entry in run_missing(next_job, perform, self.folder, jobs=jobs, budget_ns=budget_ns):
            self._all.append(entry)
            append(self.folder / JOURNAL, entry)
            say(_line(entry))
        return not self.missing()


def _line(entry: Entry) -> str:
    job = entry.job
    what = entry.error or ", ".join(entry.found) or "nothing broken"
    late = f" ({entry.late})" if entry.late else ""
    return f"{job.target} {job.profile} {job.name}: {what}{late}  {entry.run}".rstrip()


# Cells.


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A claim on a target under a profile: broken in how many of the runs that could judge it.
    `shown_by` is a run that shows it; `state` says what there is to be said."""

    state: Literal["broken", "kept", "unknown", "n/a", "empty"]
    rate: Rate
    promised: bool
    found: tuple[str, ...] = ()
    shown_by: Job | None = None


@cache
def settings_of(job: Job | None, profile: Profile) -> dict[str, str]:
    """The effective settings of a profile, with those that the schedule of a job has beside."""
    pairs = Topology(controllers=0, broker_sets=2, replicas=2)
    topology = pairs if profile in PAIR_PROFILES else Topology()
    options = script_of(job.name, job.environment, job.mode).header.options if job else {}
    keys = dict(options.get("keys", {}))
    return effective(Settings(topology=topology, profile=profile, keys=keys))


def _promised(claim: str, profile: Profile, job: Job | None = None) -> bool:
    """Whether a profile promises a claim, and so does a job under it."""
    return not unmade(claim, settings_of(job, profile), power_lost=False)


def cell(entries: Sequence[Entry], claim: str, target: str, profile: Profile) -> Cell:
    """Put the runs of a cell together."""
    mine = [e for e in entries if (e.job.target, e.job.profile) == (target, profile)]
    promised = _promised(claim, profile)
    # A schedule whose own settings take a promise back says nothing of it.
    ran = [e for e in mine if not e.error]
    said = [e for e in ran if _promised(claim, profile, e.job) >= promised]
    came = [e.claims.get(claim) for e in said]
    broken = [e for e in said if e.claims.get(claim) == "broken"]
    rate = Rate(len(broken), came.count("broken") + came.count("kept"))
    found = sorted({s for e in broken for s in e.found if s.partition("/")[0] == claim})
    if broken:
        shown_by = broken[0].job
        return Cell(
            state="broken", rate=rate, promised=promised, found=tuple(found), shown_by=shown_by
        )
    if any(claim in e.absent for e in said):
        return Cell(state="n/a", rate=rate, promised=promised)
    if rate.runs:
        return Cell(state="kept", rate=rate, promised=promised)
    return Cell(state="unknown" if ran else "empty", rate=rate, promised=promised)


def middle(entries: Sequence[Entry], name: str) -> tuple[float | None, int]:
    """The median time to recover from a fault (ms), and of how many; None where most of them were
    not recovered from."""
    found = [ms for e in entries for ms in e.recovery_ms.get(name, ())]
    if not found:
        return None, 0
    half = median(float("inf") if ms is None else ms for ms in found)
    return (None if half == float("inf") else half), len(found)
