"""Sessions against fake brokers: what each way to fail becomes, and that nothing is retried."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from fake_cluster import BROKER_A, BROKER_B, NOBODY, SET, TOPIC, Cluster, Fake, route_to
from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.client.session import (
    PULL_TIMEOUT_S,
    REFRESH_S,
    ROUTES_MAX,
    SEND_TIMEOUT_S,
    Polled,
    QueueName,
    RouteBook,
    Session,
    Source,
)
from maxq.harness.contracts.outcome import Fail, Info, Ok, Outcome
from maxq.reference.records import QueueOffset
from maxq.reference.rpc import Reply
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import PullResponse, SendResponse, to_ext
from maxq.reference.wire.message import Message, encode

QUEUE = QueueName(TOPIC, SET, 1)
STORED = to_ext(SendResponse(msg_id="m", queue_id=1, queue_offset=5))


def send_answers(code: int, remark: str | None = None, **ext: str) -> Any:
    def script(request: Frame, fake: Fake) -> Reply:
        return request.answer(code, remark, ext=ext or STORED)

    return script


def silent(request: Frame, fake: Fake) -> Reply:
    return None


def send_once(cluster: Cluster) -> tuple[Outcome, float]:
    """The outcome of one send, and how long it took."""

    async def main(session: Session, routes: RouteBook) -> tuple[Outcome, float]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        outcome = await session.send(QUEUE, b"x", born_ms=1)
        return outcome, loop.time() - begun

    return cluster.run(main)


def test_stored_is_ok_and_names_who_answered() -> None:
    cluster = Cluster(send_answers(0))
    outcome, _ = send_once(cluster)
    assert outcome == Ok(5, ext={"node": SET, "broker": BROKER_A})
    assert len(cluster.broker.requests) == 1


def test_no_master_in_the_route_is_fail() -> None:
    assert send_once(Cluster(send_answers(0), master=None))[0] == Fail("no-route")


@pytest.mark.parametrize("acting", [False, True])
def test_a_set_that_may_not_be_written_to_is_asked_only_if_a_slave_may_act_there(
    *, acting: bool
) -> None:
    cluster = Cluster(send_answers(0))
    cluster.namesrv.script = route_to(BROKER_A, perm=4, acting=acting)
    outcome, _ = send_once(cluster)
    assert (outcome == Fail("not-writable")) is not acting
    assert len(cluster.broker.requests) == acting


def test_refused_before_the_first_byte_is_fail() -> None:
    outcome, _ = send_once(Cluster(send_answers(0), master=NOBODY))
    assert isinstance(outcome, Fail)
    assert outcome.error[0] == "not-sent"


def test_a_broker_killed_with_the_request_in_hand_is_info() -> None:
    def die(request: Frame, fake: Fake) -> Reply:
        fake.loop.kill()
        return None

    cluster = Cluster(die)
    outcome, _ = send_once(cluster)
    assert outcome == Info("connection-lost")
    assert len(cluster.broker.requests) == 1


def test_no_answer_in_time_is_info_after_one_attempt_and_closes_the_connection() -> None:
    cluster = Cluster(silent)

    async def main(session: Session, routes: RouteBook) -> Outcome:
        outcome = await session.send(QUEUE, b"x", born_ms=1)
        await asyncio.sleep(1)
        assert cluster.broker.connections[0].closed
        return outcome

    assert cluster.run(main) == Info("timeout")
    assert len(cluster.broker.requests) == 1
    assert SEND_TIMEOUT_S > 5  # above slaveTimeout and syncFlushTimeout, whose answers say more


def test_the_late_answer_of_a_call_given_up_is_never_taken() -> None:
    """Opaques are of a connection, so the connection is what has to go."""

    async def late(request: Frame) -> Reply:
        await asyncio.sleep(SEND_TIMEOUT_S + 0.2)
        return request.answer(0, ext=to_ext(SendResponse(msg_id="m", queue_id=1, queue_offset=111)))

    cluster = Cluster(lambda request, fake: late(request))

    async def main(session: Session, routes: RouteBook) -> tuple[Outcome, Outcome]:
        first = await session.send(QUEUE, b"x", born_ms=1)
        cluster.broker.script = silent
        second = await session.send(QUEUE, b"y", born_ms=1)
        return first, second

    assert cluster.run(main) == (Info("timeout"), Info("timeout"))
    assert len(cluster.broker.requests) == 2
    assert len(cluster.broker.connections) == 2


@pytest.mark.parametrize("code", [10, 11, 12])
def test_a_weak_status_is_info(code: int) -> None:
    outcome, _ = send_once(Cluster(send_answers(code, "slow")))
    assert isinstance(outcome, Info)


def test_a_refusal_is_fail_with_its_name() -> None:
    outcome, _ = send_once(Cluster(send_answers(14, "service not available now.")))
    assert outcome == Fail(["SERVICE_NOT_AVAILABLE", "service not available now."])


def test_success_without_an_offset_is_info() -> None:
    outcome, _ = send_once(Cluster(send_answers(0, queueId="1")))
    assert isinstance(outcome, Info)
    assert outcome.error[0] == "bad-answer"


def test_garbage_instead_of_an_answer_is_info() -> None:
    def garbage(request: Frame, fake: Fake) -> Reply:
        transport = fake.connections[-1]._transport
        assert transport is not None
        transport.write(b"\x7f\xff\xff\xff" + bytes(100))
        return None

    assert send_once(Cluster(garbage))[0] == Info("connection-lost")


def test_a_bad_answer_reads_the_route_again_and_the_next_send_goes_to_the_new_master() -> None:
    cluster = Cluster(send_answers(2, "[REJECTREQUEST]not me"))
    cluster.other.script = send_answers(0)

    async def main(session: Session, routes: RouteBook) -> list[Outcome]:
        await asyncio.sleep(0.15)  # the keeper waits for its next round
        cluster.namesrv.script = route_to(BROKER_B)
        asked = len(cluster.namesrv.requests)
        first = await session.send(QUEUE, b"x", born_ms=1)
        await asyncio.sleep(0.2)  # much less than a second
        assert len(cluster.namesrv.requests) == asked + 1
        return [first, await session.send(QUEUE, b"y", born_ms=1)]

    first, second = cluster.run(main)
    assert isinstance(first, Fail)
    assert second == Ok(5, ext={"node": SET, "broker": BROKER_B})
    assert (len(cluster.broker.requests), len(cluster.other.requests)) == (1, 1)


def test_a_nudge_during_a_refresh_is_not_lost() -> None:
    """What that refresh reads may be older than the nudge."""
    cluster = Cluster(send_answers(0))

    async def main(session: Session, routes: RouteBook) -> int:
        slow = route_to(BROKER_A)

        async def answer(request: Frame, fake: Fake) -> Reply:
            await asyncio.sleep(0.2)
            return slow(request, fake)  # type: ignore[return-value]

        cluster.namesrv.script = answer
        before = len(cluster.namesrv.requests)
        for _ in range(200):
            if len(cluster.namesrv.requests) > before:
                break
            await asyncio.sleep(0.01)
        asked = len(cluster.namesrv.requests)  # a refresh of the keeper is going on
        cluster.namesrv.script = route_to(BROKER_B)
        routes.nudge(TOPIC)
        await asyncio.sleep(0.4)
        assert routes.master(TOPIC, SET) == BROKER_B
        return len(cluster.namesrv.requests) - asked

    assert cluster.run(main) == 1


def test_many_nudges_read_the_routes_at_most_ten_times_a_second() -> None:
    cluster = Cluster(send_answers(0))

    async def main(session: Session, routes: RouteBook) -> int:
        asked = len(cluster.namesrv.requests)
        for _ in range(1000):
            routes.nudge(TOPIC)
            await asyncio.sleep(0.001)
        return len(cluster.namesrv.requests) - asked

    assert 5 <= cluster.run(main) <= 11


def test_a_master_that_left_the_route_is_forgotten_and_an_unread_route_is_not() -> None:
    cluster = Cluster(send_answers(0))

    async def main(session: Session, routes: RouteBook) -> list[str | None]:
        seen = [routes.master(TOPIC, SET)]
        cluster.namesrv.script = lambda request, fake: request.answer(17, "No topic route info")
        await asyncio.sleep(1.2)
        seen.append(routes.master(TOPIC, SET))
        cluster.namesrv.script = lambda request, fake: request.answer(0, body=b"{rubbish")
        await asyncio.sleep(1.2)
        seen.append(routes.master(TOPIC, SET))
        cluster.namesrv.script = route_to(None)
        await asyncio.sleep(1.2)
        return [*seen, routes.master(TOPIC, SET)]

    assert cluster.run(main) == [BROKER_A, BROKER_A, BROKER_A, None]


def records(*messages: tuple[int, bytes]) -> bytes:
    return b"".join(
        encode(Message(topic=TOPIC, body=body, queue_id=1, queue_offset=QueueOffset(at)))
        for at, body in messages
    )


def pull_answers(
    code: int,
    next_offset: int,
    end: int,
    body: bytes | None = None,
    remark: str | None = None,
    *,
    suggests: int = 0,
) -> Any:
    header = PullResponse(
        suggest_which_broker_id=suggests, next_begin_offset=next_offset, min_offset=0,
        max_offset=end,
    )  # fmt: skip

    def script(request: Frame, fake: Fake) -> Reply:
        return request.answer(code, remark, ext=to_ext(header), body=body)

    return script


def poll_once(cluster: Cluster, offset: int = 0) -> Polled | Fail:
    async def main(session: Session, routes: RouteBook) -> Polled | Fail:
        return await session.poll(QUEUE, offset)

    return cluster.run(main)


def test_found_messages_come_with_their_offsets() -> None:
    cluster = Cluster(pull_answers(0, 2, 9, records((0, b"a"), (1, b"b"))))
    found = poll_once(cluster)
    assert found == Polled(
        ((0, b"a"), (1, b"b")), next_offset=2, min_offset=0, max_offset=9, broker=BROKER_A
    )
    [request] = cluster.broker.of_code(RequestCode.PULL_MESSAGE)
    asked = request.ext or {}
    assert (asked["queueOffset"], asked["suspendTimeoutMillis"]) == ("0", "0")


def test_a_broker_may_hold_a_poll_and_is_waited_for_so_much_longer() -> None:
    async def main(session: Session, routes: RouteBook) -> Polled | Fail:
        session.hold_ms = 1500
        return await session.poll(QUEUE, 0)

    cluster = Cluster(pull_answers(0, 0, 0))
    assert isinstance(cluster.run(main), Polled)
    [request] = cluster.broker.of_code(RequestCode.PULL_MESSAGE)
    asked = request.ext or {}
    assert (asked["sysFlag"], asked["suspendTimeoutMillis"]) == ("6", "1500")


@pytest.mark.parametrize(("code", "next_offset"), [(19, 7), (20, 6), (21, 3)])
def test_nothing_found_is_an_empty_poll_that_says_where_to_go_on(
    code: int, next_offset: int
) -> None:
    found = poll_once(Cluster(pull_answers(code, next_offset, 7)), 7)
    assert found == Polled((), next_offset, 0, 7, BROKER_A, retry=code == 20)


@pytest.mark.parametrize("body", [b"", None])
def test_success_without_messages_is_an_empty_poll(body: bytes | None) -> None:
    assert poll_once(Cluster(pull_answers(0, 0, 0, body))) == Polled((), 0, 0, 0, BROKER_A)


@pytest.mark.parametrize(
    "body", [b"garbage", records((0, b"abc"))[:-1], records((0, b"abc")) + b"\x00\x00"]
)
def test_a_body_that_is_no_list_of_records_is_fail(body: bytes) -> None:
    """A poll without effect may fail; what it seemed to hold is not trusted in part."""
    found = poll_once(Cluster(pull_answers(0, 1, 1, body)))
    assert isinstance(found, Fail)
    assert found.error[0] == "bad-answer"


def test_an_answer_without_offsets_is_fail() -> None:
    cluster = Cluster(lambda request, fake: request.answer(0, ext={}))
    found = poll_once(cluster)
    assert isinstance(found, Fail)
    assert found.error[0] == "bad-answer"


def test_any_other_code_is_fail_with_its_name() -> None:
    cluster = Cluster(pull_answers(17, 0, 0, remark="topic not exist"))
    found = poll_once(cluster)
    assert isinstance(found, Fail)
    assert found.error == ["TOPIC_NOT_EXIST", "topic not exist"]
    assert (found.ext or {})["code"] == 17


@pytest.mark.parametrize(
    ("script", "name"),
    [
        (silent, "TimeoutError"),
        (lambda request, fake: fake.loop.kill(), "ConnectionLost"),
    ],
)
def test_a_poll_without_an_answer_is_fail_after_one_attempt(script: Any, name: str) -> None:
    cluster = Cluster(script)

    async def main(session: Session, routes: RouteBook) -> tuple[Polled | Fail, float]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        return await session.poll(QUEUE, 0), loop.time() - begun

    found, took_s = cluster.run(main)
    assert isinstance(found, Fail)
    assert found.error[0] == name
    assert took_s < PULL_TIMEOUT_S + 0.1
    assert len(cluster.broker.requests) == 1


def test_a_poll_of_a_dead_or_unknown_broker_is_fail() -> None:
    assert poll_once(Cluster(silent, master=None)) == Fail("no-route")
    found = poll_once(Cluster(silent, master=NOBODY))
    assert isinstance(found, Fail)
    assert found.error[0] == "NotSent"


def test_a_pinned_session_speaks_with_its_broker_whatever_routes_say() -> None:
    """As a producer that still holds an old route."""
    cluster = Cluster(send_answers(0))
    asked: list[str] = []

    def pin(broker_set: str) -> str:
        asked.append(broker_set)
        return BROKER_B

    async def main(session: Session, routes: RouteBook) -> list[Outcome]:
        routed = await session.send(QUEUE, b"x", born_ms=1)
        session.pinned = pin
        stays = await session.send(QUEUE, b"y", born_ms=1)
        session.pinned = lambda broker_set: NOBODY
        return [routed, stays, await session.send(QUEUE, b"z", born_ms=1)]

    routed, stays, nobody = cluster.run(main)
    assert routed == Ok(5, ext={"node": SET, "broker": BROKER_A})
    assert stays == Ok(5, ext={"node": SET, "broker": BROKER_B, "pinned": True})
    assert isinstance(nobody, Fail), "it looks for no other"
    assert asked == [SET]
    assert [len(fake.requests) for fake in (cluster.broker, cluster.other)] == [1, 1]


def test_a_pinned_session_needs_no_route() -> None:
    cluster = Cluster(send_answers(0), master=None)

    async def main(session: Session, routes: RouteBook) -> Outcome:
        session.pinned = lambda broker_set: BROKER_B
        return await session.send(QUEUE, b"x", born_ms=1)

    assert cluster.run(main) == Ok(5, ext={"node": SET, "broker": BROKER_B, "pinned": True})


# --- who is read from ---------------------------------------------------------------------------


def in_subscribe(known: dict[int, str], broker_id: int) -> tuple[str, bool] | None:
    """RocketMQ's ``findBrokerAddressInSubscribe(name, brokerId, onlyThisBroker=false)``, line by
    line; its map has small ids in their order."""
    if not known:
        return None
    address, slave = known.get(broker_id), broker_id != 0
    if address is None and slave:
        address = known.get(broker_id + 1)
    if address is None:
        first, address = next(iter(sorted(known.items())))
        slave = first != 0
    return address, slave


@given(
    st.dictionaries(st.integers(0, 5), st.sampled_from([BROKER_A, BROKER_B, NOBODY])),
    st.integers(0, 6),
)
def test_consumers_find_the_broker_that_rocketmqs_find(
    known: dict[int, str], suggested: int
) -> None:
    cluster = Cluster(silent)
    slaves = {n: address for n, address in known.items() if n}
    cluster.namesrv.script = route_to(known.get(0), slaves=slaves)

    async def main(session: Session, routes: RouteBook) -> Source | None:
        return routes.source(TOPIC, SET, suggested)

    found = cluster.run(main)
    assert (found and tuple(found)) == in_subscribe(known, suggested)


def test_a_consumer_asks_whom_the_last_answer_suggested_and_stays_there_while_refused() -> None:
    cluster = Cluster(pull_answers(0, 0, 9, suggests=1))
    cluster.namesrv.script = route_to(BROKER_A, slaves={1: BROKER_B})
    cluster.other.script = pull_answers(2, 0, 0, remark="[REJECTREQUEST]")

    async def main(session: Session, routes: RouteBook) -> list[Any]:
        first = await session.poll(QUEUE, 0)
        refused = [await session.poll(QUEUE, 0) for _ in range(2)]
        final = await session.poll(QUEUE, 0, of_master=True)
        cluster.other.script = pull_answers(19, 0, 0)
        return [first, *refused, final, await session.poll(QUEUE, 0), await session.poll(QUEUE, 0)]

    polled = [p.ext for p in cluster.run(main)]
    of_slave = {"broker": BROKER_B, "slave": True}
    assert polled[1:3] == [{**of_slave, "code": 2}] * 2
    assert [polled[0], *polled[3:]] == [
        {"broker": BROKER_A}, {"broker": BROKER_A}, of_slave, {"broker": BROKER_A}
    ]  # fmt: skip


def test_a_set_that_routes_let_nobody_read_is_not_asked() -> None:
    """RocketMQ's consumers have no queues of it (``topicRouteData2TopicSubscribeInfo``)."""
    cluster = Cluster(pull_answers(19, 7, 7))
    cluster.namesrv.script = route_to(BROKER_A, perm=2)
    assert poll_once(cluster, 7) == Fail("not-readable")
    assert not cluster.broker.requests


def test_a_slave_is_read_where_routes_list_no_master_and_says_nothing_of_the_end() -> None:
    cluster = Cluster(pull_answers(19, 7, 7))
    cluster.namesrv.script = route_to(None, slaves={1: BROKER_B})
    found = poll_once(cluster, 7)
    assert found == Polled((), 7, 0, 7, BROKER_B, retry=True, slave=True)

    async def last(session: Session, routes: RouteBook) -> Polled | Fail:
        return await session.poll(QUEUE, 7, of_master=True)

    again = Cluster(pull_answers(19, 7, 7))
    again.namesrv.script = route_to(None, slaves={1: BROKER_B})
    assert again.run(last) == Fail("no-route")


def test_routes_of_many_topics_are_read_in_turn_and_first_where_somebody_failed() -> None:
    """No more than `ROUTES_MAX` at once, each of them before long."""
    cluster = Cluster(send_answers(0))
    topics = [f"t{number}" for number in range(5 * ROUTES_MAX // 2)]

    async def main(session: Session, routes: RouteBook) -> tuple[list[str], int]:
        routes.watch(topics)
        asked = len(cluster.namesrv.requests)
        routes.nudge(topics[-1])
        await asyncio.sleep(0.3)
        first = [(r.ext or {})["topic"] for r in cluster.namesrv.requests[asked:]]
        await asyncio.sleep(3 * REFRESH_S)
        every = {(r.ext or {})["topic"] for r in cluster.namesrv.requests[asked:]}
        return first, len(every)

    first, every = cluster.run(main)
    assert topics[-1] in first
    assert len(first) <= ROUTES_MAX + 1
    assert every == len(topics)


@pytest.mark.parametrize("every_s", [REFRESH_S, 30.0])
def test_routes_are_read_as_often_as_asked_and_at_once_where_no_master_is_known(
    every_s: float,
) -> None:
    """RocketMQ 5.5.0 ``MQClientInstance``: each pollNameServerInterval, whatever a broker says."""
    cluster = Cluster(send_answers(14))

    async def moved_after(session: Session, routes: RouteBook) -> tuple[float, float, float]:
        loop = asyncio.get_running_loop()

        async def until(master: str | None) -> float:
            cluster.namesrv.script = route_to(master)
            begun = loop.time()
            while routes.master(TOPIC, SET) != master:
                await session.send(QUEUE, b"x", born_ms=1)
                await asyncio.sleep(REFRESH_S / 20)
            return loop.time() - begun

        await asyncio.sleep(2 * REFRESH_S)  # the first look is over
        waits = await until(None), await until(BROKER_B)
        routes.hasten()
        return *waits, await until(BROKER_A)

    lost, found, hastened = cluster.run(moved_after, every_s)
    assert lost <= every_s + REFRESH_S
    assert (lost > 25.0) is (every_s > REFRESH_S)
    assert found < 3 * REFRESH_S
    assert hastened < 3 * REFRESH_S


def test_what_no_route_lists_or_lists_any_more_is_sent_by_the_default_topics_route() -> None:
    """After a fail-over the next master does not know what a first message had made."""
    cluster = Cluster(send_answers(0))
    cluster.other.script = send_answers(0)
    listed = {TOPIC: "", "TBW102": BROKER_A}

    def routes_of(request: Frame, fake: Fake) -> Reply | Awaitable[Reply]:
        master = listed[(request.ext or {})["topic"]]
        return route_to(master)(request, fake) if master else request.answer(17)

    async def main(session: Session, routes: RouteBook) -> list[Outcome]:
        cluster.namesrv.script = routes_of
        routes.watch([TOPIC], by_sending=True)
        sent = []
        for topic, default in (("", BROKER_A), (BROKER_A, BROKER_A), ("", BROKER_B)):
            listed.update({TOPIC: topic, "TBW102": default})
            await routes.refresh()
            assert routes.listed(TOPIC, SET) is bool(topic)
            sent.append(await session.send(QUEUE, b"x", born_ms=1))
        return sent

    brokers = [(done.ext or {})["broker"] for done in cluster.run(main)]
    assert brokers == [BROKER_A, BROKER_A, BROKER_B]
    assert len(cluster.other.requests) == 1
