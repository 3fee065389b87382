"""A part of a history of transactions that contradicts the consistency model by itself.

Whole transactions are left out by delta debugging. What is left must show the same anomaly, and
none that the whole history has not: a read whose writer was left out is no anomaly.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from maxq.checkers.counterexample.fewer import fewer
from maxq.checkers.transactions.judged import Anomaly, Judged
from maxq.histories.history import History
from maxq.histories.op import Op

WROTE, READ = frozenset(("append", "w")), "r"

Asked = tuple[str, Any, Any]  # a part of a transaction
Units = Sequence[Sequence[Op]]  # each with its completion, where it has one


class Part(NamedTuple):
    """The transactions that are left, by the indices of their invocations; the verdict on them."""

    begins: tuple[int, ...]
    judged: Judged


def smallest(
    history: History, found: Judged, judge: Callable[[History], Judged], over: Callable[[], bool]
) -> Part | None:
    """The smallest part that was found before the budget was used up; None: there was no time for
    any, or the history is not invalid.

    Args:
        history: all of it.
        found: what was found in it.
        judge: judges a part of it, by the same model.
        over: whether the budget is used up.
    """
    wrong = next((a for a in found.anomalies if a.forbidden), None)
    if found.valid is not False or wrong is None:
        return None
    known = {a.name for a in found.anomalies}

    def verdict(units: Units) -> Judged | None:
        ops = sorted((op for unit in units for op in unit), key=lambda op: op.index)
        judged = judge(History(ops))
        names = {a.name for a in judged.anomalies}
        same = any(a.forbidden and a.name == wrong.name for a in judged.anomalies)
        return judged if judged.valid is False and same and names <= known else None

    for units in _candidates(history, wrong):
        if not over() and verdict(units) is not None:
            return _reduced(units, verdict, over)
    return None


def _reduced(
    units: Units, verdict: Callable[[Units], Judged | None], over: Callable[[], bool]
) -> Part | None:
    def shows(at: Sequence[int]) -> bool:
        return verdict([units[n] for n in at]) is not None

    left = fewer(len(units), shows, lambda: not over())
    kept = [units[n] for n in left.kept]
    judged = verdict(kept)
    begins = tuple(sorted(unit[0].index for unit in kept))
    return None if judged is None else Part(begins, judged)


def _candidates(history: History, wrong: Anomaly) -> Iterator[Units]:
    """Parts of the history, each more than the one before."""
    named = [_unit(op, history.completion(op)) for op in map(history.__getitem__, wrong.witness)
             if op.is_client and op.type == "invoke"]  # fmt: skip
    yield named
    read = {message for unit in named for message in _read(unit)}
    yield _chosen(history, lambda part: (repr(part[1]), repr(part[2])) in read, named, WROTE)
    keys = {repr(key) for unit in named for _, key, _ in _parts(unit[0])}
    yield _chosen(history, lambda part: repr(part[1]) in keys, named)
    own = {unit[0].index for unit in named}
    yield [*(_unit(*call) for call in history.calls() if call[0].index not in own), *named]


def _chosen(
    history: History,
    chosen: Callable[[Asked], bool],
    named: Units,
    kinds: Collection[str] = (*WROTE, READ),
) -> Units:
    """The transactions with a part of those kinds that is chosen; those that are named come last,
    and are left out last."""
    own = {unit[0].index for unit in named}
    found = [
        _unit(begun, ended)
        for begun, ended in history.calls()
        if begun.index not in own
        and any(part[0] in kinds and chosen(part) for part in _parts(begun))
    ]
    return [*found, *named]


def _unit(begun: Op, ended: Op | None) -> list[Op]:
    return [begun] if ended is None else [begun, ended]


def _parts(op: Op) -> Iterator[Asked]:
    for part in op.value if isinstance(op.value, (list, tuple)) else ():
        if isinstance(part, (list, tuple)) and len(part) == 3:
            yield str(part[0]).lstrip(":"), part[1], part[2]


def _read(unit: Sequence[Op]) -> Iterator[tuple[str, str]]:
    """What a transaction read, by key and value."""
    for name, key, value in _parts(unit[-1]):
        if name == READ:
            for each in value if isinstance(value, (list, tuple)) else (value,):
                yield repr(key), repr(each)
