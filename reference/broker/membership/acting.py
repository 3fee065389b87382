"""Who leads a group without controllers, and whether a slave acts for its master. Pure.

A slave hears of its group from name servers, in three ways that overtake one another: it asks
(901), it learns that the smallest id is another one (905), and the answer to its own registration
names the master. Each comes with the time from which it is: when the question was asked, or when
the announcement came. What is older than what is known changes nothing.

A slave acts while its own id is the smallest. A master never does, whatever it hears: it does not
step aside. When the smallest id that goes was the master's, the slave leaves it; when id 0 is
back, it follows that one, and acts no more. A slave that copies a log does not leave it for another
address of a master while the smallest id stays 0: two name servers may disagree.

A slave that starts is *isolated* until it copies the log of the master that is listed; without one
it waits for nobody, but in a group that has no member at all, which may be a name server that has
just started, for one eviction time. Isolated it is not shown and does not act.

A master on its way back announces itself (906) before it is listed. The slave copies its log, and
takes none of its tables, which are older; and for `HAND_OVER_NS` it takes no more commits, since
the master has what was committed before (`maxq.reference.broker.membership.pre_online`).
Nor does it take tables if it took commits since a name server listed its master, and none has for
`UNHEARD_NS`: clients may have heard that the master is gone when this broker could not.

Times are ns of the node's monotonic clock. Claims: A1 to A3, A11, P4,
P8. Source: RocketMQ
``BrokerController.updateMinBroker``, ``onMinBrokerChange``; docs/spec/acting-master.md 3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from maxq.reference.records import BrokerId, Record

MASTER_ID = 0
HAND_OVER_NS = 5_000_000_000
UNHEARD_NS = 2_000_000_000  # two polls, by default


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


class Offered(Record):
    """A master that is not listed announces itself, and has confirmed it."""

    at_ns: int
    master_address: str
    ha_address: str
    copying: bool = False


Event = Polled | Announced | Named | Offered


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


class Online(Record):
    """Register: this broker is isolated no more."""


Effect = Act | Leave | Follow | Online


@dataclass(slots=True)
class Acting:
    """The state of one broker. `enabled` is ``enableSlaveActingMaster``; `eviction_ns`, after what
    time name servers drop who is silent."""

    me: BrokerId
    enabled: bool
    eviction_ns: int = 0
    isolated: bool = False  # at the start; a master's isolation is not here
    acts: bool = False
    listed: bool = False  # the master that is followed is the one that name servers list
    min_id: int = MASTER_ID  # the smallest of the group, as far as is known
    master: str = ""  # who is followed
    members: dict[int, str] = field(default_factory=dict)  # as last polled
    _min_address: str = ""
    _as_of_ns: int = -1  # from when what is known is
    _empty_ns: int | None = None  # since when nobody is listed
    _took_ns: int = -1  # when a consumer's offset was taken last
    _offered_ns: int | None = None  # when a master announced itself that is not listed yet

    def step(self, event: Event) -> list[Effect]:
        """Take one event; return what to do, in this order."""
        if isinstance(event, Offered):
            return self._on_offered(event)
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

    def hands_over(self, now_ns: int) -> bool:
        """Whether a master that comes back has taken the tables, or is about to."""
        return self._offered_ns is not None and now_ns - self._offered_ns < HAND_OVER_NS

    def took_commit(self, at_ns: int) -> None:
        """A consumer has committed an offset to this broker."""
        self._took_ns = at_ns

    def is_ahead(self, now_ns: int) -> bool:
        """Whether this slave may have later offsets than the broker that it follows."""
        unheard = now_ns - self._as_of_ns > UNHEARD_NS
        return not self.listed or (unheard and self._took_ns > self._as_of_ns)

    def _on_polled(self, event: Polled) -> list[Effect]:
        known = _sound(event.members)
        if not known:
            # A name server that has just started knows nobody yet.
            return self._alone(event.asked_ns) if self.isolated else []
        self._empty_ns = None
        if self.isolated:
            return self._on_polled_isolated(event, known)
        self._as_of_ns, self.members = event.asked_ns, known
        smallest = min(known)
        # Who was the smallest and is no more has gone.
        gone = self._min_address if smallest > self.min_id else ""
        return self._changed(smallest, known[smallest], gone, "", copying=event.copying)

    def _alone(self, at_ns: int) -> list[Effect]:
        if self._empty_ns is None:
            self._empty_ns = at_ns
        return self._online() if at_ns - self._empty_ns >= self.eviction_ns else []

    def _on_polled_isolated(self, event: Polled, known: dict[int, str]) -> list[Effect]:
        """P8: where a master is listed, its log is copied first."""
        master = known.get(MASTER_ID)
        if master is None:
            return self._online()
        if (master, True) != (self.master, self.listed):
            return self._follow(master, "")
        return self._online() if event.copying else []

    def _online(self) -> list[Effect]:
        """What the group is comes with the next poll."""
        self.isolated = False
        return [Online()]

    def _on_offered(self, event: Offered) -> list[Effect]:
        other = event.master_address != self.master
        if not self.enabled or self.me == MASTER_ID or (event.copying and other):
            return []
        self._offered_ns = event.at_ns
        if not other:
            return []
        self.master, self.listed = event.master_address, False
        return [Follow(address=self.master, ha_address=event.ha_address)]

    def _on_announced(self, event: Announced) -> list[Effect]:
        if self.isolated:
            return []  # the next poll tells
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
        if self.isolated or (event.copying and event.master_address != self.master):
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
            self.listed = False
            return effects
        if before != MASTER_ID:
            self._offered_ns = None  # it is back
        other = address != self.master and (before != MASTER_ID or not copying)
        if other or (address == self.master and not self.listed):
            effects += self._follow(address, ha_address)
        return effects

    def _follow(self, address: str, ha_address: str) -> list[Effect]:
        # One that another name server lists is copied, and this slave's tables may be younger.
        self.master, self.listed = address, not self.enabled or self.min_id == MASTER_ID
        return [Follow(address=address, ha_address=ha_address)]


def _sound(members: Mapping[int, str]) -> dict[int, str]:
    """Those that can be members."""
    return {i: address for i, address in sorted(members.items()) if i >= MASTER_ID and address}
