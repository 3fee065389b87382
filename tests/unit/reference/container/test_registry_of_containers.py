"""Who comes into a container, who is found in it, and which of its masters is asked."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.reference.config import BrokerConfig
from maxq.reference.container.registry import (
    Identity,
    Kind,
    Member,
    NotAdmitted,
    Registry,
    member_of,
)

OWN = 10811


def member(
    name: str = "a", number: int = 0, port: int = 10911, *, store: str = "", cluster: str = "c"
) -> Member:
    """A master, or the slave of that number."""
    return member_of(
        BrokerConfig(
            broker_cluster_name=cluster,
            broker_name=name,
            broker_id=number,
            broker_role="SLAVE" if number > 0 else "SYNC_MASTER",
            listen_port=port,
            store_path_root_dir=store or f"/data/{cluster}/{name}/{number}",
        )
    )


def controlled(name: str = "a", port: int = 10911) -> Member:
    return member_of(
        BrokerConfig(
            broker_cluster_name="c",
            broker_name=name,
            broker_id=7,
            enable_controller_mode=True,
            listen_port=port,
            store_path_root_dir=f"/data/{name}/controlled",
        )
    )


def holding(*members: Member) -> Registry:
    registry = Registry(OWN)
    for one in members:
        registry.admit(one)
    return registry


@pytest.mark.parametrize(
    ("candidate", "kind", "identity"),
    [
        (member(), Kind.MASTER, "c:a:0"),
        (member(number=2), Kind.SLAVE, "c:a:2"),
        (controlled(), Kind.CONTROLLED, "c:a:-1"),
    ],
)
def test_a_file_says_who_a_broker_is(candidate: Member, kind: Kind, identity: str) -> None:
    assert (candidate.kind, str(candidate.identity)) == (kind, identity)
    assert candidate.identity.canonical == identity.replace(":", "_")


PRESENT = member("b", 1, 11000, store="/data/b")


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (member("b", 1, 12000), "c_b_1 has already been added to current broker container"),
        (member(port=10811), "The port 10811 already in use by the container"),
        (member(port=10810), "The port 10811 already in use by the container"),
        (member(port=10813), "The port 10811 already in use by the container"),
        *[(member(port=11000 + apart), "already in use by c_b_1, which listens at 11000")
          for apart in (-3, -2, -1, 0, 1, 2, 3)],
        (member(store="/data/b"), "the store /data/b is that of c_b_1"),
        (member(store="//data/b/"), "the store /data/b is that of c_b_1"),
    ],
)  # fmt: skip
def test_who_clashes_does_not_come_in(candidate: Member, why: str) -> None:
    """B1, B6, B11: an identity, a port and a store belong to one broker."""
    registry = holding(PRESENT)
    with pytest.raises(NotAdmitted) as caught:
        registry.admit(candidate)
    assert why in str(caught.value)
    assert registry.members == (PRESENT,)


@pytest.mark.parametrize(
    "candidate",
    [member("b", 0), member("a", 1), member("b", 1, cluster="d"), member(port=11004),
     member(port=10996), controlled("b")],
)  # fmt: skip
def test_others_come_in(candidate: Member) -> None:
    """Of one set a master and a slave may be together; 4 ports apart is enough."""
    assert holding(PRESENT, candidate).members == (PRESENT, candidate)


def test_a_set_under_controllers_comes_in_once() -> None:
    """Its replicas have no ids in their files, so the second one is the first one's double."""
    with pytest.raises(NotAdmitted, match="c_a_-1 has already been added"):
        holding(controlled(), controlled(port=12000))


def test_controllers_ids_are_ids_too() -> None:
    """mqadmin writes no negative id."""
    registry = holding(controlled(), member("b", 1, 11000))
    ruled, slave = (m.identity for m in registry.members)

    def found(name: str, number: int, now: int) -> Identity | None:
        wanted = Identity(cluster="c", broker_name=name, broker_id=number)
        return registry.find(wanted, lambda identity: now)

    assert found("a", -1, -1) == found("a", 3, 3) == ruled
    assert found("b", 1, 3) == slave
    assert found("a", 2, 3) is found("a", 0, -1) is found("b", 3, 3) is found("x", 3, 3) is None


def test_the_master_that_came_first_and_can_is_asked() -> None:
    """Not a slave, nor one that cannot take the message."""
    slave, first, second, ruled = (
        member("s", 1, 11000), member("m", 0, 11010), member("n", 0, 11020), controlled("r", 11030)
    )  # fmt: skip
    registry = holding(slave, first, second, ruled)
    assert registry.peek_master(lambda m: True) == first
    assert registry.peek_master(lambda m: m != first) == second
    assert registry.peek_master(lambda m: m in (slave, ruled)) == ruled
    assert registry.peek_master(lambda m: m == slave) is None


def test_a_name_is_looked_up_among_masters_first() -> None:
    slave, master, other = member("a", 1, 11000), member("a", 0, 11010), member("b", 0, 11020)
    assert holding(slave, master, other).of_name("a") == (master, slave)


ARRIVALS = st.builds(
    member,
    st.sampled_from("ab"),
    st.integers(0, 2),
    st.integers(10_800, 10_830),
    store=st.sampled_from(["/1", "/2", "/3", "/4"]),
    cluster=st.sampled_from("cd"),
)


@settings(deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.booleans(), ARRIVALS), max_size=30))
def test_nothing_is_ever_two_brokers(steps: list[tuple[bool, Member]]) -> None:
    """Whatever comes and goes: identities, ports and stores stay apart; who may come in is who
    clashes with nobody that is there; a removal frees all that was held."""
    registry, twin = Registry(OWN), list[Member]()
    for comes, one in steps:
        if comes:
            clashes = one.ports & {OWN, OWN - 2} or any(
                one.identity == other.identity
                or one.ports & other.ports
                or one.stores & other.stores
                for other in twin
            )
            if clashes:
                with pytest.raises(NotAdmitted):
                    registry.admit(one)
            else:
                registry.admit(one)
                twin.append(one)
        else:
            registry.remove(one.identity)
            twin = [other for other in twin if other.identity != one.identity]
        assert registry.members == tuple(twin)
