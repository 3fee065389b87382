"""Who leads a group without controllers, and whether a slave acts for its master. Pure.

A slave hears of its group from name servers, in three ways that overtake one another: it asks
(901), it is told that the smallest id is another one (905), and the answer to its own registration
names the master. Each comes with the time from which it is: when the question was asked, or when
the announcement came. What is older than what is known changes nothing.

A slave acts while its own id is the smallest. A master never does, whatever it hears: it does not
step aside. When the smallest id that goes was the master's, the slave leaves it; when id 0 is
back, it follows that one, and acts no more. A slave that copies a log does not leave it for another
address of a master while the smallest id stays 0: two name servers may disagree.

Times are ns of the node's monotonic clock. Claims: A1 to A3, A11. Source: RocketMQ
``BrokerController.updateMinBroker``, ``onMinBrokerChange``; docs/spec/acting-master.md 3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from maxq.reference.records import BrokerId, Record

MASTER_ID = 0


# Events.


class Polled(Record):
    """A name server's answer to a question of `asked_ns`: who is in the group."""

    asked_ns: int
    members: dict[int, str]  # id -> ip:port; empty: the name server knows none
    copying: bool = False  # whether the log of a master is copied now


class Announced(Record):
    """A name server says that the smallest id is another one."""

    at_ns: int
    min_id: int
    min_address: str
    offline_address: str = ""  # of the broker that is gone
    ha_address: str = ""  # of the smallest, if it has just registered


class Named(Record):
    """The answer to a registration of `asked_ns` names the group's master, and where its HA port
    is."""

    asked_ns: int
    master_address: str
    ha_address: str
    copying: bool = False


Event = Polled | Announced | Named


# Effects.


class Act(Record):
    """Begin to act for the master, or end it."""

    on: bool


class Leave(Record):
    """The master that is followed is gone: ask and copy no more."""


class Follow(Record):
    """Follow this master; its HA port is asked of itself where `ha_address` is empty."""

    address: str
    ha_address: str


Effect = Act | Leave | Follow


@dataclass(slots=True)
class Acting:
    """The state of one broker. `enabled` is ``enableSlaveActingMaster``."""

    me: BrokerId
    enabled: bool
    acts: bool = False
    min_id: int = MASTER_ID  # the smallest of the group, as far as is known
    master: str = ""  # who is followed
    members: dict[int, str] = field(default_factory=dict)  # as last polled
    _min_address: str = ""
    _as_of_ns: int = -1  # from when what is known is

    def step(self, event: Event) -> list[Effect]:
        """Take one event; return what to do, in this order."""
        at_ns = event.at_ns if isinstance(event, Announced) else event.asked_ns
        if at_ns < self._as_of_ns:
            return []
        match event:
            case Polled():
                return self._on_polled(event)
            case Announced():
                return self._on_announced(event)
            case Named():
                return self._on_named(event)
            case _:
                assert_never(event)

    def _on_polled(self, event: Polled) -> list[Effect]:
        known = _sound(event.members)
        if not known:
            return []  # a name server that has just started knows nobody yet
        self._as_of_ns, self.members = event.asked_ns, known
        smallest = min(known)
        # Who was the smallest and is no more has gone.
        gone = self._min_address if smallest > self.min_id else ""
        return self._changed(smallest, known[smallest], gone, "", copying=event.copying)

    def _on_announced(self, event: Announced) -> list[Effect]:
        impostor = event.min_id == self.me and self.members.get(self.me) not in (
            None, event.min_address,
        )  # fmt: skip
        if event.min_id < MASTER_ID or not event.min_address or impostor:
            return []
        self._as_of_ns = event.at_ns
        offline = event.offline_address
        return self._changed(
            event.min_id, event.min_address, offline, event.ha_address, copying=False
        )

    def _on_named(self, event: Named) -> list[Effect]:
        if self.me == MASTER_ID or not event.master_address:
            return []
        if event.copying and event.master_address != self.master:
            return []
        return self._follow(event.master_address, event.ha_address)

    def _changed(
        self, smallest: int, address: str, gone: str, ha_address: str, *, copying: bool
    ) -> list[Effect]:
        """The smallest id is this one, at this address."""
        before, self.min_id, self._min_address = self.min_id, smallest, address
        if not self.enabled or self.me == MASTER_ID:
            return []
        effects: list[Effect] = []
        acts = smallest == self.me
        if acts != self.acts:
            self.acts = acts
            effects.append(Act(on=acts))
        if smallest != MASTER_ID:
            if self.master and gone == self.master:
                self.master = ""
                effects.append(Leave())
        elif address != self.master and (before != MASTER_ID or not copying):
            effects += self._follow(address, ha_address)
        return effects

    def _follow(self, address: str, ha_address: str) -> list[Effect]:
        self.master = address
        return [Follow(address=address, ha_address=ha_address)]


def _sound(members: Mapping[int, str]) -> dict[int, str]:
    """Those that can be members."""
    return {i: address for i, address in sorted(members.items()) if i >= MASTER_ID and address}
