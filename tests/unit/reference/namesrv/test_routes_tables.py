"""The name server's tables beyond registration: permissions, acting masters, notices, presentation.

Sources: docs/spec/acting-master.md 1.3 and 1.6 to 1.11, docs/spec/remoting.md 2.16.
"""

import msgspec
import pytest

from maxq.reference.namesrv.route_view import in_zone, with_acting_masters
from maxq.reference.namesrv.routes import Master, MinIdChanged, Registration, Routes
from maxq.reference.wire.route import DataVersion, QueueData, TopicConfig, TopicRouteData


def entry(broker_id: int, address: str, **more: object) -> Registration:
    topics = {n: TopicConfig(topic_name=n, perm=7 if n == "T2" else 6) for n in ("T1", "T2")}
    base = Registration(
        cluster="c", broker_name="b", broker_id=broker_id, address=address,
        ha_address=f"ha-{address}", data_version=DataVersion(state_version=1), topics=topics,
        acting_master=False,
    )  # fmt: skip
    return msgspec.structs.replace(base, **more)


def filled(*registrations: Registration) -> Routes:
    routes = Routes()
    for registration in registrations:
        assert isinstance(routes.register(0, registration), Master)
    return routes


def perms(routes: Routes, name: str = "b") -> dict[str, int]:
    found = {t: routes.queues.of(t) for t in routes.topics()}
    return {t: q.perm for t, queues in found.items() for q in queues if q.broker_name == name}


def route_of(routes: Routes, topic: str = "T1") -> TopicRouteData:
    found = routes.route(topic)
    assert found is not None
    return found


def test_the_loss_of_a_master_makes_its_queues_read_only() -> None:
    """N2: no id 0 left and acting masters known: every topic loses WRITE, and it alone."""
    for acting, left in ((True, {"T1": 4, "T2": 5}), (False, {"T1": 6, "T2": 7})):
        both = [entry(i, f"m{i}:1", acting_master=acting) for i in (0, 2)]
        routes = filled(*both)
        routes.unregister("b", "m2:1")
        routes.register(0, both[1])
        assert perms(routes) == {"T1": 6, "T2": 7}  # the master is still there
        routes.unregister("b", "m0:1")
        assert perms(routes) == left


def test_write_permissions_by_command() -> None:
    """205 clears WRITE, 327 sets exactly 6; both count all topics; an equal data version
    leaves the edit alone, another one overwrites it.

    docs/spec/acting-master.md 1.9
    """
    routes = filled(entry(0, "m:1"), entry(0, "x:1", broker_name="other"))
    assert routes.queues.wipe_write("b") == 2
    assert (perms(routes), perms(routes, "other")) == ({"T1": 4, "T2": 5}, {"T1": 6, "T2": 7})
    routes.register(0, entry(0, "m:1"))
    assert perms(routes) == {"T1": 4, "T2": 5}
    assert routes.queues.add_write("b") == 2
    assert perms(routes) == {"T1": 6, "T2": 6}
    routes.register(0, entry(0, "m:1", data_version=DataVersion(state_version=2)))
    assert perms(routes) == {"T1": 6, "T2": 7}
    assert routes.queues.wipe_write("nobody") == 0


def test_a_stale_master_leaves_its_group() -> None:
    """What claims id 0 with an old epoch is no slave either.

    docs/spec/acting-master.md 1.3 (steps 4 and 5)
    """
    new = DataVersion(state_version=3)
    routes = filled(entry(0, "new:1", data_version=new), entry(2, "old:1"))
    assert routes.register(0, entry(0, "old:1")) == Master()
    assert routes.groups["b"].addresses == {0: "new:1"}
    assert list(routes.live) == ["new:1"]


def test_a_full_table_may_remove_topics_and_an_update_never() -> None:
    """deleteTopicWithBrokerRegistration; of one topic, it is an update.

    docs/spec/acting-master.md 1.3 (step 8)
    """
    routes = filled(entry(0, "m:1"), entry(0, "x:1", broker_name="other"))
    one = {"T3": TopicConfig(topic_name="T3")}
    routes.register(0, entry(0, "m:1", topics=one, only_these_topics=True))
    assert perms(routes) == {"T1": 6, "T2": 7, "T3": 6}
    two = {n: TopicConfig(topic_name=n) for n in ("T3", "T4")}
    routes.register(0, entry(0, "m:1", topics=two, only_these_topics=True))
    assert perms(routes) == {"T3": 6, "T4": 6}
    assert perms(routes, "other") == {"T1": 6, "T2": 7}
    routes.register(0, entry(2, "s:1", topics={}, only_these_topics=True))  # no say
    assert perms(routes) == {"T3": 6, "T4": 6}


def test_topics_by_command() -> None:
    """217 takes what is given unless a broker name is unknown; 216 everywhere or in a
    cluster.

    docs/spec/acting-master.md 1.10
    """
    routes = filled(entry(0, "m:1"), entry(0, "x:1", broker_name="o", cluster="other"))
    queues = QueueData(broker_name="b", perm=2, read_queue_nums=1, write_queue_nums=1)
    routes.register_topic("N", (queues, msgspec.structs.replace(queues, broker_name="nobody")))
    assert routes.route("N") is None
    routes.register_topic("N", (queues,))
    assert route_of(routes, "N").queue_datas == (queues,)
    assert (routes.topics_in("c"), routes.topics_in("other")) == (("N", "T1", "T2"), ("T1", "T2"))
    routes.delete_topic("T1", "other")
    assert [q.broker_name for q in route_of(routes).queue_datas] == ["b"]
    routes.delete_topic("T1", "nowhere")
    routes.delete_topic("T1", None)
    assert routes.topics() == ("N", "T2")
    assert routes.system_names() == (("b", "c", "o", "other"), "m:1")
    assert Routes().system_names() == ((), None)


def test_groups_hear_of_their_smallest_id() -> None:
    """On register all but the new smallest; on eviction all, if acting masters are known;
    never for the first of a group, and never for one that is larger.

    docs/spec/acting-master.md 1.11
    """
    on = {"acting_master": True}
    routes = filled(entry(3, "s3:1", **on), entry(2, "s2:1", **on), entry(4, "s4:1", **on))
    new = {"broker_id": 2, "address": "s2:1", "ha_address": "ha-s2:1"}
    assert routes.take_notices() == [MinIdChanged(to=("s3:1",), **new)]  # type: ignore[arg-type]
    routes.register(0, entry(0, "s4:1", **on))  # a change of role in place
    assert [n.to for n in routes.take_notices()] == [("s2:1", "s3:1")]
    routes.unregister("b", "s3:1")
    assert routes.take_notices() == []
    routes.forget("s4:1")
    gone = {"broker_id": 2, "address": "s2:1", "offline_address": "s4:1"}
    assert routes.take_notices() == [MinIdChanged(to=("s2:1",), **gone)]  # type: ignore[arg-type]
    routes.unregister("b", "s2:1")
    assert routes.take_notices() == []
    plain = filled(entry(2, "s2:1"), entry(0, "m:1"))
    assert [n.broker_id for n in plain.take_notices()] == [0]
    plain.unregister("b", "m:1")
    assert plain.take_notices() == []


@pytest.mark.parametrize(
    ("topic", "acting", "perm", "addresses", "shown"),
    [
        ("T", True, 4, {2: "a", 3: "b"}, {0: "a", 3: "b"}),
        ("T", True, 6, {2: "a"}, {2: "a"}),  # may still be written to: left alone
        ("T", False, 4, {2: "a"}, {2: "a"}),
        ("T", True, 4, {0: "m", 2: "a"}, {0: "m", 2: "a"}),
        ("T", True, 4, {}, {}),
        ("rmq_sys_SYNC_BROKER_MEMBER_b", True, 4, {2: "a"}, {2: "a"}),
    ],
)
def test_an_acting_master_is_shown_as_id_0(
    topic: str, acting: bool, perm: int, addresses: dict[int, str], shown: dict[int, str]
) -> None:
    """N3: the smallest id moves to 0; the other ids stay; the tables do not change.

    docs/spec/acting-master.md 1.7
    """
    routes = filled(*[entry(i, a, acting_master=acting) for i, a in addresses.items()])
    if not addresses:
        routes = filled(entry(0, "m", acting_master=acting))
        routes.groups["b"].addresses.clear()
    routes.queues.put(topic, [QueueData(broker_name="b", perm=perm)])
    route = route_of(routes, topic)
    before = dict(routes.groups["b"].addresses)
    assert with_acting_masters(topic, route).broker_datas[0].broker_addrs == shown
    assert routes.groups["b"].addresses == before


def test_a_zone_sees_its_own_groups_and_masterless_ones() -> None:
    """The zone filter; without a name or the mode everything is shown.

    docs/spec/acting-master.md 1.7
    """
    routes = filled(
        entry(0, "m:1", broker_name="mine", zone="Z1"),
        entry(0, "o:1", broker_name="theirs", zone="z2"),
        entry(2, "s:1", broker_name="headless", zone="z2"),
    )
    route = route_of(routes)
    asked = {"__ZONE_MODE": "true", "__ZONE_NAME": "z1"}
    got = in_zone(route, asked)
    assert [d.broker_name for d in got.broker_datas] == ["headless", "mine"]
    assert [q.broker_name for q in got.queue_datas] == ["headless", "mine"]
    for ext in (None, {}, {"__ZONE_NAME": "z1"}, {"__ZONE_MODE": "true", "__ZONE_NAME": " "}):
        assert in_zone(route, ext) is route
