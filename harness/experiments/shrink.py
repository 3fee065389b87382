"""Shrinks the schedule of a failing simulated run to the smallest that fails in the same way.

The same way is the same signature: claim and kind of anomaly. Candidates
(`maxq.harness.schedule.reductions`) are simulated, at most so many; whatever fails becomes the best
and is saved at once. What was tried is written down, so that a shrinking that was cut off goes on.
Another anomaly on the way is reported as a finding of its own. At the end times become conditions
and calls become a load where that serves, and the script is run under noise: how often it fails
there is what to expect of real machines.
"""

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from types import TracebackType

import msgspec

from maxq.harness.contracts.keyed_draws import Keyed
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.experiments.simulate import simulated
from maxq.harness.experiments.worker_pool import workers
from maxq.harness.run import provenance
from maxq.harness.run.replay import (
    NotRepeated,
    Rate,
    gravest_first,
    options_for,
    other_seed,
    with_seed,
)
from maxq.harness.schedule import reductions
from maxq.harness.schedule.format import Schedule, decode, encode
from maxq.harness.schedule.from_history import main_part
from maxq.histories.store import write_whole

BUDGET = 300  # simulations
PARTS_MAX = 16  # of calls: pieces smaller than that are not worth a simulation each
NOISE_SEEDS, QUICK_SEEDS = 20, 6
NOISE_MS = (-200, 400)  # how much earlier or later an act may be
RATE_WANTED = 0.8
BEST, TRIED, SCRIPT, STORY = "best.jsonl", "tried.jsonl", "shrunk.jsonl", "shrunk.md"
FRACTIONS = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a simulated schedule showed. Of the first anomaly of the signature that is looked for:
    `times` of its clients' operations (seconds of the main part), the `values` that it names, its
    `story`. `performed` is the schedule with what its acts came to."""

    found: dict[str, int]
    times: tuple[float, ...] = ()
    values: tuple[int, ...] = ()
    story: str = ""
    performed: bytes = b""
    error: str = ""


class Tried(msgspec.Struct, frozen=True):
    """A line of the journal."""

    digest: str
    found: dict[str, int]


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """What a shrinking came to. `others` are anomalies met on the way that were not looked for."""

    script: Schedule
    before: tuple[int, int]  # faults, operations
    after: tuple[int, int]
    simulations: int
    seconds: float
    rate: Rate
    story: str
    others: tuple[str, ...]


def examine(script: Schedule, signature: str) -> Seen:
    """Simulate a schedule and look for an anomaly."""
    try:
        run = simulated(script, options_for(script, "simulated"))
    except Exception as error:  # a candidate may be nonsense; then it is no smaller version
        return Seen(found={}, error=f"{type(error).__name__}: {error}")
    found: dict[str, int] = {}
    times: list[float] = []
    values: list[int] = []
    story = ""
    begun = main_part(run.history)
    for anomaly in gravest_first(run.results.broken):  # and not what is only measured
        found[anomaly.signature] = found.get(anomaly.signature, 0) + 1
        if anomaly.signature == signature and not story:
            story = anomaly.story
            ops = (run.history[index] for index in anomaly.ops)
            times = [(op.time - begun) / 1e9 for op in ops if op.is_client]
            values = [v for v in (anomaly.detail.get("value"),) if isinstance(v, int)]
    return Seen(
        found=found,
        times=tuple(times),
        values=tuple(values),
        story=story,
        performed=encode(run.performed),
    )


class Shrinker:
    """Shrinks one schedule.

    Args:
        folder: where the best and the journal are kept.
        signature: what it must show.
        jobs: simulations at a time.
        budget: simulations in all, but for those under other seeds.
        noise: under how many other seeds a script is run.
    """

    def __init__(
        self,
        folder: Path,
        signature: str,
        *,
        jobs: int,
        budget: int = BUDGET,
        noise: int = NOISE_SEEDS,
    ) -> None:
        self.simulations = 0
        self.stage = "does it show the anomaly again?"
        self.size = (0, 0)  # faults and operations of the best so far
        self.others: dict[str, None] = {}
        self._folder = folder
        self._signature = signature
        self.budget = budget
        self._noise = noise
        self._jobs = jobs
        self._seen: dict[str, Seen] = {}
        self._passed = self._tried_before()
        self._end = ExitStack()
        self._pool = self._end.enter_context(workers(jobs, folder))

    def __enter__(self) -> "Shrinker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        """End the workers; of an interrupt, in the middle of what they do."""
        self._end.__exit__(kind, error, trace)

    def _tried_before(self) -> set[str]:
        tried = resumed(self._folder / TRIED, Tried)
        self.others |= {s: None for t in tried for s in t.found if s != self._signature}
        return {t.digest for t in tried if self._signature not in t.found}

    def line(self) -> str:
        """How far it has come."""
        faults, ops = self.size
        return f"best so far: {_sized(faults, ops, ', ')}; trying: {self.stage}"

    # Trying.

    def first(self, candidates: Iterator[Schedule]) -> Schedule | None:
        """The first candidate that fails, in their order; several are tried at a time."""
        while batch := list(islice(candidates, self._jobs)):
            for script, seen in zip(batch, self.tried(batch), strict=True):
                if self._signature in seen.found:
                    return script
            if self.simulations >= self.budget:
                return None
        return None

    def tried(self, scripts: Sequence[Schedule]) -> list[Seen]:
        """What schedules show; each is simulated once."""
        work: dict[str, Future[Seen]] = {}
        keys = [digest_of(script) for script in scripts]
        for key, script in zip(keys, scripts, strict=True):
            if key not in self._seen and key not in self._passed and key not in work:
                work[key] = self._pool.submit(examine, script, self._signature)
        for key, future in work.items():
            self.simulations += 1
            seen = self._seen[key] = future.result()
            self.others |= dict.fromkeys(s for s in seen.found if s != self._signature)
            append(self._folder / TRIED, Tried(key, seen.found))
        return [self._seen.get(key, Seen(found={})) for key in keys]

    def seen(self, script: Schedule) -> Seen:
        """What a schedule shows."""
        return self.tried([script])[0]

    # Shrinking.

    def shrink(self, script: Schedule) -> Schedule:
        """The smallest that was found.

        Raises:
            NotRepeated: it shows nothing of the kind.
        """
        best = script
        self.size = reductions.size_of(best)
        if self._signature not in self.seen(best).found:
            raise NotRepeated(f"{self._signature} does not appear again")
        at_times = reductions.pinned(decoded(self.seen(best).performed) or best)
        best = self._better(best, iter([at_times]))
        while self.simulations < self.budget:
            before = encode(best)
            self.stage = "a shorter run"
            best = self._shorter(best)
            self.stage = "simpler settings"
            best = self._while_better(best, reductions.simpler_settings)
            self.stage = "fewer faults"
            best = self._while_better(best, reductions.fewer_faults)
            self.stage = "fewer operations"
            best = self._calls(best)
            self.stage = "less time between what is left"
            best = self._while_better(best, reductions.closer)
            best = self._shorter(best)
            if encode(best) == before:
                break
        return best

    def _better(self, best: Schedule, candidates: Iterator[Schedule]) -> Schedule:
        found = self.first(candidates)
        if found is None:
            return best
        write_whole(self._folder / BEST, encode(found))
        self.size = reductions.size_of(found)
        return found

    def _while_better(self, best: Schedule, make: reductions.Candidates) -> Schedule:
        while self.simulations < self.budget:
            found = self._better(best, make(best))
            if found is best:
                break
            best = found
        return best

    def _shorter(self, best: Schedule) -> Schedule:
        """Cut off what comes after, then what comes before."""
        length, seen = best.header.length, self.seen(best)
        after = [t + 0.5 for t in (*seen.times, *reductions.moments(best))]
        ends = [length * f for f in FRACTIONS] + after
        best = self._better(best, reductions.shorter(best, ends))
        length = best.header.length
        begins = [length * f for f in reversed(FRACTIONS)]
        first = min([*reductions.moments(best), *(c.at for c in best.calls)], default=0.0)
        return self._better(
            best, (reductions.earlier(best, b) for b in (*begins, first) if b > 0.2)
        )

    def _calls(self, best: Schedule) -> Schedule:
        """Delta debugging, beginning away from what the anomaly names."""
        seen = self.seen(best)
        best = self._better(best, reductions.near(best, seen.times))
        best = self._while_better(best, reductions.without_kinds)
        dear = frozenset(
            c.id for c in best.calls if c.f == "send" and c.value[2] in self.seen(best).values
        )
        parts = 2
        while self.simulations < self.budget and len(best.calls) > 1:
            found = self._better(best, reductions.fewer_calls(best, parts, dear))
            if found is not best:
                best, parts = found, max(parts - 1, 2)
            elif parts >= min(PARTS_MAX, len(best.calls)):
                break
            else:
                parts = min(parts * 2, PARTS_MAX, len(best.calls))
        return best

    # Back to a script.

    def script(self, best: Schedule) -> tuple[Schedule, Rate]:
        """The form of it that fails most often under noise, and how often that is.

        Acts that wait for each other, room behind the last of them, acts that wait for events, a
        load instead of single calls, then all of it wider: each is kept if it fails no less often
        than what was there before.
        """
        self.stage = "how often it fails under noise"
        chosen = reductions.with_options(reductions.chained(best), constant_latency=None)
        quick = min(QUICK_SEEDS, self._noise)
        rate = self.rate(chosen, quick)
        for forms in (roomier, reductions.on_events, reductions.with_load, reductions.wider):
            if forms is reductions.wider and rate.hits >= RATE_WANTED * rate.runs:
                break
            chosen, rate = self._sturdier(chosen, rate, forms(chosen))
        return chosen, self.rate(chosen, self._noise)

    def _sturdier(
        self, chosen: Schedule, rate: Rate, forms: Iterator[Schedule]
    ) -> tuple[Schedule, Rate]:
        """The best of some forms, if it is no worse; as many seeds each as the rate is of."""
        for form in forms:
            seen = self.rate(form, rate.runs)
            if seen.hits >= rate.hits and seen.hits:
                chosen, rate = form, seen
                if seen.hits == seen.runs:
                    break
        return chosen, rate

    def rate(self, script: Schedule, count: int) -> Rate:
        """How often it fails under noise: other seeds, and every act a little early or late."""
        scripts = [noisy(script, number) for number in range(1, count + 1)]
        work = partial(examine, signature=self._signature)
        seen = list(self._pool.map(work, scripts))
        return Rate(sum(self._signature in s.found for s in seen), len(seen))


def roomier(script: Schedule) -> Iterator[Schedule]:
    """A run that is not over before its last act where all of them are late; else noise would leave
    that act out, and not tell how often it serves."""
    if script.acts:
        length = script.header.length + len(script.acts) * NOISE_MS[1] / 1000
        header = msgspec.structs.replace(script.header, length=round(length, 3))
        yield msgspec.structs.replace(script, header=header)


def noisy(script: Schedule, number: int) -> Schedule:
    """A schedule as another machine might perform it."""
    seed = other_seed(script.header.seed, number)
    draws = Keyed(f"noise/{seed}")
    acts = tuple(
        reductions.shifted(act, draws.between(*NOISE_MS, act.id) / 1000) for act in script.acts
    )
    return with_seed(msgspec.structs.replace(script, acts=acts), seed)


def decoded(data: bytes) -> Schedule | None:
    """A schedule from its lines; None where there are none."""
    return decode(data) if data else None


def digest_of(script: Schedule) -> str:
    """The identity of a schedule, and of the source that would run it."""
    return blake2b(encode(script), digest_size=16, key=provenance.digest().encode()).hexdigest()


def shrunk(
    script: Schedule,
    folder: Path,
    signature: str,
    *,
    jobs: int,
    budget: int = BUDGET,
    noise: int = NOISE_SEEDS,
    watch: Callable[["Shrinker"], None] = lambda shrinker: None,
) -> Shrunk:
    """Shrink a schedule, as far as the budget goes; arguments as `Shrinker`. `watch` is given the
    shrinker before it begins, to be asked how far it has come.

    Raises:
        NotRepeated: it does not show the anomaly.
    """
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    with Shrinker(folder, signature, jobs=jobs, budget=budget, noise=noise) as shrinker:
        watch(shrinker)
        best = shrinker.shrink(script)
        small, rate = shrinker.script(best)
        story = shrinker.seen(best).story
    small = msgspec.structs.replace(
        small,
        header=msgspec.structs.replace(small.header, name=signature, factors={}),
        acts=tuple(msgspec.structs.replace(act, done=None) for act in small.acts),
    )
    write_whole(folder / SCRIPT, encode(small))
    return Shrunk(
        script=small,
        before=reductions.size_of(script),
        after=reductions.size_of(small),
        simulations=shrinker.simulations,
        seconds=round(time.monotonic() - begun, 1),
        rate=rate,
        story=story,
        others=tuple(shrinker.others),
    )


def signature_of(script: Schedule) -> str:
    """What a schedule shows, the first of all.

    Raises:
        NotRepeated: nothing.
    """
    found = examine(script, "").found
    if not found:
        raise NotRepeated("the schedule shows no anomaly")
    return next(iter(found))


def _sized(faults: int, operations: int, between: str = " and ") -> str:
    return f"{faults:,} fault{'' if faults == 1 else 's'}{between}{operations:,} operations"


def story_of(found: Shrunk, path: Path) -> Iterator[str]:
    """What came of a shrinking, for people."""
    (faults, ops), (faults_left, ops_left) = found.before, found.after
    yield (
        f"{found.script.header.name}: {_sized(faults, ops)} became "
        f"{_sized(faults_left, ops_left)}, by {found.simulations} simulations in {found.seconds} s."
    )
    yield ""
    yield encode(found.script).decode().rstrip()
    yield ""
    yield f"Under noise: {found.rate}."
    if found.rate.hits < RATE_WANTED * found.rate.runs:
        yield f"Widening its windows did not bring that to {RATE_WANTED:.0%}."
    yield ""
    yield found.story
    if found.others:
        yield f"\nMet on the way, findings of their own: {', '.join(found.others)}."
    yield f"\nmaxq replay {shlex.quote(str(path))}"
