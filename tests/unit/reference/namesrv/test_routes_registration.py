"""The name server's tables: the rules of docs/spec/remoting.md 4.2, one test each."""

import msgspec
import pytest

from maxq.reference.namesrv.routes import Master, Refused, Registration, Routes
from maxq.reference.wire.route import DataVersion, TopicConfig, TopicRouteData

SECOND_NS = 1_000_000_000


def topics(*names: str, perm: int = 6, queues: int = 4) -> dict[str, TopicConfig]:
    return {
        n: TopicConfig(topic_name=n, perm=perm, read_queue_nums=queues, write_queue_nums=queues)
        for n in names
    }


def registration(
    broker_id: int,
    address: str,
    *,
    name: str = "b",
    table: dict[str, TopicConfig] | None = None,
    epoch: int = 1,
    counter: int = 1,
    timeout_ms: int = 120_000,
    acting: bool | None = False,
) -> Registration:
    return Registration(
        cluster="c",
        broker_name=name,
        broker_id=broker_id,
        address=address,
        ha_address=address + "9",
        data_version=DataVersion(counter=counter, state_version=epoch, timestamp=5),
        topics=topics("T1", "T2") if table is None else table,
        timeout_ms=timeout_ms,
        acting_master=acting,
    )


def route_of(routes: Routes, topic: str) -> TopicRouteData:
    found = routes.route(topic)
    assert found is not None
    return found


def test_an_address_has_one_id_of_its_name() -> None:
    """A registration removes other ids with the same address, then sets id -> address.

    docs/spec/remoting.md 4.2
    """
    routes = Routes()
    routes.register(0, registration(2, "a:1"))
    routes.register(1, registration(0, "a:1"))
    assert routes.groups["b"].addresses == {0: "a:1"}


def test_a_stale_master_is_ignored_by_its_state_version() -> None:
    """S4: same id, another address, lower epoch: nothing changes, and the answer is empty.

    docs/spec/remoting.md 4.2
    """
    routes = Routes()
    routes.register(0, registration(0, "new:1", epoch=3))
    got = routes.register(1, registration(0, "old:1", epoch=2, counter=99))
    assert got == Master()
    assert routes.groups["b"].addresses == {0: "new:1"}
    assert list(routes.live) == ["new:1"]
    # An equal or higher epoch takes over.
    routes.register(2, registration(0, "next:1", epoch=3))
    assert routes.groups["b"].addresses == {0: "next:1"}


def test_a_first_registration_with_exactly_one_topic_is_refused() -> None:
    """It is taken for an update that came before the full table (docs/spec/remoting.md 4.2)."""
    routes = Routes()
    got = routes.register(0, registration(0, "a:1", table=topics("T1")))
    assert got == Refused(remark="register broker failed")
    assert routes.groups == {}
    assert routes.live == {}
    assert routes.register(0, registration(0, "a:1", table={})) == Master()
    assert routes.register(1, registration(0, "a:1", table=topics("T1"))) == Master()
    assert routes.topics() == ("T1",)


def test_topics_come_from_the_master() -> None:
    """Id 0, or for brokers that know acting masters the smallest id (docs/spec/remoting.md 4.2)."""
    routes = Routes()
    routes.register(0, registration(2, "s:1", table=topics("S1", "S2"), acting=None))
    assert routes.topics() == ()  # an old slave's table does not count
    routes.register(0, registration(0, "m:1", table=topics("M1", "M2"), acting=None))
    assert routes.topics() == ("M1", "M2")
    routes.register(0, registration(1, "s:1", table=topics("S1", "S2")))
    assert routes.topics() == ("M1", "M2")  # a new one's does not, beside a master


def test_the_smallest_id_acts_for_an_absent_master_read_only() -> None:
    """With the broker's flag set and no id 0, the write bit goes from its queues.

    docs/spec/remoting.md 4.2
    """
    routes = Routes()
    routes.register(0, registration(3, "s3:1", acting=True))
    routes.register(0, registration(2, "s2:1", acting=True))
    assert [q.perm for q in route_of(routes, "T1").queue_datas] == [4]
    assert route_of(routes, "T1").broker_datas[0].enable_acting_master is True
    # A larger id does not speak for the name.
    routes.register(1, registration(3, "s3:1", acting=True, table=topics("X", "Y"), counter=2))
    assert routes.topics() == ("T1", "T2")
    # The master's return brings the write bit back.
    routes.register(2, registration(0, "m:1", acting=True))
    assert [q.perm for q in route_of(routes, "T1").queue_datas] == [6]


def test_queues_change_with_the_data_version_and_are_never_removed() -> None:
    """An equal version adds unknown topics only; a new one replaces; none removes.

    docs/spec/remoting.md 4.2
    """
    routes = Routes()
    routes.register(0, registration(0, "m:1"))
    routes.register(1, registration(0, "m:1", table=topics("T1", "T3", queues=9)))
    assert [q.read_queue_nums for q in route_of(routes, "T1").queue_datas] == [4]
    assert [q.read_queue_nums for q in route_of(routes, "T3").queue_datas] == [9]
    routes.register(2, registration(0, "m:1", table=topics("T1", "T3", queues=8), counter=2))
    assert [q.read_queue_nums for q in route_of(routes, "T1").queue_datas] == [8]
    assert routes.topics() == ("T1", "T2", "T3")


def test_silence_expires_an_address_after_its_own_timeout() -> None:
    """Registrations, 322 and 904 count as signs of life (docs/spec/remoting.md 4.2)."""
    routes = Routes()
    routes.register(0, registration(0, "m:1", timeout_ms=1000))
    routes.register(0, registration(2, "s:1"))
    assert routes.expire(SECOND_NS) == []
    routes.heard(SECOND_NS, "m:1")
    routes.heard(SECOND_NS, "unknown:1")
    assert routes.expire(2 * SECOND_NS) == []
    assert routes.expire(2 * SECOND_NS + 1) == ["m:1"]
    assert routes.groups["b"].addresses == {2: "s:1"}
    assert routes.expire(121 * SECOND_NS) == ["s:1"]
    assert routes.groups == {}


def test_the_last_address_takes_name_and_queues_along() -> None:
    """Unregister removes the address; the last one its name, cluster entry and queues.

    docs/spec/remoting.md 4.2
    """
    routes = Routes()
    routes.register(0, registration(0, "m:1"))
    routes.register(0, registration(2, "s:1"))
    routes.register(0, registration(0, "x:1", name="other", table=topics("T1", "O")))
    routes.unregister("b", "m:1")
    assert [d.broker_addrs for d in route_of(routes, "T2").broker_datas] == [{2: "s:1"}]
    routes.unregister("b", "s:1")
    assert routes.route("T2") is None
    assert [d.broker_name for d in route_of(routes, "T1").broker_datas] == ["other"]
    assert routes.cluster_info().cluster_addr_table == {"c": ("other",)}
    routes.unregister("b", "s:1")  # once more: nothing


def test_a_lost_connection_forgets_its_address_under_every_name() -> None:
    """A TCP close unregisters at once (docs/spec/remoting.md 4.2)."""
    routes = Routes()
    routes.register(0, registration(0, "m:1"))
    routes.register(0, registration(0, "m:1", name="other"))
    routes.forget("m:1")
    assert (routes.groups, routes.live, routes.topics()) == ({}, {}, ())


def test_a_slave_learns_its_master_and_a_master_nothing() -> None:
    """haServerAddr and masterAddr only where a live id 0 is known (docs/spec/remoting.md 4.1)."""
    routes = Routes()
    assert routes.register(0, registration(2, "s:1")) == Master()
    assert routes.register(0, registration(0, "m:1")) == Master()
    assert routes.register(1, registration(2, "s:1")) == Master(address="m:1", ha_address="m:19")


def test_routes_are_strict_json() -> None:
    """Every key quoted, so that any reader takes it (docs/spec/remoting.md 3.3)."""
    routes = Routes()
    routes.register(0, registration(0, "m:1"))
    for answer in (route_of(routes, "T1"), routes.cluster_info(), routes.member_group("b")):
        assert answer is not None
        assert msgspec.json.decode(answer.to_json())
    assert b'"brokerAddrs":{"0":"m:1"}' in route_of(routes, "T1").to_json()
    assert routes.route("T9") is None
    assert routes.member_group("nobody") is None


@pytest.mark.parametrize(("address", "known"), [("m:1", True), ("x:1", False)])
def test_versions_are_known_by_address(address: str, known: bool) -> None:
    """322 answers what this address registered last (docs/spec/remoting.md 2.16)."""
    routes = Routes()
    routes.register(0, registration(0, "m:1", epoch=7))
    version = routes.version(address)
    assert (version is not None) is known
    assert routes.has("b", address) is known
