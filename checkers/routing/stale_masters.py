"""A stale registration changes nothing: a name server that lists the master of an epoch lists no
broker of an older one in its place (N13).

A deposed master that does not know it goes on registering itself. What is judged is an answer of a
name server between two of a broker that leads in an epoch, of which controllers, asked later,
still say that it is the newest: anyone who else registers as master is of an older one. The name
server must have taken the broker as master of this epoch before, in the same undisturbed time, in
which its entry cannot have gone: it was listed so after it had been listed otherwise, or for longer
than the recovery bound after it was first seen leading. (Else it may be listed from an earlier
term, and who led in between displaces it by right.)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from maxq.checkers.evidence.observations import SetSighting, Sighting
from maxq.checkers.evidence.quiescence import Interval
from maxq.checkers.evidence.verdicts import Found
from maxq.checkers.routing.route_completeness import MASTER, Epochs, Living, Term, led
from maxq.histories.observed import ReplicaView


class Taken(NamedTuple):
    """An answer of a name server that had listed the broker as master of its epoch in an earlier
    one (an index)."""

    one: Living
    epoch: int
    listed: int

    @property
    def instead(self) -> str:
        """Who is listed as master."""
        view = self.one.answer.view
        return view.sets.get(self.one.broker.view.set, {}).get(MASTER, "")


def taken_masters(
    living: Sequence[Living], sets: Mapping[str, Sequence[SetSighting]], bound_ns: int
) -> Iterator[Taken]:
    """The answers in which the broker must not have been displaced.

    Args:
        living: answers of name servers between two of a broker.
        sets: what controllers said, by broker set.
        bound_ns: how long a master may take to register.
    """
    reported = {name: Epochs(said) for name, said in sets.items()}
    begun: dict[Term, Sighting[ReplicaView]] = {}  # when it was first seen leading
    otherwise: set[tuple[Term, Interval]] = set()
    listed: dict[tuple[Term, Interval], int] = {}
    for one in living:
        view, epoch = one.broker.view, led(one.broker.view)
        if epoch is None or epoch != led(one.after.view):
            continue
        term = (one.answer.view.node, view.node, epoch)
        key = (term, one.span)
        first = begun.setdefault(term, one.broker)
        known = reported.get(view.set)
        if key in listed and known is not None and known.newest(epoch, first.at, one.answer.at):
            yield Taken(one, epoch, listed[key])
        if not one.lists(MASTER):
            otherwise.add(key)
        elif key in otherwise or one.answer.begun_ns > first.at_ns + bound_ns:
            listed.setdefault(key, one.answer.at)


def displaced(answers: Sequence[Taken]) -> Iterator[Found]:
    """One finding for each term and undisturbed time."""
    reported: set[tuple[str, str, int, Interval]] = set()
    for taken in answers:
        one, broker, s = taken.one, taken.one.broker.view, taken.one.answer
        key = (s.view.node, broker.node, taken.epoch, one.span)
        if key in reported or taken.instead in ("", broker.address):
            continue
        reported.add(key)
        said = (
            f"Broker set {broker.set}: {s.view.node} listed {broker.node} as master (op "
            f"{taken.listed}). It leads in epoch {taken.epoch} (ops {one.broker.at} and "
            f"{one.after.at}), and controllers know no newer one. Nothing was done to either, and "
            f"now it lists {taken.instead} (op {s.at}), which can only lead in an older epoch."
        )
        detail = {
            "set": broker.set,
            "node": broker.node,
            "namesrv": s.view.node,
            "epoch": taken.epoch,
            "listed": taken.instead,
        }
        yield Found("N13", "stale-master-listed", (taken.listed, s.at), said, detail)
