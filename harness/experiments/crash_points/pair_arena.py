"""Sets of brokers without controllers, one of which will crash (profile P-SYNC).

Who is master, the settings say. After the crash each set must be whole again: all slaves in sync,
level, and a message taken. One thing is allowed beside that, where brokers do not sync before they
answer and power was lost: a slave that has what its master has lost stays out, or the master is
not listed, and says so. Then nothing more is promised than that nobody was overwritten: the logs of
all others agree as far as they go, and each acknowledged message is in some log.
"""

from collections.abc import Mapping
from typing import ClassVar

from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import Profile
from maxq.harness.experiments.crash_points.arena import QUICK, Arena, HeldBack, NotWhole, bodies
from maxq.reference.broker.membership.pairs import PairMembership
from maxq.reference.broker.store.store import Store
from maxq.reference.records import PhyOffset

OUT = "maxq.outOfGroup"  # what a slave says that stays out (28)
HELD_BY = "maxq.isolatedBy"  # what a master says that is not online yet (28)
LONGER = "its log ends at"  # and of whom it may not go past
SETTLED_S = 3.0  # a slave that stays out does so for longer than a new connection takes


class PairArena(Arena):
    """A cluster without controllers, of one broker set; arguments as `Arena`."""

    profile: ClassVar[Profile] = "P-SYNC"
    quick: ClassVar[Mapping[Role, Mapping[str, str]]] = {
        Role.NAMESRV: {"scanNotActiveBrokerInterval": "200"},
        Role.BROKER: {
            "autoCreateTopicEnable": "true",
            "brokerHeartbeatInterval": "300",
            "brokerNotActiveTimeoutMillis": "1000",
            "registerNameServerPeriod": "1000",
            "syncBrokerMemberGroupPeriod": "300",
            "haSendHeartbeatInterval": "500",
            "haHousekeepingInterval": "2000",
            "slaveTimeout": QUICK[Role.BROKER]["slaveTimeout"],
        },
    }

    def memberships(self) -> dict[str, PairMembership]:
        """The live brokers' places in their group, once they have one."""
        found = {name: broker.membership for name, broker in self.brokers().items()}
        return {n: m for n, m in found.items() if isinstance(m, PairMembership)}

    def is_led(self) -> bool:
        return True  # by the settings

    def in_sync(self, count: int) -> bool:
        """Whether so many logs are in sync in each set, as its master sees it."""
        places = self.memberships()
        counts = [places[m].in_sync_count for s in self.sets if (m := self.master(s)) is not None]
        return counts == [count] * len(self.sets)

    def acting(self) -> list[str]:
        """The brokers that act for their master."""
        return [name for name, m in self.memberships().items() if m.acts]

    def id_fault(self) -> str:
        return ""  # the settings give the ids

    def out(self) -> dict[str, str]:
        """The brokers that stay out as another one's log is longer, or their own, and why."""
        told = {name: m.told() for name, m in self.memberships().items()}
        slaves = {name: said[OUT] for name, said in told.items() if said[OUT]}
        held = {name: said[HELD_BY] for name, said in told.items() if LONGER in said[HELD_BY]}
        return slaves | held

    def become_whole(self) -> None:
        self.until(lambda: self._sound() and (self.in_sync(self.set_size) or bool(self.out())),
                   "every replica is in sync, or says why not")  # fmt: skip
        if self.out():
            self.sleep(SETTLED_S)
        if self.out():
            self._held_back(self.out())
        super().become_whole()
        for broker_set in self.sets:
            self._check_agreement(self.stores(broker_set))

    def _held_back(self, out: Mapping[str, str]) -> None:
        """Raises HeldBack if that is right, NotWhole if not."""
        why = "; ".join(f"{name} stays out: {reason}" for name, reason in sorted(out.items()))
        lost_power = self.crash is not None and self.crash.loss != "kill"
        if self.sync_flush or not lost_power:
            raise NotWhole(why)
        there = set[bytes]()
        for stores in map(self.stores, self.sets):
            self._check_agreement({n: s for n, s in stores.items() if n not in out})
            there |= {body for store in stores.values() for body in bodies(store)}
        if missing := [body for body in self.acked if body not in there]:
            raise NotWhole(f"{len(missing)} acknowledged messages are in no log; {why}")
        if self.oracle.anomalies:
            raise NotWhole(f"the oracle saw {self.oracle.anomalies[0]}; {why}")
        raise HeldBack(why)

    def _check_agreement(self, stores: Mapping[str, Store]) -> None:
        """Raises NotWhole unless these logs have the same bytes wherever two of them go."""
        start = max((store.start for store in stores.values()), default=PhyOffset(0))
        whole = {name: _bytes(store, start) for name, store in stores.items()}
        longest = max(whole.values(), key=len, default=b"")
        for name, log in sorted(whole.items()):
            if not longest.startswith(log):
                raise NotWhole(f"the log of {name} differs from another of its set")


def _bytes(store: Store, start: PhyOffset) -> bytes:
    """A log from `start` to its end."""
    at, parts = start, list[bytes]()
    while at < store.end:
        parts.append(store.read_range(at, store.end - at))
        at = PhyOffset(at + len(parts[-1]))
    return b"".join(parts)
