"""The schedule generator, of both worlds: a pure function of a seed and of a run's factors.

It draws phase by phase: load, which may be none and changes at any time, also while a fault is on;
clients, of which some stay with one broker; payloads, up to several transfer batches; faults, each
with its victims, its trigger, its length, and how it is healed. Lengths are log-uniform from 0.2 s
to twice the longest time-out, a third of them beyond every time-out; gaps also, from none.
Where faults shall last each is in effect for longer than a cluster may take to recover from it, and
so is now and then another one; some begin only when a cluster has had so long a time of peace.
Or faults strike within others (`maxq.harness.sampling.nested_faults`), or around the return of a
master of a pair (`maxq.harness.sampling.returns`), or one alone, with peace before and after it.
Every draw is keyed by what it is for. Times are drawn in milliseconds.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from maxq.harness.contracts.keyed_draws import Keyed
from maxq.harness.contracts.layouts import PAIR
from maxq.harness.contracts.plugins import layout_named
from maxq.harness.contracts.target import Node, Topology, plan
from maxq.harness.sampling.factors import KINDS, Row
from maxq.harness.sampling.faults import NESTED, OVER_AT_ONCE, RETURNS, Fault
from maxq.harness.sampling.late_topics import keys_of
from maxq.harness.sampling.lone_faults import LONE
from maxq.harness.sampling.nested_faults import NestedFaults
from maxq.harness.sampling.returns import AROUND, Returns
from maxq.harness.sampling.rounds import TURNS, rounds_of
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
)
from maxq.harness.schedule.options import (
    APPLICANTS,
    COMMITTERS,
    DELAYED,
    DELAYED_ALONE,
    LOCKERS,
    ORDERED,
    RETENTION_KEYS,
    SPARES,
    TRANSACTIONS,
)
from maxq.harness.schedule.shares import FLOOD, READ_LATE
from maxq.histories.fault_facts import KILL, RESET_CONNECTIONS, TRIM
from maxq.nemeses.catalogue import registered
from maxq.nemeses.kind import Drawing

LENGTH_MS = (150_000, 180_000)
RATES = {"none": 0, "trickle": 2, "normal": 10, "saturating": 60}  # operations a second
PHASE_MS = (3_000, 60_000)
SATURATED_MS = 8_000  # the longest that a cluster is saturated: after that it is only slow
ALSO_RATE = 5.0  # turns a second of a workload that runs beside the drawn ones
ALSO_RATES = {FLOOD: TURNS[FLOOD]}
# Where brokers have a share of a disk, the files of queues are a large part of it in some runs.
LARGE_QUEUES, LARGE_KEYS = 50, {"broker:mappedFileSizeConsumeQueue": "400000"}
APART_S = 20.0  # between two rounds of a fault that is beside those of the factors
READERS, WRITERS = 2, 6  # threads of the workload queue, readers first
# Of a run whose topics but the first are made by sending: how many there are, and how many of a
# hundred sends are for those that are not the first.
LATE_TOPICS, FOR_LATE = 3, 40
PINNED = {"pinned": 2, "all-pinned": READERS + WRITERS}  # threads that stay with one broker
# Between two turns of a workload.
TURNS_MS = {
    "lock": 100, "registration": 400, "delayed": 160, "delayed-alone": 1_000, "ordered": 150,
    "transactions": 120, "offsets": 250,
}  # fmt: skip
# How long a consumer group is at work, and how long not: one that is not, while its set changes its
# master, shows what the set knows of it before it commits anew. Rivals for locks rest in some runs:
# a lock that is left alone shows who keeps it.
SPELL_MS = (2_000, 40_000)
SPELLS_OF = {"offsets": 100, "lock": 50}  # in how many of a hundred runs
RACES = 40  # of a hundred turns of an applicant
THREADS = {
    "lock": LOCKERS,
    "registration": SPARES + APPLICANTS,
    "delayed": DELAYED,
    "delayed-alone": DELAYED_ALONE,
    "ordered": ORDERED,
    "transactions": TRANSACTIONS,
    "offsets": COMMITTERS,
}
LEARNING_OF = 3  # replicas of a set, at least, of which one can be a learner: two are then left
# Of payloads, in bytes. Small ones are equal: in a log that was cut off and written anew each then
# begins where another one began before.
SIZES = {"small": (256, 256), "large": (20_000, 60_000)}
LARGE = {"mixed": 8, "large": 30}  # how many of a hundred are large
FAULTS = (3, 14)  # how many in a run, at least and at most
TRIMS = (2, 8)  # how often logs get old in a run where they do
# Of a hundred: how many come while a slave restarts, and its master hears no controller: a member
# that is away then stays in the set, and retention must wait for it. A log of small messages grows
# by no file meanwhile.
TRIMS_IN_FIXED_SET = 50
HOLD_NS = 1_500_000_000  # of a poll that finds nothing
LATE_MS = 24_000  # before the end: a broker registers again each 10 s, and looks for who answers
AWAY_MS = (500, 5_000)  # twice: until the log is old, and until the member is started
TRIMMED = ("master", "master", "slave", "sync-state-set-slave", "broker")
BUSY_PART = (20, 90)  # of a hundred: how much of a run its faults are to fill
# Of a hundred: how far into a run a lone fault may begin. Some come once more, or are over at once.
LONE_PART = (35, 60)
TOPOLOGIES: dict[str, dict[str, int | bool]] = {
    "3c-3r": {},
    "3c-2r": {"replicas": 2},
    "1c-3r": {"controllers": 1},
    "3c-3r-2n": {"namesrvs": 2},
    "3c-3r-2s": {"broker_sets": 2},
    "3e-3r": {"embedded": True},
    "3c-5r": {"replicas": 5},
    "2r-2s": {"controllers": 0, "broker_sets": 2, "replicas": 2},
    "3r-2s": {"controllers": 0, "broker_sets": 2, "replicas": 3},
    "2r-2s-2n": {"controllers": 0, "broker_sets": 2, "replicas": 2, "namesrvs": 2},
    "2r-3s-2n": {"controllers": 0, "broker_sets": 3, "replicas": 2, "namesrvs": 2},
    "2r-2s-plain": {"controllers": 0, "broker_sets": 2, "replicas": 2},
}
# Masters and slaves of which none acts, as before RIP-32.
PLAIN, PLAIN_KEYS = "2r-2s-plain", {"broker:enableSlaveActingMaster": "false"}
FILES = {
    "large": {},
    "small": {"broker:mappedFileSizeCommitLog": "262144",
              "broker:mappedFileSizeConsumeQueue": "6000"},
}  # fmt: skip
# The keys of a switch that is not as the profile has it. Where slaves act for masters that
# controllers name, name servers show them as well, unless another switch says that they do not.
SWITCHES: dict[tuple[str, str], dict[str, str]] = {
    ("acting", "on"): {"broker:enableSlaveActingMaster": "true",
                       "namesrv:supportActingMaster": "true"},
    ("shown", "off"): {"namesrv:supportActingMaster": "false"},
    ("escape", "off"): {"broker:enableRemoteEscape": "false"},
    ("pre-online", "off"): {"broker:skipPreOnline": "true"},
    ("push", "on"): {"namesrv:notifyMinBrokerIdChanged": "true"},
    ("role-push", "off"): {"controller:notifyBrokerRoleChanged": "false"},
    ("old-requests", "on"): {"broker:compatibleWithOldNameSrv": "true"},
    ("slave-read", "off"): {"broker:slaveReadEnable": "false"},
    ("lock-mode", "loose"): {"broker:lockInStrictMode": "false"},
    ("from-last-file", "on"): {"broker:syncFromLastFile": "true"},
    ("raft-log", "snapshots"): {"controller:jRaftSnapshotIntervalSecs": "4"},
}  # fmt: skip


class Bounds(NamedTuple):
    """What is offered and done to a cluster at most. `rates` are operations a second by level of
    load; `faults` how many, at least and at most; `in_turn`: every kind of fault that a run has
    comes once before one of them comes twice."""

    rates: Mapping[str, int] = RATES
    faults: tuple[int, int] = FAULTS
    in_turn: bool = False


def draw(
    seed: int,
    row: Row,
    *,
    length_ms: int = 0,
    bounds: Bounds | None = None,
    beside: Collection[str] = (),
    also: Collection[str] = (),
    layout: str = "",
) -> Schedule:
    """The schedule of a seed.

    Args:
        seed: keys every draw, and the run's own draws.
        row: the values of the run's factors (`maxq.harness.sampling.factors`).
        length_ms: of the main part; 0: drawn.
        bounds: those of the simulator if none are given.
        beside: kinds of faults that strike in rounds of their own, beside those of the factors.
        also: workloads whose clients have their turns all the time, beside those of the factors.
        layout: of brokers in containers, which decides how many sets and replicas there are.
    """
    bounds = bounds or Bounds()
    draws = Keyed(f"schedule/{seed}")
    length = length_ms or draws.between(*LENGTH_MS, "length")
    row = _read_in_time(row) if FLOOD in also or row["retention"] == "trim" else row
    options = options_of(row)
    more = [name for name in dict.fromkeys(also) if name not in options["workload"]]
    options["workload"] = [*options["workload"], *more]
    options |= _laid_out(layout, options)
    if FLOOD in also and draws.chance(LARGE_QUEUES, "large files of queues"):
        options["keys"] = {**options["keys"], **LARGE_KEYS}
    nodes = plan(_topology(options))
    sets = len({n.broker_set for n in nodes} - {""})
    return Schedule(
        header=Header(
            name=f"drawn {seed}", length=length / 1000, seed=seed, options=options, factors=row
        ),
        loads=tuple(
            Load(
                id=name,
                until=length / 1000,
                rate=ALSO_RATES.get(name, ALSO_RATE),
                f=TURN,
                workload=name,
            )
            for name in more
        ),
        calls=tuple(_calls(draws, row, length, sets=sets, rates=bounds.rates)),
        acts=(
            *_acts(draws, row, length, nodes, bounds),
            *_trims(draws, row, length, in_fixed_set=not bounds.in_turn),
            *(() if bounds.in_turn else _late_reset(row, length)),
            *_beside(seed, nodes, length, beside),
        ),
    )


def _read_in_time(row: Row) -> Row:
    """The same, without the workloads whose messages may be deleted before anybody reads them, by a
    flood or as they are old."""
    left = [name for name in row["workload"].split("+") if name not in READ_LATE]
    return {**row, "workload": "+".join(left) or "queue"}


def _laid_out(layout: str, options: dict[str, Any]) -> dict[str, Any]:
    """What a layout changes of a run's options; no replica of its small sets is a learner."""
    kind, before = layout_named(layout), _topology(options)
    if kind is None:
        return {}
    count = kind.replicas or before.replicas if before.controllers else PAIR
    return {"layout": layout, "broker_sets": kind.sets, "replicas": count, "learners": 0}


def _trims(draws: Keyed, row: Row, length: int, *, in_fixed_set: bool) -> Iterator[Act]:
    """When logs get old, whatever else is at work: of one broker, or of all at once. Where faults
    are counted, each in its turn, none strikes for that alone."""
    count = draws.between(*TRIMS, "trims") if row["retention"] == "trim" else 0
    for number in range(count):
        when = When(at=draws.between(length // 10, length, "trim", number) / 1000)
        part = draws.choice(TRIMMED, "trim", number, "of")
        who = Who(part=part, count=EVERYBODY if part == "broker" else 1)
        if in_fixed_set and draws.chance(TRIMS_IN_FIXED_SET, "trim", number, "in fixed set"):
            yield from _in_fixed_set(draws, number, when)
        else:
            yield Act(id=f"t{number}", f=TRIM, when=when, who=who)


def _in_fixed_set(draws: Keyed, number: int, when: When) -> Iterator[Act]:
    """A master's log gets old while its SyncStateSet cannot change, and a member restarts."""

    def after(what: str) -> When:
        ms = draws.log_uniform(*AWAY_MS, "trim", number, what)
        return When(after=f"t{number}.{what}".removesuffix("."), at=ms / 1000)

    master = Who(of=f"t{number}.cut")
    yield Act(id=f"t{number}.cut", f="start-partition", when=when, who=Who(part="master"),
              args={"from": "controllers", "reset": True})  # fmt: skip
    yield Act(id=f"t{number}.kill", f=KILL, when=When(after=f"t{number}.cut"),
              who=Who(part="sync-state-set-slave"))  # fmt: skip
    yield Act(id=f"t{number}", f=TRIM, when=after("kill"), who=master)
    yield Act(id=f"t{number}.start", f="start", when=after(""), who=Who(of=f"t{number}.kill"))
    yield Act(id=f"t{number}.heal", f="stop-partition", when=after("start"), who=master)


def _late_reset(row: Row, length: int) -> Iterator[Act]:
    """Where connections are reset some are so late that it is seen who is listed again."""
    if row["cut"] != "off" and row["cut-packets"] == "reset":
        yield Act(id="late", f=RESET_CONNECTIONS, when=When(at=max(length - LATE_MS, 0) / 1000),
                  who=Who(part="broker"), args={"from": "namesrvs"})  # fmt: skip


def _beside(seed: int, nodes: Sequence[Node], length: int, asked: Collection[str]) -> Iterator[Act]:
    """Faults in rounds of their own: of kinds that are asked for, and of those that are not Max-Q's
    own; without any a seed means the same for ever."""
    strangers = [kind.name for kind in registered() if kind.rounds is not None]
    for name in dict.fromkeys((*strangers, *asked)):
        drawing = Drawing.of(f"{seed}/{name}", nodes, by_name=False)
        yield from rounds_of(name, drawing, length / 1000, APART_S)


def options_of(row: Row) -> dict[str, Any]:
    """How a run is set up, as far as its factors say."""
    keys = {
        "broker:flushDiskType": "SYNC_FLUSH" if row["flush"] == "sync" else "ASYNC_FLUSH",
        "broker:controllerHeartBeatTimeoutMills": row["heartbeat"],
        **FILES[row["files"]],
        **_switched(row),
        **(PLAIN_KEYS if row["topology"] == PLAIN else {}),
        **(RETENTION_KEYS if row["retention"] == "trim" else {}),
    }
    options: dict[str, Any] = {
        "profile": row["profile"],
        "workload": row["workload"].split("+"),
        "concurrency": READERS + WRITERS,
        "keys": keys,
        "ending": "each-replica",
        **TOPOLOGIES[row["topology"]],
    }
    if not _topology(options).controllers:
        options["ending"] = "current"  # nobody can be made master
        del keys["broker:controllerHeartBeatTimeoutMills"]
    if row["clients"] in PINNED:
        options["pinned"] = PINNED[row["clients"]]
    if row.get("topics") == "by-sending":  # older rows have no such factor
        options |= {"topics": LATE_TOPICS, "topics_made": "by-sending"}
    if row.get("pulls") == "held":
        options["hold_ns"] = HOLD_NS
    if row["learner"] == "on" and _topology(options).replicas >= LEARNING_OF:
        options["learners"] = 1
    return options


def _switched(row: Row) -> dict[str, str]:
    """The keys of the switches that a row turns; none of those of rows that are older."""
    return {k: v for at, keys in SWITCHES.items() if at in row.items() for k, v in keys.items()}


def _topology(options: dict[str, Any]) -> Topology:
    names = ("namesrvs", "controllers", "broker_sets", "replicas", "embedded", "learners")
    usual = {
        "namesrvs": 1,
        "controllers": 3,
        "broker_sets": 1,
        "replicas": 3,
        "embedded": False,
        "learners": 0,
    }
    found = {name: options.get(name, usual[name]) for name in names}
    return Topology(**found, layout=layout_named(options.get("layout", "")))


# Load.


def loads(draws: Keyed, row: Row, length: int) -> Iterator[tuple[int, int, str]]:
    """Phases of load: from, until (ms), and how much. A run with a steady load of none has nobody
    who ever writes."""
    at, number, level = 0, 0, row["first-load"]
    while at < length:
        until = at + draws.log_uniform(*PHASE_MS, "phase", number)
        if row["load"] == "steady":
            until = length
        if level == "saturating":
            until = min(until, at + SATURATED_MS)
        yield at, min(until, length), level
        at, number = until, number + 1
        steady_again = row["load"] == "steady" and level == "saturating"
        level = "normal" if steady_again else draws.choice(list(RATES), "level", number)


def _calls(
    draws: Keyed, row: Row, length: int, *, sets: int, rates: Mapping[str, int]
) -> Iterator[Call]:
    count, topics = 0, _topics(draws, row, length, sets=sets)
    for at, until, level in loads(draws, row, length):
        rate = rates[level]
        if not rate:
            continue
        spacing = 1_000_000 // rate  # us
        for place in range(at * 1000, until * 1000, spacing):
            when = place + draws.below(spacing, "call", place)
            keys = [keys for since, keys in topics if since <= when]
            yield _call(draws, row, count, when / 1e6, keys=keys)
            count += 1
    for workload, every in TURNS_MS.items():
        if workload in row["workload"].split("+") and row["first-load"] != "none":
            rests_at_all = draws.chance(SPELLS_OF.get(workload, 0), "spells", workload)
            resting = range(THREADS[workload] if rests_at_all else 0)
            rests = {thread: _rests(draws, thread, length) for thread in resting}
            for number, ms in enumerate(range(0, length, every)):
                due = (ms + draws.below(every, workload, ms)) / 1000
                thread = draws.below(THREADS[workload], workload, "thread", ms)
                if any(a <= ms < b for a, b in rests.get(thread, ())):
                    continue
                for who in _together(draws, workload, thread, ms):
                    name = f"{workload}{number}" + ("" if who == thread else f".{who}")
                    yield Call(id=name, at=due, thread=who, f=TURN, workload=workload)


def _rests(draws: Keyed, thread: int, length: int) -> list[tuple[int, int]]:
    """When a consumer group has nothing to do: from, until (ms)."""
    found, at, number = [], 0, 0
    while at < length:
        begin = at + draws.log_uniform(*SPELL_MS, "spell", thread, number)
        at = begin + draws.log_uniform(*SPELL_MS, "rest", thread, number)
        found.append((begin, at))
        number += 1
    return found


def _together(draws: Keyed, workload: str, thread: int, ms: int) -> Sequence[int]:
    """Whose turn it is when it is a thread's: applicants race, some for one id at one moment."""
    if workload == "registration" and thread >= SPARES and draws.chance(RACES, "race", ms):
        return range(SPARES, THREADS[workload])
    return (thread,)


def _topics(
    draws: Keyed, row: Row, length: int, *, sets: int
) -> Sequence[tuple[int, Sequence[int]]]:
    """The keys of each topic, and since when (us) it may be sent to; all but the first are made by
    that."""
    late = range(1, LATE_TOPICS if row.get("topics") == "by-sending" else 1)
    since = {n: draws.below(length, "topic", n) * 1000 for n in late}
    return [(since.get(topic, 0), keys_of(sets, topic)) for topic in (0, *late)]


def _call(draws: Keyed, row: Row, number: int, at: float, *, keys: Sequence[Sequence[int]]) -> Call:
    if draws.chance(33, "reads", number):
        return Call(id=f"p{number}", at=at, thread=draws.below(READERS, "reader", number), f=READ)
    thread = READERS + draws.below(WRITERS, "writer", number)
    kind = row["payload"]
    if kind != "small":
        kind = "large" if draws.chance(LARGE[kind], "large", number) else "small"
    size = draws.between(*SIZES[kind], "size", number)
    late = len(keys) > 1 and draws.chance(FOR_LATE, "late", number)
    of = keys[1 + draws.below(len(keys) - 1, "topic of", number)] if late else keys[0]
    value = [of[draws.below(len(of), "key", number)], size, number]
    return Call(id=f"s{number}", at=at, thread=thread, f=SEND, value=value)


# Faults.


def _acts(
    draws: Keyed, row: Row, length: int, nodes: Sequence[Node], bounds: Bounds
) -> Iterator[Act]:
    kinds, lone = [kind for kind in KINDS if row[kind] != "off"], row["pace"] == LONE
    most = bounds.faults[1] if bounds.in_turn else None
    if row["aim"] == RETURNS and AROUND.intersection(kinds) and not lone:
        yield from Returns(draws, row, nodes, kinds, most=most).acts(length)
        return
    if row["pace"] == NESTED and set(kinds) - OVER_AT_ONCE:
        yield from NestedFaults(draws, row, nodes, kinds, most=most).acts(length)
        return
    least, most = bounds.faults if kinds else (0, 0)
    if bounds.in_turn:
        least = min(max(least, len(kinds)), most)
    least = min(least, 1) if lone else least
    stops = row["whole-stop"] != "off" and not lone
    whole = draws.below(max(least, 1), "whole-stop") if stops else -1
    turns = draws.shuffled([k for k in kinds if whole < 0 or k != "whole-stop"] or kinds, "turns")
    busy = length * draws.between(*(LONE_PART if lone else BUSY_PART), "busy") // 100
    before, at, number = "", 0.0, 0
    while number <= whole or number < least or (number < most and at * 1000 < busy):
        fault = Fault(draws, row, number, before, nodes)
        if number == whole:
            made = fault.stop("everybody")
        elif bounds.in_turn:
            made = fault.of(turns[(number - (0 <= whole < number)) % len(turns)])
        else:
            made = fault.of(draws.choice(kinds, "kind", number))
        yield from made
        # What comes next overlaps with this one, or begins when it is over.
        before = made[0].id if fault.overlapped else made[-1].id
        # About when that is: what waits for an event may wait longer.
        at += sum(act.when.at for act in (made[:1] if fault.overlapped else made))
        number += 1
