"""A producer of transactions: half messages, their ends (37), and the broker's questions (39).

Every connection to a broker begins with a heartbeat of the producer group, so anyone who reads from
a broker can be asked by it. A question is answered on the connection that it came by, one-way, as
RocketMQ's producers do. An end is a call here, so that its outcome is known: RocketMQ's producers
send it one-way. Units: seconds. Source: RocketMQ ``DefaultMQProducerImpl.endTransaction``,
``checkTransactionState``; ``EndTransactionProcessor``.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Literal

import msgspec

from maxq.harness.client.session import QueueName, RouteBook, Session
from maxq.harness.contracts.error_classes import classify_send, error_of
from maxq.harness.contracts.outcome import Fail, Info, Ok, Outcome, attempt
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Connection, Dial, NotSent, Reply, refuse
from maxq.reference.wire import property as props
from maxq.reference.wire.bodies import HeartbeatBody, ProducerData
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import (
    CheckTransactionRequest,
    EndTransactionRequest,
    from_ext,
    to_ext,
)
from maxq.reference.wire.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_NONE,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)

Decision = Literal["commit", "roll-back", "none"]
END_TIMEOUT_S = 6.0  # as a send, which a commit is
HEARTBEAT_S = 30.0  # brokers forget who is silent for 120 s
_FLAGS: dict[Decision, int] = {
    "commit": TRANSACTION_COMMIT,
    "roll-back": TRANSACTION_ROLLBACK,
    "none": TRANSACTION_NONE,
}
# How remarks begin of ends that were looked at and not done; of code 1.
_REFUSALS = (
    "Find prepared transaction message failed",  # it has ended, or is not there
    "The producer group wrong",
    "The transaction state table offset wrong",
    "The commit log offset wrong",
)


class Place(msgspec.Struct, frozen=True):
    """Where a half message is: its broker set and topic, the byte in the commit log, the index in
    the half topic, and the key that all its copies have."""

    queue: QueueName
    byte: int
    offset: int
    key: str


class ProducerSession(Session):
    """One producer's connections.

    Args:
        routes: where masters are.
        dial: how to reach brokers.
        group: the run's tasks.
        client_id: that brokers know it by.
        producer_group: whose members may be asked about each other's transactions.
        decided: what is known of a transaction, by its key.
    """

    def __init__(
        self,
        routes: RouteBook,
        dial: Dial,
        group: asyncio.TaskGroup,
        *,
        client_id: str,
        producer_group: str,
        decided: Callable[[str], Decision],
    ) -> None:
        super().__init__(
            routes, dial, group, handler=self._on_question, greet=lambda _: self._heartbeat
        )
        known = HeartbeatBody(
            client_id=client_id, producer_data_set=(ProducerData(group_name=producer_group),)
        )
        self._heartbeat = Frame(code=RequestCode.HEART_BEAT, ext={}, body=known.to_json())
        self._producer_group = producer_group
        self._decided = decided
        self._heard: dict[str, float] = {}  # broker -> when it was last sent a heartbeat

    async def send_half(
        self, queue: QueueName, body: bytes, *, born_ms: int, key: str
    ) -> tuple[Outcome, Place | None]:
        """Send a half message, and say where it is if it is stored; outcomes as `Session.send`,
        the value of an `ok` being its index in the half topic."""
        more = {props.TRAN_MSG: "true", props.PGROUP: self._producer_group, props.UNIQ_KEY: key}
        sent = await self.send(
            queue, body, born_ms=born_ms, more=more, sys_flag=TRANSACTION_PREPARED,
            producer_group=self._producer_group,
        )  # fmt: skip
        byte = (sent.ext or {}).get("byte") if isinstance(sent, Ok) else None
        if not isinstance(sent, Ok) or byte is None:
            return sent, None
        return sent, Place(queue, byte, sent.value, key)

    async def end(self, place: Place, decision: Decision) -> Outcome:
        """End a transaction at the master of its broker set."""
        broker = self._broker(place.queue)
        if broker is None:
            return Fail("no-route")
        request = self._end_of(
            decision, key=place.key, queue=place.queue, byte=place.byte, offset=place.offset
        )
        answer = await attempt(self._pool, broker, request, timeout_s=END_TIMEOUT_S)
        outcome = answer if isinstance(answer, Fail | Info) else _outcome(answer)
        if isinstance(outcome, Ok):
            return Ok(ext={"node": place.queue.broker_set, "broker": broker})
        self._routes.nudge(place.queue.topic)
        return outcome

    def stay(self, queue: QueueName) -> None:
        """Tell the master of a queue that this producer is still there, if it is time to."""
        broker, now = self._broker(queue), asyncio.get_running_loop().time()
        if broker is not None and now - self._heard.get(broker, -HEARTBEAT_S) >= HEARTBEAT_S:
            self._heard[broker] = now
            with contextlib.suppress(NotSent):  # the next connection begins with one
                self._pool.post(broker, self._heartbeat)

    def _on_question(self, request: Frame, connection: Connection) -> Reply:
        if request.code != RequestCode.CHECK_TRANSACTION_STATE:
            return refuse(request, connection)
        try:
            asked = from_ext(CheckTransactionRequest, request.ext)
        except RemoteProtocolError:
            return None  # nothing that could be answered; it is asked again
        key = asked.transaction_id or asked.msg_id or ""
        queue = QueueName(asked.topic or "", asked.bname or "", 0)
        answer = self._end_of(
            self._decided(key), key=key, queue=queue, byte=asked.commit_log_offset,
            offset=asked.tran_state_table_offset, checked=True,
        )  # fmt: skip
        with contextlib.suppress(NotSent):
            connection.oneway(answer)
        return None

    def _end_of(
        self,
        decision: Decision,
        *,
        key: str,
        queue: QueueName,
        byte: int,
        offset: int,
        checked: bool = False,
    ) -> Frame:
        header = EndTransactionRequest(
            producer_group=self._producer_group,
            tran_state_table_offset=offset,
            commit_log_offset=byte,
            commit_or_rollback=_FLAGS[decision],
            msg_id=key,
            from_transaction_check=checked,
            transaction_id=key,
            topic=queue.topic,
            bname=queue.broker_set,
        )
        return Frame(code=RequestCode.END_TRANSACTION, ext=to_ext(header))


def _outcome(answer: Frame) -> Outcome:
    """What an answer to an end says: done, certainly not, or perhaps."""
    error = error_of(answer.code, answer.remark)
    if answer.code == ResponseCode.SUCCESS:
        return Ok()
    if answer.code in (ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.ILLEGAL_OPERATION):
        return Fail(error)  # of the role, and of an end that is too late: before anything is done
    if answer.code == ResponseCode.SYSTEM_ERROR and (answer.remark or "").startswith(_REFUSALS):
        return Fail(error)
    return Fail(error) if classify_send(answer.code, answer.remark) == "fail" else Info(error)
