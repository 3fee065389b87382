"""The hunt's runs: which are to be made, how one is made and measured, and the journal of them.

What a run showed is a line of the journal, so that a hunt that was cut off, or whose budget was
spent, goes on. A run is known by its number, its schedule's digest and its target; the rows of the
covering array come first, and then drawn ones, which depend on what was met before them.

A run is judged by what its own profile promises. What another profile promises and this one does
not is measured: what would be broken, and is not accused. No anomaly ends the hunt, and each of a
run's is reported, the known ones beside the others.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec

from maxq.checkers.core.api import Anomaly
from maxq.checkers.evidence.verdicts import late_harness
from maxq.harness.contracts.target import Profile
from maxq.harness.experiments.engine import JOURNAL, run_missing
from maxq.harness.experiments.hunt import run_matrix
from maxq.harness.experiments.hunt.by_mode import decisions_in, evidence, labels
from maxq.harness.experiments.hunt.run_matrix import BACK_END, MATRICES, Matrix
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.experiments.worker_pool import workers
from maxq.harness.known.causes import Traces
from maxq.harness.known.run_artifacts import RunArtifacts, read_logs
from maxq.harness.run import provenance as source
from maxq.harness.run.execute import drawn_in
from maxq.harness.run.lifecycle import ZERO_WALL_MS
from maxq.harness.run.process.signals import Stop
from maxq.harness.run.replay import options_for
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, judge_stored, run_test
from maxq.harness.sampling.factors import Row
from maxq.harness.schedule.format import SEND, Schedule, digest_of
from maxq.harness.schedule.from_history import as_performed
from maxq.harness.schedule.options import MODES
from maxq.harness.targets.rocketmq.releases import Version, parse
from maxq.histories.store import write_whole

FAILED_MAX = 3  # runs of one number that do not come up, until it is left
FAILED_IN_A_ROW = 6  # of any number: there is something wrong with this machine


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A run to be made. `beside` is how many run at once; `length_ms` 0: drawn."""

    number: int
    release: str
    environment: str
    row: Row
    length_ms: int = 0
    beside: int = 1
    base_image: str = ""
    mode: str = MODES[0]
    layout: str = ""

    @property
    def matrix(self) -> Matrix:
        """Of which it is a run."""
        return MATRICES[self.mode]

    @property
    def profile(self) -> Profile:
        """Under which it runs."""
        return self.matrix.trial_of(self.number).profile

    @property
    def target(self) -> str:
        """What it runs on."""
        if self.matrix.factor != BACK_END:
            return str(Version(self.release))
        return str(Version(self.release, self.matrix.trial_of(self.number).value))

    @property
    def script(self) -> Schedule:
        """Its schedule."""
        return self.matrix.script_for(
            self.number, self.row, length_ms=self.length_ms, layout=self.layout
        )


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run.

    `broken` counts anomalies by signature, `measured` those that the profile does not promise to
    keep out; `labels` say how many of each are which known one (`by_mode.labels`), None where older
    versions did not look; `met` are the factors as they came, `decisions` how often each row of the
    tables was seen to be reached. Both and `evidence` are empty for a run that did not come up,
    which says why in `error`. `seconds` are of the whole run, `run` is its place in the hunt's
    folder, `source` is of the harness.
    """

    job: Job
    digest: str
    target: str
    profile: Profile
    source: str = ""
    date: str = ""
    seconds: float = 0.0
    verdict: bool | str = "unknown"
    operations: int = 0
    acknowledged: int = 0
    broken: dict[str, int] = {}
    measured: dict[str, int] = {}
    labels: dict[str, dict[str, int]] | None = None
    met: Row = {}
    decisions: dict[str, int] = {}
    evidence: tuple[str, ...] = ()
    late: str = ""
    run: str = ""
    error: str = ""


def measure(job: Job, folder: Path) -> Entry:
    """Make a run, and say what came of it."""
    script = job.script
    entry = Entry(
        job=job,
        digest=digest_of(script),
        target=job.target,
        profile=job.profile,
        source=source.digest(),
        date=datetime.now(UTC).date().isoformat(),
    )
    stop = Stop(at_once=True)
    context = RunContext(script=script, base_image=job.base_image, stop=stop)
    begun = time.monotonic()
    try:
        options = options_for(script, job.environment, target=job.target, profile=job.profile)
        judged = run_test(options, folder / "runs", quiet=True, context=context)
        entry = judged_entry(entry, judged, folder)
    except Exception as error:  # one failed run of hundreds is reported, and the others go on
        entry = msgspec.structs.replace(entry, error=f"{type(error).__name__}: {error}"[:300])
    return msgspec.structs.replace(entry, seconds=round(time.monotonic() - begun, 1))


def judged_entry(entry: Entry, judged: Judged, folder: Path) -> Entry:
    """What a run says, one of those in a hunt's folder."""
    history = judged.stored.history
    artifacts = artifacts_of(judged, entry.target, entry.profile)
    anomalies = [*judged.results.broken, *judged.results.measured]
    return msgspec.structs.replace(
        entry,
        verdict=judged.results.valid,
        operations=sum(n for (_, kind), n in history.totals.items() if kind == "invoke"),
        acknowledged=history.totals[SEND, "ok"],
        broken=signatures(judged.results.broken),
        measured=signatures(judged.results.measured),
        labels=labels(anomalies, entry.target, Traces(artifacts)),
        met=run_matrix.met_row(entry.job.row, as_performed(entry.job.script, history)),
        decisions={
            row.id: row.seen(artifacts)
            for row in decisions_in(entry.job.mode)
            if row.seen is not None
        },
        evidence=evidence(artifacts),
        late=late_harness(history),
        run=str(judged.stored.path.resolve().relative_to(folder.resolve())),
    )


def artifacts_of(judged: Judged, target: str, profile: Profile) -> RunArtifacts:
    """What a stored run leaves."""
    return RunArtifacts(
        logs=read_logs(judged.stored.path / "nodes"),
        history=judged.stored.history,
        profile=profile,
        settings=judged.context.settings or {},
        back_end=parse(target).back_end,
        zero_wall_ms=judged.stored.config.get(ZERO_WALL_MS),
        pair=judged.options.pair,
    )


def again(folder: Path, entry: Entry) -> Entry:
    """The same run as it is judged now; as it was, if it is gone from the hunt's folder."""
    path = folder / entry.run
    if entry.error or not path.is_dir():
        return entry
    return judged_entry(entry, judge_stored(path), folder)


def signatures(anomalies: Sequence[Anomaly]) -> dict[str, int]:
    """How often each anomaly was found."""
    return dict(sorted(Counter(a.signature for a in anomalies).items()))


class Hunt:
    """A hunt on one release, done and to be done.

    Args:
        folder: of the journal and of the runs.
        release: as ``5.5.0``.
        environment: where.
        mode: with controllers of either kind, or with none (`maxq.harness.schedule.options.MODES`).
        seeds: how many drawn runs behind those of the covering array.
        length_ms: of each run's main part; 0: drawn.
        base_image: of the docker engine.
        layout: of brokers in containers.
    """

    def __init__(
        self,
        folder: Path,
        *,
        release: str,
        environment: str,
        mode: str = MODES[0],
        seeds: int = 0,
        length_ms: int = 0,
        base_image: str = "",
        layout: str = "",
    ) -> None:
        self.release = release
        self.environment = environment
        self.capabilities = drawn_in(environment)
        self.mode, self.matrix, self.layout = mode, MATRICES[mode], layout
        self.of = self.matrix.array_size + seeds
        self._folder = folder
        self._length_ms = length_ms
        self._base_image = base_image
        self._digests: dict[tuple[int, str], str] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._all = resumed(folder / JOURNAL, Entry)

    def entries(self) -> list[Entry]:
        """The runs of this release there, in order; also those of other lengths or of an earlier
        generator, which were runs as well."""
        mine = (self.release, self.environment, self.mode)
        return [e for e in self._all if (e.job.release, e.job.environment, e.job.mode) == mine]

    def missing(self) -> list[int]:
        """The numbers of the runs that are not done yet; those that did not come up are tried again
        behind the others."""
        done, failed = set[int](), Counter[int]()
        for entry in self.entries():
            if entry.error:
                failed[entry.job.number] += 1
            elif entry.digest == self._digest(entry):
                done.add(entry.job.number)
        left = (n for n in range(self.of) if n not in done and failed[n] < FAILED_MAX)
        return sorted(left, key=lambda n: failed[n])

    def _digest(self, entry: Entry) -> str:
        """Of the schedule that a done run's number has now; empty: of no such schedule."""
        number, row = entry.job.number, entry.job.row
        of_array = number < self.matrix.array_size
        if of_array and row != self.matrix.row_for(number, {}, self.capabilities):
            return ""
        key = number, str(sorted(row.items()))
        if key not in self._digests:
            script = self.matrix.script_for(
                number, row, length_ms=self._length_ms, layout=self.layout
            )
            self._digests[key] = digest_of(script)
        return self._digests[key]

    def next_job(self, jobs: int, at_work: Collection[int] = ()) -> Job | None:
        """What is to be run next; None: nothing is missing but what is at work.

        Args:
            jobs: how many run at once, with this one.
            at_work: the numbers of the others.
        """
        number = next((n for n in self.missing() if n not in at_work), None)
        if number is None:
            return None
        met = run_matrix.pairs_met(e.met for e in self.entries() if not e.error)
        return Job(
            number=number,
            release=self.release,
            environment=self.environment,
            row=self.matrix.row_for(number, met, self.capabilities),
            length_ms=self._length_ms,
            beside=jobs,
            base_image=self._base_image,
            mode=self.mode,
            layout=self.layout,
        )

    def run(self, *, jobs: int, budget_ns: int | None, say: Callable[[str], None]) -> bool:
        """Run what is missing; whether nothing is missing any more.

        Args:
            jobs: clusters at a time; one, once a run beside others was late itself.
            budget_ns: no run begins after so long; None: no limit.
            say: called with a line for each run.
        """
        failed = 0

        def next_job(at_work: Collection[Job]) -> Job | None:
            if failed >= FAILED_IN_A_ROW or len(at_work) >= at_once(self.entries(), jobs):
                return None
            return self.next_job(jobs, [job.number for job in at_work])

        perform = partial(measure, folder=self._folder)
        for _, entry in run_missing(
            next_job, perform, self._folder, jobs=jobs, budget_ns=budget_ns
        ):
            self._all.append(entry)
            append(self._folder / JOURNAL, entry)
            say(line(entry))
            failed = failed + 1 if entry.error else 0
        if failed >= FAILED_IN_A_ROW:
            say(f"{failed} runs in a row did not come up: the hunt is over")
            return False
        return not self.missing()

    def look_again(self, jobs: int) -> None:
        """Judge every stored run anew, so many at a time: checkers, detectors and what is known get
        better."""
        with workers(jobs, self._folder) as pool:
            self._all = [*pool.map(partial(again, self._folder), self._all)]
        lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in self._all)
        write_whole(self._folder / JOURNAL, lines)


def at_once(entries: Sequence[Entry], jobs: int) -> int:
    """How many may run at once: the probe of delay in each run says whether that is too many."""
    return 1 if any(e.late and e.job.beside > 1 for e in entries) else jobs


def line(entry: Entry) -> str:
    """A run in a line."""
    found = ", ".join((entry.error and [entry.error]) or [*entry.broken]) or "nothing broken"
    measured = f"; measured: {', '.join(entry.measured)}" if entry.measured else ""
    late = f" ({entry.late})" if entry.late else ""
    text = f"run {entry.job.number}: {entry.target} {entry.profile}: {found}{measured}{late}"
    return f"{text}  {entry.run}".rstrip()
