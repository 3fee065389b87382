"""Locks of ordered queues over the simulated wire: one broker, and strict mode over three.

Claims L1, L3, L6 to L9 (docs/spec/acting-master.md 8.2). Leases last 5 s here.
"""

import asyncio
from collections.abc import Callable

import pytest
from reference_world import ALONE, BROKER, BROKER_CONF, NAMESRV, NAMESRV_CONF, Cluster, Process
from test_address_change import move

from maxq.reference import rpc
from maxq.reference.broker.locks.lock_quorum import ATTEMPT
from maxq.reference.rpc import Connection, Pool
from maxq.reference.wire.bodies import LockRequest, LockResponse, MessageQueue
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.node_headers import RegisterBrokerRequest

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
LEASE_S = 5
LEASE = {"rocketmq.broker.rebalance.lockMaxLiveTime": str(LEASE_S * 1000)}
STRICT = {**BROKER_CONF, **LEASE, "lockInStrictMode": "true", "totalReplicas": "3"}
AT = {"b1": BROKER, "b2": "198.18.0.64:10911", "b3": "198.18.0.80:10911"}


def body(client: str, *queues: int, alone: bool = False) -> bytes:
    mq_set = tuple(MessageQueue(broker_name="b", queue_id=q, topic="T") for q in queues)
    made = LockRequest(client_id=client, consumer_group="g", mq_set=mq_set, only_this_broker=alone)
    return made.to_json()


def lock(cluster: Cluster, at: str, client: str, *queues: int, alone: bool = False) -> list[int]:
    """Ask for locks; which queues were granted."""
    answer = cluster.ask(
        AT[at], RequestCode.LOCK_BATCH_MQ, {}, body(client, *queues or (0,), alone=alone)
    )
    assert answer.code == 0
    return [q.queue_id for q in LockResponse.from_json(answer.body).lock_ok_mq_set]


def unlock(cluster: Cluster, at: str, client: str, *queues: int) -> None:
    code = RequestCode.UNLOCK_BATCH_MQ
    assert cluster.ask(AT[at], code, {}, body(client, *queues or (0,))).code == 0


def replica(cluster: Cluster, name: str, **settings: str) -> Process:
    role = {"brokerRole": "SLAVE", "brokerId": str(int(name[1]) - 1)} if name != "b1" else {}
    conf = {**STRICT, "brokerId": "0", **role, **settings}
    return cluster.up(name, "broker", conf)


def set_of_three(cluster: Cluster) -> dict[str, Process]:
    """A name server and three brokers that grant."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    made = {name: replica(cluster, name) for name in AT}
    cluster.sleep(LEASE_S + 1.5)
    return made


def member(cluster: Cluster, name: str, answer: Callable[[Frame], Frame | None]) -> list[Frame]:
    """A broker of the set that does as told; returns what it will have been asked."""
    heard: list[Frame] = []
    broker_id = int(name[1]) - 1
    header = RegisterBrokerRequest(
        broker_name="b", broker_addr=AT[name], cluster_name="c", ha_server_addr="x:1",
        broker_id=broker_id, enable_acting_master=False,
    )  # fmt: skip

    def handle(request: Frame, connection: Connection) -> Frame | None:
        heard.append(request)
        return answer(request)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            await rpc.serve("0.0.0.0", 10911, handle, group=group)
            frame = Frame(code=RequestCode.REGISTER_BROKER, ext=to_ext(header))
            await Pool(group).call(NAMESRV, frame, timeout_s=5)
            await asyncio.Event().wait()  # until it is killed

    loop, _ = cluster.world.process(cluster.machines[name])
    loop.create_task(main())
    return heard


def grant_all(request: Frame) -> Frame:
    """As a Java broker: grants, and echoes nothing."""
    asked = LockRequest.from_json(request.body)
    return request.answer(0, body=LockResponse(lock_ok_mq_set=asked.mq_set).to_json())


# --- one broker --------------------------------------------------------------------------------


def test_one_broker_decides_alone_without_strict_mode(cluster: Cluster) -> None:
    """L3, L8, L9: at once after a start; until the lease ends or its owner says so."""
    cluster.up("b1", "broker", {**ALONE, **LEASE, "totalReplicas": "3"})
    assert lock(cluster, "b1", "A", 0, 1) == [0, 1]
    assert lock(cluster, "b1", "B", 0, 1, 2) == [2]
    unlock(cluster, "b1", "A", 1)
    unlock(cluster, "b1", "A", 2)  # not its own
    assert lock(cluster, "b1", "B", 1, 2) == [1, 2]
    assert lock(cluster, "b1", "A", 2) == []
    cluster.sleep(LEASE_S + 0.1)
    assert lock(cluster, "b1", "A", 2) == [2]
    cluster.sleep(16)  # what has run out is forgotten
    assert lock(cluster, "b1", "B", 2) == [2]


def test_the_fast_port_locks_too(cluster: Cluster) -> None:
    """The VIP channel (docs/spec/remoting.md 1.7)."""
    cluster.up("b1", "broker", ALONE)
    answer = cluster.ask("198.18.0.48:10909", RequestCode.LOCK_BATCH_MQ, {}, body("A", 0))
    want = b'{"lockOKMQSet":[{"brokerName":"b","queueId":0,"topic":"T"}]}'
    assert (answer.code, answer.body) == (0, want)
    code = RequestCode.UNLOCK_BATCH_MQ
    answer = cluster.ask("198.18.0.48:10909", code, {}, body("A", 0))
    assert (answer.code, answer.body) == (0, None)


@pytest.mark.parametrize("text", [b"{}", b'{"clientId":"A"}', b'{"consumerGroup":"g"}', b"["])
def test_a_lock_needs_a_group_and_a_client(cluster: Cluster, text: bytes) -> None:
    cluster.up("b1", "broker", ALONE)
    for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
        assert cluster.ask(BROKER, code, {}, text).code == 1


def test_in_strict_mode_a_restarted_broker_waits_for_one_lease(cluster: Cluster) -> None:
    """L1: it may have granted what it does not know; with one replica, too."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    conf = {**STRICT, "totalReplicas": "1"}
    process = cluster.up("b1", "broker", conf)
    assert lock(cluster, "b1", "A") == []
    cluster.sleep(LEASE_S)
    assert lock(cluster, "b1", "A") == [0]
    process.loop.kill()
    cluster.up("b1", "broker", conf)
    assert lock(cluster, "b1", "B") == []
    assert lock(cluster, "b1", "A") == []  # no renewal either
    cluster.sleep(LEASE_S)
    assert lock(cluster, "b1", "B") == [0]


# --- three brokers -----------------------------------------------------------------------------


def test_a_quorum_excludes_whoever_is_asked(cluster: Cluster) -> None:
    """L1: two clients, two brokers to ask; unlock frees everywhere; so does time."""
    set_of_three(cluster)
    assert lock(cluster, "b1", "A", 0, 1) == [0, 1]
    for name in AT:
        assert lock(cluster, name, "B", 0, 1, 2) == [2]
    assert lock(cluster, "b2", "A", 0) == [0]  # a renewal, wherever
    unlock(cluster, "b1", "A", 0)
    cluster.sleep(0.5)
    assert lock(cluster, "b3", "B", 0, 1) == [0]
    cluster.sleep(LEASE_S + 0.1)
    assert lock(cluster, "b2", "C", 0, 1, 2) == [0, 1, 2]


@pytest.mark.parametrize("restart", [False, True])
def test_a_master_that_restarts_does_not_help_a_second_client(
    cluster: Cluster, restart: bool
) -> None:
    """L1: A holds {b1, b2}; b1 restarts; B must not get {b1, b3}.

    docs/spec/acting-master.md 6.6 (a)
    """
    made = set_of_three(cluster)
    made["b3"].loop.kill()
    cluster.sleep(1.5)
    assert lock(cluster, "b1", "A") == [0]
    if restart:
        made["b1"].loop.kill()
        replica(cluster, "b1")
    replica(cluster, "b3")
    cluster.sleep(1.5)
    for name in AT:
        assert lock(cluster, name, "B") == []
    cluster.sleep(LEASE_S)
    assert lock(cluster, "b1", "B") == [0]


def test_one_dead_broker_of_three_is_not_missed_and_two_are(cluster: Cluster) -> None:
    """L5, L7: safety over availability."""
    made = set_of_three(cluster)
    made["b3"].loop.kill()
    assert lock(cluster, "b1", "A") == [0]
    made["b2"].loop.kill()
    assert lock(cluster, "b1", "A", 0, 1) == []
    cluster.sleep(2)
    assert lock(cluster, "b1", "A") == []


def test_a_failed_first_acquisition_leaves_no_leases_behind(cluster: Cluster) -> None:
    """L9: b2 and b3 hold other clients' locks alone; A's attempt at b1 frees b1 again."""
    set_of_three(cluster)
    assert lock(cluster, "b2", "X", 0, alone=True) == [0]
    assert lock(cluster, "b3", "Y", 0, alone=True) == [0]
    assert lock(cluster, "b1", "A", 0, 1) == [1]
    assert lock(cluster, "b1", "B", 0, alone=True) == [0]
    assert lock(cluster, "b1", "B", 1, alone=True) == []  # what was won stays


def test_a_failed_acquisition_is_undone_at_the_others(cluster: Cluster) -> None:
    """L9: of five with two away and one refusing, b2 has granted in vain."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    for name in ("b1", "b2", "b3"):
        replica(cluster, name, totalReplicas="5")
    cluster.sleep(LEASE_S + 1.5)
    lock(cluster, "b3", "X", 0, alone=True)
    assert lock(cluster, "b1", "A", 0) == []
    cluster.sleep(0.5)
    for name in ("b1", "b2"):
        assert lock(cluster, name, "B", 0, alone=True) == [0]


def test_a_failed_renewal_keeps_every_lease(cluster: Cluster) -> None:
    """L1: the older quorum may still be believed in, so nothing of it is given away."""
    made = set_of_three(cluster)
    assert lock(cluster, "b1", "A") == [0]
    cluster.sleep(0.5)
    made["b2"].loop.kill()
    made["b3"].loop.kill()
    assert lock(cluster, "b1", "A") == []
    assert lock(cluster, "b1", "B", alone=True) == []


def test_a_member_in_silence_delays_nobody_who_does_not_need_it(cluster: Cluster) -> None:
    """L6: the answer comes with the quorum; without one within a client's second."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    made = {name: replica(cluster, name) for name in ("b1", "b2")}
    heard = member(cluster, "b3", lambda request: None)
    cluster.sleep(LEASE_S + 1.5)
    before = cluster.now_ns
    assert lock(cluster, "b1", "A", 0) == [0]
    assert cluster.now_ns - before < 100_000_000
    made["b2"].loop.kill()
    before = cluster.now_ns
    assert lock(cluster, "b1", "A", 1) == []
    assert cluster.now_ns - before < 950_000_000
    assert len(heard) == 2


def test_java_members_are_asked_in_their_words_and_never_to_undo(cluster: Cluster) -> None:
    """41 with onlyThisBroker; what cannot tell an undo from an unlock is not told.

    docs/spec/acting-master.md 6.3
    """
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    replica(cluster, "b1", totalReplicas="5")
    b2 = member(cluster, "b2", grant_all)
    b3 = member(cluster, "b3", lambda request: request.answer(1, "no"))
    cluster.sleep(LEASE_S + 1.5)
    assert lock(cluster, "b1", "A", 0, 1) == []  # two of three needed
    cluster.sleep(1)
    for heard in (b2, b3):
        assert [f.code for f in heard] == [RequestCode.LOCK_BATCH_MQ]
        assert heard[0].body == body("A", 0, 1, alone=True)


def test_java_members_are_told_of_an_unlock_in_their_words(cluster: Cluster) -> None:
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    replica(cluster, "b1")
    b2 = member(cluster, "b2", grant_all)
    cluster.sleep(LEASE_S + 1.5)
    assert lock(cluster, "b1", "A", 0) == [0]
    unlock(cluster, "b1", "A", 0)
    cluster.sleep(1)
    assert [(f.code, f.is_oneway) for f in b2[1:]] == [(RequestCode.UNLOCK_BATCH_MQ, True)]
    assert b2[1].body == body("A", 0, alone=True)
    assert ATTEMPT not in (b2[1].ext or {})


def test_an_unlock_that_comes_late_does_not_end_what_was_acquired_anew(cluster: Cluster) -> None:
    """L1: a passed-on unlock may be on its way while its client locks the queue again."""
    set_of_three(cluster)
    assert lock(cluster, "b1", "A") == [0]
    late: list[Frame] = []
    honest = Pool.oneway

    async def held_up(pool: Pool, address: str, frame: Frame) -> None:
        late.append(frame)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pool, "oneway", held_up)
        unlock(cluster, "b1", "A")
        cluster.sleep(0.1)
    assert [f.code for f in late] == [RequestCode.UNLOCK_BATCH_MQ] * 2
    assert lock(cluster, "b1", "A") == [0]
    for frame, name in zip(late, ("b2", "b3"), strict=True):

        async def deliver(pool: Pool, frame: Frame = frame, to: str = AT[name]) -> None:
            await honest(pool, to, frame)

        cluster.client(deliver)
    cluster.sleep(0.5)
    for name in ("b2", "b3"):
        assert lock(cluster, name, "B") == []


def test_members_are_kept_while_no_name_server_answers(cluster: Cluster) -> None:
    """The last polled group counts (docs/spec/acting-master.md 6.3)."""
    namesrv = cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    for name in AT:
        replica(cluster, name, namesrvAddr=f"198.18.0.96:9876;{NAMESRV}")
    cluster.sleep(LEASE_S + 1.5)
    namesrv.loop.kill()
    cluster.sleep(5)
    assert cluster.logged("b1", "broker.lock.members.failed") > 1
    assert lock(cluster, "b1", "A") == [0]
    assert lock(cluster, "b3", "B") == []


def test_a_broker_does_not_count_twice_at_the_address_of_a_former_id(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server still lists the address under another id when the broker gets it."""
    monkeypatch.setitem(AT, "b2", "198.18.0.200:10911")
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    member(cluster, "b2", lambda request: None)
    replica(cluster, "b1")
    cluster.sleep(LEASE_S + 1.5)
    cluster.machines["namesrv"].lose_power()
    cluster.machines["b2"].lose_power()
    move(cluster, "b1", "198.18.0.200")
    cluster.until(lambda: cluster.logged("b1", "broker.address.changed") == 1)
    assert lock(cluster, "b2", "A") == [], "one of three is no quorum"
