"""Eras of a history: between two of them controllers forgot everything, so numbers begin again.

Operators clear the data of all controllers, as the upgrade to RocketMQ 5.1.1 has it. From then on
controllers number epochs and give out ids from the beginning: epoch 1 of before and epoch 1 of
later are two epochs, and id 2 may be another broker. Anyone who compares such numbers compares them
within an era, or with the era in front (`SetSighting.epoch`); this module alone decides where an
era ends.

An era ends as soon as the stores of most controllers are removed and none of these was started
since: what a majority knew the others need not know. Brokers go on with the epochs of before until
their epoch files are removed, which ends an era too. Indices are those of a history.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from maxq.checkers.evidence.faults import Fault, faults
from maxq.histories.fault_facts import REMOVE_EPOCHS, WIPE
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_CONTROLLER

T = TypeVar("T")
_NEVER = 1 << 62


class Wipe(NamedTuple):
    """An act that removed what was known, and by then of whom."""

    begun: int
    nodes: tuple[str, ...]


class Eras(NamedTuple):
    """The wipes of a history, in order; era 0 is before the first."""

    wipes: tuple[Wipe, ...] = ()

    def of(self, index: int) -> int:
        """The era of an operation that begins at an index; of -1, an unknown begin, the first."""
        return bisect_right([wipe.begun for wipe in self.wipes], index)

    def end(self, index: int) -> int:
        """Where the era of an operation ends; an index that never comes for the last one."""
        rest = self.wipes[self.of(index) :]
        return rest[0].begun if rest else _NEVER

    def apart(self, rows: Iterable[T], begun: Callable[[T], int]) -> list[list[T]]:
        """Rows by era, those of an era in their order; one list, maybe empty, for each era."""
        found: list[list[T]] = [[] for _ in range(len(self.wipes) + 1)]
        for era, of_era in groupby(rows, lambda row: self.of(begun(row))):
            found[era] += of_era
        return found


def eras_of(history: History) -> Eras:
    """The eras of a history."""
    return history.once(Eras, lambda: Eras(tuple(_wipes(history))))


def _wipes(history: History) -> Iterable[Wipe]:
    if not history.of_f(WIPE):
        return
    asked = {_node(op.value) for op in history.of_f(OBSERVE_CONTROLLER)} - {""}
    removed: set[str] = set()
    anew = False
    for act in faults(history) if asked else ():
        if act.f == WIPE and act.holds and asked & set(act.nodes):
            removed |= asked & set(act.nodes)
            if 2 * len(removed) > len(asked):
                anew = True
                yield Wipe(act.begun, tuple(sorted(removed)))
        elif act.f == REMOVE_EPOCHS and anew:
            yield Wipe(act.begun, act.nodes)
        elif act.may_start:
            removed -= _started(act, removed)


def _started(act: Fault, removed: set[str]) -> set[str]:
    return removed & set(act.nodes) if isinstance(act.result, dict) else removed


def _node(value: Any) -> str:
    return str(value.get("node", "")) if isinstance(value, dict) else ""
