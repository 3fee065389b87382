"""Which election, or which restart, took acknowledged messages away, and which acts led to it.

A message has a place in the commit log of the broker that acknowledged it (`byte` of its send). In
the epoch lists that replicas tell, a later epoch that begins at or before that place was begun by
a master that lacked the message: that election is the fatal one, and it is blamed on what was done
to the master before it, or to the controllers, or on whoever ordered it. Where there is no such
epoch the broker itself forgot the message, and the first act is blamed that ended or emptied it.

What had kept the elected replica from copying the message is blamed as well: an act that parted the
two, or had stopped that replica, when the message was acknowledged; and what kept a replica that
held the message from being elected. Acts on other nodes, and acts
after the moment from which the loss was certain, are not.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from checkers.evidence.acts import TAKES, Act, paired
from checkers.evidence.faults import faults
from checkers.evidence.observations import (
    NEVER,
    SetSighting,
    Sighting,
    registered,
    replica_sightings,
    set_sightings,
)
from histories.fault_facts import DOUBTFUL, ELECT_MASTER, GONE, Effect
from histories.history import History
from histories.observed import ReplicaView

EMPTIES: tuple[Effect, ...] = ("down", "disk")  # what makes a broker forget by itself
DEAFENS: tuple[Effect, ...] = (*GONE, *DOUBTFUL)  # a replica, for all others


class Lost(NamedTuple):
    """A message that was acknowledged and is gone: the index of its send, who acknowledged it, and
    where in its log it was, where that is known."""

    at: int
    broker_set: str
    address: str
    byte: int | None


class Fatal(NamedTuple):
    """An election of a master without the message. `low` and `high` are indices: it was not yet
    seen in one, and had been by the other."""

    epoch: int
    elected: str
    low: int
    high: int


class Blame(NamedTuple):
    """Who lost a message and how; `acts` in order, the act that made it certain last."""

    node: str
    epoch: int | None
    fatal: Fatal | None
    acts: tuple[Act, ...]

    @property
    def deposed(self) -> bool:
        """Whether the acknowledging broker's reign ended in the fatal election."""
        return self.fatal is not None and self.epoch is not None


class Chronicle:
    """What observers told of each broker set, and what was done; of one history.

    Raises:
        HistoryError: an answer has another shape (W9).
    """

    def __init__(self, history: History) -> None:
        every = faults(history)
        self.acts = paired(every)
        orders = [Act(fault=f, healed=dict.fromkeys(f.nodes, f)) for f in every
                  if f.f == ELECT_MASTER]  # fmt: skip
        self._causes = sorted([*self.acts, *orders], key=lambda act: act.begun)
        self._sets: Mapping[str, Sequence[SetSighting]] = set_sightings(history)
        self._views: dict[str, list[Sighting[ReplicaView]]] = {}  # by broker set
        self.nodes: dict[str, str] = {}  # by address
        self._leading: dict[str, list[Sighting[ReplicaView]]] = {}  # by node, only while it leads
        self._starts: dict[str, dict[int, int]] = {}  # by broker set: where epochs begin
        self._fatals: dict[tuple[str, int], Fatal] = {}
        for s in replica_sightings(history):
            self._note_view(s)
        self._controllers = {s.node for seen in self._sets.values() for s in seen}
        self._reigns: dict[tuple[str, int], str] = {}
        for name, seen in self._sets.items():
            for told in seen:
                self._note_reign(name, told)

    def _note_view(self, s: Sighting[ReplicaView]) -> None:
        view = s.view
        self._views.setdefault(view.set, []).append(s)
        self.nodes.setdefault(view.address, view.node)
        if view.leads and view.epochs:
            self._leading.setdefault(view.node, []).append(s)
        starts = self._starts.setdefault(view.set, {})
        for e in view.epochs:
            starts[e.epoch] = min(e.start, starts.get(e.epoch, e.start))

    def _note_reign(self, name: str, told: SetSighting) -> None:
        view = told.view
        if view.master is not None:
            address = view.master_address or registered(view, told.at).get(view.master, "")
            self._reigns.setdefault((name, view.master_epoch), self.nodes.get(address, ""))

    def blame(self, lost: Lost) -> Blame:
        """Whom to blame for one message."""
        node = self.nodes.get(lost.address, "")
        epoch = self._epoch_of(lost, node)
        fatal = self._fatal(lost, epoch)
        if fatal is None:
            return Blame(node, epoch, None, self._forgot(lost, node))
        before = self._led_before(lost.broker_set, fatal, node)
        cause = self._cause(before, fatal, lost.broker_set)
        kept: list[Act] = []
        if lost.at < fatal.high:
            kept += self._kept_apart(node, fatal, lost.at, cause)
            kept += self._passed_over(node, fatal, lost, epoch)
        acts = {act.begun: act for act in (*kept, *cause)}
        return Blame(node, epoch, fatal, tuple(act for _, act in sorted(acts.items())))

    # Which election.

    def _epoch_of(self, lost: Lost, node: str) -> int | None:
        """In which epoch a broker acknowledged a message, by its own word near that moment, or by
        the controllers'."""
        own = self._leading.get(node, ())
        around = bisect_left(own, lost.at, key=lambda s: s.at)
        for s in own[around : around + 1] if lost.byte is not None else ():
            byte = lost.byte or 0
            covering: list[int] = [e.epoch for e in s.view.epochs if e.start <= byte]
            # A view of later may tell of an epoch of another's reign, copied meanwhile.
            if covering and self._reigns.get((lost.broker_set, covering[-1]), node) == node:
                return covering[-1]
        for s in own[:around][-1:]:
            last: int = s.view.epochs[-1].epoch
            return last
        told = [s for s in self._sets.get(lost.broker_set, ()) if s.at < lost.at]
        reigns = [s.view.master_epoch for s in told if s.view.master_address == lost.address]
        return reigns[-1] if reigns else None

    def _fatal(self, lost: Lost, epoch: int | None) -> Fatal | None:
        if lost.byte is None or epoch is None:
            return None
        starts = self._starts.get(lost.broker_set, {})
        later = [e for e, start in starts.items() if e > epoch and start <= lost.byte]
        if not later:
            return None
        first, name = min(later), lost.broker_set
        if (name, first) not in self._fatals:
            low, high = self._window(name, first)
            self._fatals[name, first] = Fatal(first, self._reigns.get((name, first), ""), low, high)
        return self._fatals[name, first]

    def _window(self, name: str, epoch: int) -> tuple[int, int]:
        """Between which indices an epoch was begun."""
        seen = self._sets.get(name, ())
        high = min((s.at for s in seen if s.view.master_epoch >= epoch), default=NEVER)
        views = (
            s.at
            for s in self._views.get(name, ())
            if s.view.epochs and s.view.epochs[-1].epoch >= epoch
        )
        high = min([high, *views])
        before = (s.begun for s in seen if s.view.master_epoch < epoch and s.at < high)
        return max(before, default=-1), high

    def _led_before(self, name: str, fatal: Fatal, node: str) -> str:
        """Who led before the fatal election; the acknowledging broker where nobody knows."""
        earlier = [e for (of, e), who in self._reigns.items() if of == name and e < fatal.epoch]
        return self._reigns[name, max(earlier)] if earlier else node

    # Which acts.

    def _cause(self, before: str, fatal: Fatal, name: str) -> tuple[Act, ...]:
        """What took the former master away: the most direct of the acts on it, the last of these;
        else what was done to the controllers last."""
        low, high = fatal.low, fatal.high
        found = [a for a in self._causes if _struck(a, before, low, high, self._controllers)]
        if not found:
            controllers = self._controllers
            found = [a for a in self._causes if any(a.touches(c, low, high) for c in controllers)]
        if not found:
            return ()
        return (min(found, key=lambda a: (_rank(a), -a.begun)),)

    def _kept_apart(self, node: str, fatal: Fatal, at: int, cause: Sequence[Act]) -> Sequence[Act]:
        """What had kept the elected replica from copying a message when it was acknowledged."""
        elected = fatal.elected
        if not elected or elected == node:
            return ()
        found = [a for a in self.acts if a not in cause and _deaf(a, elected, node, at)]
        return found[-1:]

    def _passed_over(self, node: str, fatal: Fatal, lost: Lost, epoch: int | None) -> Iterator[Act]:
        """What had kept replicas from being elected that held a message: one act for each."""
        for other in sorted(self._holders(lost, epoch) - {node, fatal.elected}):
            found = [a for a in self.acts if a.touches(other, fatal.low, fatal.high)
                     and _unelectable(a, other, self._controllers)]  # fmt: skip
            yield from found[-1:]

    def _holders(self, lost: Lost, epoch: int | None) -> set[str]:
        """Replicas that were seen with more of the epoch than the message begins at."""
        if lost.byte is None or epoch is None:
            return set()
        return {
            s.view.node
            for s in self._views.get(lost.broker_set, ())
            if s.view.epochs and s.view.epochs[-1].epoch == epoch and s.view.end > lost.byte
        }

    def _forgot(self, lost: Lost, node: str) -> tuple[Act, ...]:
        """What made a broker forget what it had acknowledged."""
        after = (a for a in self.acts if a.effect in EMPTIES and node in a.nodes
                 and a.over(node) >= lost.at)  # fmt: skip
        return tuple(a for a in [next(after, None)] if a is not None)


def _struck(act: Act, node: str, low: int, high: int, controllers: Collection[str]) -> bool:
    """Whether an act may have cost a master its reign: it was done to it, or parted it from a
    controller, or ordered the election, between two indices."""
    if act.effect == "order":
        return act.begun <= high and any(act.over(n) >= low for n in act.nodes)
    if act.effect == "cut" and not any(act.parts(node, c) for c in controllers):
        return False
    return act.effect in TAKES and act.touches(node, low, high)


def _unelectable(act: Act, node: str, controllers: Collection[str]) -> bool:
    """Whether an act kept controllers from electing a broker that it was done to."""
    if act.effect == "cut":
        return any(act.parts(node, controller) for controller in controllers)
    return act.effect in DEAFENS


def _rank(act: Act) -> int:
    return TAKES.index(act.effect) if act.effect in TAKES else len(TAKES)


def _deaf(act: Act, elected: str, node: str, at: int) -> bool:
    """Whether an act kept one replica from copying another at an index."""
    if act.effect == "cut":
        return act.parts(elected, node) and act.touches_any((elected, node), at)
    return act.effect in DEAFENS and act.touches(elected, at, at)
