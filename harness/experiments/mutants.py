"""How good the checkers are: every seeded bug under random schedules, until it is caught.

Each mutant runs the seeds of three disjoint ranges, each until a history checker catches it or the
limit is reached; the correct reference runs the same seeds, and must never be blamed. How a seed
was caught is distinguished: by history checkers, of claims of safety (the one that the mutant says
it breaks, or another one) or of liveness; by the oracle; by an invariant of the nodes themselves. A
claim of liveness catches only a mutant whose own claim is one: anyone who loses messages must be
caught losing them. Short limits come first, and of equal ones mutants that nothing has caught yet,
so that a budget that ends early has seen every mutant. A range ends, too, where two others say what
the median is.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

import msgspec

from maxq.checkers.availability.availability import Availability
from maxq.checkers.availability.service import Service
from maxq.checkers.core.claims import CLAIMS
from maxq.harness.experiments.engine import JOURNAL, SPENT, run_missing
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.experiments.simulate import SeedResult, run_seed
from maxq.harness.run import provenance
from maxq.harness.run.replay import Rate
from maxq.harness.schedule.options import MODES
from maxq.harness.schedule.shares import FLOOD
from maxq.harness.simulation.oracle.oracle import BROKE
from maxq.histories.fault_facts import FAIL_STORE, REMOVE_BROKER
from maxq.reference import mutants
from maxq.reference.mutants import About

RANGES = (0, 10_020, 20_040)  # where each begins: at other rows of the covering array
STAGES = (3, 10, 40, 200)  # seeds of a range; the last is the limit
LIMIT = STAGES[-1]
LIVENESS = frozenset(c.id for c in CLAIMS if c.checker in (Availability.name, Service.name))
# What a line of the journal keeps of a seed: all that the table needs, as there are ten thousand.
KEPT = ("seed", "valid", "found", "oracle", "error", "reached", "source", "cpu_s")
SURVIVORS = ("never reached", "reached without effect", "unseen")
WANTED = 0.9
OF_SHARES = ("B9", "B10")  # the claims that need one broker set to be flooded
IN_CONTAINERS = ("crossed-2", "crossed-3")  # by turns, of the family's mutants


class Line(msgspec.Struct, frozen=True):
    """What one seed of one mutant came to; a line of the journal."""

    mutant: str
    result: SeedResult = msgspec.field(name="told")  # as journals have it


class Range(NamedTuple):
    """A mutant's seeds from one on."""

    mutant: str
    first: int


Trial = tuple[Range, int]  # and the seed of it that is run


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A mutant's row of the table; counts are of seeds. `safety` and `liveness` are history
    checkers' findings. `after`: seeds to detection, the median of the ranges that have come to an
    end; None where most of them never caught it."""

    about: About
    seeds: int
    ran: int
    diverged: int
    safety: int
    rightly: int
    liveness: int
    oracle: int
    invariant: int
    after: int | None
    whole: bool  # every range has come to its end, or can move the median no more

    @property
    def caught(self) -> bool:
        """Whether history checkers alone have caught it."""
        return self.safety > 0 or (self.about.claim in LIVENESS and self.liveness > 0)

    @property
    def caught_by_any(self) -> bool:
        """Whether anything has."""
        return bool(self.safety or self.liveness or self.oracle or self.invariant)

    @property
    def fate(self) -> str:
        """Caught, or what kind of survivor it is."""
        if self.caught:
            return "caught"
        if self.caught_by_any:
            return "caught by other means"
        if not self.ran:
            return SURVIVORS[0]
        return SURVIVORS[2] if self.diverged else SURVIVORS[1]


def accused(result: SeedResult) -> set[str]:
    """The claims that history checkers say a run breaks."""
    return {signature.partition("/")[0] for signature in result.found} - {"failed"}


def catches(result: SeedResult, about: About) -> bool:
    """Whether history checkers alone catch a mutant by this run."""
    return bool(accused(result) - (frozenset() if about.claim in LIVENESS else LIVENESS))


def names_of(mode: str) -> list[str]:
    """The mutants that run with controllers, in a pair, or in pairs in containers."""
    return [name for name in mutants.names() if _mode(name) == mode]


def _mode(name: str) -> str:
    family = mutants.about(name).family
    if family == mutants.CONTAINED:
        return family
    return MODES[family in mutants.PAIRS]


def _in_pair(name: str) -> bool:
    return _mode(name) != MODES[0]


class MutantCampaign:
    """Mutants under random seeds, with a journal: what was done by this very source is not done
    again.

    Args:
        folder: holds the journal.
        jobs: worker processes.
        names: the mutants; all by default.
    """

    def __init__(self, folder: Path, *, jobs: int, names: Sequence[str] = ()) -> None:
        self._folder = folder
        self._jobs = jobs
        self._names = tuple(names) or tuple(mutants.names())
        self._about = {name: mutants.about(name) for name in self._names}
        self._results: dict[str, dict[int, SeedResult]] = {name: {} for name in self._names}
        self._came: dict[Range, tuple[int, bool]] = {}  # what `_range` has counted so far

    def run(self, *, budget_ns: int | None, say: Callable[[str], None]) -> None:
        """Run what is not done yet; no seed begins after so long."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._read()
        seeds = run_missing(
            self._next_seed, run_trial, self._folder, jobs=self._jobs, budget_ns=budget_ns
        )
        for ((mutant, _), _), ended in seeds:
            result = msgspec.structs.replace(ended, source=provenance.digest())
            self._results[mutant][result.seed] = result
            append(self._folder / JOURNAL, kept_of(mutant, result))
            say(f"{mutant} seed {result.seed}: {seen_in(result)}")
        if self._next(()) is not None:
            say(SPENT)

    def _next_seed(self, at_work: Collection[Trial]) -> Trial | None:
        job = self._next([job for job, _ in at_work])
        return None if job is None else (job, job.first + self._range(job)[0])

    def _next(self, at_work: Collection[Range]) -> Range | None:
        """The range whose next seed is to be run: its answer decides whether another one follows,
        so that ranges at work are left alone. None: all others have come to their ends."""
        open_ = [job for name in self._names for job in self._open(name) if job not in at_work]
        for stage in STAGES:
            wanted = [job for job in open_ if self._range(job)[0] < stage]
            if wanted:
                return min(wanted, key=self._turn)
        return None

    def _turn(self, job: Range) -> tuple[bool, int]:
        """Who comes first: whom nothing has caught, and of these who has had the fewest seeds."""
        caught = any(self._range(Range(job.mutant, first))[1] for first in RANGES)
        return caught, len(self._results[job.mutant])

    def _open(self, name: str) -> list[Range]:
        """A mutant's ranges whose next seeds can still change its row's median."""
        ranges = [Range(name, first) for first in RANGES]
        middle = median_low(self._afters(name))
        came = [(job, *self._range(job)) for job in ranges]
        return [job for job, count, caught in came if not caught and count < min(middle, LIMIT)]

    def _afters(self, name: str) -> list[int]:
        """For each range of a mutant the seeds to detection; beyond the limit where there is none
        so far."""
        came = [self._range(Range(name, first)) for first in RANGES]
        return [count if caught else LIMIT + 1 for count, caught in came]

    def _range(self, job: Range) -> tuple[int, bool]:
        """How many seeds of a range were run, and whether the last of them was caught."""
        result, about = self._results[job.mutant], self._about[job.mutant]
        count, caught = self._came.get(job, (0, False))
        while not caught and job.first + count in result:
            caught = catches(result[job.first + count], about)
            count += 1
        self._came[job] = count, caught
        return count, caught

    def _read(self) -> None:
        for line in resumed(self._folder / JOURNAL, Line):
            if line.mutant in self._results and line.result.source == provenance.digest():
                self._results[line.mutant][line.result.seed] = line.result

    def rows(self) -> Iterator[Row]:
        """The table."""
        for name in self._names:
            yield self._row(name)

    def _row(self, name: str) -> Row:
        about, seen = self._about[name], list(self._results[name].values())
        middle = median_low(self._afters(name))
        return Row(
            about=about,
            seeds=len(seen),
            ran=sum(bool(t.reached) for t in seen),
            diverged=sum(t.reached == "diverged" for t in seen),
            safety=sum(bool(accused(t) - LIVENESS) for t in seen),
            rightly=sum(about.claim in accused(t) for t in seen),
            liveness=sum(bool(accused(t) & LIVENESS) for t in seen),
            oracle=sum(bool(t.oracle.keys() - {BROKE}) for t in seen),
            invariant=sum(BROKE in t.oracle for t in seen),
            after=None if middle > LIMIT else middle,
            whole=not self._open(name),
        )


def run_trial(trial: Trial) -> SeedResult:
    """Run a seed of a mutant."""
    job, seed = trial
    about = mutants.about(job.mutant)
    if about.family == mutants.CONTAINED:
        floods = (FLOOD,) if about.claim in OF_SHARES else ()
        return run_seed(
            seed, mutant=job.mutant, pairs=True, layout=IN_CONTAINERS[seed % len(IN_CONTAINERS)],
            also=("containers", *floods), beside=(REMOVE_BROKER, FAIL_STORE),
        )  # fmt: skip
    return run_seed(seed, mutant=job.mutant, pairs=_in_pair(job.mutant))


def kept_of(mutant: str, result: SeedResult) -> dict[str, object]:
    """What is written to the journal; it is read as a `Line`."""
    kept = {k: v for k in KEPT if (v := getattr(result, k)) or k in ("seed", "valid")}
    return {"mutant": mutant, "told": kept}


def seen_in(result: SeedResult) -> str:
    """What a seed showed, in a few words."""
    words = [*result.found, *(f"oracle/{name}" for name in result.oracle)]
    return ", ".join(words) or (result.reached or "not reached")


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The table and what it comes to, as Markdown."""
    yield ("| mutant | family | claim | seeds | ran | diverged | safety | rightly | liveness "
           "| oracle | invariant | seeds to detection | fate |")  # fmt: skip
    yield "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"
    for r in rows:
        after = "-" if r.after is None else str(r.after)
        yield (
            f"| {r.about.name} | {r.about.family} | {r.about.claim} | {r.seeds} | {r.ran} "
            f"| {r.diverged} | {r.safety} | {r.rightly} | {r.liveness} | {r.oracle} "
            f"| {r.invariant} | {after} | {r.fate} |"
        )
    yield ""
    caught = sum(r.caught for r in rows)
    anyhow = sum(r.caught_by_any for r in rows)
    yield f"caught by history checkers alone in random runs: {Rate(caught, len(rows))}"
    yield f"caught by all means: {Rate(anyhow, len(rows))}"
    open_ = sum(not r.whole for r in rows)
    if open_:
        yield (
            f"not finished: the medians of {open_} mutants, or whether they are caught, "
            "can still change"
        )
