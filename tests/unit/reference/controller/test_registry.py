"""The controller's pure parts: registry, election policy, liveness."""

import msgspec
import pytest

from maxq.reference.controller import registry
from maxq.reference.controller.election import Candidate, choose
from maxq.reference.controller.liveness import Heartbeat, Liveness
from maxq.reference.controller.registry import (
    AlterSyncStateSet,
    ApplyBrokerId,
    BrokerSet,
    CleanBrokerData,
    ElectMaster,
    RegisterBroker,
    Registry,
    Result,
)
from maxq.reference.records import BrokerId, RemoteProtocolError
from maxq.reference.wire.codes import ResponseCode

SECOND_NS = 1_000_000_000


def claim(broker_id: int, code: str = "", broker_set: str = "b") -> ApplyBrokerId:
    return ApplyBrokerId(
        cluster="c",
        broker_set=broker_set,
        broker_id=BrokerId(broker_id),
        check_code=code or f"a{broker_id}:1;0",
        address=f"a{broker_id}:1",
    )


def alive(*ids: int) -> tuple[Candidate, ...]:
    return tuple(Candidate(broker_id=BrokerId(i), epoch=0, max_offset=0) for i in ids)


def elect(
    *ids: int,
    preferred: int | None = None,
    designate: bool = False,
    broker_set: str = "b",
    unclean: bool = False,
) -> ElectMaster:
    return ElectMaster(
        broker_set=broker_set,
        preferred=None if preferred is None else BrokerId(preferred),
        designate=designate,
        alive=alive(*ids),
        unclean=unclean,
    )


def with_brokers(count: int) -> Registry:
    made = Registry()
    for broker_id in range(1, count + 1):
        assert made.apply(claim(broker_id)).code == 0
    return made


# --- ids ---------------------------------------------------------------------------------------


def test_ids_are_handed_out_strictly_in_order() -> None:
    """S1: only the next id can be claimed, and none twice.

    docs/spec/controller-ha.md 2.9 (rule 5)
    """
    made = Registry()
    assert made.next_broker_id("b") == 1
    for broker_id in (0, -1, 2, 7):
        assert made.apply(claim(broker_id)).code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert made.sets == {}
    assert made.apply(claim(1)).code == ResponseCode.SUCCESS
    assert made.next_broker_id("b") == 2
    for broker_id in (3, 0, -1):
        assert made.apply(claim(broker_id)).code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert made.apply(claim(2)).code == ResponseCode.SUCCESS
    assert made.next_broker_id("b") == 3
    assert made.next_broker_id("other") == 1


def test_a_repeated_claim_is_its_own_by_its_code() -> None:
    """S1, the crash table: the same code is the same claim; another code is refused."""
    made = with_brokers(2)
    before = registry.to_bytes(made)
    assert made.apply(claim(1)) == Result(code=ResponseCode.SUCCESS)
    assert made.apply(claim(1, "thief:1;9")).code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert registry.to_bytes(made) == before


def test_a_claim_without_a_code_is_refused() -> None:
    """S1: two of them would pass for one."""
    made = Registry()
    empty = msgspec.structs.replace(claim(1), check_code="")
    assert made.apply(empty).code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert made.sets == {}


def test_registering_changes_the_address_and_nothing_else() -> None:
    """S2: a broker keeps its id over a change of address."""
    made = with_brokers(1)
    moved = RegisterBroker(
        cluster="c", broker_set="b", broker_id=BrokerId(1), address="10.0.0.9:10911"
    )
    assert made.apply(moved).code == ResponseCode.SUCCESS
    assert made.sets["b"].replicas[1].address == "10.0.0.9:10911"
    assert made.next_broker_id("b") == 2


@pytest.mark.parametrize(("broker_set", "broker_id"), [("b", 2), ("nowhere", 1)])
def test_who_has_no_id_cannot_register(broker_set: str, broker_id: int) -> None:
    """Set or id unknown is 2010 (docs/spec/controller-ha.md 2.4)."""
    got = with_brokers(1).apply(
        RegisterBroker(
            cluster="c", broker_set=broker_set, broker_id=BrokerId(broker_id), address="x"
        )
    )
    assert got.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED


# --- election ----------------------------------------------------------------------------------


def test_election_answers_by_the_table() -> None:
    """S3, S5: codes, and one epoch more for each new master (docs/spec/controller-ha.md 2.4)."""
    made = with_brokers(3)
    assert made.apply(elect(1, broker_set="x")).code == (
        ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    )
    # First time: registered and alive is required, whoever asks.
    assert made.apply(elect(preferred=2)).code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert made.apply(elect(9, preferred=9)).code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert made.apply(elect()).code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert made.sets["b"].master_epoch == 0
    assert made.apply(elect(2, 3, preferred=2)).code == ResponseCode.SUCCESS
    known = made.sets["b"]
    assert (known.master, known.master_epoch, known.sync_state_set) == (2, 1, (2,))
    assert known.sync_state_set_epoch == 1
    # The old master lives: it stays, whoever else asks.
    for preferred in (None, 1, 3):
        got = made.apply(elect(1, 2, 3, preferred=preferred))
        assert got.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    # It asks itself: it was restarted, and gets an epoch of its own.
    assert made.apply(elect(1, 2, 3, preferred=2)).code == ResponseCode.SUCCESS
    assert (known.master, known.master_epoch) == (2, 2)
    known.master_epoch = 1
    # It is dead, and nobody else is known to hold every message.
    assert made.apply(elect(1, 3)).code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert made.apply(elect(1, 3, preferred=3)).code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert (known.master, known.master_epoch) == (2, 1)
    # Unclean, if that is allowed.
    assert made.apply(elect(1, 3, preferred=3, unclean=True)).code == ResponseCode.SUCCESS
    assert (known.master, known.master_epoch, known.sync_state_set) == (3, 2, (3,))


def test_an_operator_designates_a_member_or_nobody() -> None:
    """S7: a word of an operator does not make a replica hold what it lacks."""
    made = with_brokers(3)
    made.apply(elect(1, 2, 3, preferred=1))
    made.sets["b"].sync_state_set = (1, 2)
    outside = elect(1, 2, 3, preferred=3, designate=True)
    assert made.apply(outside).code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    inside = elect(1, 2, 3, preferred=2, designate=True)
    assert made.apply(inside).code == ResponseCode.SUCCESS
    assert (made.sets["b"].master, made.sets["b"].master_epoch) == (2, 2)


def pick(
    candidates: tuple[Candidate, ...], sss: tuple[int, ...] | None = None, **more: object
) -> int | None:
    settings = {"old_master": None, "preferred": None, "designate": False, "unclean": False}
    return choose(
        registered=(1, 2, 3),
        sync_state_set=sss,
        alive=candidates,
        **{**settings, **more},  # type: ignore[arg-type]
    )


def test_policy_orders_epoch_offset_priority_preference_id() -> None:
    """S7: highest epoch, longest log, lowest priority, then as told.

    docs/spec/controller-ha.md 2.5
    """

    def c(broker_id: int, epoch: int, end: int, priority: int = 5) -> Candidate:
        return Candidate(
            broker_id=BrokerId(broker_id), epoch=epoch, max_offset=end, priority=priority
        )

    assert pick((c(1, 1, 900), c(2, 2, 100), c(3, 1, 999))) == 2
    assert pick((c(1, 2, 2**33), c(2, 2, 1), c(3, 2, 2**33 - 1))) == 1
    assert pick((c(1, 2, 9, 7), c(2, 2, 9, 6), c(3, 2, 9, 6))) == 2
    assert pick((c(1, 2, 9), c(2, 2, 9), c(3, 2, 9)), preferred=3) == 3
    assert pick((c(1, 2, 9), c(2, 3, 9)), preferred=1) == 2  # preference breaks ties only
    assert pick((c(1, 2, 9), c(3, 9, 9)), sss=(1,)) == 1
    assert pick((c(3, 9, 9),), sss=(1,), unclean=True) == 3
    assert pick((c(9, 9, 9),), unclean=True) is None
    assert pick((c(1, 1, 1), c(2, 9, 9)), sss=(1, 2), old_master=1) == 1


# --- snapshot ----------------------------------------------------------------------------------


def test_the_state_survives_a_round_trip() -> None:
    """S2: what is stored is what was applied."""
    made = with_brokers(3)
    made.apply(claim(1, broker_set="b2"))
    made.apply(elect(1, 2, 3))
    again = registry.from_bytes(registry.to_bytes(made))
    assert again.sets == made.sets
    assert again.next_broker_id("b") == 4


def damaged() -> list[bytes]:
    made = with_brokers(2)
    made.apply(elect(1, 2))
    good = registry.to_bytes(made)
    return [
        b"",
        b"{}",
        b"null",
        b"\xff",
        good[:-1],
        good.replace(b'"version":1', b'"version":2'),
        good.replace(b'"next_broker_id":3', b'"next_broker_id":2'),
        good.replace(b'"sync_state_set":[1]', b'"sync_state_set":[7]'),
        good.replace(b'"sync_state_set":[1]', b'"sync_state_set":[]'),
        good.replace(b'"master":1', b'"master":2'),
        good.replace(b'"name":"b"', b'"name":"x"'),
        good.replace(b'"check_code":"a2:1;0"', b'"check_code":""'),
    ]


@pytest.mark.parametrize("data", damaged())
def test_a_state_that_was_never_written_is_refused(data: bytes) -> None:
    """S1: a controller that forgot ids would hand them out again."""
    with pytest.raises(RemoteProtocolError):
        registry.from_bytes(data)


def test_the_address_of_a_master_that_is_not_there_is_none() -> None:
    """No address means no master (docs/spec/remoting.md 8.3)."""
    assert BrokerSet("c", "b").master_address is None


# --- liveness ----------------------------------------------------------------------------------


def beat(broker_id: int, *, timeout_ms: int = 1000, end: int = 0) -> Heartbeat:
    return Heartbeat(
        broker_set="b",
        broker_id=BrokerId(broker_id),
        timeout_ms=timeout_ms,
        epoch=1,
        max_offset=end,
        confirm_offset=end,
        priority=3,
    )


def test_a_broker_lives_for_its_own_timeout_after_its_last_heartbeat() -> None:
    """Alive while last update + timeout >= now (docs/spec/controller-ha.md 2.6)."""
    seen = Liveness()
    seen.on_heartbeat(0, beat(1))
    seen.on_heartbeat(0, beat(2, timeout_ms=3000))
    assert seen.is_alive(SECOND_NS, "b", 1)
    assert not seen.is_alive(SECOND_NS + 1, "b", 1)
    assert not seen.is_alive(0, "b", 3)
    assert not seen.is_alive(0, "other", 1)
    assert [c.broker_id for c in seen.candidates(2 * SECOND_NS, "b")] == [2]
    assert seen.alive_ids(2 * SECOND_NS, "b") == (2,)
    seen.on_heartbeat(3 * SECOND_NS, beat(1, end=77))
    assert [(c.broker_id, c.max_offset) for c in seen.candidates(3 * SECOND_NS, "b")] == [
        (1, 77),
        (2, 0),
    ]
    assert seen.candidates(0, "other") == ()


def test_a_new_leader_gives_a_broker_that_it_never_heard_one_timeout_of_grace() -> None:
    seen = Liveness(since_ns=5 * SECOND_NS)
    assert not seen.is_dead(8 * SECOND_NS, "b", 1, timeout_ms=3000)
    assert seen.is_dead(8 * SECOND_NS + 1, "b", 1, timeout_ms=3000)
    seen.on_heartbeat(8 * SECOND_NS, beat(1))
    assert not seen.is_dead(9 * SECOND_NS, "b", 1, timeout_ms=3000)
    assert seen.is_dead(9 * SECOND_NS + 1, "b", 1, timeout_ms=3000), "its own timeout is 1 s"


def test_a_broker_is_gone_with_the_connection_of_its_last_heartbeat() -> None:
    """An older connection that closes later says nothing (docs/spec/controller-ha.md 2.6)."""
    seen = Liveness()
    seen.on_heartbeat(0, beat(1), "old")
    seen.on_heartbeat(1, beat(1), "new")
    assert seen.on_close("old") == []
    assert seen.is_alive(2, "b", 1)
    assert seen.on_close("new") == [("b", 1)]
    assert not seen.is_alive(2, "b", 1)
    assert seen.is_dead(2, "b", 1, timeout_ms=10_000), "no grace: it was heard"


def test_what_comes_late_over_an_older_connection_says_nothing() -> None:
    """When a cut heals, the kernel delivers old heartbeats and then the end of their connection."""
    seen = Liveness()
    seen.on_heartbeat(0, beat(1, end=5), "old", 1)
    seen.on_heartbeat(1, beat(1, end=9), "new", 2)
    seen.on_heartbeat(2, beat(1, end=5), "old", 1)
    assert [c.max_offset for c in seen.candidates(3, "b")] == [9]
    assert seen.on_close("old") == []
    assert seen.is_alive(3, "b", 1)


def alter(*members: int, **changed: object) -> AlterSyncStateSet:
    fields: dict[str, object] = {
        "broker_set": "b", "master": 1, "master_epoch": 1, "sync_state_set": members,
        "sync_state_set_epoch": 1, "alive": (1, 2, 3),
    }  # fmt: skip
    return AlterSyncStateSet(**{**fields, **changed})  # type: ignore[arg-type]


def test_a_sync_state_set_changes_by_the_table() -> None:
    """S4: each check with its code, in order; +1 for each change.

    docs/spec/controller-ha.md 2.4
    """
    made = with_brokers(3)
    made.apply(elect(1, 2, 3, preferred=1))
    known = made.sets["b"]
    refused = [
        (alter(1, 2, broker_set="x"), 2013),
        (alter(1), 2013),
        (alter(1, 2, master=2), 2002),
        (alter(1, 2, master_epoch=2), 2000),
        (alter(1, 2, sync_state_set_epoch=2), 2001),
        (alter(1, 9), 2003),
        (alter(1, 2, alive=(1,)), 2006),
        (alter(2, 3), 2013),
    ]
    for command, code in refused:
        assert (made.apply(command).code, known.sync_state_set) == (code, (1,)), command
    assert made.apply(alter(2, 1, 2)).code == ResponseCode.SUCCESS
    assert (known.sync_state_set, known.sync_state_set_epoch) == ((1, 2), 2)
    assert made.apply(alter(1, sync_state_set_epoch=2)).code == ResponseCode.SUCCESS
    assert (known.sync_state_set, known.sync_state_set_epoch) == ((1,), 3)


def test_cleaning_forgets_brokers_and_never_their_ids() -> None:
    """S1: guards of the living; ids are not given out again.

    docs/spec/remoting.md 8.3; docs/spec/controller-ha.md 2.9
    """
    made = with_brokers(3)
    made.apply(elect(1, 2, 3, preferred=1))
    made.apply(alter(1, 2))

    def clean(ids: tuple[int, ...] | None, living: bool = False) -> int:
        command = CleanBrokerData(broker_set="b", ids=ids, living=living, alive=(1, 2))
        return made.apply(command).code

    assert clean(None) == clean((2, 3)) == ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert clean((3,)) == 0
    assert clean((2,), living=True) == 0
    known = made.sets["b"]
    assert (sorted(known.replicas), known.sync_state_set, known.master) == ([1], (1,), 1)
    assert clean(None, living=True) == 0
    assert (known.replicas, known.master, known.master_epoch) == ({}, None, 1)
    assert made.next_broker_id("b") == 4
    assert registry.from_bytes(registry.to_bytes(made)).sets == made.sets


def test_commands_survive_the_log() -> None:
    for command in (claim(1), elect(1, 2, preferred=1), alter(1, 2)):
        machine, twin = registry.Machine(), with_brokers(2)
        machine.restore(registry.to_bytes(with_brokers(2)))
        result = machine.apply(1, registry.encode_command(command))
        assert result == twin.apply(command)
        assert machine.registry.sets == twin.sets
