"""What a search for a counterexample looks at, beside the operations that its anomaly names."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from maxq.checkers.core.api import Anomaly, Verdict
from maxq.checkers.core.keyed import BULK
from maxq.checkers.evidence.log import MESSAGES
from maxq.histories.grounds import RUN
from maxq.histories.history import History
from maxq.histories.observed import ASSIGNMENTS, REPLICA_LOG
from maxq.histories.op import Op

NEAR_MAX = 5_000  # operations of a kind
LOGS_MAX = 30  # logs of replicas
AROUND = 3  # polls on each side of one


def broken_by(verdicts: Iterable[Verdict]) -> set[str]:
    """The promises that are broken."""
    return {c.claim for v in verdicts for c in v.claim_verdicts if c.status == "broken"}


def firsts(verdicts: Iterable[Verdict]) -> list[Anomaly]:
    """The first anomaly of each name, of promises that are broken; losses come first."""
    verdicts = list(verdicts)
    broken = broken_by(verdicts)
    found: dict[tuple[str, str], Anomaly] = {}
    for anomaly in (a for v in verdicts for a in v.anomalies):
        if anomaly.claim in broken:
            found.setdefault((anomaly.claim, anomaly.name), anomaly)
    return sorted(found.values(), key=lambda a: not a.name.startswith("lost"))


class Log:
    """Where the messages of a history are: who sent each, and which polls show some of a queue.

    Only what is held counts: of a `PartHistory` what was read for it.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._polls: dict[tuple[int | str, int], list[int]] = defaultdict(list)
        self._senders: dict[Message, list[int]] = defaultdict(list)
        self._showing: dict[Message, list[int]] = defaultdict(list)
        for op in history:
            if op.f in MESSAGES and op.is_client:
                self._take(op)

    def _take(self, op: Op) -> None:
        closed = op.type != "invoke" or self._history.pair_index(op) < 0
        for key, value, polled in elements_of(op) if closed else ():
            if not polled:
                self._senders[key, value].append(op.index)
                continue
            if len(self._showing[key, value]) < AROUND:
                self._showing[key, value].append(op.index)
            if self._polls[op.process, key][-1:] != [op.index]:
                self._polls[op.process, key].append(op.index)

    def polls(self, anomaly: Anomaly) -> frozenset[int]:
        """The polls of the anomaly's queue just before and just behind those that it names, by the
        same clients; and the first that show its messages."""
        key = anomaly.detail.get("key")
        if type(key) is not int:
            return frozenset()
        found = {at for message in messages_named(anomaly) for at in self._showing.get(message, ())}
        for at in anomaly.cited:
            if (op := held(self._history, at)) is not None:
                found.update(around(self._polls.get((op.process, key), ()), at))
        return frozenset(found)

    def senders(self, anomaly: Anomaly, polls: Iterable[int]) -> frozenset[int]:
        """Who sent what the anomaly's operations, and these polls, show of its queue."""
        shown = messages_shown(self._history, anomaly, polls)
        return frozenset(at for message in shown for at in self._senders.get(message, ()))


Message = tuple[int, int]  # queue and value; of a run's own messages both are numbers


def elements_of(op: Op) -> Iterator[tuple[int, int, bool]]:
    """The messages of an operation: queue, value, and whether it was polled."""
    for micro in op.value if isinstance(op.value, list) else ():
        match micro:
            case ["send", int(key), [_, int(value)]] | ["send", int(key), int(value)]:
                yield key, value, False
            case ["poll", dict() as seen]:
                for key, shown in seen.items():
                    for pair in shown if isinstance(shown, list) else ():
                        if isinstance(pair, list) and type(pair[-1]) is int:
                            yield key, pair[-1], True


def messages_named(anomaly: Anomaly) -> set[Message]:
    """The messages that an anomaly is about."""
    key, detail = anomaly.detail.get("key"), anomaly.detail
    named = [detail.get(name) for name in ("value", "instead", "max-read", "end")]
    named += [*(detail.get("values") or ()), *(detail.get("skipped") or ())]
    return {(key, value) for value in named if type(key) is int and type(value) is int}


def messages_shown(history: History, anomaly: Anomaly, polls: Iterable[int]) -> set[Message]:
    """Those, and the messages of the same queue that its operations and these polls show."""
    key, shown = anomaly.detail.get("key"), messages_named(anomaly)
    for at in {*anomaly.cited, *polls}:
        if (op := held(history, at)) is not None and op.f in MESSAGES:
            shown |= {(key, value) for own, value, _ in elements_of(op) if own == key}
    return shown


def held(history: History, index: int) -> Op | None:
    """The operation with that index, if it is here."""
    try:
        return history[index]
    except KeyError:
        return None


def around(indices: Sequence[int], at: int) -> Iterable[int]:
    """The nearest of some ascending indices on both sides of one."""
    below, above = bisect_left(indices, at), bisect_right(indices, at)
    return [*indices[max(0, below - AROUND) : below], *indices[above : above + AROUND]]


def near(
    history: History, last: int, keep: Callable[[Op], bool], most: int = NEAR_MAX
) -> Sequence[Op]:
    """Operations of a kind, so many at most: those that came last before an index, and a fifth of
    them behind it."""
    ops = [op for op in history if keep(op)]
    end = sum(op.index <= last for op in ops) + most // 5
    return ops[max(0, end - most) : end]


def small_near(history: History, last: int) -> Sequence[Op]:
    """Of what concerns no load, and of assignments, those before and behind an index."""
    few = {*BULK} - ASSIGNMENTS
    return near(history, last, lambda op: op.f not in few and op.process != RUN)


def logs_near(history: History, anomaly: Anomaly) -> Sequence[Op]:
    """The last logs of replicas of the set that an anomaly is about."""
    name = anomaly.detail.get("set")
    if name is None:
        return ()
    last = max(anomaly.cited, default=0)
    return near(history, last, lambda op: _is_log(op, name), LOGS_MAX)


def _is_log(op: Op, name: object) -> bool:
    return op.f == REPLICA_LOG and isinstance(op.value, dict) and op.value.get("set") == name
