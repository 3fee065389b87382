"""Which of two processes that claim one broker id a master serves. Pure.

A connection of an id replaces an older one of that id: as a rule it is the same broker, whose old
connection is dead without the master knowing. A process that lives connects again soon after it was
replaced, from the address that it had. So a broker that comes back within two heartbeats, while
another address speaks for its id, shows that there are two; the older keeps the id, and the newer
is refused as long as the older is heard of. Two processes behind one address are not told apart:
the controller, which knows brokers by the addresses that they register, is there for those.

Times are ns of this node's monotonic clock.
"""

from dataclasses import dataclass, field

from maxq.reference.records import BrokerId


@dataclass(slots=True)
class _Replaced:
    """The host that last lost an id to another one, and when; `newer` where it came back: whoever
    is refused from then on."""

    host: str
    at_ns: int
    newer: str = ""


@dataclass(slots=True)
class ClaimedIds:
    """What a master remembers of ids that were claimed from two hosts.

    Args:
        return_ns: how soon a living process connects again, and how long it is silent at most.
    """

    return_ns: int
    _replaced: dict[BrokerId, _Replaced] = field(default_factory=dict)

    def fault(self, now_ns: int, slave: BrokerId, host: str, *, holder: str, heard_ns: int) -> str:
        """Why a connection must not take an id over; empty if it may.

        Args:
            slave: the id.
            host: of the connection that claims it.
            holder: the host of the one that has it.
            heard_ns: when that was last heard of.
        """
        if host == holder:
            return ""
        self._forget(now_ns)
        known = self._replaced.get(slave)
        if known is not None and host == known.newer and now_ns - heard_ns <= self.return_ns:
            known.at_ns = now_ns
            return f"another process has the id, at {holder}, and is alive"
        if known is not None and host == known.host:  # it is back: there are two
            known.newer, known.at_ns = holder, now_ns
            return ""
        self._replaced[slave] = _Replaced(holder, now_ns)
        return ""

    def _forget(self, now_ns: int) -> None:
        """Bounds what whoever reaches the port can make this remember."""
        old = [s for s, known in self._replaced.items() if now_ns - known.at_ns > self.return_ns]
        for slave in old:
            del self._replaced[slave]
