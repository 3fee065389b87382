"""A schedule: everything that is done to a cluster in a run, as lines of ``schedule.jsonl``.

Each line is one item. A run is driven by its schedule and by nothing else, so a stored schedule
repeats a run whatever happened to the generator that drew it; people write them by hand as well:

    {"item": "header", "name": "two masters", "length": 40, "options": {"profile": "P-SAFE"}}
    {"item": "load", "id": "l", "until": 40, "rate": 20}
    {"item": "act", "id": "c", "f": "start-partition", "when": {"at": 5}, "who": {"part": "master"}}
    {"item": "act", "id": "h", "f": "stop-partition", "when": {"after": "c", "at": 8}}

Times are seconds, of the run's main part unless they count from something else; kept as decimals of
at most nine digits, so that they are whole nanoseconds, and at most a week. An item's id is its
identity: draws that concern it are keyed by it, so that removing one item leaves the others as they
were.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Literal, overload

import msgspec
from msgspec import Meta

from maxq.histories.aliases import renamed
from maxq.histories.text import NOT_JSON

SCHEDULE = "schedule.jsonl"
VERSION = 1
# What an act may wait for beside another act: something that observers or the nemesis tell.
EVENTS = ("new-epoch", "set-grew", "set-shrank", "set-whole", "healed")
WAIT_S = 20.0  # after so long without its event an act is done all the same
START = ""  # the begin of the main part
READ, SEND, TURN = "poll", "send", "turn"
EVERYBODY = -1  # as a count
LOAD_VALUES = 1_000_000  # the messages of each load are numbered from a multiple of this on
# Of loads of the workload queue that name none: readers are the first threads.
DEFAULT_THREADS: dict[str, tuple[int, ...]] = {READ: (0, 1), SEND: (3, 4, 5, 6, 7)}

# What sizes a run is bounded, as on the command line: whoever reads a schedule runs it.
SECONDS_MAX = 7 * 24 * 3600
RATE_MAX = 100_000
THREADS_MAX = 1000
BODY_BYTES_MAX = 4 << 20  # RocketMQ's maxMessageSize
SEED_MAX = 2**63 - 1
Seconds = Annotated[float, Meta(ge=0, le=SECONDS_MAX)]
Rate = Annotated[float, Meta(gt=0, le=RATE_MAX)]
Thread = Annotated[int, Meta(ge=0, lt=THREADS_MAX)]
Size = Annotated[int, Meta(ge=0, le=BODY_BYTES_MAX)]
Count = Annotated[int, Meta(ge=EVERYBODY, le=THREADS_MAX)]
Seed = Annotated[int, Meta(ge=0, le=SEED_MAX)]

Share = Literal["all", "first", "rest"]


class ScheduleError(ValueError):
    """A schedule that nobody can perform; says which line and why."""


class When(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`at` seconds after the start of the main part, after the end of the act that `after` names,
    or after the first event of that name since the act before it in the schedule was done. An event
    that has not come `within` seconds is waited for no longer. `uncut`: not while a cut is in
    force, but at once when the last one is healed."""

    at: Seconds = 0.0
    after: str = START
    within: Seconds = WAIT_S
    uncut: bool = False


class Who(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Whom an act concerns: `nodes` by name; those that play a `part` when it strikes (a part of
    `maxq.harness.contracts.cluster.Part`, ``last-victim`` or ``last-rejoined``), `count` of them;
    or those that the act `of` struck, all, the `first` or the `rest`. None of it: everybody whom it
    may concern.
    """

    nodes: tuple[str, ...] = ()
    part: str = ""
    count: Count = 1
    of: str = ""
    share: Share = "all"


class Done(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an act came to in the run: when it began, and whom it struck as what."""

    at: float
    nodes: dict[str, str] = {}


class Act(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="item",
    tag="act",
    forbid_unknown_fields=True,
):
    """One operation of the nemesis, a fault or its heal. `args` are its own
    (`maxq.nemeses.scripted`); `done` is what it came to, in the schedule of a run that is over."""

    id: str
    f: str
    when: When = When()
    who: Who = Who()
    args: dict[str, Any] = {}
    done: Done | None = None


class Call(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="item",
    tag="call",
    forbid_unknown_fields=True,
):
    """One operation of a client: `thread` of its workload does `f`, with `value`, at `at`.

    The workload queue: ``send`` with ``[key, size, value]``, the last a number of its own in the
    run, and ``poll``. Any other workload: ``turn``, whatever its client does next.
    """

    id: str
    at: Seconds
    thread: Thread
    f: str = SEND
    value: Any = None
    workload: str = "queue"


class Load(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="item",
    tag="load",
    forbid_unknown_fields=True,
):
    """Calls at equal distances from `at` on, threads and keys in turn: `rate` a second until
    `until`; with a `lull`, for `busy` seconds at a time with a lull of so many between them. Turns
    are of all threads of their workload. A load is expanded as the run goes on."""

    id: str
    until: Seconds
    rate: Rate
    at: Seconds = 0.0
    busy: Seconds = 0.0
    lull: Seconds = 0.0
    f: str = SEND
    threads: tuple[Thread, ...] = ()
    keys: tuple[int, ...] = (0, 1)
    size: Size = 0
    workload: str = "queue"


class Known(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a schedule is known to show: on the target `bad`, no more or not yet on `good`. It is
    one of the signatures of `shows` (``S13/not-writable``), or a count of a checker that is not
    zero (``durability:truncation``), or that half of the sends took `slower_ms` or longer.
    `instead` are options that differ on the good one; `report` is upstream's number of it, if there
    is one."""

    bad: str
    good: str
    shows: tuple[str, ...] = ()
    slower_ms: int = 0
    instead: dict[str, Any] = {}
    report: str = ""


class Keeps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a schedule shows that a cluster keeps: these claims, each looked at, while at least so
    much happened, by the names of a run's counts (``failovers:returned``). `gaps`: for how many
    seconds operations of a kind, maybe of one broker set (``send b1``), may have no success."""

    claims: tuple[str, ...]
    counts: dict[str, int] = {}
    gaps: dict[str, float] = {}


class Header(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="item",
    tag="header",
    forbid_unknown_fields=True,
):
    """The first line. `options` are those of `maxq.harness.schedule.options.Options` that differ
    from a default; `length` is how long the main part lasts, in seconds; `seed` keys every draw but
    the schedule's own (latencies, time-outs, torn lengths); `factors` are what a drawn schedule was
    drawn from; `known` is what one that was written for it is known to show, `keeps` what it shows
    that a cluster keeps."""

    name: str = ""
    version: int = VERSION
    length: Seconds = 60.0
    seed: Seed = 0
    options: dict[str, Any] = {}
    factors: dict[str, str] = {}
    known: Known | None = None
    keeps: Keeps | None = None


Item = Header | Load | Call | Act


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A whole schedule. Acts are in the order in which they were thought of: an event that an act
    waits for is looked for once the one before it is done."""

    header: Header = Header()
    loads: tuple[Load, ...] = ()
    calls: tuple[Call, ...] = ()
    acts: tuple[Act, ...] = ()

    def expanded(self) -> tuple[Call, ...]:
        """Every call, those of loads included, in order of time."""
        made = [c for stretch in self.stretches() for c in stretch]
        return tuple(sorted((*self.calls, *made), key=lambda c: (c.at, c.id)))

    def stretches(self) -> tuple["Stretch", ...]:
        """The calls of each load, none of them made yet. The messages of a load are numbered from
        the next multiple of `LOAD_VALUES` on."""
        found, values = [], LOAD_VALUES
        for load in self.loads:
            found.append(Stretch(load, values))
            values += LOAD_VALUES * max(1, -(-len(found[-1]) // LOAD_VALUES))
        return tuple(found)

    def counts(self) -> dict[str, int]:
        """How many calls there are of each workload, and of each kind but turns, whose kind is not
        known before."""
        found: Counter[str] = Counter(call.f for call in self.calls if call.f != TURN)
        found.update(call.workload for call in self.calls)
        for stretch in self.stretches():
            of = {stretch.load.f, stretch.load.workload} - {TURN}
            found.update(dict.fromkeys(of, len(stretch)))
        return dict(sorted((+found).items()))


def ns(seconds: float) -> int:
    """Seconds of a schedule as nanoseconds."""
    return round(seconds * 1_000_000_000)


def seconds(time_ns: int) -> float:
    """Nanoseconds as a schedule writes them."""
    return time_ns / 1_000_000_000


class Stretch(Sequence[Call]):
    """The calls that a load stands for, in order of time, each made when it is asked for.

    Args:
        load: which.
        values: from which number on its messages are counted.
        first, every: of all its calls, those from `first` on that are so far apart.
    """

    def __init__(self, load: Load, values: int, first: int = 0, every: int = 1) -> None:
        self.load = load
        self._values = values
        self._first, self._every = first, every
        self.threads = load.threads or DEFAULT_THREADS.get(load.f, ())
        self._batch = int(load.busy * load.rate) if load.lull else 0
        self._len = max(0, -(-(self._total() - first) // every))
        self._last: tuple[int, Call] | None = None  # it is asked for again until it is done

    def of_thread(self, thread: int) -> "Stretch":
        """The calls of one of its threads."""
        return Stretch(self.load, self._values, self.threads.index(thread), len(self.threads))

    def _total(self) -> int:
        """How many calls the whole load stands for."""
        load = self.load
        whole, left = 0, load.until - load.at
        if self._batch:
            periods = int(left // (load.busy + load.lull))
            whole = periods * self._batch
            left = min(left - periods * (load.busy + load.lull), load.busy)
        return whole + int(left * load.rate)

    def __len__(self) -> int:
        return self._len

    @overload
    def __getitem__(self, place: int) -> Call: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Call]: ...

    def __getitem__(self, place: int | slice) -> Call | Sequence[Call]:
        if isinstance(place, slice):
            return [self[n] for n in range(*place.indices(len(self)))]
        if self._last is not None and self._last[0] == place:
            return self._last[1]
        if not 0 <= place < self._len:
            raise IndexError(place)
        self._last = place, self._call(place)
        return self._last[1]

    def _call(self, place: int) -> Call:
        load, number = self.load, self._first + place * self._every
        key = load.keys[number % len(load.keys)]
        return Call(
            id=f"{load.id}/{number}",
            at=self._at(number),
            thread=self.threads[number % len(self.threads)] if self.threads else number,
            f=load.f,
            value=[key, load.size, self._values + number] if load.f == SEND else None,
            workload=load.workload,
        )

    def _at(self, number: int) -> float:
        load = self.load
        period, within = divmod(number, self._batch) if self._batch else (0, number)
        return round(load.at + period * (load.busy + load.lull) + within / load.rate, 9)


def encode(schedule: Schedule) -> bytes:
    """A schedule as lines of JSON."""
    items: Sequence[Item] = (
        schedule.header,
        *schedule.loads,
        *schedule.acts,
        *schedule.calls,
    )
    return b"".join(msgspec.json.encode(item) + b"\n" for item in items)


def digest_of(schedule: Schedule) -> str:
    """What tells a schedule from others: 16 hexadecimal digits."""
    return blake2b(encode(schedule), digest_size=8).hexdigest()


def decode(data: bytes, name: str = SCHEDULE) -> Schedule:
    """Read a schedule, also one that an older version wrote.

    Raises:
        ScheduleError: a line is none of a schedule's, or the whole makes no sense.
    """
    items: list[Item] = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        try:
            items.append(msgspec.convert(renamed(msgspec.json.decode(line)), Item, str_keys=True))
        except NOT_JSON as error:
            raise ScheduleError(f"{name}, line {number}: {error}") from None
    headers = [i for i in items if isinstance(i, Header)]
    if len(headers) != 1 or items[0] is not headers[0]:
        raise ScheduleError(f"{name}: needs one header, in its first line")
    if headers[0].version != VERSION:
        raise ScheduleError(f"{name}: version {headers[0].version}; this is {VERSION}")
    schedule = Schedule(
        header=headers[0],
        loads=tuple(i for i in items if isinstance(i, Load)),
        calls=tuple(i for i in items if isinstance(i, Call)),
        acts=tuple(i for i in items if isinstance(i, Act)),
    )
    _validate(schedule, name)
    return schedule


def read(path: Path) -> Schedule:
    """Read a schedule's file.

    Raises:
        ScheduleError: there is none, or it is none.
    """
    try:
        return decode(path.read_bytes(), path.name)
    except OSError as error:
        raise ScheduleError(f"{path}: {error.strerror}") from None


def _validate(schedule: Schedule, name: str) -> None:
    named: list[Load | Call | Act] = [*schedule.loads, *schedule.calls, *schedule.acts]
    ids = Counter(item.id for item in named)
    twice = [i for i, count in ids.items() if count > 1]
    if twice:
        raise ScheduleError(f"{name}: the id {twice[0]!r} is there twice")
    known = {act.id for act in schedule.acts}
    for act in schedule.acts:
        after, of = act.when.after, act.who.of
        if after and after not in known and after not in EVENTS:
            events = ", ".join(EVENTS)
            raise ScheduleError(
                f"{name}: {act.id} waits for {after!r}, which is no act; events: {events}"
            )
        if of and of not in known:
            raise ScheduleError(f"{name}: {act.id} concerns {of!r}, which is no act")
    for load in schedule.loads:
        if not load.keys:
            raise ScheduleError(f"{name}: {load.id} needs keys")
        if load.lull and load.busy * load.rate < 1:
            raise ScheduleError(f"{name}: {load.id} has no call between its quiet periods")
    waiting = {act.id: act.when.after for act in schedule.acts if act.when.after in known}
    while free := [id_ for id_, after in waiting.items() if after not in waiting]:
        for id_ in free:
            del waiting[id_]
    if waiting:
        raise ScheduleError(f"{name}: {', '.join(waiting)} wait for each other")
