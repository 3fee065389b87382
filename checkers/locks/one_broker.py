"""One broker's grants: what holds of a lock also where brokers ask nobody.

Without strict mode a broker grants what its own table has free, so two brokers of a set may grant
one lock to two clients. Of one process of one broker the rule of two grants
(`maxq.checkers.locks.lease_key`) still holds. A process ends where an act of the nemesis ends or
starts its node, and takes its table with it; a grant during such an act may be of either process,
and is left out. Brokers answer by address; where an address is not known to be of one node alone,
any broker's end counts. A release excuses only at the broker that answered it, or at any where that
is not known.

Source: docs/spec/acting-master.md 6.3 and 8.2 (L3).
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from maxq.checkers.core.api import Context
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.observations import NEVER, replica_sightings
from maxq.histories.history import History

KEEPS = frozenset(("held", "cut", "clock", "order", "none", "slow"))  # effects that end no process


class Ends(NamedTuple):
    """When (ns) acts that may end or start a node's process began, in order, and were over."""

    begun: tuple[int, ...]
    ended: tuple[int, ...]

    def process(self, inv_ns: int, ret_ns: int) -> int | None:
        """Which of a node's processes answered a request that was sent and answered at these times;
        None where it may have been one or the next."""
        before = bisect_left(self.begun, inv_ns)
        over = all(ended < inv_ns for ended in self.ended[:before])
        calm = before == len(self.begun) or self.begun[before] > ret_ns
        return before if over and calm else None


class Brokers(NamedTuple):
    """By address, how long its processes lasted; of any other address the `rest` says it."""

    known: Mapping[str, Ends]
    rest: Ends

    def process(self, address: str, inv_ns: int, ret_ns: int) -> int | None:
        """As `Ends.process`, of the node at an address."""
        return self.known.get(address, self.rest).process(inv_ns, ret_ns)


def brokers_of(history: History, context: Context) -> Brokers:
    """How long the processes of a history's brokers lasted."""
    nodes = {n for of_set in context.broker_sets.values() for n in of_set}
    acts = [act for act in faults(history) if act.kind != "question" and not _keeps(act)]
    of_node = {node: _ends(acts, {node}) for node in nodes}
    at: dict[str, set[str]] = {}
    for s in replica_sightings(history):
        at.setdefault(s.view.address, set()).add(s.view.node)
    known = {a: of_node[n] for a, found in at.items() if len(found) == 1
             for n in found if n in of_node}  # fmt: skip
    return Brokers(known, _ends(acts, nodes))


def _keeps(act: Fault) -> bool:
    """Whether an act surely ends and starts no process."""
    kinds = [act.facts] if act.facts is not None else act.ends
    kept = all(kind.effect in KEEPS for kind in kinds) and not act.may_start
    return act.known and bool(kinds) and kept


def _ends(acts: Sequence[Fault], nodes: set[str]) -> Ends:
    struck = [act for act in acts if not act.known or not nodes.isdisjoint(act.nodes)
              or not act.nodes]  # fmt: skip
    # What an unknown act does may go on without end.
    over = (NEVER if act.ended_ns is None or not act.known else act.ended_ns for act in struck)
    return Ends(tuple(act.begun_ns for act in struck), tuple(over))
