"""Orders of operators about the permission to write, which name servers follow anyone who is
master.

A set that was opened (327) may be written to also without a master, until one registers again; one
that was closed (205) may not, although its master is there. What name servers show of such a set is
no fault of theirs. Orders are acts of the nemesis; the proof of each names the set, and the name
servers that it was given to do not matter here.
"""

from collections.abc import Mapping, Sequence

from maxq.checkers.evidence.faults import Fault, faults, may_start
from maxq.checkers.evidence.observations import NEVER
from maxq.histories.fault_facts import ADD_WRITE, WIPE_WRITE
from maxq.histories.history import History

ANY = ""  # as a set: it is not known which


class Orders:
    """The orders of a history, by broker set. What is asked about is an answer, or a time: from its
    begin (`begun`, an index) to its end (`at`)."""

    def __init__(self, history: History) -> None:
        self._acts = faults(history)
        self._opened = _by_set(self._acts, ADD_WRITE)
        self._closed = _by_set(self._acts, WIPE_WRITE)

    def opened(self, name: str, at: int, since: int) -> bool:
        """Whether a set may have been opened before an index, and later than another."""
        return any(act.begun < at and _over(act) > since for act in _of(self._opened, name))

    def opened_without(self, name: str, master: str, begun: int, at: int) -> bool:
        """The same, later than the last start of its master that was over before `begun`."""
        if not self._opened:
            return False
        starts = [a for a in self._acts if may_start(a, master) and _over(a) < begun]
        return self.opened(name, at, max((a.begun for a in starts), default=-1))

    def closed(self, name: str, begun: int, at: int) -> bool:
        """Whether a set may be closed by an order when a name server answers."""
        given = [act.begun for act in _of(self._opened, name) if _over(act) < begun]
        return any(
            act.begun < at and not any(then > act.begun for then in given)
            for act in _of(self._closed, name)
        )


def _by_set(acts: Sequence[Fault], f: str) -> dict[str, list[Fault]]:
    found: dict[str, list[Fault]] = {}
    for act in acts:
        if act.f == f:
            for name in _sets(act):
                found.setdefault(name, []).append(act)
    return found


def _sets(act: Fault) -> set[str]:
    proofs = act.result.values() if isinstance(act.result, dict) else ()
    named = {str(p["set"]) for p in proofs if isinstance(p, dict) and "set" in p}
    return named if act.ended is not None else {ANY}


def _of(orders: Mapping[str, Sequence[Fault]], name: str) -> list[Fault]:
    return [*orders.get(name, ()), *orders.get(ANY, ())]


def _over(act: Fault) -> int:
    return NEVER if act.ended is None else act.ended
