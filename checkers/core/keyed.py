"""A check that judges each key by itself, so that any engine can do the dealing out.

`Keyed` is what such a check says: which rows an event gives to which keys, what one key's rows
prove, and what all keys together mean. `check_keyed` runs one over a history in memory;
``spark_checkers`` runs the same functions where rows are dealt out by a shuffle. So there is
one place where something is decided, and two where rows are carried to it.

Rules for those who write one:

1. `prepare` may look only at what is small in any history: the nemesis, observers, and all kinds
   that are not in `BULK`. Of a `replica-log` it may look at nothing but the set and the keys.
2. `rows` sees one event, with its invocation where it is a completion; of that invocation only
   index, time and value are sure.
3. A key's rows come in order of index. What `prepare` and `judge` return can be pickled.
4. `conclude` sees the small part, and the operations that `evidence` asked for.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from maxq.checkers.core.api import Checker, Context, Verdict, unreadable
from maxq.histories.history import History
from maxq.histories.observed import (
    ACQUIRE,
    APPLY_ID,
    ASSIGNMENTS,
    COMMIT_OFFSET,
    COMMIT_ORDERED,
    FETCH_OFFSET,
    READ_ORDERED,
    RELEASE,
    RENEW,
    REPLICA_LOG,
    SEND_ORDERED,
)
from maxq.histories.op import HistoryError, Op

if TYPE_CHECKING:
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

# What grows with the load. Everything else grows with the length of a run alone.
BULK = ASSIGNMENTS.union((
    "send", "poll", "txn", ACQUIRE, RENEW, RELEASE, COMMIT_OFFSET, FETCH_OFFSET, APPLY_ID,
    REPLICA_LOG, SEND_ORDERED, READ_ORDERED, COMMIT_ORDERED,
))  # fmt: skip

Key = int | str | tuple[str, int | str]
KnownT = TypeVar("KnownT")
RowT = TypeVar("RowT")
ResultT = TypeVar("ResultT")


class Event(NamedTuple):
    """An operation of a client, with its invocation if it is a completion that has one."""

    op: Op
    begun: Op | None
    open: bool  # an invocation that never completed


class Dealt(Protocol[KnownT, RowT, ResultT]):
    """What is found out key by key; see the module's text.

    Everything may raise `HistoryError` for a value of a wrong shape.
    """

    @property
    def name(self) -> str: ...

    @property
    def reads(self) -> Collection[str]:
        """The kinds of operations that give rows."""
        ...

    @property
    def blind(self) -> Collection[str]:
        """The kinds of operations at whose values it never looks, but at those of their
        invocations."""
        ...

    def prepare(self, history: History, context: Context) -> KnownT:
        """What every key must know."""
        ...

    def sift(self, rows: "Rows", chosen: "Ints", known: KnownT) -> "Ints":
        """Of some rows of a piece, of the kinds that it reads, those that may say something, as far
        as that can be known without a look at each."""
        ...

    def rows(self, event: Event, known: KnownT) -> Iterable[tuple[Key, RowT]]:
        """What an event says about which keys."""
        ...

    def judge(self, key: Any, rows: Sequence[RowT], known: KnownT, more: Any = None) -> ResultT:
        """Judge one key; `more` is what other keys had to say, if `again` asked for it."""
        ...

    def again(self, results: Mapping[Any, ResultT]) -> Mapping[Any, Any]:
        """The keys to be judged again, each with what it needs of the others."""
        ...

    def evidence(self, results: Mapping[Any, ResultT]) -> Iterable[int]:
        """Indices of the operations that are looked up when all keys are put together."""
        ...


@runtime_checkable
class Keyed(Checker, Dealt[KnownT, RowT, ResultT], Protocol[KnownT, RowT, ResultT]):
    """A check that is made so."""

    def conclude(
        self, history: History, context: Context, known: KnownT, results: Mapping[Any, ResultT]
    ) -> Verdict:
        """The verdict; results are in order of keys."""
        ...


class Alone:
    """For checks whose keys are independent of each other, and that look nothing up."""

    blind: frozenset[str] = frozenset()

    def sift(self, rows: "Rows", chosen: "Ints", known: Any) -> "Ints":
        """All of them."""
        return chosen

    def again(self, results: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """No key."""
        return {}

    def evidence(self, results: Mapping[Any, Any]) -> Iterable[int]:
        """No operation."""
        return ()


class KeyedChecker(Alone):
    """A `Keyed` check as a checker of histories in memory."""

    def check(self: Keyed[Any, Any, Any], history: History, context: Context) -> Verdict:
        return check_keyed(self, history, context)


def events_of(history: History, kinds: Collection[str]) -> Iterator[Event]:
    """The events of clients of some kinds, in order."""
    completion = history.completion
    for op in history.of_f(*kinds):
        if op.is_client:
            other = completion(op)
            yield Event(op, None, other is None) if op.type == "invoke" else Event(op, other, False)


def results_of(
    check: Dealt[KnownT, RowT, ResultT], history: History, known: KnownT
) -> dict[Any, ResultT]:
    """Judge every key of a history in memory."""
    dealt: dict[Any, list[RowT]] = defaultdict(list)
    for event in events_of(history, check.reads):
        for key, row in check.rows(event, known):
            dealt[key].append(row)
    results = {key: check.judge(key, rows, known) for key, rows in sorted(dealt.items())}
    for key, more in check.again(results).items():
        results[key] = check.judge(key, dealt[key], known, more)
    return results


def check_keyed(check: Keyed[KnownT, RowT, ResultT], history: History, context: Context) -> Verdict:
    """Judge a history in memory."""
    try:
        known = check.prepare(history, context)
        return check.conclude(history, context, known, results_of(check, history, known))
    except HistoryError as error:
        return unreadable(check, error)
