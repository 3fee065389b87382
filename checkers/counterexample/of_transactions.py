"""A part of a history of transactions that contradicts the consistency model by itself.

Whole transactions are left out by delta debugging, and of those that stay all that is on keys of
which the anomaly is not. What is left must show the same anomaly, and
no read of what nobody wrote that the whole history has not: its writer was only left out.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from maxq.checkers.counterexample.fewer import fewer
from maxq.checkers.transactions.judged import Anomaly, Judged
from maxq.histories.history import History
from maxq.histories.op import Op

UNWRITTEN = {"phantom"}
Units = Sequence[Sequence[Op]]  # each with its completion, where it has one


class Part(NamedTuple):
    """The transactions that are left, by the indices of their invocations; the keys that are, as
    Python writes them (none: all of them); the verdict on these."""

    begins: tuple[int, ...]
    keys: frozenset[str]
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
        unwritten = {a.name for a in judged.anomalies} & UNWRITTEN
        same = any(a.forbidden and a.name == wrong.name for a in judged.anomalies)
        return judged if judged.valid is False and same and unwritten <= known else None

    for keys, units in _candidates(history, wrong):
        if not over() and verdict(units) is not None:
            return _reduced(history, units, keys, verdict, over)
    return None


def _reduced(
    history: History,
    units: Units,
    keys: frozenset[str],
    verdict: Callable[[Units], Judged | None],
    over: Callable[[], bool],
) -> Part | None:
    def shows(at: Sequence[int]) -> bool:
        return verdict([units[n] for n in at]) is not None

    left = fewer(len(units), shows, lambda: not over())
    kept = [units[n] for n in left.kept]
    judged = verdict(kept)
    begins = tuple(sorted(unit[0].index for unit in kept))
    if judged is None:
        return None
    cut = {repr(part[1]) for at in begins for part in _parts(history[at])} - keys
    return Part(begins, keys if cut else frozenset(), judged)


def _candidates(history: History, wrong: Anomaly) -> Iterator[tuple[frozenset[str], Units]]:
    """Parts of the history, each more than the one before; those that the anomaly names come last,
    and are left out last."""
    named = [_unit(op, history.completion(op)) for op in map(history.__getitem__, wrong.witness)
             if op.is_client and op.type == "invoke"]  # fmt: skip
    yield frozenset(), named
    keys = [{repr(part[1]) for op in unit for part in _parts(op)} for unit in named]
    own = {unit[0].index for unit in named}
    # What is on some keys explains all that was read of them.
    for some in dict.fromkeys((_shared(keys), frozenset().union(*keys))):
        units = [
            on_keys(_unit(*call), some) for call in history.calls() if call[0].index not in own
        ]
        yield some, [*filter(None, units), *(on_keys(unit, some) for unit in named)]
    every = [_unit(*call) for call in history.calls() if call[0].index not in own]
    yield frozenset(), [*every, *named]


def _shared(keys: Sequence[set[str]]) -> frozenset[str]:
    """The keys that several have, if there are any."""
    several = [key for at, some in enumerate(keys) for key in some if any(
        key in other for other in keys[at + 1 :])]  # fmt: skip
    return frozenset(several) or frozenset().union(*keys)


def _unit(begun: Op, ended: Op | None) -> list[Op]:
    return [begun] if ended is None else [begun, ended]


def on_keys(unit: Sequence[Op], keys: frozenset[str]) -> Sequence[Op]:
    """What a transaction did on some keys (none: on all); empty if it did nothing there."""
    if not keys:
        return unit
    cut = [
        replace(op, value=[part for part in op.value if repr(part[1]) in keys])
        if _parts(op) else op for op in unit
    ]  # fmt: skip
    return cut if any(_parts(op) for op in cut) else []


def _parts(op: Op) -> list[Any]:
    """The reads and writes of a transaction."""
    parts = op.value if isinstance(op.value, list | tuple) else ()
    return [part for part in parts if isinstance(part, list | tuple) and len(part) == 3]
