"""What a search for a counterexample looks at, beside the operations that its anomaly names."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from maxq.checkers.core.api import Anomaly, Verdict
from maxq.histories.history import History
from maxq.histories.observed import REPLICA_LOG
from maxq.histories.op import Op

NEAR_MAX = 5_000  # operations of a kind
LOGS_MAX = 30  # logs of replicas


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


class LookedAt(NamedTuple):
    """What searches ask of a history that is not held: operations by index, and what is `near` an
    index of the sends and polls of a queue, as pairs of queue and index."""

    indices: frozenset[int]
    queues: frozenset[tuple[int, int]]


def looked_at(history: History, verdicts: Sequence[Verdict]) -> LookedAt:
    """What searches for the first anomaly of each name look at, beside what is small."""
    indices: set[int] = set()
    queues: set[tuple[int, int]] = set()
    for anomaly in firsts(verdicts):
        cited = anomaly.cited
        indices |= cited | {op.index for op in logs_near(history, anomaly)}
        key = anomaly.detail.get("key")
        if type(key) is int:
            queues.add((key, max(cited, default=0)))
    return LookedAt(frozenset(indices), frozenset(queues))


def near(
    history: History, last: int, keep: Callable[[Op], bool], most: int = NEAR_MAX
) -> Sequence[Op]:
    """Operations of a kind, so many at most: those that came last before an index, and a fifth of
    them behind it."""
    ops = [op for op in history if keep(op)]
    end = sum(op.index <= last for op in ops) + most // 5
    return ops[max(0, end - most) : end]


def logs_near(history: History, anomaly: Anomaly) -> Sequence[Op]:
    """The last logs of replicas of the set that an anomaly is about."""
    name = anomaly.detail.get("set")
    if name is None:
        return ()
    last = max(anomaly.cited, default=0)
    return near(history, last, lambda op: _is_log(op, name), LOGS_MAX)


def _is_log(op: Op, name: object) -> bool:
    return op.f == REPLICA_LOG and isinstance(op.value, dict) and op.value.get("set") == name
