"""Smaller schedules: what a shrinker tries. Pure; each function gives candidates, the best first.

A candidate may fail in another way, or not at all: anyone who tries it decides. Acts that are
dropped take their heals with them (a fault's acts share the first part of their ids), and what
waited for them waits for what they waited for.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import msgspec

from maxq.harness.schedule.format import START, Act, Call, Load, Schedule, When
from maxq.harness.schedule.options import TOGETHER

WINDOWS_S = (0.5, 2.0, 8.0)  # around what an anomaly names
USUAL = {"namesrvs": 1, "controllers": 3, "broker_sets": 1, "replicas": 3, "concurrency": 8}
SMALLEST = {"namesrvs": (1,), "controllers": (1,), "broker_sets": (1,), "replicas": (2,)}
KINDS_MAX = 3  # kinds of calls that are dropped whole
LIFTED = ("new-epoch", "set-shrank", "set-grew", "set-whole")
EVENT_DELAY_S = 1.0  # after an event, so that all have heard of it
LOAD_CALLS = 28  # of a load that takes the place of single calls
WRITERS = (2, 3, 4, 5, 6, 7)  # threads


def pinned(schedule: Schedule) -> Schedule:
    """The same with each act at the time at which it was done, so that none depends on another."""
    acts = [
        act if act.done is None else msgspec.structs.replace(act, when=When(at=act.done.at))
        for act in schedule.acts
    ]
    acts.sort(key=lambda act: act.when.at)
    return msgspec.structs.replace(schedule, acts=tuple(acts), loads=(), calls=schedule.expanded())


def with_options(schedule: Schedule, **options: object) -> Schedule:
    """The same under other options; None takes one away."""
    known = {**schedule.header.options, **options}
    left = {name: value for name, value in known.items() if value is not None}
    header = msgspec.structs.replace(schedule.header, options=left)
    return msgspec.structs.replace(schedule, header=header)


def simpler_settings(schedule: Schedule) -> Iterator[Schedule]:
    """Constant latency, a plain ending, fewer workloads, fewer settings, fewer nodes."""
    options = schedule.header.options
    if not options.get("constant_latency"):
        yield with_options(schedule, constant_latency=True)
    if options.get("ending", "current") != "current":
        yield with_options(schedule, ending=None)
    workloads = options.get("workload", TOGETHER)
    for name in workloads:
        others = [w for w in workloads if w != name]
        if others:
            yield _without_workload(with_options(schedule, workload=others), name)
    plain = ("pinned", "client_retries", "send_timeout_ns", "latency_fault_tolerance",
             "poll_routes_ns")  # fmt: skip
    for name in (*plain, "embedded", "learners"):
        if options.get(name):
            yield with_options(schedule, **{name: None})
    for key in sorted(options.get("keys", {})):
        left = {k: v for k, v in options["keys"].items() if k != key}
        yield with_options(schedule, keys=left or None)
    for name, values in SMALLEST.items():
        for value in values:
            if options.get(name, USUAL[name]) > value:
                yield with_options(schedule, **{name: value})


def _without_workload(schedule: Schedule, name: str) -> Schedule:
    return msgspec.structs.replace(
        schedule,
        calls=tuple(c for c in schedule.calls if c.workload != name),
        loads=tuple(load for load in schedule.loads if load.workload != name),
    )


def shorter(schedule: Schedule, ends: Sequence[float]) -> Iterator[Schedule]:
    """The same cut off at these times (seconds), the earliest first."""
    for end in sorted(set(ends)):
        if 0 < end < schedule.header.length:
            yield cut_off(schedule, end)


def cut_off(schedule: Schedule, end: float) -> Schedule:
    """Without what comes after a time."""
    late = {act.id for act in schedule.acts if _starts(act) and act.when.at >= end}
    return msgspec.structs.replace(
        schedule,
        header=msgspec.structs.replace(schedule.header, length=round(end, 3)),
        calls=tuple(c for c in schedule.calls if c.at < end),
        acts=without_acts(schedule, late),
    )


def _starts(act: Act) -> bool:
    return act.when.after == START


def earlier(schedule: Schedule, begin: float) -> Schedule:
    """Without what comes before a time, and the rest so much earlier."""
    gone = {a.id for a in schedule.acts if _starts(a) and a.when.at < begin}
    header = msgspec.structs.replace(
        schedule.header, length=round(schedule.header.length - begin, 3)
    )
    return msgspec.structs.replace(
        schedule,
        header=header,
        calls=tuple(moved(c, -begin) for c in schedule.calls if c.at >= begin),
        acts=tuple(shifted(a, -begin) if _starts(a) else a for a in without_acts(schedule, gone)),
    )


def moved(call: Call, by: float) -> Call:
    """A call at another time."""
    return msgspec.structs.replace(call, at=round(max(0.0, call.at + by), 6))


def shifted(act: Act, by: float) -> Act:
    """An act at another time."""
    when = msgspec.structs.replace(act.when, at=round(max(0.0, act.when.at + by), 6))
    return msgspec.structs.replace(act, when=when)


# Acts.


def family(act: Act) -> str:
    """What a fault and its heals have in common."""
    return act.id.partition(".")[0]


def without_acts(schedule: Schedule, gone: set[str]) -> tuple[Act, ...]:
    """The acts but these; what waited for one of them, or concerns whom it struck, goes or waits
    for what it waited for."""
    by_id = {act.id: act for act in schedule.acts}
    gone = set(gone)
    while more := {act.id for act in schedule.acts if act.who.of in gone} - gone:
        gone |= more
    kept = []
    for act in schedule.acts:
        if act.id in gone:
            continue
        when = act.when
        while when.after in gone:
            before = by_id[when.after].when
            when = When(after=before.after, at=round(when.at + before.at, 6), within=before.within)
        kept.append(act if when is act.when else msgspec.structs.replace(act, when=when))
    return tuple(kept)


def without_families(schedule: Schedule, names: Iterable[str]) -> Schedule:
    """The schedule without some faults and their heals."""
    named = set(names)
    gone = {act.id for act in schedule.acts if family(act) in named}
    return msgspec.structs.replace(schedule, acts=without_acts(schedule, gone))


def fewer_faults(schedule: Schedule) -> Iterator[Schedule]:
    """Halves of the faults, then all but one, then all but one act that is a heal."""
    names = list(dict.fromkeys(family(act) for act in schedule.acts))
    if len(names) > 3:
        half = len(names) // 2
        yield without_families(schedule, names[:half])
        yield without_families(schedule, names[half:])
    for name in reversed(names):
        if len(names) > 1:
            yield without_families(schedule, [name])
    for act in reversed(schedule.acts):
        if act.id != family(act):  # a heal, or a part of one: at the end everything is healed
            kept = without_acts(schedule, {act.id})
            yield msgspec.structs.replace(schedule, acts=kept)


# Calls.


def near(schedule: Schedule, times: Sequence[float]) -> Iterator[Schedule]:
    """Only the calls near some times, the narrowest window first."""
    for width in WINDOWS_S:
        calls = [c for c in schedule.calls if any(abs(c.at - t) <= width for t in times)]
        if len(calls) < len(schedule.calls):
            yield msgspec.structs.replace(schedule, calls=tuple(calls))


def without_kinds(schedule: Schedule) -> Iterator[Schedule]:
    """Without all calls of one kind."""
    kinds = dict.fromkeys((c.workload, c.f) for c in schedule.calls)
    for kind in list(kinds)[:KINDS_MAX] if len(kinds) > 1 else ():
        calls = tuple(c for c in schedule.calls if (c.workload, c.f) != kind)
        yield msgspec.structs.replace(schedule, calls=calls)


def fewer_calls(schedule: Schedule, parts: int, dear: frozenset[str]) -> Iterator[Schedule]:
    """Without one of `parts` equal parts of the calls; those that are dear (by id) are in the last
    that is tried. Source: Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input"
    (2002)."""
    calls = sorted(schedule.calls, key=lambda c: (c.id in dear, c.at, c.id))
    size = max(1, -(-len(calls) // parts))
    for begin in range(0, len(calls), size):
        gone = {c.id for c in calls[begin : begin + size]}
        kept = tuple(c for c in schedule.calls if c.id not in gone)
        if kept:
            yield msgspec.structs.replace(schedule, calls=kept)


# Time.


def moments(schedule: Schedule) -> list[float]:
    """The times of acts, in order."""
    return sorted(act.when.at for act in schedule.acts if _starts(act))


def closer(schedule: Schedule) -> Iterator[Schedule]:
    """Half of each gap between two acts, or before the first, the longest gap first."""
    times = [0.0, *moments(schedule)]
    gaps = sorted(pairwise(times), key=lambda g: g[0] - g[1])
    for begin, end in gaps:
        if end - begin > 0.2:
            yield squeezed(schedule, begin, end, (end - begin) / 2)


def squeezed(schedule: Schedule, begin: float, end: float, by: float) -> Schedule:
    """With `by` seconds less between two times: what is in between comes closer together."""

    def at(time: float) -> float:
        if time <= begin:
            return time
        if time >= end:
            return round(time - by, 6)
        return round(begin + (time - begin) * (end - begin - by) / (end - begin), 6)

    return msgspec.structs.replace(
        schedule,
        header=msgspec.structs.replace(
            schedule.header, length=round(max(1.0, schedule.header.length - by), 3)
        ),
        calls=tuple(msgspec.structs.replace(c, at=at(c.at)) for c in schedule.calls),
        acts=tuple(
            msgspec.structs.replace(a, when=msgspec.structs.replace(a.when, at=at(a.when.at)))
            if _starts(a)
            else a
            for a in schedule.acts
        ),
    )


# Back to what people write.


def chained(schedule: Schedule) -> Schedule:
    """Acts that wait for each other instead of for times."""
    acts: list[Act] = []
    for act in sorted(schedule.acts, key=lambda a: a.when.at):
        if acts and _starts(act):
            before = acts[-1]
            gap = round(max(0.0, act.when.at - _time_of(schedule, before)), 3)
            act = msgspec.structs.replace(act, when=When(after=before.id, at=gap))
        acts.append(act)
    return msgspec.structs.replace(schedule, acts=tuple(acts))


def _time_of(schedule: Schedule, act: Act) -> float:
    return next(a.when.at for a in schedule.acts if a.id == act.id)


def on_events(schedule: Schedule) -> Iterator[Schedule]:
    """One act after the other waits for an event instead of for so many seconds."""
    for at, act in enumerate(schedule.acts):
        if at and act.when.after not in LIFTED:
            for event in LIFTED:
                lifted = msgspec.structs.replace(act, when=When(after=event, at=EVENT_DELAY_S))
                acts = (*schedule.acts[:at], lifted, *schedule.acts[at + 1 :])
                length = schedule.header.length + EVENT_DELAY_S
                header = msgspec.structs.replace(schedule.header, length=round(length, 3))
                yield msgspec.structs.replace(schedule, header=header, acts=acts)


def with_load(schedule: Schedule) -> Iterator[Schedule]:
    """Sends at equal distances over the whole run instead of each at its time."""
    sends = [c for c in schedule.calls if c.f == "send"]
    if not sends or schedule.loads:
        return
    length = schedule.header.length
    load = Load(
        id="load",
        until=length,
        rate=round(LOAD_CALLS / length, 3),
        threads=WRITERS,
        keys=tuple(sorted({c.value[0] for c in sends})),
        size=max(c.value[1] for c in sends),
    )
    others = tuple(c for c in schedule.calls if c.f != "send")
    yield msgspec.structs.replace(schedule, calls=others, loads=(load,))


def wider(schedule: Schedule) -> Iterator[Schedule]:
    """Everything that lasts lasts longer."""
    for factor in (1.5, 2.0, 3.0):
        header = msgspec.structs.replace(
            schedule.header, length=round(schedule.header.length * factor, 3)
        )
        yield msgspec.structs.replace(
            schedule,
            header=header,
            acts=tuple(
                msgspec.structs.replace(
                    act, when=msgspec.structs.replace(act.when, at=round(act.when.at * factor, 3))
                )
                for act in schedule.acts
            ),
            calls=tuple(
                msgspec.structs.replace(c, at=round(c.at * factor, 6)) for c in schedule.calls
            ),
            loads=tuple(
                msgspec.structs.replace(load, until=round(load.until * factor, 3))
                for load in schedule.loads
            ),
        )


def size_of(schedule: Schedule) -> tuple[int, int]:
    """How many faults, heals not counted, and how many operations a schedule has."""
    return len({family(act) for act in schedule.acts}), len(schedule.expanded())


Candidates = Callable[[Schedule], Iterator[Schedule]]
