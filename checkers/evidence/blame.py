"""The acts that an anomaly is blamed on, where it is not a loss (for those: `culprit`).

Each kind of damage has its own cause. Logs that part at the begin of an epoch were parted when the
master before was deposed; those that part within one, when its master forgot its end and went on,
with no other candidate. A message that consumers were shown and that was replaced by
another one went with the term in which it was shown; one that came back after that came back with
a restart. An epoch that begins elsewhere was read by a broker that had lost its list. What a broker
set had taken and nobody was ever given (a delayed message, a transaction) is blamed on the first of
the most direct acts on that set from then on. What is left is blamed on the most direct act on whom
its claim is about, between its first operation and its last.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from maxq.checkers.evidence.acts import TAKES, Act, acts_of
from maxq.checkers.evidence.culprit import EMPTIES, Chronicle, in_order, unavailable, with_stops
from maxq.checkers.evidence.observations import NEVER
from maxq.histories.fault_facts import TRIM
from maxq.histories.history import History
from maxq.histories.op import HistoryError, Op


def _controller(node: str, of: str) -> bool:
    return node.startswith("c") and "-" not in node


def _electing(node: str, of: str) -> bool:
    return _controller(node, of) or _replica(node, of)


def _replica(node: str, of: str) -> bool:
    return node.startswith(f"{of}-") if of else "-" in node


# Whom a claim is about, where that decides whom to blame: what controllers keep, whom they elect,
# what replicas hold.
ABOUT: dict[str, Callable[[str, str], bool]] = {
    **dict.fromkeys(("S1", "S2", "S3", "S3b", "S4"), _controller),
    **dict.fromkeys(("S5", "S7"), _electing),
    **dict.fromkeys(("S8", "S8b", "S8c", "S9", "S9b", "S10", "S10b", "S11b"), _replica),
    **dict.fromkeys(("S11", "S12", "S16"), _replica),
    **dict.fromkeys(("E1", "E3", "E4", "E6", "E7"), _replica),
    "S17": _electing,
    "B13": _replica,
}
# What was taken and is never given out. Whoever has it loses it at any time after.
NEVER_GIVEN = frozenset(("delayed-lost", "uncopied-lost", "half-lost", "commit-lost",
                         "half-unsettled"))  # fmt: skip
# Claims about logs that are compared when all is over: what parted them was before.
AT_REST = frozenset(("S8", "S8b", "S9"))


class Blamer:
    """Blames the anomalies of one history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._acts = [act for act in acts_of(history) if act.fault.ended is not None]
        self._taking = [act for act in self._acts if act.effect in TAKES]
        try:
            self._known: Chronicle | None = Chronicle(history)
        except HistoryError:  # the checker of these answers says so
            self._known = None

    def of(
        self, claim: str, ops: Sequence[int], detail: Mapping[str, Any], *, kind: str = ""
    ) -> tuple[int, ...]:
        """Where the acts began that an anomaly is blamed on.

        Args:
            claim: that it breaks.
            ops: indices of its operations, ascending.
            detail: the anomaly's.
            kind: the anomaly's name.
        """
        if claim not in ABOUT or not ops:
            return ()
        name = str(detail.get("set") or "") or next(filter(None, map(self._set_of, ops)), "")
        found: tuple[Act, ...] = ()
        if kind in NEVER_GIVEN:
            found = self._first_from(ops[0], name)
        elif claim == "B13":
            found = tuple(act for act in self._acts if act.begun == detail.get(TRIM))
        elif self._known is not None and name:
            if claim == "S8" and isinstance(detail.get("epoch"), int):
                found = self._parted(self._known, name, detail)
            elif claim == "S8c":
                found = self._misplaced(ops, detail)
            elif claim in ("S10", "S11"):
                found = self._given_way(self._known, name, ops)
        found = with_stops(found or self._most_direct(claim, ops, name, detail), self._acts)
        return tuple(act.begun for act in found)

    # Logs that part.

    def _parted(self, known: Chronicle, name: str, detail: Mapping[str, Any]) -> tuple[Act, ...]:
        epoch = int(detail["epoch"])
        if not detail.get("at-start", True):
            return self._went_on(known, name, epoch)
        cause, span = known.deposed(name, epoch), known.window(name, epoch)
        before, elected = known.led_before(name, epoch), known.led(name, epoch)
        # A reign that wrote nothing left no begin by which replicas could tell their logs apart.
        empty = known.deposed(name, epoch - 1) if known.wrote_nothing(name, epoch - 1) else ()
        return in_order(*empty, *known.kept_apart(before, elected, cause, span), *cause)

    def _went_on(self, known: Chronicle, name: str, epoch: int) -> tuple[Act, ...]:
        """What made a master forget the end of its log, and kept others from being elected then."""
        master, (_, low) = known.led(name, epoch), known.window(name, epoch)
        after = known.after(name, low)
        high = self._history.ops[-1].index if after is None else known.window(name, after)[1]
        forgot = [a for a in self._acts if a.effect in EMPTIES and master in a.nodes
                  and low <= a.begun <= high]  # fmt: skip
        return in_order(*forgot[-1:], *self._away(known, name, master, forgot[-1:]))

    def _away(
        self, known: Chronicle, name: str, master: str, forgot: Sequence[Act]
    ) -> Iterable[Act]:
        for act in forgot:
            others = {n for n in known.nodes.values() if n.startswith(f"{name}-")} - {master}
            for other in sorted(others):
                if other in act.nodes:
                    continue
                found = [a for a in self._acts if a.touches(other, act.begun, act.over(master))
                         and unavailable(a, other, master)]  # fmt: skip
                yield from found[-1:]

    # An epoch that begins elsewhere.

    def _misplaced(self, ops: Sequence[int], detail: Mapping[str, Any]) -> tuple[Act, ...]:
        """The last restart before it of the broker that has another begin."""
        node = str(next(iter(reversed(detail.get("nodes") or ())), ""))
        found = [a for a in self._acts if a.effect in EMPTIES and node in a.nodes
                 and a.begun < ops[-1]]  # fmt: skip
        return tuple(found[-1:])

    # Messages that gave way to others.

    def _given_way(self, known: Chronicle, name: str, ops: Sequence[int]) -> tuple[Act, ...]:
        """What ended the reign in which a message was shown that gave way to another one; of one
        that came back after that, also what restarted a replica."""
        said = [op for op in map(self._op, ops) if op is not None]
        polls = [op.index for op in said if op.f != "send"]
        sends = [op.index for op in said if op.f == "send"]
        if not polls:
            return ()
        if not sends or polls[0] < sends[0]:
            epoch = known.after(name, polls[0])
            late = epoch is None or known.window(name, epoch)[0] > max(ops)
            return () if epoch is None or late else known.deposed(name, epoch)
        later = known.after(name, sends[0])
        epochs = [e for e in known.epochs(name) if later is None or e < later]
        if not epochs:
            return ()
        back = [a for a in self._acts if a.effect in EMPTIES and a.begun < polls[0]
                and any(n.startswith(f"{name}-") for n in a.nodes)]  # fmt: skip
        return in_order(*known.deposed(name, epochs[-1]), *back[-1:])

    # What never came.

    def _first_from(self, low: int, name: str) -> tuple[Act, ...]:
        """The first of the most direct acts that were at work on a broker set from an index on."""
        found = self._at_work(_replica, name, low, NEVER)
        return (min(found, key=lambda act: (_rank(act), act.begun)),) if found else ()

    # Everything else.

    def _most_direct(
        self, claim: str, ops: Sequence[int], name: str, detail: Mapping[str, Any]
    ) -> tuple[Act, ...]:
        """Of the acts at work on whom a claim is about between its first operation and its last,
        the most direct, and the last of these. Where none was at work, and one node's state
        outlasts its cause, the last act before on it."""
        about = ABOUT[claim]
        low, high = 0 if claim in AT_REST else ops[0], ops[-1]
        spans = [(low, high)]
        epoch = detail.get("epoch")
        if claim in AT_REST and isinstance(epoch, int) and self._known is not None:
            after = self._known.after(name, self._known.window(name, epoch)[1])
            if after is not None:
                spans.insert(0, self._known.window(name, after))
        for first, last in spans:
            found = self._at_work(about, name, first, last)
            if found:
                return (min(found, key=lambda act: (_rank(act), -act.begun)),)
        node = str(detail.get("node") or "")
        before = [act for act in self._taking if act.begun < low and node in act.nodes]
        return tuple(before[-1:])

    def _at_work(
        self, about: Callable[[str, str], bool], name: str, low: int, high: int
    ) -> list[Act]:
        """The acts at work between two indices on whom something is about."""
        return [
            act for act in self._taking
            if any(act.touches(n, low, high) for n in act.nodes if about(n, name))
        ]  # fmt: skip

    def _op(self, index: int) -> Op | None:
        try:
            return self._history[index]
        except KeyError:
            return None

    def _set_of(self, index: int) -> str:
        """The broker set that answered an operation, where the client noted it."""
        op = self._op(index)
        return "" if op is None else str((op.ext or {}).get("node", ""))


def _rank(act: Act) -> int:
    """How direct an act is; 0 is the most direct."""
    return TAKES.index(act.effect) if act.effect else len(TAKES)
