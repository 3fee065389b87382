"""A master that is gone and must be replaced, by what clients see alone.

Where no controller reports a set's members (releases before 5.1.1, in histories that did not ask
in their terms), routes and sends show an outage all the same. A master is lost in a quiet period if

1. the name servers listed it under id 0 until it was silenced, and it is gone all the while;
2. every other replica of the set answered in the quiet period, and is connected to a majority of
   the controllers and to all name servers that are not gone;
3. the last messages that the set acknowledged, within `ACKNOWLEDGED_NS` before the fault, had to be
   acknowledged by every member of the SyncStateSet and by two replicas at least: so it had another
   member, and whichever that was is one of those that answered.

It is replaced if a name server lists another one. Claim: S13b.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from maxq.checkers.core.promises import ALL_ACK, copies, unfulfilled
from maxq.checkers.evidence.faults import Fault
from maxq.checkers.evidence.observations import Sighting
from maxq.checkers.evidence.quiescence import Lull
from maxq.histories.observed import ReplicaView, RouteView

ACKNOWLEDGED_NS = 2_000_000_000  # less than a member that lags is kept
MASTER = "0"  # as id in a route
OTHERS_MIN = 2  # copies that an acknowledged message has: the master's and another member's


class Attempt(NamedTuple):
    """A send that was completed."""

    at: int
    begun: int
    begun_ns: int
    ok: bool
    routed: bool
    set: str | None  # of an ok one


class Lost(NamedTuple):
    """A master that is gone. `at` is the last answer of a name server beyond the bound, and
    `listed` whom it calls master; empty: none."""

    node: str
    fault: Fault
    at: int
    namesrv: str
    listed: str
    replaced: bool

    def led(self, at: int, begun_ns: int) -> bool:
        """Whether what was acknowledged by an index, and asked for at a time, shows that the set
        had another member."""
        before, since_ns = self.before
        return at < before and begun_ns >= since_ns

    @property
    def before(self) -> tuple[int, int]:
        """By which index that must have been acknowledged, and since when (ns) asked for."""
        return self.fault.begun, self.fault.begun_ns - ACKNOWLEDGED_NS


def keeps_another(settings: dict[str, str]) -> bool:
    """Whether an acknowledged message shows that the SyncStateSet has more than one member."""
    return not unfulfilled((ALL_ACK,), settings) and copies(settings) >= OTHERS_MIN


def lost_master(
    lull: Lull,
    due_ns: int,
    name: str,
    nodes: Collection[str],
    acts: Sequence[Fault],
    replicas: Sequence[Sighting[ReplicaView]],
    routes: Sequence[Sighting[RouteView]],
) -> Lost | None:
    """The master of a set that a lull leaves without it, if routes show that.

    Args:
        lull: what is in force.
        due_ns: until when it may take.
        name: the set.
        nodes: its replicas.
        acts: all that the nemesis did.
        replicas: what brokers said.
        routes: what name servers said.
    """
    gone = lull.state.gone.intersection(nodes)
    struck = [a for a in acts if a.silences and _over(a, lull) and gone.intersection(a.nodes)]
    if len(gone) != 1 or not struck:
        return None
    [node], fault = gone, struck[-1]
    where = [s.view.address for s in replicas if s.view.node == node and s.at < fault.begun]
    before = [r for r in routes if r.at < fault.begun]
    if not where or not before or _master(before[-1], name) != where[-1]:
        return None
    late = [r for r in routes if r.begun_ns > due_ns and r.at < lull.time.until]
    if not late:
        return None
    masters = {_master(r, name) for r in late}
    last = late[-1]
    replaced = bool(masters - {"", where[-1]})
    return Lost(node, fault, last.at, last.view.node, _master(last, name), replaced)


def _over(act: Fault, lull: Lull) -> bool:
    return act.ended is not None and act.ended <= lull.time.at


def _master(r: Sighting[RouteView], name: str) -> str:
    return r.view.sets.get(name, {}).get(MASTER, "")
