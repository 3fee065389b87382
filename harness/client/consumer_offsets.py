"""Single calls about how far a consumer group has read (14, 15), no retry.

They go to a queue's master; to a slave of its set where routes list none, as RocketMQ's do.

A group that a broker does not know yet is made there (200), as an operator would; by a slave that
acts and takes no such request, with a pull, as a consumer would. The commit that found it unknown
has failed. Nothing else is pulled: once anybody has pulled from a 5.5.0 master its slaves copy no
offsets any more.
Units: seconds; an offset is a message index.
Source: docs/spec/remoting.md 2.8 (14, 15), RocketMQ ``RemoteBrokerOffsetStore``.
"""

import asyncio

import msgspec

from maxq.harness.client.session import QueueName, RouteBook, Source, pull_of
from maxq.harness.contracts.error_classes import error_of, error_words
from maxq.harness.contracts.outcome import Fail, Info, Ok, Outcome, attempt
from maxq.histories.observed import CODE
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Dial, Pool
from maxq.reference.wire import headers
from maxq.reference.wire.bodies import SubscriptionGroupConfig
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext

OFFSET_TIMEOUT_S = 3.0
# Decided before anything is written.
REFUSED = frozenset({ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST})
NO_OFFSET = 0  # where a group begins that has committed none


class OffsetSession:
    """One client's connections.

    Args:
        routes: where masters are.
        dial: how brokers are reached.
        group: the run's tasks.
    """

    def __init__(self, routes: RouteBook, dial: Dial, group: asyncio.TaskGroup) -> None:
        self._routes = routes
        self._pool = Pool(group, dial=dial)

    def close(self) -> None:
        self._pool.close()

    def asked(self, queue: QueueName) -> Source | None:
        """The broker that would be asked now; None: none is known."""
        return self._routes.source(queue.topic, queue.broker_set)

    async def commit(self, queue: QueueName, consumer_group: str, offset: int) -> Outcome:
        """Commit how far a group has read; ok: who was asked has taken note."""
        source = self.asked(queue)
        if source is None:
            self._routes.nudge(queue.topic)
            return Fail("no-route")
        broker, of = source.broker, source.ext
        header = headers.UpdateConsumerOffsetRequest(
            topic=queue.topic,
            consumer_group=consumer_group,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker_set,
        )
        frame = Frame(code=RequestCode.UPDATE_CONSUMER_OFFSET, ext=to_ext(header))
        answer = await attempt(self._pool, broker, frame, timeout_s=OFFSET_TIMEOUT_S)
        if not isinstance(answer, Frame):
            self._routes.nudge(queue.topic)
            return msgspec.structs.replace(answer, ext=of)
        if answer.code == ResponseCode.SUCCESS:
            return Ok(ext=of)
        self._routes.nudge(queue.topic)
        why = error_of(answer.code, answer.remark)
        if answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            await self._make(broker, queue, consumer_group)
        asked = {**of, CODE: answer.code}
        return Fail(why, asked) if answer.code in REFUSED else Info(why, ext=asked)

    async def _make(self, broker: str, queue: QueueName, consumer_group: str) -> None:
        """Make a group known; whether that was of use is seen by the next commit."""
        body = SubscriptionGroupConfig(group_name=consumer_group).to_json()
        frame = Frame(code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        made = await attempt(self._pool, broker, frame, timeout_s=OFFSET_TIMEOUT_S)
        if isinstance(made, Frame) and made.code != ResponseCode.SUCCESS:
            pull = pull_of(queue, 0, consumer_group=consumer_group, count=1)
            await attempt(self._pool, broker, pull, timeout_s=OFFSET_TIMEOUT_S)

    async def fetch(self, queue: QueueName, consumer_group: str) -> Outcome:
        """Ask how far a group has read; ok carries the offset, `NO_OFFSET` for none."""
        source = self.asked(queue)
        if source is None:
            self._routes.nudge(queue.topic)
            return Fail("no-route")
        of = source.ext
        header = headers.QueryConsumerOffsetRequest(
            topic=queue.topic,
            consumer_group=consumer_group,
            queue_id=queue.queue_id,
            bname=queue.broker_set,
        )
        frame = Frame(code=RequestCode.QUERY_CONSUMER_OFFSET, ext=to_ext(header))
        try:
            answer = await self._pool.call(source.broker, frame, timeout_s=OFFSET_TIMEOUT_S)
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                return Ok(NO_OFFSET, ext=of)
            if answer.code == ResponseCode.SUCCESS:
                found = from_ext(headers.OffsetResponse, answer.ext)
                return Ok(max(found.offset, NO_OFFSET), ext=of)
        except (OSError, RemoteProtocolError) as error:  # a question changes nothing
            self._routes.nudge(queue.topic)
            return Fail(error_words(error), ext=of)
        self._routes.nudge(queue.topic)
        return Fail(error_of(answer.code, answer.remark), ext={**of, CODE: answer.code})
