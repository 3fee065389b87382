"""Producers of transactions against fake brokers: what they send, and what they answer."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from fake_cluster import BROKER_A, SET, TOPIC, Cluster, Fake

from maxq.harness.client.producers import Decision, Place, ProducerSession
from maxq.harness.client.session import QueueName, RouteBook, Session
from maxq.harness.contracts.outcome import Fail, Info, Ok, Outcome
from maxq.reference.rpc import Reply, loop_dial
from maxq.reference.wire.bodies import HeartbeatBody
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import (
    CheckTransactionRequest,
    EndTransactionRequest,
    SendResponse,
    from_ext,
    to_ext,
)

QUEUE = QueueName(TOPIC, SET, 1)
KEY = "A" * 32
PLACE = Place(QUEUE, 700, 5, KEY)
MSG_ID = "0A000001" + "00002A9F" + f"{700:016X}"
FLAGS: dict[Decision, int] = {"commit": 8, "roll-back": 12, "none": 0}


def answers(code: int, remark: str | None = None) -> Callable[[Frame, Fake], Reply]:
    def script(request: Frame, fake: Fake) -> Reply:
        if request.code == RequestCode.END_TRANSACTION:
            return request.answer(code, remark)
        stored = SendResponse(msg_id=MSG_ID, queue_id=0, queue_offset=5)
        return request.answer(0, ext=to_ext(stored))

    return script


def produce(
    cluster: Cluster,
    what: Callable[[ProducerSession], Coroutine[Any, Any, Any]],
    decision: Decision = "commit",
) -> Any:
    async def main(_: Session, routes: RouteBook) -> Any:
        async with asyncio.TaskGroup() as group:
            producer = ProducerSession(
                routes, loop_dial, group, client_id="me", producer_group="p",
                decided=lambda key: decision if key == KEY else "none",
            )  # fmt: skip
            found = await what(producer)
            producer.close()
            return found

    return cluster.run(main)


def end(cluster: Cluster, decision: Decision = "commit") -> Outcome:
    found: Outcome = produce(cluster, lambda p: p.end(PLACE, decision))
    return found


def test_a_half_message_says_what_it_is_and_where_it_is() -> None:
    cluster = Cluster(answers(0))
    sent, place = produce(cluster, lambda p: p.send_half(QUEUE, b"x", born_ms=1, key=KEY))
    assert (place, isinstance(sent, Ok)) == (PLACE, True)
    first, request = cluster.broker.requests
    body = HeartbeatBody.from_json(first.body)
    assert first.code == RequestCode.HEART_BEAT
    assert (body.client_id, [d.group_name for d in body.producer_data_set]) == ("me", ["p"])
    ext = request.ext or {}
    assert (ext["a"], ext["f"]) == ("p", "4")  # group and sysFlag
    for text in ("TRAN_MSG\x01true", "PGROUP\x01p", f"UNIQ_KEY\x01{KEY}"):
        assert text in ext["i"]


@pytest.mark.parametrize("decision", list(FLAGS))
def test_an_end_names_the_half_message_and_what_was_decided(decision: Decision) -> None:
    cluster = Cluster(answers(0))
    assert end(cluster, decision) == Ok(ext={"node": SET, "broker": BROKER_A})
    [request] = cluster.broker.of_code(RequestCode.END_TRANSACTION)
    header = from_ext(EndTransactionRequest, request.ext)
    assert (header.producer_group, header.transaction_id, header.bname) == ("p", KEY, SET)
    assert (header.tran_state_table_offset, header.commit_log_offset) == (5, 700)
    assert (header.commit_or_rollback, header.from_transaction_check) == (FLAGS[decision], False)


@pytest.mark.parametrize(
    ("code", "remark", "kind"),
    [
        (ResponseCode.SLAVE_NOT_AVAILABLE, "", Fail),
        (ResponseCode.ILLEGAL_OPERATION, "", Fail),
        (ResponseCode.SERVICE_NOT_AVAILABLE, "fenced", Fail),
        (ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed", Fail),
        (ResponseCode.SYSTEM_ERROR, "The producer group wrong", Fail),
        (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough", Fail),
        (ResponseCode.SYSTEM_ERROR, "UNKNOWN_ERROR DEFAULT", Info),
        (ResponseCode.SYSTEM_ERROR, None, Info),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, "", Info),
    ],
)
def test_an_end_has_failed_only_if_the_broker_did_nothing(
    code: int, remark: str | None, kind: type[Outcome]
) -> None:
    assert isinstance(end(Cluster(answers(code, remark))), kind)


def test_without_a_master_an_end_has_failed() -> None:
    assert end(Cluster(answers(0), master=None)) == Fail("no-route")


@pytest.mark.parametrize(("key", "flag"), [(KEY, 8), ("B" * 32, 0)])
def test_a_question_is_answered_one_way_on_its_connection(key: str, flag: int) -> None:
    """What the producer does not know it answers so, and is asked again."""

    def ask(request: Frame, fake: Fake) -> Reply:
        if request.code != RequestCode.HEART_BEAT:
            return request.answer(0)
        header = CheckTransactionRequest(
            topic=TOPIC, tran_state_table_offset=5, commit_log_offset=700, msg_id=key,
            transaction_id=key, bname=SET,
        )  # fmt: skip
        asked = Frame(code=RequestCode.CHECK_TRANSACTION_STATE, ext=to_ext(header), body=b"x")
        fake.connections[-1].oneway(asked)
        return None

    async def stay(producer: ProducerSession) -> None:
        producer.stay(QUEUE)
        producer.stay(QUEUE)
        await asyncio.sleep(1)

    cluster = Cluster(ask)
    produce(cluster, stay)
    answers = cluster.broker.of_code(RequestCode.END_TRANSACTION)
    header = from_ext(EndTransactionRequest, answers[0].ext)
    assert all(answer.is_oneway for answer in answers)
    assert (header.transaction_id, header.commit_or_rollback) == (key, flag)
    assert (header.from_transaction_check, header.commit_log_offset) == (True, 700)


def test_who_stays_says_so_now_and_then_and_not_each_time() -> None:
    async def stay(producer: ProducerSession) -> None:
        for _ in range(8):
            producer.stay(QUEUE)
            await asyncio.sleep(10)

    cluster = Cluster(answers(0))
    produce(cluster, stay)
    # One greets the connection, and then one in 30 s.
    assert len(cluster.broker.of_code(RequestCode.HEART_BEAT)) == 1 + 3


def test_other_questions_are_refused() -> None:
    got: list[int] = []

    def ask(request: Frame, fake: Fake) -> Reply:
        if request.code == RequestCode.HEART_BEAT:
            asked = Frame(code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext={})
            call = fake.connections[-1].call(asked, timeout_s=1)
            fake.loop.create_task(call).add_done_callback(lambda t: got.append(t.result().code))
        return None

    async def stay(producer: ProducerSession) -> None:
        producer.stay(QUEUE)
        await asyncio.sleep(0.5)

    produce(Cluster(ask), stay)
    assert set(got) == {ResponseCode.REQUEST_CODE_NOT_SUPPORTED}
