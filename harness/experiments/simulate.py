"""Many seeds in the simulator: each draws topology, workload and schedule, runs, and is judged.

Workers are long-lived processes that take one seed after another. What is kept of a run is one
line; the folder of a run that breaks a promise, or fails, is kept whole. Findings are grouped by
their signatures, so that one bug is listed once, with the seeds that show it.
"""

import shutil
import tempfile
import time
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from maxq.checkers.core.claims import BY_ID
from maxq.checkers.evidence.stores.lost_stores import forfeited
from maxq.checkers.judgement.phrases import in_words
from maxq.checkers.judgement.runner import Results
from maxq.harness.contracts.keyed_draws import Keyed
from maxq.harness.experiments.engine import JOURNAL, run_missing
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.experiments.overview.occasions import Occasions
from maxq.harness.experiments.overview.power_sample import Called, Powers, called_in, is_asked
from maxq.harness.run import plugins
from maxq.harness.run import provenance as source
from maxq.harness.run.execute import run_in_world
from maxq.harness.run.judging import judge
from maxq.harness.run.process.signals import Stop
from maxq.harness.run.replay import options_for
from maxq.harness.run.run_context import Progress, RunContext
from maxq.harness.run.stored_run import config_of
from maxq.harness.sampling.draw import draw
from maxq.harness.sampling.factors import Coverage, coverage, row_of
from maxq.harness.sampling.faults import PAIRS
from maxq.harness.sampling.pair_factors import pair_coverage, pair_row
from maxq.harness.schedule.format import SCHEDULE, Schedule, encode
from maxq.harness.schedule.from_history import as_performed
from maxq.harness.schedule.options import Options
from maxq.harness.simulation.oracle.facts import LOG_AGREEMENT, PROMISE_LOST, PROMISED_BEYOND
from maxq.harness.simulation.oracle.oracle import OracleAnomaly
from maxq.harness.simulation.steps import Steps
from maxq.histories.history import History
from maxq.histories.op import Op
from maxq.histories.store import JOURNAL as HISTORY
from maxq.histories.store import ORACLE, Run, open_run, write_json, write_whole
from maxq.reference import mutants

TRACEBACK_MAX = 2_000  # characters of a failure that are kept
SHOWN_SEEDS, SHOWN_DOUBTS = 8, 5
UNEQUAL = "not-deterministic"
# What the oracle expects of a cluster in which each broker id stands for one store.
OF_STORES = frozenset((LOG_AGREEMENT, PROMISE_LOST, PROMISED_BEYOND))
LIVE = frozenset(("S13", "S14"))  # sends are ok again, and every replica is back in its set


class SeedResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one seed.

    `valid` is the verdict's (true, false, "unknown"), or "failed" where there was no verdict.
    `claims` is what became of each; `found` the signatures of broken ones with how often; `doubts`
    why the run is unknown. `virtual_s` is how long the cluster lived,
    `cpu_s` what that took. `digest` is of the history, and `steps` of every step of the simulator
    where that was asked for; `verified`: a second run had the same. `oracle` counts the broken
    invariants that it saw. `reached` is how far a mutant came: its code `ran`, or `diverged` from
    what the right code would have done. `length_ms` is what was asked for; 0: a drawn one.
    `beside` are faults, and `also` workloads, beside those that are drawn, `layout` how brokers
    shared processes. `source` is the digest of the source that ran. `power`, of a sample of valid
    runs, counts by claim the wrong answers that were called, and those that were tried.
    """

    seed: int
    valid: bool | str
    factors: dict[str, str] = {}
    claims: dict[str, str] = {}
    found: dict[str, int] = {}
    doubts: tuple[str, ...] = ()
    error: str = ""
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    ops: int = 0
    acknowledged: int = 0
    digest: str = ""
    steps: str = ""
    run: str = ""
    verified: bool = False
    length_ms: int = 0
    beside: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    layout: str = ""
    oracle: dict[str, int] = {}
    reached: str = ""
    source: str = ""
    power: Called = {}

    @property
    def signatures(self) -> tuple[str, ...]:
        """Those of what was found, and of what the oracle saw; by them seeds are alike."""
        return (*self.found, *(f"oracle/{name}" for name in self.oracle))

    def in_words(self) -> str:
        """What was found in words, each with its signatures."""
        of_claims = [s for s in self.found if s.partition("/")[0] in BY_ID]
        others = [s for s in self.signatures if s not in of_claims]
        return "; ".join(filter(None, (in_words(of_claims), *others)))


class Silent(Progress):
    """Shows nothing, and remembers how far the run has come."""

    def __init__(self) -> None:
        self.now_ns = 0

    def say(self, text: str) -> None:
        """Nothing."""

    def update(self, now_ns: int, op: Op | None) -> None:
        self.now_ns = now_ns


def drawn(
    seed: int,
    length_ms: int = 0,
    beside: Collection[str] = (),
    also: Collection[str] = (),
    *,
    pairs: bool = False,
    layout: str = "",
) -> Schedule:
    """The schedule of a seed, as `run_seed` runs it."""
    row = pair_row(seed) if pairs else row_of(seed)
    return draw(seed, row, length_ms=length_ms, beside=beside, also=also, layout=layout)


def run_seed(
    seed: int,
    *,
    keep: Path | None = None,
    mutant: str = "",
    length_ms: int = 0,
    beside: tuple[str, ...] = (),
    also: tuple[str, ...] = (),
    steps: bool = False,
    pairs: bool = False,
    layout: str = "",
) -> SeedResult:
    """Draw a seed's schedule, run it and judge it.

    Args:
        seed: of everything.
        keep: where the folder of a run goes that is not as it should be; None: nowhere.
        mutant: a seeded bug.
        length_ms: of the main part; 0: drawn.
        beside: kinds of faults that strike beside those that are drawn.
        also: workloads that run beside those that are drawn.
        steps: digest every step as well, which takes its time.
        pairs: brokers have no controllers.
        layout: of brokers in containers.
    """
    script = drawn(seed, length_ms, beside, also, pairs=pairs, layout=layout)
    options = options_for(script, "simulated", mutant=mutant)
    result = run_script(script, options, keep=keep, steps=steps)
    asked = {"length_ms": length_ms, "beside": beside, "also": also, "layout": layout}
    return msgspec.structs.replace(result, **asked)


def run_script(
    script: Schedule, options: Options, *, keep: Path | None = None, steps: bool = False
) -> SeedResult:
    """Run a schedule in the simulator and judge it; arguments as `run_seed`."""
    folder = Path(tempfile.mkdtemp(prefix="maxq-sim-"))
    result = SeedResult(seed=options.seed, valid="failed", factors=script.header.factors)
    begun = time.process_time()
    levels: set[str] = set()
    recorded = Steps() if steps else None
    try:
        with mutants.heard(lambda name, level: levels.add(level)):
            run = simulated(script, options, folder, recorded)
            result = _judged(run, options, result)
        if result.valid is True and not options.mutant and is_asked(options.seed):
            power = called_in(run.history, options)
            result = msgspec.structs.replace(result, power=power)
    except Exception as error:  # one seed's failure must not end the campaign
        text = f"{type(error).__name__}: {error}"[:TRACEBACK_MAX]
        found = {f"failed/{type(error).__name__}": 1}
        result = msgspec.structs.replace(result, error=text, found=found)
        result = msgspec.structs.replace(result, oracle=_seen(folder))
    result = msgspec.structs.replace(
        result,
        cpu_s=round(time.process_time() - begun, 3),
        steps=recorded.digest() if recorded is not None else "",
        reached=next((level for level in ("diverged", "ran") if level in levels), ""),
    )
    if keep is not None and (result.found or result.oracle):
        kept = keep / f"seed-{options.seed}{f'-{options.mutant}' if options.mutant else ''}"
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder, kept)
        result = msgspec.structs.replace(result, run=str(kept))
    shutil.rmtree(folder, ignore_errors=True)
    return result


class Simulated(msgspec.Struct, frozen=True):
    """A simulated run and its verdict. `performed` is its schedule with what the acts came to;
    `virtual_ns` how long the cluster lived."""

    history: History
    results: Results
    performed: Schedule
    virtual_ns: int
    digest: str
    oracle: dict[str, int]


def simulated(
    script: Schedule,
    options: Options,
    folder: Path | None = None,
    steps: Steps | None = None,
) -> Simulated:
    """Run a schedule in the simulator.

    Args:
        script: what to do.
        options: how the run is set up (`maxq.harness.run.replay.options_for`).
        folder: where history, schedule and verdict are written; None: nowhere.
        steps: records what the simulator does.

    Raises:
        Exception: there was no run, as `maxq.harness.run.lifecycle.perform`.
    """
    made = folder or Path(tempfile.mkdtemp(prefix="maxq-sim-"))
    try:
        run, silent = Run(made), Silent()
        run.save_config(config_of(options))
        write_whole(made / SCHEDULE, encode(script))
        context = RunContext(
            script=script, collect=False, steps=steps, progress=silent, stop=Stop(at_once=True)
        )
        run_in_world(options, run, context, lambda: True)
        history = open_run(made).history
        results = judge(options, history)
        performed = as_performed(script, history)
        write_whole(made / SCHEDULE, encode(performed))
        write_json(made / "results.json", results.to_json())
        digest = blake2b((made / HISTORY).read_bytes(), digest_size=16).hexdigest()
        oracle = _seen(made)
        if forfeited(history):
            oracle = {name: n for name, n in oracle.items() if name not in OF_STORES}
        return Simulated(history, results, performed, silent.now_ns, digest, oracle)
    finally:
        if folder is None:
            shutil.rmtree(made, ignore_errors=True)


def _seen(folder: Path) -> dict[str, int]:
    """What the oracle saw, by invariant."""
    path = folder / ORACLE
    lines = path.read_bytes().splitlines() if path.exists() else ()
    seen = Counter(msgspec.json.decode(line, type=OracleAnomaly).invariant for line in lines)
    return dict(sorted(seen.items()))


def _judged(run: Simulated, options: Options, result: SeedResult) -> SeedResult:
    results, totals = run.results, run.history.totals
    found = Counter(a.signature for a in results.broken)
    return msgspec.structs.replace(
        result,
        valid=results.valid,
        found=dict(sorted(found.items())),
        claims={claim: verdict.status for claim, verdict in results.claims.items()},
        doubts=results.whys,
        ops=len(run.history.ops),
        acknowledged=totals["send", "ok"],
        virtual_s=round(run.virtual_ns / 1e9, 3),
        digest=run.digest,
        oracle=run.oracle,
    )


class Campaign:
    """Seeds of one kind of run, with a journal: what was done by this very source is not done
    again.

    Args:
        folder: holds the journal, and the runs that are kept.
        jobs: worker processes.
        mutant: a seeded bug.
        length_ms: of each main part; 0: drawn.
        beside: kinds of faults that strike beside those that are drawn.
        also: workloads that run beside those that are drawn.
        verify: so many of a hundred seeds run twice, and must be equal.
        pairs: brokers have no controllers.
        layout: of brokers in containers.
    """

    def __init__(
        self,
        folder: Path,
        *,
        jobs: int,
        mutant: str = "",
        length_ms: int = 0,
        beside: tuple[str, ...] = (),
        also: tuple[str, ...] = (),
        verify: int = 0,
        pairs: bool = False,
        layout: str = "",
    ) -> None:
        self.folder = folder
        self.resumed = 0  # seeds that were done before
        self._jobs = jobs
        self._verify = verify
        self._asked = (length_ms, beside, also, layout)
        self._source = source.digest() + (f"+{own}" if (own := plugins.digest()) else "")
        self._work = partial(
            run_seed,
            keep=folder,
            mutant=mutant,
            length_ms=length_ms,
            beside=beside,
            also=also,
            pairs=pairs,
            layout=layout,
        )

    def run(self, seeds: Sequence[int]) -> Iterator[SeedResult]:
        """What came of each seed, in their order."""
        self.folder.mkdir(parents=True, exist_ok=True)
        before = resumed(self.folder / JOURNAL, SeedResult)
        done = {result.seed: result for result in before if self._is_done(result)}
        self.resumed = sum(seed in done for seed in seeds)
        yield from (done[seed] for seed in seeds if seed in done)
        left = deque(seed for seed in seeds if seed not in done)
        waiting, ended = list(left), dict[int, SeedResult]()

        def next_seed(_: Collection[int]) -> int | None:
            return left.popleft() if left else None

        for seed, result in run_missing(
            next_seed, self._verified, self.folder, jobs=self._jobs, inline=self._jobs == 1
        ):
            ended[seed] = msgspec.structs.replace(result, source=self._source)
            append(self.folder / JOURNAL, ended[seed])
            while waiting and waiting[0] in ended:
                yield ended[waiting.pop(0)]

    def _is_done(self, result: SeedResult) -> bool:
        """Whether a line of the journal is of this source, and as was asked for."""
        compared = result.verified or UNEQUAL in result.found
        asked = (result.length_ms, result.beside, result.also, result.layout)
        same = asked == self._asked and result.source == self._source
        return same and (compared or not self._verifies(result.seed))

    def _verifies(self, seed: int) -> bool:
        return Keyed(seed).chance(self._verify, "verify")

    def _verified(self, seed: int) -> SeedResult:
        """Run a seed; of some also what a second run of it says, down to each step."""
        if not self._verifies(seed):
            return self._work(seed)
        result, again = self._work(seed, steps=True), self._work(seed, steps=True)
        if (again.digest, again.steps) == (result.digest, result.steps):
            return msgspec.structs.replace(result, verified=True)
        return msgspec.structs.replace(result, found={**result.found, UNEQUAL: 1})


class Summary:
    """What many seeds came to."""

    def __init__(self) -> None:
        self.verdicts: Counter[str] = Counter()
        self.occasions = Occasions()
        self.live = 0
        self.groups: dict[str, list[SeedResult]] = defaultdict(list)
        self.doubts: Counter[str] = Counter()
        self.virtual_s = self.cpu_s = 0.0
        self.acknowledged = 0
        self.powers = Powers()
        self._rows: list[dict[str, str]] = []
        self._begun = time.monotonic()

    def add(self, result: SeedResult) -> None:
        """Count one seed."""
        word = {"True": "valid", "False": "INVALID"}.get(str(result.valid), str(result.valid))
        self.verdicts[word] += 1
        self.occasions.add(result.claims)
        live = [result.claims[claim] for claim in LIVE if claim in result.claims]  # not all targets
        self.live += bool(live) and set(live) == {"kept"}
        self.doubts.update(d.partition(";")[0] for d in result.doubts)
        self.virtual_s += result.virtual_s
        self.cpu_s += result.cpu_s
        self.acknowledged += result.acknowledged
        self.powers.add(result.power)
        self._rows.append(result.factors)
        if result.signatures:
            self.groups[" ".join(result.signatures)].append(result)

    def progress(self, resumed: int = 0) -> tuple[str, str, str]:
        """What came of the seeds so far, and how fast; `resumed` of them took no time."""
        minutes = (time.monotonic() - self._begun) / 60
        words = ", ".join(f"{n} {word}" for word, n in sorted(self.verdicts.items()))
        found = f"found: {', '.join(self.groups)}" if self.groups else ""
        return words, found, f"{(self.done - resumed) / minutes:.0f} a minute"

    @property
    def done(self) -> int:
        """How many seeds were counted."""
        return sum(self.verdicts.values())

    @property
    def covered(self) -> Coverage:
        """The pairs of values that the runs have met."""
        rows = [row for row in self._rows if row]
        of_pairs = any(row["aim"] == PAIRS for row in rows)
        return pair_coverage(rows) if of_pairs else coverage(rows)

    def lines(self) -> Iterator[str]:
        """The summary, for people."""
        for seen in sorted(self.groups.values(), key=len, reverse=True):
            seeds = ", ".join(str(t.seed) for t in seen[:SHOWN_SEEDS])
            more = f" and {len(seen) - SHOWN_SEEDS} more" if len(seen) > SHOWN_SEEDS else ""
            yield f"{len(seen):5}  {seen[0].in_words()}: seeds {seeds}{more}"
        yield "verdicts: " + ", ".join(f"{n} {word}" for word, n in sorted(self.verdicts.items()))
        yield from self.occasions.lines()
        for doubt, count in self.doubts.most_common(SHOWN_DOUBTS):
            yield f"{count:5}  {doubt}"
        done = sum(self.verdicts.values())
        yield f"service again after the last fault: in {self.live} of {done} seeds"
        if power := self.powers.line():
            yield power
        covered = self.covered
        yield f"pairs of values met: {covered.met} of {covered.of}"
        speed = self.virtual_s / self.cpu_s if self.cpu_s else 0.0
        yield (
            f"{self.virtual_s:,.0f} virtual s in {self.cpu_s:,.0f} CPU s ({speed:.1f} a CPU s), "
            f"{self.acknowledged:,} messages acknowledged"
        )

    def to_json(self) -> dict[str, Any]:
        """The summary as plain values."""
        covered = self.covered
        return {
            "verdicts": dict(sorted(self.verdicts.items())),
            "found": {s: [t.seed for t in seen] for s, seen in sorted(self.groups.items())},
            "doubts": dict(self.doubts.most_common()),
            "occasions": self.occasions.to_json(),
            "live": self.live,
            "pairs_met": covered.met,
            "pairs": covered.of,
            "virtual_s": round(self.virtual_s, 3),
            "cpu_s": round(self.cpu_s, 3),
            "acknowledged": self.acknowledged,
        }


def seeds_of(text: str) -> range:
    """Seeds as the command line names them: ``7``, or ``0..999``, both ends included.

    Raises:
        ValueError: it names none.
    """
    first, dots, last = text.partition("..")
    if not first.isdecimal() or (dots and not last.isdecimal()):
        raise ValueError(f"{text!r} names no seeds; write 7, or 0..999")
    end = int(last) if dots else int(first)
    if end < int(first):
        raise ValueError(f"{text!r}: the last seed is before the first")
    return range(int(first), end + 1)
