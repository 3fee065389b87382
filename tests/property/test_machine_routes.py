"""A name server's tables, driven by rules beside the list of everything that was registered.

The twin keeps no tables: it keeps who registered when, and answers from that. Brokers are those
from before acting masters, as all of ours are. Source: docs/spec/remoting.md 4.2.
"""

from dataclasses import dataclass

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from machines import SETTINGS, finds

from maxq.reference.namesrv import routes
from maxq.reference.namesrv.routes import Master, Refused, Registration, Routes
from maxq.reference.wire.route import MASTER_ID, DataVersion, TopicConfig

NS_PER_MS = 1_000_000
BROKERS = st.sampled_from(["a", "b"])
IDS = st.integers(0, 2)
ADDRESSES = st.sampled_from(["1:1", "1:2", "1:3", "1:4"])
TOPICS = st.frozensets(st.sampled_from(["T", "U", "V"]))


@dataclass
class Seen:
    """A registration that stands."""

    name: str
    id: int
    address: str


class RoutesMachine(RuleBasedStateMachine):
    """One name server."""

    @initialize()
    def begin(self) -> None:
        self.now = 0
        self.routes = Routes()
        self.stand: list[Seen] = []  # one a name and id, one a name and address
        self.heard: dict[str, tuple[int, int, DataVersion]] = {}  # address -> when, time-out, what
        self.queues: dict[tuple[str, str], int] = {}  # topic, broker name -> its queues

    def at(self, name: str, broker_id: int) -> Seen | None:
        return next((s for s in self.stand if (s.name, s.id) == (name, broker_id)), None)

    @rule(
        name=BROKERS, broker_id=IDS, address=ADDRESSES, topics=TOPICS, state=st.integers(0, 2),
        counter=st.integers(0, 3), queues=st.integers(1, 3), timeout_ms=st.integers(1, 50),
    )  # fmt: skip
    def registers(
        self, name: str, broker_id: int, address: str, topics: frozenset[str], state: int,
        counter: int, queues: int, timeout_ms: int,
    ) -> None:  # fmt: skip
        version = DataVersion(state_version=state, timestamp=0, counter=counter)
        configs = {
            t: TopicConfig(topic_name=t, read_queue_nums=queues, write_queue_nums=queues)
            for t in sorted(topics)
        }
        answer = self.routes.register(self.now, Registration(
            cluster="c", broker_name=name, broker_id=broker_id, address=address,
            ha_address=f"ha/{address}", data_version=version, topics=configs,
            timeout_ms=timeout_ms,
        ))  # fmt: skip
        before = self.at(name, broker_id)
        if before is not None and before.address != address:
            known = self.heard.get(before.address)
            if known is not None and known[2].state_version > state:
                self._stands_no_more(name, address)
                self.heard.pop(address, None)
                assert answer == Master()
                return
        if before is None and len(topics) == 1:
            assert isinstance(answer, Refused)
            return
        changed = before is None or address not in self.heard or self.heard[address][2] != version
        self._stands_no_more(name, address)
        self.stand = [s for s in self.stand if (s.name, s.id) != (name, broker_id)]
        self.stand.append(Seen(name, broker_id, address))
        self.heard[address] = (self.now, timeout_ms, version)
        for topic in topics if broker_id == MASTER_ID else ():
            if changed or (topic, name) not in self.queues:
                self.queues[topic, name] = queues
        master = self.at(name, MASTER_ID)
        known_master = broker_id and master is not None and master.address in self.heard
        told = master.address if known_master and master is not None else ""
        assert answer == Master(address=told, ha_address=f"ha/{told}" if told else "")

    def _stands_no_more(self, name: str, address: str) -> None:
        self.stand = [s for s in self.stand if (s.name, s.address) != (name, address)]

    @rule(name=BROKERS, address=ADDRESSES)
    def unregisters(self, name: str, address: str) -> None:
        self.routes.unregister(name, address)
        self.heard.pop(address, None)
        self._gone(name, address)

    def _gone(self, name: str, address: str) -> None:
        stood = any((s.name, s.address) == (name, address) for s in self.stand)
        self._stands_no_more(name, address)
        if stood and not any(s.name == name for s in self.stand):
            self.queues = {k: v for k, v in self.queues.items() if k[1] != name}

    @rule(by=st.integers(1, 40))
    def time_passes(self, by: int) -> None:
        self.now += by * NS_PER_MS

    @rule(address=ADDRESSES)
    def is_heard(self, address: str) -> None:
        self.routes.heard(self.now, address)
        if address in self.heard:
            self.heard[address] = (self.now, *self.heard[address][1:])

    @rule()
    def the_silent_expire(self) -> None:
        gone = self.routes.expire(self.now)
        silent = {a for a, (at, ms, _) in self.heard.items() if self.now > at + ms * NS_PER_MS}
        assert set(gone) == silent
        for address in gone:
            del self.heard[address]
            for name in {s.name for s in self.stand if s.address == address}:
                self._gone(name, address)

    @rule(address=ADDRESSES)
    def a_connection_ends(self, address: str) -> None:
        self.routes.forget(address)
        for name in {s.name for s in self.stand if s.address == address}:
            self._gone(name, address)
        self.heard.pop(address, None)

    @rule(topic=st.sampled_from(["T", "U", "V"]))
    def a_topic_is_deleted(self, topic: str) -> None:
        self.routes.delete_topic(topic, None)
        self.queues = {k: v for k, v in self.queues.items() if k[0] != topic}

    @invariant()
    def answers_are_the_twins(self) -> None:
        if not hasattr(self, "routes"):
            return
        names = sorted({s.name for s in self.stand})
        addresses = {n: {s.id: s.address for s in self.stand if s.name == n} for n in names}
        table = self.routes.cluster_info().broker_addr_table
        assert {n: dict(d.broker_addrs) for n, d in table.items()} == addresses
        for name in ("a", "b"):
            group = self.routes.member_group(name)
            assert (None if group is None else dict(group.broker_addrs)) == addresses.get(name)
        for topic in ("T", "U", "V"):
            route = self.routes.route(topic)
            got = {} if route is None else {
                q.broker_name: q.write_queue_nums for q in route.queue_datas
            }  # fmt: skip
            assert got == {n: c for (t, n), c in self.queues.items() if t == topic and n in names}
        for address in ("1:1", "1:2", "1:3", "1:4"):
            known = self.heard.get(address)
            assert self.routes.version(address) == (None if known is None else known[2])


RoutesMachine.TestCase.settings = SETTINGS
TestRoutesMachine = RoutesMachine.TestCase


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_is_newer", lambda self, address, registration: False),
        ("_changed", lambda self, registration: False),
        ("expire", lambda self, now_ns: []),
    ],
)
def test_the_machine_can_fail(monkeypatch: pytest.MonkeyPatch, name: str, wrong: object) -> None:
    monkeypatch.setattr(routes.Routes, name, wrong)
    finds(RoutesMachine)
