"""The schedule of a run of ``maxq test``, drawn whole from its options and seed.

Each fault that is asked for strikes in rounds, one after another, as many as fit into the time
limit: a while after the end of the round before, which is longer the more faults there are, unless
an interval is asked for; its heals follow in the round (`maxq.nemeses.kind.Kind.rounds`). Rounds of
different faults overlap; in a pair they begin one after another. Only the victims are left to the
moment. Heals of nodes wait for the end of cuts (`maxq.nemeses.heals`).

`A-then-B` is one round of both: B strikes within a while of the start or the end of A. Chance
seldom kills a slave three seconds after a partition has made it the only one in sync; such bugs
need two faults, close together, in one order.

Clients do what `loads` say: sends and polls of the workload queue, and turns of the others.
"""

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import NamedTuple

import msgspec

from maxq.harness.contracts.environment import REAL_ONLY, SIMULATED_ONLY
from maxq.harness.contracts.target import Node, plan
from maxq.harness.sampling.late_topics import creations, late_loads
from maxq.harness.schedule.format import (
    EVERYBODY,
    READ,
    SEND,
    TURN,
    Act,
    Call,
    Header,
    Load,
    Schedule,
    When,
    Who,
    seconds,
)
from maxq.harness.schedule.from_history import differing
from maxq.harness.schedule.options import Options
from maxq.harness.schedule.shares import FLOOD
from maxq.histories.fault_facts import BUILT_IN, Kinds
from maxq.nemeses.catalogue import NO_FAULT, facts_of, kinds_of
from maxq.nemeses.kind import Drawing, Kind, Step
from maxq.workloads.queue import homes_of, reader_count

QUIET_S = 2.0  # before each strike of a fault that is alone
CROWDED_S = 5.0  # so much longer for each other fault, or nothing ever works
SPREAD = (0.75, 1.25)  # of the time between rounds, lest all faults strike at one moment
BUSY_S = 15.0  # between lulls, where there are any
WINDOW_S = 20.0  # the longest while between two faults of a pair
MS = 1000
# Turns a second of all threads of a workload that has a rate of its own: the holder of a lock acts
# when its time has come, and of many delayed messages and transactions few are open at a fault.
TURNS = {
    "lock": 40.0,
    "offsets": 10.0,
    "delayed": 40.0,
    "delayed-alone": 2.0,
    "ordered": 40.0,
    "transactions": 120.0,
    FLOOD: 100.0,
}


def schedule_of(options: Options, patience: int) -> Schedule:
    """Draw it.

    Args:
        options: of the run.
        patience: of its target (`maxq.harness.contracts.target.Target`).

    Raises:
        ValueError: one of the faults is not known.
    """
    length = seconds(options.time_limit_ns)
    names = [name for name in dict.fromkeys(options.nemesis) if name != NO_FAULT]
    quiet = (QUIET_S + CROWDED_S * (len(names) - 1)) * patience
    quiet = seconds(options.interval_ns) or quiet
    nodes, by_name = plan(options.topology), options.settings().by_name
    lacks = REAL_ONLY if options.environment == "simulated" else SIMULATED_ONLY
    acts: list[Act] = []
    if options.existing is not None:
        acts += in_turn(names, options, nodes, length, quiet)
    for n, name in enumerate(names if options.existing is None else ()):
        drawing = Drawing.of(
            f"{options.seed}/nemesis/{name}",
            nodes,
            by_name=by_name,
            releases=options.targets,
            lacks=lacks,
        )
        # What waits at a slave that acts moves to another broker set, if that one is sound.
        first = QUIET_S + (round(quiet * n / len(names), 3) if options.pair else 0.0)
        acts += rounds_of(name, drawing, length, quiet, seconds(options.lull_ns), first)
    header = Header(
        name=f"maxq test, seed {options.seed}", length=length, seed=options.seed,
        options={**differing(options), "nemesis": list(options.nemesis)},
    )  # fmt: skip
    cuts = BUILT_IN.with_(facts_of(acts))
    return Schedule(
        header=header,
        loads=tuple(loads(options, length)),
        calls=tuple(_creations(options, length)),
        acts=tuple(waiting(acts, cuts)),
    )


# Faults.


class Timed(NamedTuple):
    """A step of a round, so many seconds after its first one."""

    at: float
    step: Step


def rounds_of(
    name: str,
    drawing: Drawing,
    length: float,
    quiet: float,
    lull: float = 0.0,
    first: float = QUIET_S,
) -> Iterator[Act]:
    """All rounds of a fault that fit.

    Args:
        name: of its kind, or of a pair.
        drawing: what they are drawn from.
        length: of the main part, in seconds.
        quiet: between two rounds, about so many seconds.
        lull: how long nothing is done after each `BUSY_S`; 0: there are no lulls.
        first: before the first one, in seconds.
    """
    before, at, wait = "", 0.0, first
    whole = any(kind.whole for kind in kinds_of(name))
    for number, made in enumerate(_drawn(kinds_of(name), drawing, lull), start=1):
        at += wait
        when = When(after=before, at=wait) if before else When(at=wait)
        if lull and (late := _after_lull(at, made[-1].at, lull)) > at:
            at, when = late, When(at=late)
        if at + (made[-1].at if whole else 0.0) >= length:
            return
        acts = list(acts_of(f"{name}{number}", made, when))
        yield from acts
        before, at = acts[-1].id, at + made[-1].at
        wait = round(quiet * drawing.rng.uniform(*SPREAD), 3)


def in_turn(
    names: Sequence[str], options: Options, nodes: Sequence[Node], length: float, quiet: float
) -> Iterator[Act]:
    """Rounds of all faults of a run, one after the other, so that never two are at work; of nodes
    they take so many away at a time as the run may, and cuts keep a majority."""
    drawings = {
        name: Drawing.of(f"{options.seed}/nemesis/{name}", nodes, by_name=False) for name in names
    }
    drawn = {name: _drawn(kinds_of(name), drawing, 0.0) for name, drawing in drawings.items()}
    before, at, wait = "", 0.0, QUIET_S
    for turn, name in enumerate(cycle(names)):
        made = [t._replace(step=_within(t.step, options)) for t in next(drawn[name])]
        at += wait
        if at + made[-1].at >= length:
            return
        when = When(after=before, at=wait) if before else When(at=wait)
        acts = [*acts_of(f"{name}{turn // len(names) + 1}", made, when)]
        yield from acts
        before, at = acts[-1].id, at + made[-1].at
        wait = round(quiet * drawings[name].rng.uniform(*SPREAD), 3)


def _within(step: Step, options: Options) -> Step:
    most = options.max_unavailable
    count = most if step.who.count == EVERYBODY else min(step.who.count, most)
    keeps = {"keeps": True} if "shape" in step.args else {}
    return step._replace(
        who=msgspec.structs.replace(step.who, count=count), args={**step.args, **keeps}
    )


def _after_lull(at: float, long: float, lull: float) -> float:
    """When a round can begin that is not to reach into a lull."""
    period, within = divmod(at, BUSY_S + lull)
    if within + long <= BUSY_S or (within == 0.0 and long > BUSY_S):
        return at
    return (period + 1) * (BUSY_S + lull)


def _drawn(kinds: Sequence[Kind], drawing: Drawing, lull: float) -> Iterator[list[Timed]]:
    """The rounds of a kind, or of a pair of kinds, without end; of a pair short enough to be
    between two lulls."""
    every = [kind.rounds(drawing) for kind in kinds if kind.rounds is not None]
    for rounds in zip(*every, strict=True):
        first, *rest = map(timed, rounds)
        for second in rest:
            hold, whole = (max(t.at for t in each) for each in (first, second))
            window = min(WINDOW_S, max(1.0, BUSY_S - hold - whole)) if lull else WINDOW_S
            after = drawing.rng.choice((0.0, hold)) + drawing.rng.randrange(int(window * MS)) / MS
            shifted = [t._replace(at=round(t.at + after, 3), step=_moved(t.step, len(first)))
                       for t in second]  # fmt: skip
            first = [*first, *shifted]
        yield first


def timed(steps: Sequence[Step]) -> list[Timed]:
    """The steps of a round, each with the sum of the waits before it."""
    found: list[Timed] = []
    for step in steps:
        before = found[-1].at if found else 0.0
        found.append(Timed(round(before + step.wait, 3) if found else 0.0, step))
    return found


def _moved(step: Step, by: int) -> Step:
    return step if step.of < 0 else step._replace(of=step.of + by)


def acts_of(name: str, made: Sequence[Timed], when: When) -> Iterator[Act]:
    """A round as acts, of one family by their ids. Each counts from the act before it."""
    ids = [name if n == 0 else f"{name}.{n}" for n in range(len(made))]
    order = sorted(range(len(made)), key=lambda n: made[n].at)
    before, at = "", 0.0
    for n in order:
        after, step = made[n].at, made[n].step
        who = Who(of=ids[step.of]) if step.of >= 0 else step.who
        due = When(after=before, at=round(after - at, 3)) if before else when
        yield Act(id=ids[n], f=step.f, when=due, who=who, args=step.args)
        before, at = ids[n], after


def waiting(acts: Sequence[Act], kinds: Kinds) -> Iterator[Act]:
    """The acts, of which heals wait while a cut is in force, if there is any."""
    cut = any(kinds.effect(act.f) == "cut" for act in acts)
    for act in acts:
        waits = cut and kinds.heals(act.f) and not kinds.concerns(act.f, "cut")
        when = msgspec.structs.replace(act.when, uncut=True) if waits else act.when
        yield msgspec.structs.replace(act, when=when)


# Clients.


def loads(options: Options, length: float) -> Iterator[Load]:
    """What clients do, at equal distances, but for the lulls."""
    lull = seconds(options.lull_ns)
    for load in _steady(options, length):
        yield msgspec.structs.replace(load, busy=BUSY_S, lull=lull) if lull else load


def _threads(options: Options) -> tuple[tuple[int, ...], ...]:
    """The keys of the workload queue, the threads that read, and those that write."""
    keys = range(len(homes_of(range(options.broker_sets), options.topics)))
    readers = reader_count(options.concurrency, len(keys))
    return tuple(keys), tuple(range(readers)), tuple(range(readers, options.concurrency))


def _creations(options: Options, length: float) -> Iterator[Call]:
    """Topics that an operator makes."""
    if options.topics_made == "during" and "queue" in options.workload:
        _, _, writers = _threads(options)
        yield from creations(options, length, writers)


def _steady(options: Options, length: float) -> Iterator[Load]:
    for name in options.workload:
        if name == "queue":
            keys, readers, writers = _threads(options)
            rate = options.rate * 2 / 3
            if options.topics_made == "before":
                yield Load(id="send", until=length, rate=rate, f=SEND, threads=writers, keys=keys)
            else:
                period = BUSY_S + seconds(options.lull_ns) if options.lull_ns else 0.0
                yield from late_loads(options, length, period, rate, writers)
            yield Load(id="poll", until=length, rate=options.rate / 3, f=READ,
                       threads=readers, keys=keys)  # fmt: skip
        else:
            # Half of the threads of the workload registration apply for ids.
            rate = 2 * options.rate if name == "registration" else TURNS.get(name, options.rate)
            yield Load(id=name, until=length, rate=rate, f=TURN, workload=name)
