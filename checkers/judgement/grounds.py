"""Is the evidence of a verdict whole: which declared answers the history holds.

A run declares what a verdict will rest on (`maxq.histories.grounds`); here each piece of evidence
is looked for. Answers count from the end of the wait for recovery on: what was said before it was
said of a cluster under faults. A node that was found to have ended by itself is gone, and what only
it could have answered is ticked off by that; so is what concerns a broker set whose nodes are all
gone.

A claim may need undisturbed time as well. With an unknown act in the history
(`maxq.histories.fault_facts`) there is none that is known to be so.

A history that declares nothing is one of an older version, whose evidence follows from how the run
was set up (`Context.grounds`), or a foreign one, which is taken as it is.

Polls, replica logs, locks and consumer offsets grow with the load, so they are looked at key by
key, as `Dealt` says; the rest is small.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from maxq.checkers.core.api import Context
from maxq.checkers.core.keyed import Alone, Event, results_of
from maxq.checkers.evidence.nodes.looks import awaited_op, looks_of
from maxq.checkers.evidence.observations import NEVER
from maxq.checkers.evidence.quiescence import unknown_acts
from maxq.histories.fault_facts import ELECT_MASTER
from maxq.histories.grounds import (
    BROKER,
    CONSUMER_OFFSET,
    CONTROLLER,
    FINAL_READ,
    LOCK,
    NAMESRV,
    PROBE,
    RECOVERY,
    REPLICA_LOG_READ,
    Ground,
    declared,
)
from maxq.histories.history import History
from maxq.histories.observed import (
    ACQUIRE,
    FETCH_OFFSET,
    FINAL,
    OBSERVE_CONTROLLER,
    OBSERVE_REPLICA,
    OBSERVE_ROUTE,
    PROBE_READ,
    REPLICA_LOG,
)
from maxq.histories.op import HistoryError, Op
from maxq.histories.text import TYPES

if TYPE_CHECKING:
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

ASKED = {OBSERVE_CONTROLLER: CONTROLLER, OBSERVE_ROUTE: NAMESRV, OBSERVE_REPLICA: BROKER}
NOT_LEADER = "CONTROLLER_NOT_LEADER"
NO_LOG = "no-log"
NAMED_MAX = 4  # missing grounds of a kind that are named
ENDED = "end"
AGAIN = "run it again, and let it come to its end"
RESTORE = "a sound copy of the history, with all of its parts"
DECLARE = "declare the facts of the fault (docs/plugins.md), and run it again"
_LACKS: dict[str, str] = {
    FINAL_READ: "not every queue was read to its confirmed end after the last fault",
    REPLICA_LOG_READ: "not every replica's log was read",
    CONTROLLER: "not every controller answered a last time",
    NAMESRV: "not every name server answered a last time",
    BROKER: "not every broker answered a last time",
    RECOVERY: "the run did not wait for the recovery, or not to its end",
    PROBE: "not every queue was probed after the last heal",
    LOCK: "not every lock was handed from one client to another at the end",
    CONSUMER_OFFSET: "not every client asked for its offsets after the last fail-over",
}


class Missing(NamedTuple):
    """Why a kind of grounds is not whole, and what to change."""

    why: str
    advice: str = AGAIN


class Standing:
    """Which grounds of a history are whole.

    Args:
        of_kind: why a kind is not; kinds that are whole are left out.
        cut: why the whole history is not.
        unknown: why undisturbed times are not known.
        damaged: whether operations that happened are missing behind those that are judged.
    """

    def __init__(
        self,
        of_kind: Mapping[str, Missing],
        cut: Missing | None = None,
        unknown: Missing | None = None,
        *,
        damaged: bool = False,
    ) -> None:
        self._of_kind = of_kind
        self._cut = cut
        self._unknown = unknown
        self.damaged = damaged

    @property
    def cut(self) -> bool:
        """Whether the history is cut short, which then is the reason for every claim."""
        return self._cut is not None

    def missing(self, kinds: Iterable[str], *, undisturbed: bool = False) -> list[Missing]:
        """What a claim lacks. Of a history that was cut short one reason is enough: what comes last
        is missing.

        Args:
            kinds: of grounds, on which it rests.
            undisturbed: whether it needs undisturbed time.
        """
        if self._cut is not None:
            return [self._cut]
        unknown = [self._unknown] if undisturbed and self._unknown is not None else []
        return [*unknown, *(self._of_kind[kind] for kind in kinds if kind in self._of_kind)]


class Reign(NamedTuple):
    """Replicas were made master at the end: after index `at`, before index `until`."""

    at: int
    until: int
    nodes: frozenset[str]


class Looked(NamedTuple):
    """What is looked for, and where it is ticked off already."""

    grounds: tuple[Ground, ...]
    ticked: frozenset[Ground]
    recovered: int  # index of the completed wait for recovery; NEVER: there was none
    reigns: tuple[Reign, ...]


class Tick(NamedTuple):
    """Something that may tick a ground off: a position in a replica's log and whether it is the
    last one, the client that was granted a lock, or which consumer offset was asked for and whether
    that was answered."""

    at: int | str
    last: bool


class Ticks(Alone):
    """What ticks grounds off, of the operations that grow with the load."""

    name = "grounds"
    reads = frozenset(("poll", REPLICA_LOG, ACQUIRE, FETCH_OFFSET))
    blind = frozenset((REPLICA_LOG,))

    def prepare(self, history: History, context: Context) -> Looked:
        return _looked_for(history, context)

    def sift(self, rows: "Rows", chosen: "Ints", known: Looked) -> "Ints":
        if not known.grounds:
            return chosen[:0]
        late = chosen[rows.begun[chosen] >= known.recovered]
        ok = rows.type[late] == TYPES.index("ok")
        kept = rows.is_of(late, REPLICA_LOG) | (rows.is_of(late, ACQUIRE) & ok)
        polled, asked = rows.is_of(late, "poll") & ok, rows.is_of(late, FETCH_OFFSET)
        kept[polled] |= rows.ext_has(late[polled], ENDED)
        kept[asked] |= rows.ext_has(late[asked], FINAL)
        found: Ints = late[kept]
        return found

    def rows(self, event: Event, known: Looked) -> Iterator[tuple[str, Tick]]:
        op, begun = event.op, event.begun
        if not known.grounds or begun is None or begun.index < known.recovered:
            return
        match op.f:
            case "poll" if op.type == "ok":
                for key in _ended_keys(op):
                    for node in _reigning(known, begun.index):
                        yield _name(FINAL_READ, key, node), Tick(op.index, True)
            case "replica-log":
                yield from _log_ticks(op, begun)
            case "acquire" if op.type == "ok":
                yield _name(LOCK, op.value), Tick(int(op.process), True)
            case "fetch-offset" if (thread := (op.ext or {}).get(FINAL)) is not None:
                yield _name(CONSUMER_OFFSET, thread), Tick(str(begun.value), op.type == "ok")

    def judge(self, key: str, rows: Sequence[Tick], known: Looked, more: object = None) -> bool:
        """Whether it is ticked off."""
        positions = {row.at for row in rows}
        if key.startswith(REPLICA_LOG_READ):
            return any(r.last and positions >= set(range(int(r.at) + 1)) for r in rows)
        if key.startswith(CONSUMER_OFFSET):
            return positions == {row.at for row in rows if row.last}
        return len(positions) > 1 if key.startswith(LOCK) else True


def standing_of(history: History, context: Context) -> Standing:
    """Which grounds of a history in memory are whole.

    Raises:
        HistoryError: it declares grounds of no known shape.
    """
    ticks = Ticks()
    known = ticks.prepare(history, context)
    return standing(history, context, known, results_of(ticks, history, known))


def standing(
    history: History, context: Context, known: Looked, found: Mapping[str, bool]
) -> Standing:
    """The same, of operations already looked at."""
    lacking: dict[str, list[Ground]] = defaultdict(list)
    for ground in known.grounds:
        if ground not in known.ticked and not found.get(_name(*_named(ground))):
            lacking[ground[0]].append(ground)
    of_kind = {k: _missing(k, of) for k, of in lacking.items()}
    cut, unknown = _cut(history, context), _unknown(history)
    return Standing(of_kind, cut, unknown, damaged=bool(context.damage))


def _named(ground: Ground) -> tuple[Any, ...]:
    """A ground without the broker set that it concerns."""
    match ground:
        case (kind, key, _, node) if kind == FINAL_READ:
            return kind, key, node
        case (kind, key, _) if kind in (LOCK, PROBE):
            return kind, key
    return ground


def _name(*what: object) -> str:
    return " ".join("" if part is None else str(part) for part in what)


def _missing(kind: str, grounds: Sequence[Ground]) -> Missing:
    names = [_name(*_named(ground)[1:]).strip() or "all" for ground in grounds]
    if kind == RECOVERY:
        return Missing(_LACKS[kind])
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return Missing(f"{_LACKS[kind]} (missing: {', '.join(names[:NAMED_MAX])}{more})")


def _cut(history: History, context: Context) -> Missing | None:
    if context.damage:
        return Missing(f"the history is damaged: {context.damage}", RESTORE)
    begun, ended = history.run
    whole = context.ended if begun is None else ended is not None
    if whole is False:
        return Missing("the history is cut short: the run did not come to its end")
    return None


def _unknown(history: History) -> Missing | None:
    why = unknown_acts(history)
    return Missing(why, DECLARE) if why else None


# What is small.


def _looked_for(history: History, context: Context) -> Looked:
    begun, _ = history.run
    grounds = context.grounds if begun is None else declared(begun)
    last = awaited_op(history)
    healed = _begun(history, last)
    recovered = NEVER if last is None else last.index
    ticked = {(RECOVERY,)} if last is not None else set()
    ticked |= _answered(history, recovered)
    ticked |= _probed(history, healed, grounds)
    ticked |= _gone(history, grounds, context)
    return Looked(grounds, frozenset(ticked), recovered, tuple(_reigns(history, recovered)))


def _answered(history: History, recovered: int) -> set[Ground]:
    """Grounds that observers' answers tick off."""
    answered: set[Ground] = set()
    led = False
    for op in history.of_f(*ASKED):
        begun = history.invocation(op)
        if op.type == "invoke" or begun is None or begun.index < recovered or not op.is_client:
            continue
        if op.type == "ok" or _not_leader(op):
            answered.add((ASKED[op.f], _node(begun)))
        led = led or (op.f == OBSERVE_CONTROLLER and op.type == "ok")
    # Or each said that another one leads.
    return answered if led else {ground for ground in answered if ground[0] != CONTROLLER}


def _begun(history: History, done: Op | None) -> int:
    begun = None if done is None else history.invocation(done)
    return NEVER if begun is None else begun.index


def _probed(history: History, healed: int, grounds: Collection[Ground]) -> set[Ground]:
    """Queues whose probes were read back; a wait for recovery goes on beside them."""
    keys = {
        op.value.get("key")
        for op in history.of_f(PROBE_READ)
        if op.type == "ok" and op.index > healed and isinstance(op.value, dict)
    }
    return {g for g in grounds if g[0] == PROBE and g[1] in keys}


def _not_leader(op: Op) -> bool:
    error = op.error
    return op.f == OBSERVE_CONTROLLER and isinstance(error, list | tuple) and NOT_LEADER in error


def _node(begun: Op) -> str:
    return str(begun.value.get("node")) if isinstance(begun.value, dict) else ""


def _gone(history: History, grounds: Collection[Ground], context: Context) -> set[Ground]:
    """Grounds that nodes which ended by themselves cannot answer for."""
    try:
        gone = {node for _, found in looks_of(history) for node in found.crashed}
    except HistoryError:  # the checker that judges it says so
        gone = set()
    dead = {s for s, nodes in context.broker_sets.items() if gone.issuperset(nodes)}
    return {g for g in grounds if gone.intersection(map(str, g[1:])) or dead.intersection(g[2:3])}


def _reigns(history: History, recovered: int) -> Iterator[Reign]:
    """When replicas had been made master at the end."""
    acts = [op for op in history.nemesis if op.f == ELECT_MASTER and op.index > recovered]
    for number in range(1, len(acts), 2):
        done = acts[number]
        until = acts[number + 1].index if number + 1 < len(acts) else NEVER
        value = done.value if isinstance(done.value, dict) else {}
        proven = {str(n) for n, p in value.items() if isinstance(p, dict) and p.get("holds")}
        yield Reign(done.index, until, frozenset(proven))


def _reigning(known: Looked, index: int) -> Iterator[str | None]:
    """Whose reign an operation belongs to: that of any master (None), and that of a replica that
    was made master at the end."""
    yield None
    reign = next((r for r in known.reigns if r.at < index < r.until), None)
    if reign is not None:
        yield from sorted(reign.nodes)


# What grows with the load.


def _ended_keys(op: Op) -> Iterator[int]:
    ends = (op.ext or {}).get("end")
    if isinstance(ends, dict):
        yield from (key for key in ends if isinstance(key, int))


def _log_ticks(op: Op, begun: Op) -> Iterator[tuple[str, Tick]]:
    if not isinstance(begun.value, dict):
        raise HistoryError(f"value of {begun.index} names no replica: {begun.value!r:.100}")
    name = _name(REPLICA_LOG_READ, begun.value.get("node"))
    position = int(begun.value.get("at", 0))
    if op.type == "ok":
        yield name, Tick(position, not (op.ext or {}).get("more"))
    elif op.type == "fail" and op.error == NO_LOG and not position:
        yield name, Tick(0, True)  # a replica that holds nothing
