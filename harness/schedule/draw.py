"""The schedule generator, of both worlds: a pure function of a seed and of a run's factors.

It draws phase by phase: load, which may be none and changes at any time, also while a fault is on;
clients, of which some stay with one broker; payloads, up to several transfer batches; faults, each
with its victims, its trigger, its length, and how it is healed. Lengths are log-uniform from 0.2 s
to twice the longest time-out, a third of them beyond every time-out; gaps likewise, from none.
Where faults shall last each is in force for longer than a cluster may take to recover from it, and
so is now and then another one; some begin only when a cluster has had so long a time of peace.
Every draw is keyed by what it is for. Times are drawn in milliseconds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from harness.environments.api import Role
from harness.options import APPLICANTS, LOCKERS, SPARES
from harness.schedule.factors import Row
from harness.schedule.items import (
    EVERYBODY,
    READ,
    SEND,
    TURN,
    Act,
    Call,
    Header,
    Schedule,
    When,
    Who,
)
from harness.schedule.keyed import Keyed
from harness.targets.api import Node, Topology, plan

LENGTH_MS = (150_000, 180_000)
RATES = {"none": 0, "trickle": 2, "normal": 10, "saturating": 60}  # operations a second
PHASE_MS = (3_000, 60_000)
SATURATED_MS = 8_000  # the longest that a cluster is saturated: after that it is only slow
READERS, WRITERS = 2, 6  # threads of the workload queue, readers first
PINNED = 2
TURNS_MS = {"lock": 100, "registration": 400}  # between two turns of any of its threads
RACES = 40  # of a hundred turns of an applicant
THREADS = {"lock": LOCKERS, "registration": SPARES + APPLICANTS}
SIZES = {"small": (0, 0), "large": (20_000, 60_000)}  # of payloads, in bytes; 0: as it comes
LARGE = {"mixed": 8, "large": 30}  # how many of a hundred are large
SHORTEST_MS = 200
LEASE_MS = 10_000  # of a queue's lock, which is the longest time-out in `fast`
HOLDS = ("hold", "second part")  # what lasts where faults shall last: beyond the bound for recovery
LASTING_MS = (32_000, 60_000)
LASTING = {"mixed": 12, "lasting": 100}  # how many of a hundred do
FAULTS = (3, 14)  # how many in a run, at least and at most
BUSY_PART = (20, 90)  # of a hundred: how much of a run its faults are to fill
AT_ONCE, RESTED = 15, 15  # of a hundred faults: when what was before is over, or much later
REST_MS = (22_000, 40_000)  # without a fault: beyond the bound for recovery
KINDS = ("crash", "hang", "cut", "move", "order", "clock", "disk", "link-delay")
JUMP_MS = (100, 3_600_000)  # how far a clock is off
DRIFT_PPM = (1_000, 200_000)  # far beyond a quartz's: a minute must show what a month would
SYNC_MS = (20, 2_000)
DELAY_MS = (20, 2_000)
EVENTS = ("new-epoch", "set-grew", "set-shrank", "set-whole", "healed")
AFTER_EVENT_MS = 5_000
VICTIMS = ("master", "master", "master", "slave", "sync-state-set-slave", "controller-leader",
           "controller", "namesrv")  # fmt: skip
ELECTED = ("slave", "slave", "sync-state-set-slave", "master")  # by an operator's order
LINKS = (("master", "controllers"), ("master", "slave"), ("slave", "controllers"),
         ("brokers", "namesrvs"), ("master", "controller-leader"))  # fmt: skip
TOPOLOGIES: dict[str, dict[str, int]] = {
    "3c-3r": {},
    "3c-2r": {"replicas": 2},
    "1c-3r": {"controllers": 1},
    "3c-3r-2n": {"namesrvs": 2},
    "3c-3r-2s": {"broker_sets": 2},
}
FILES = {
    "large": {},
    "small": {"broker:mappedFileSizeCommitLog": "262144",
              "broker:mappedFileSizeConsumeQueue": "6000"},
}  # fmt: skip


def draw(seed: int, row: Row, *, length_ms: int = 0) -> Schedule:
    """The schedule of a seed.

    Args:
        seed: keys every draw, and the run's own draws.
        row: the values of the run's factors (`harness.schedule.factors`).
        length_ms: of the main part; 0: drawn.
    """
    draws = Keyed(f"schedule/{seed}")
    length = length_ms or draws.between(*LENGTH_MS, "length")
    options = options_of(row)
    nodes = plan(_topology(options))
    return Schedule(
        header=Header(
            name=f"drawn {seed}", length=length / 1000, seed=seed, options=options, factors=row
        ),
        calls=tuple(_calls(draws, row, length, len({n.broker_set for n in nodes} - {""}))),
        acts=tuple(_acts(draws, row, length, nodes)),
    )


def options_of(row: Row) -> dict[str, Any]:
    """How a run is set up, as far as its factors say."""
    keys = {
        "broker:flushDiskType": "SYNC_FLUSH" if row["flush"] == "sync" else "ASYNC_FLUSH",
        "broker:controllerHeartBeatTimeoutMills": row["heartbeat"],
        **FILES[row["files"]],
    }
    options: dict[str, Any] = {
        "profile": row["profile"],
        "workload": row["workload"].split("+"),
        "concurrency": READERS + WRITERS,
        "keys": keys,
        "ending": "each-replica",
        **TOPOLOGIES[row["topology"]],
    }
    if row["clients"] == "pinned":
        options["pinned"] = PINNED
    return options


def _topology(options: dict[str, Any]) -> Topology:
    names = ("namesrvs", "controllers", "broker_sets", "replicas")
    usual = {"namesrvs": 1, "controllers": 3, "broker_sets": 1, "replicas": 3}
    return Topology(**{name: options.get(name, usual[name]) for name in names})


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


def _calls(draws: Keyed, row: Row, length: int, sets: int) -> Iterator[Call]:
    count = 0
    for at, until, level in loads(draws, row, length):
        rate = RATES[level]
        if not rate:
            continue
        spacing = 1_000_000 // rate  # us
        for place in range(at * 1000, until * 1000, spacing):
            when = place + draws.below(spacing, "call", place)
            yield _call(draws, row, count, when / 1e6, keys=2 * sets)
            count += 1
    for workload, every in TURNS_MS.items():
        if workload in row["workload"] and row["first-load"] != "none":
            for number, ms in enumerate(range(0, length, every)):
                due = (ms + draws.below(every, workload, ms)) / 1000
                thread = draws.below(THREADS[workload], workload, "thread", ms)
                for who in _together(draws, workload, thread, ms):
                    name = f"{workload}{number}" + ("" if who == thread else f".{who}")
                    yield Call(id=name, at=due, thread=who, f=TURN, workload=workload)


def _together(draws: Keyed, workload: str, thread: int, ms: int) -> Sequence[int]:
    """Whose turn it is when it is a thread's: applicants race, some for one id at one moment."""
    if workload == "registration" and thread >= SPARES and draws.chance(RACES, "race", ms):
        return range(SPARES, THREADS[workload])
    return (thread,)


def _call(draws: Keyed, row: Row, number: int, at: float, *, keys: int) -> Call:
    if draws.chance(33, "reads", number):
        return Call(id=f"p{number}", at=at, thread=draws.below(READERS, "reader", number), f=READ)
    thread = READERS + draws.below(WRITERS, "writer", number)
    kind = row["payload"]
    if kind != "small":
        kind = "large" if draws.chance(LARGE[kind], "large", number) else "small"
    size = draws.between(*SIZES[kind], "size", number)
    value = [draws.below(keys, "key", number), size, number]
    return Call(id=f"s{number}", at=at, thread=thread, f=SEND, value=value)


# Faults.


def _acts(draws: Keyed, row: Row, length: int, nodes: Sequence[Node]) -> Iterator[Act]:
    kinds = [kind for kind in KINDS if row[kind] != "off"]
    least, most = FAULTS if kinds else (0, 0)
    whole = draws.below(max(least, 1), "whole-stop") if row["whole-stop"] != "off" else -1
    busy = length * draws.between(*BUSY_PART, "busy") // 100
    before, at, number = "", 0.0, 0
    while number <= whole or number < least or (number < most and at * 1000 < busy):
        fault = Fault(draws, row, number, length, before)
        if number == whole:
            made = fault.whole_stop(nodes)
        else:
            made = fault.of(draws.choice(kinds, "kind", number))
        yield from made
        # What comes next overlaps with this one, or begins when it is over.
        overlaps = draws.chance(30, "overlap", number)
        before = made[0].id if overlaps else made[-1].id
        # About when that is: what waits for an event may wait longer.
        at += sum(act.when.at for act in (made[:1] if overlaps else made))
        number += 1


class Fault:
    """One fault of a run and its heal.

    Args:
        draws: of the run.
        row: its factors.
        number: which fault it is.
        length: of the run (ms).
        before: the id of the act that it may count from.
    """

    def __init__(self, draws: Keyed, row: Row, number: int, length: int, before: str) -> None:
        self._draws = draws
        self._row = row
        self._number = number
        self._length = length
        self._before = before

    def _key(self, *what: int | str) -> tuple[int | str, ...]:
        return ("fault", self._number, *what)

    # When.

    def _duration(self, *what: int | str) -> int:
        """How long something lasts (ms)."""
        longest = max(int(self._row["heartbeat"]), LEASE_MS)
        lasting = LASTING.get(self._row["durations"], 0) if what[0] in HOLDS else 0
        if self._draws.chance(lasting, *self._key("lasting", *what)):
            return self._draws.between(*LASTING_MS, *self._key("length", *what))
        long_share = {"short": 0, "long": 100}.get(self._row["durations"], 33)
        if self._draws.chance(long_share, *self._key("long", *what)):
            return self._draws.between(longest, 2 * longest, *self._key("length", *what))
        bound = longest // 4 if self._row["durations"] == "short" else 2 * longest
        return self._draws.log_uniform(SHORTEST_MS, bound, *self._key("length", *what))

    def _when(self) -> When:
        gap = self._gap()
        if not self._before:
            return When(at=gap / 1000)
        waits = self._row["trigger"] == "event" and self._draws.chance(60, *self._key("event"))
        if waits:
            after = self._draws.choice(EVENTS, *self._key("which event"))
            delay = self._draws.below(AFTER_EVENT_MS, *self._key("delay"))
            return When(after=after, at=delay / 1000)
        return When(after=self._before, at=gap / 1000)

    def _gap(self) -> int:
        """How long it waits (ms)."""
        how = self._draws.below(100, *self._key("how soon"))
        if how < AT_ONCE:
            return 0
        if how < AT_ONCE + RESTED:
            return self._draws.between(*REST_MS, *self._key("rest"))
        return self._duration("gap")

    # Whom.

    def _who(self, parts: Sequence[str] = VICTIMS) -> Who:
        how = self._row["victims"]
        if how == "last" and self._before and self._draws.chance(60, *self._key("last")):
            last = ("last-victim", "last-rejoined")
            return Who(part=self._draws.choice(last, *self._key("which last")))
        part = self._draws.choice(parts, *self._key("part"))
        if how == "several" and self._draws.chance(60, *self._key("several")):
            part = "controller" if part.startswith("controller") else "broker"
            count = self._draws.choice((2, 2, EVERYBODY), *self._key("count"))
            return Who(part=part, count=count)
        return Who(part=part)

    # What.

    def of(self, kind: str) -> list[Act]:
        """A fault of a kind, with its heals."""
        match kind:
            case "crash":
                return self._crash()
            case "hang":
                strike = Act(id=self._id(), f="pause", when=self._when(), who=self._who())
                return [strike, *self._heals("resume")]
            case "cut":
                return [self._cut(), *self._heals("stop-partition", whole=True)]
            case "order":
                who = Who(part=self._draws.choice(ELECTED, *self._key("elected")))
                return [Act(id=self._id(), f="order-election", when=self._when(), who=who)]
            case "clock":
                return [self._machine("bump-clock", self._clock()), *self._heals("reset-clock")]
            case "disk":
                return self._disk()
            case "link-delay":
                ms = self._draws.log_uniform(*DELAY_MS, *self._key("delay-ms"))
                return [self._machine("start-delay", {"ms": ms}), *self._heals("stop-delay")]
        return self._move()

    def _id(self, *what: int | str) -> str:
        return ".".join((f"f{self._number}", *map(str, what)))

    def _crash(self) -> list[Act]:
        f = self._row["crash"]
        strike = Act(id=self._id(), f=f, when=self._when(), who=self._who())
        return [strike] if f == "restart" else [strike, *self._heals("start")]

    def _move(self) -> list[Act]:
        args = {"restart": True} if self._row["move"] == "restart" else {}
        strike = Act(id=self._id(), f="change-ip", when=self._when(), who=self._who(), args=args)
        return [strike, *self._heals("restore-ip", args=args)]

    def _machine(self, f: str, args: dict[str, Any]) -> Act:
        """A fault of machines."""
        return Act(id=self._id(), f=f, when=self._when(), who=self._who(), args=args)

    def _clock(self) -> dict[str, Any]:
        sign = self._draws.choice((-1, 1), *self._key("sign"))
        if self._row["clock"] == "jump":
            return {"offset_ms": sign * self._draws.log_uniform(*JUMP_MS, *self._key("jump"))}
        return {"drift_ppm": sign * self._draws.log_uniform(*DRIFT_PPM, *self._key("drift"))}

    def _disk(self) -> list[Act]:
        kind = self._row["disk"]
        args: dict[str, Any] = {kind: True}
        if kind == "slow":
            args = {"sync_ms": self._draws.log_uniform(*SYNC_MS, *self._key("sync"))}
        acts = [self._machine("start-disk-fault", args), *self._heals("stop-disk-fault")]
        if kind != "slow":
            # Who has ended for want of a disk is started again, as by whoever watches over nodes.
            again = When(after=acts[-1].id, at=self._duration("down") / 1000)
            acts.append(Act(id=self._id("s"), f="start", when=again, who=Who(of=self._id())))
        return acts

    def _cut(self) -> Act:
        args: dict[str, Any] = {}
        shape, ways = self._row["cut-shape"], self._row["cut"]
        who = self._who()
        if shape == "link":
            near, far = self._draws.choice(LINKS, *self._key("link"))
            who = Who(part="broker" if near == "brokers" else near)
            args["from"] = far
        elif shape == "role":
            # One node from all of a role.
            roles = ("brokers", "controllers", "namesrvs")
            args["from"] = self._draws.choice(roles, *self._key("role"))
        if ways != "both":
            args["ways"] = ways
        if self._row["cut-packets"] == "reset":
            args["reset"] = True
        if self._row["cut-clients"] != "both" and shape == "isolate":
            args["clients"] = self._row["cut-clients"]
        return Act(id=self._id(), f="start-partition", when=self._when(), who=who, args=args)

    def _heals(
        self, f: str, *, whole: bool = False, args: dict[str, Any] | None = None
    ) -> list[Act]:
        """The end of the fault, whole or in two parts, the rest sooner or later than the first."""
        of = self._id()
        after = When(after=of, at=self._duration("hold") / 1000)
        if whole or self._row["heal"] == "whole":
            return [Act(id=self._id("h"), f=f, when=after, who=Who(of=of), args=args or {})]
        first, rest = Who(of=of, share="first"), Who(of=of, share="rest")
        begin, end = self._draws.choice(((first, rest), (rest, first)), *self._key("shares"))
        half = Act(id=self._id("h1"), f=f, when=after, who=begin, args=args or {})
        then = When(after=half.id, at=self._duration("second part") / 1000)
        return [half, Act(id=self._id("h2"), f=f, when=then, who=end, args=args or {})]

    def whole_stop(self, nodes: Sequence[Node]) -> list[Act]:
        """Everything goes down in one instant, and comes back in another order, with gaps."""
        names = tuple(n.name for n in nodes)
        strike = Act(id=self._id(), f=self._row["whole-stop"], when=self._when(),
                     who=Who(nodes=names))  # fmt: skip
        roles = self._draws.shuffled([role.value for role in Role], *self._key("order"))
        acts, after, wait = [strike], strike.id, self._duration("down")
        for role in roles:
            mine = [n.name for n in nodes if n.role.value == role]
            for node in self._draws.shuffled(mine, *self._key("order", role)):
                act = Act(id=self._id(node), f="start", when=When(after=after, at=wait / 1000),
                          who=Who(nodes=(node,)))  # fmt: skip
                acts.append(act)
                after = act.id
                wait = self._draws.log_uniform(1, 2_000, *self._key("gap", node))
        return acts
