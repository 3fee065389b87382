"""Which election, or which restart, took acknowledged messages away, and which acts led to it.

A message has a place in the commit log of the broker that acknowledged it (`byte` of its send). In
the epoch lists that replicas tell, a later epoch that begins at or before that place, or on a log
whose acknowledging epoch ends before it, was begun by a master that lacked the message: that
election is the fatal one, and it is blamed on what was done to the master before it, or to the
controllers, or on who ordered it. Where there is no such epoch the broker itself forgot the
message, and the first act is blamed that ended or emptied it.

What had kept the elected replica from copying the message is blamed as well: an act that parted the
two, or had stopped that replica, when the message was acknowledged; why the master did not wait for
it, where it had left the SyncStateSet before; what kept a replica that held the message from being
elected; what kept a deposed master, which acknowledged it, from hearing of its successor; and what
had made the acknowledging broker master, where another one led before and at first. Acts on
other nodes, and acts after the moment from which the loss was certain, are not.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from maxq.checkers.evidence.acts import TAKES, Act, paired
from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.observations import (
    NEVER,
    SetSighting,
    Sighting,
    registered,
    replica_sightings,
    set_sightings,
)
from maxq.histories.fault_facts import COPY_STORE, DOUBTFUL, ELECT_MASTER, GONE, TAMPERS, Effect
from maxq.histories.history import History
from maxq.histories.observed import ReplicaView

EMPTIES: tuple[Effect, ...] = ("down", "disk")  # what makes a broker forget by itself
DEAFENS: tuple[Effect, ...] = (*GONE, *DOUBTFUL)  # a replica, for all others
MISREAD = "misread"  # an argument: the disk gives a bit of the log as another


# The epochs of a log, each with the byte at which it ends; the last one has no end.
Lineage = tuple[tuple[int, int], ...]


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
    """Who lost a message and how; `acts` in order, the act that made it certain last; `risen` are
    those that had made that broker master before."""

    node: str
    epoch: int | None
    fatal: Fatal | None
    acts: tuple[Act, ...]
    risen: tuple[Act, ...] = ()

    @property
    def every(self) -> tuple[Act, ...]:
        """All acts without which there would not be this loss, in order."""
        return in_order(*self.risen, *self.acts)


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
        self._lineages: dict[str, set[Lineage]] = {}  # by broker set: of logs that replicas had
        self._fatals: dict[tuple[str, int], Fatal] = {}
        self._windows: dict[tuple[str, int], tuple[int, int]] = {}
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
        ended = tuple((e.epoch, e.end) for e in view.epochs[:-1])
        last = ((e.epoch, NEVER) for e in view.epochs[-1:])
        self._lineages.setdefault(view.set, set()).add((*ended, *last))

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
        risen = self.rise(lost.broker_set, node, epoch)
        if fatal is None:
            return Blame(node, epoch, None, self._forgot(lost, node), risen)
        cause = self.deposed(lost.broker_set, fatal.epoch) or self._cause(
            node, fatal.low, fatal.high
        )
        kept: list[Act] = []
        if lost.at < fatal.high:
            kept += self.kept_apart(node, fatal.elected, cause, (lost.at, lost.at))
            kept += self._passed_over(node, fatal, lost, epoch, cause)
            kept += self._had_left(node, fatal, lost, epoch)
        else:
            kept += self._unaware(node, fatal, lost, cause)
        return Blame(node, epoch, fatal, in_order(*kept, *cause), risen)

    # Which election.

    def _epoch_of(self, lost: Lost, node: str) -> int | None:
        """In which epoch a broker acknowledged a message, by its own word near that moment, or by
        the controllers'."""
        own = self._leading.get(node, ())
        around = bisect_left(own, lost.at, key=lambda s: s.at)
        for s in own[around : around + 1] if lost.byte is not None else ():
            byte = lost.byte or 0
            # A view of later may tell of an epoch of another's reign, copied meanwhile, or of one
            # that was begun since, on a log that was cut below the message.
            covering: list[int] = [
                e.epoch
                for e in s.view.epochs
                if e.start <= byte and self.window(lost.broker_set, e.epoch)[0] < lost.at
            ]
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
        lines = self._lineages.get(lost.broker_set, ())
        later += (e for line in lines for e in _without(line, epoch, lost.byte))
        if not later:
            return None
        first, name = min(later), lost.broker_set
        if (name, first) not in self._fatals:
            low, high = self.window(name, first)
            self._fatals[name, first] = Fatal(first, self._reigns.get((name, first), ""), low, high)
        return self._fatals[name, first]

    def window(self, name: str, epoch: int) -> tuple[int, int]:
        """Between which indices an epoch was begun."""
        key = name, epoch
        if key not in self._windows:
            self._windows[key] = self._window(name, epoch)
        return self._windows[key]

    def _window(self, name: str, epoch: int) -> tuple[int, int]:
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

    def led_before(self, name: str, epoch: int) -> str:
        """Who led before an epoch; empty where nobody is known."""
        earlier = [e for of, e in self._reigns if of == name and e < epoch]
        return self._reigns[name, max(earlier)] if earlier else ""

    # Which acts.

    def rise(self, name: str, node: str, epoch: int | None) -> tuple[Act, ...]:
        """What had made a broker the master of an epoch: it took another one's reign. Nothing had
        where it was the first of all masters: were nothing done, it would lead as well."""
        always = self.led(name, min(self.epochs(name), default=0)) == node
        first = epoch if node and not always else None
        while first is not None and self.led_before(name, first) == node:
            first = max(e for of, e in self._reigns if of == name and e < first)
        return () if first is None else self.deposed(name, first)

    def deposed(self, name: str, epoch: int) -> tuple[Act, ...]:
        """What had taken away the master before an epoch, if there was one."""
        before = self.led_before(name, epoch)
        return self._cause(before, *self._interregnum(name, epoch)) if before else ()

    def _interregnum(self, name: str, epoch: int) -> tuple[int, int]:
        """Between which indices the reign before an epoch came to its end: from when its master was
        last seen to lead, as controllers name a master until they elect another one."""
        low, high = self.window(name, epoch)
        before = self.led_before(name, epoch)
        led = [s.at for s in self._leading.get(before, ())
               if s.at < high and s.view.epochs[-1].epoch < epoch]  # fmt: skip
        return min([low, *led[-1:]]), high

    def led(self, name: str, epoch: int) -> str:
        """Who was master of an epoch; empty where nobody is known."""
        return self._reigns.get((name, epoch), "")

    def epochs(self, name: str) -> list[int]:
        """The epochs of a broker set that had a master, ascending."""
        return sorted(e for of, e in self._reigns if of == name)

    def wrote_nothing(self, name: str, epoch: int) -> bool:
        """Whether an epoch had a master, and no log has a byte of it."""
        starts = self._starts.get(name, {})
        following = starts.get(epoch + 1, 0)
        return bool(self.led(name, epoch)) and starts.get(epoch, following) >= following

    def after(self, name: str, at: int) -> int | None:
        """The first epoch that was begun after an index, if one was."""
        return next((e for e in self.epochs(name) if self.window(name, e)[1] > at), None)

    def _cause(self, before: str, low: int, high: int) -> tuple[Act, ...]:
        """What took a master away between two indices: the most direct of the acts on it, the last
        of these; else what was done to the controllers last."""
        found = [a for a in self._causes if _struck(a, before, low, high, self._controllers)]
        if not found:
            controllers = self._controllers
            found = [a for a in self._causes if any(a.touches(c, low, high) for c in controllers)]
        if not found:
            return ()
        return (min(found, key=lambda a: (_rank(a), -a.begun)),)

    def kept_apart(
        self, node: str, elected: str, cause: Sequence[Act], span: tuple[int, int]
    ) -> Sequence[Act]:
        """What else had kept the elected replica from copying a master's log between two
        indices."""
        if not elected or elected == node:
            return ()
        found = [a for a in self.acts if a not in cause and _deaf(a, elected, node, span)]
        return found[-1:]

    def _passed_over(
        self, node: str, fatal: Fatal, lost: Lost, epoch: int | None, cause: Sequence[Act]
    ) -> Iterator[Act]:
        """What had kept replicas from being elected that held a message: one act for each. The
        master itself is one of them, where what ended its reign was over by then."""
        over = bool(cause) and all(a.over(node) < fatal.low for a in cause)
        holders = self._holders(lost, epoch) - {node} | ({node} if over else set())
        for other in sorted(holders - {fatal.elected}):
            found = [a for a in self.acts if a.touches(other, fatal.low, fatal.high)
                     and _unelectable(a, other, self._controllers)]  # fmt: skip
            yield from found[-1:]

    def _had_left(self, node: str, fatal: Fatal, lost: Lost, epoch: int | None) -> Sequence[Act]:
        """Why the master did not wait for the elected replica, although others of the set have the
        message: it had left the SyncStateSet in that reign, and was back in it."""
        others = self._holders(lost, epoch) - {node, fatal.elected}
        if epoch is None or not others or not self._came_back(lost, fatal, epoch):
            return ()
        begun, elected = self.window(lost.broker_set, epoch)[0], fatal.elected
        found = [a for a in self.acts if a.begun >= begun and a.over(elected) < lost.at
                 and a.touches(elected, begun, lost.at)
                 and unavailable(a, elected, node)]  # fmt: skip
        return found[-1:]

    def _unaware(self, node: str, fatal: Fatal, lost: Lost, cause: Sequence[Act]) -> Sequence[Act]:
        """What had kept a deposed master from hearing of its successor until it acknowledged, where
        what deposed it was over by then: an act on controllers, or one that parted it from them."""
        if any(a.over(node) >= lost.at for a in cause):
            return ()
        controllers = self._controllers
        found = [a for a in self.acts if a not in cause and a.begun < lost.at
                 and any(a.touches(c, fatal.high, lost.at) for c in controllers)
                 and (a.effect in GONE or any(a.parts(node, c) for c in controllers))]  # fmt: skip
        return found[-1:]

    def _came_back(self, lost: Lost, fatal: Fatal, epoch: int) -> bool:
        """Whether the elected replica was seen outside of the SyncStateSet of a reign, and in it
        again before the message was acknowledged."""
        was_out = False
        for s in self._sets.get(lost.broker_set, ()):
            if s.view.master_epoch != epoch or s.at >= lost.at:
                continue
            known = registered(s.view, s.at)
            elected = [i for i, a in known.items() if self.nodes.get(a) == fatal.elected]
            inside = any(i in s.view.sync_state_set for i in elected)
            if was_out and inside:
                return True
            was_out = was_out or not inside
        return False

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
        """What made a broker forget what it had acknowledged; what it takes on a copy of another's
        store was never its own."""
        tampered = [a for a in self.acts if a.f in TAMPERS and node in a.nodes
                    and a.begun < lost.at]  # fmt: skip
        if tampered and tampered[-1].f == COPY_STORE:
            return with_stops(tampered[-1:], self.acts)
        after = (a for a in self.acts if a.effect in EMPTIES and node in a.nodes
                 and a.over(node) >= lost.at)  # fmt: skip
        return tuple(a for a in [next(after, None)] if a is not None)


def _without(line: Lineage, epoch: int, byte: int) -> Iterator[int]:
    """The epoch that was begun on a log without a byte of an epoch, by one log's lineage."""
    ends = dict(line)
    after = min((e for e in ends if e > epoch), default=None)
    if after is not None and ends.get(epoch, 0) <= byte:
        yield after


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


def _deaf(act: Act, elected: str, node: str, span: tuple[int, int]) -> bool:
    """Whether an act kept one replica from copying another between two indices."""
    if MISREAD in act.fault.args and act.touches(node, *span):
        return True  # what it copied was not what the other had
    if not unavailable(act, elected, node):
        return False
    return act.touches(elected, *span) or (act.effect == "cut" and act.touches(node, *span))


def unavailable(act: Act, replica: str, master: str) -> bool:
    """Whether an act keeps a replica from copying a master while it is at work."""
    return act.parts(replica, master) if act.effect == "cut" else act.effect in DEAFENS


def with_stops(blamed: Sequence[Act], every: Sequence[Act]) -> tuple[Act, ...]:
    """Acts, and of those on stores at rest what had stopped the node."""
    stops = [
        before[-1:]
        for act in blamed
        if act.f in TAMPERS
        for node in act.nodes
        if (before := [a for a in every if a.effect == "down" and a.f not in TAMPERS
                       and node in a.nodes and a.begun < act.begun <= a.over(node)])
    ]  # fmt: skip
    return in_order(*blamed, *(stop for each in stops for stop in each))


def in_order(*acts: Act) -> tuple[Act, ...]:
    """Acts by their begin, each once."""
    return tuple(act for _, act in sorted({act.begun: act for act in acts}.items()))
