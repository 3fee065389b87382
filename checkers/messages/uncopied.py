"""Messages of a pair that no slave had a copy of when their master went away.

A master says of each message where in its log it is; a slave says where its own log ends. While the
master is gone no slave's log grows, since slaves take no messages. So if every slave of the set
said so once in a time between two acts in which the master was gone, those ends are what there was
of copies: a message that the master had acknowledged before, at such an end or behind it, was on
the master's disk alone.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from maxq.checkers.core.api import Context
from maxq.checkers.core.promises import MODE, PAIR
from maxq.checkers.evidence.observations import Sighting, replica_sightings
from maxq.checkers.evidence.quiescence import Interval, lulls
from maxq.histories.history import History
from maxq.histories.observed import ReplicaView


class Absence(NamedTuple):
    """A time without a set's master, from index `at` on, and the end of its longest copy, a byte
    of the log."""

    at: int
    end: int


def absences(history: History, context: Context) -> Mapping[str, Sequence[Absence]]:
    """By broker set, the absences of its master in which the ends of all copies are known; of sets
    with controllers, whose masters change, none."""
    found: dict[str, list[Absence]] = {name: [] for name in context.broker_sets}
    if (context.settings or {}).get(MODE) != PAIR:
        return found
    seen = replica_sightings(history)
    for lull in lulls(history):
        for name, nodes in context.broker_sets.items():
            if nodes[0] in lull.state.gone:
                ends = [_end(seen, node, lull.time) for node in nodes[1:]]
                known = [end for end in ends if end is not None]
                if known and len(known) == len(ends):
                    found[name].append(Absence(lull.time.at, max(known)))
    return found


def _end(seen: Sequence[Sighting[ReplicaView]], node: str, time: Interval) -> int | None:
    """Where a slave says within a time that its log ends, at the most; None: it says nothing."""
    ends = (s.view.end for s in seen if s.view.node == node and time.holds(s.begun, s.at))
    return max(ends, default=None)


def uncopied(of_set: Sequence[Absence], at: int, byte: int) -> bool:
    """Whether a message that was acknowledged at an index, and begins at a byte of the log, was on
    no other disk in one of these absences; unknown places (-1) are on all."""
    return byte >= 0 and any(at < absence.at and byte >= absence.end for absence in of_set)
