"""Single calls about the locks of ordered queues (41, 42), to one broker, without a retry.

An answer that does not name the queue is a refusal: the broker decides before it answers. Whatever
else happens after the request has left, is `info`, since the broker may have granted.
Units: seconds. Source: RocketMQ ``RebalanceImpl.lock``, whose time-out is one second.
"""

import asyncio

from maxq.harness.client.session import QueueName
from maxq.harness.contracts.error_classes import error_of, plain
from maxq.harness.contracts.outcome import Fail, Info, Ok, Outcome, attempt
from maxq.histories.observed import CODE, NOT_GRANTED
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Dial, Pool
from maxq.reference.wire.bodies import LockRequest, LockResponse, MessageQueue
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame

LOCK_TIMEOUT_S = 1.5  # above what a broker waits for its peers


class LockSession:
    """One client's connections to brokers, and its attempts.

    Args:
        consumer_group: whose locks; clients compete within a group.
        dial: how brokers are reached.
        group: the run's tasks.
    """

    def __init__(self, consumer_group: str, dial: Dial, group: asyncio.TaskGroup) -> None:
        self._consumer_group = consumer_group
        self._pool = Pool(group, dial=dial)

    def close(self) -> None:
        self._pool.close()

    async def lock(self, broker: str, client_id: str, queue: QueueName) -> Outcome:
        """Acquire or prolong; ok means granted."""
        answer = await self._ask(RequestCode.LOCK_BATCH_MQ, broker, client_id, queue)
        if not isinstance(answer, Frame):
            return answer
        try:
            granted = LockResponse.from_json(answer.body).lock_ok_mq_set
        except RemoteProtocolError as error:
            return Info(["bad-answer", plain(str(error))])
        return Ok() if _wire(queue) in granted else Fail(NOT_GRANTED)

    async def unlock(self, broker: str, client_id: str, queue: QueueName) -> Outcome:
        """Give back; ok means that the broker has taken note."""
        answer = await self._ask(RequestCode.UNLOCK_BATCH_MQ, broker, client_id, queue)
        return Ok() if isinstance(answer, Frame) else answer

    async def _ask(
        self, code: RequestCode, broker: str, client_id: str, queue: QueueName
    ) -> Frame | Fail | Info:
        body = LockRequest(
            client_id=client_id, consumer_group=self._consumer_group, mq_set=(_wire(queue),)
        )
        frame = Frame(code=code, ext={}, body=body.to_json())
        answer = await attempt(self._pool, broker, frame, timeout_s=LOCK_TIMEOUT_S)
        if not isinstance(answer, Frame):
            return answer
        if answer.code != ResponseCode.SUCCESS:
            return Info(error_of(answer.code, answer.remark), ext={CODE: answer.code})
        return answer


def _wire(queue: QueueName) -> MessageQueue:
    return MessageQueue(broker_name=queue.broker_set, queue_id=queue.queue_id, topic=queue.topic)
