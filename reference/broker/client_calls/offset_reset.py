"""Sets a group back to a point in time (222), as an operator asks: by telling its members (220).

The members stop for some seconds, take the offsets and commit them; what the broker remembers
changes by that commit and not before. Where no consumer is online the tool sets the offsets itself.

Times are ms of the wall clock, offsets message indices. Source: RocketMQ ``Broker2Client``, with
``useServerSideResetOffset=false``.
"""

import contextlib

from maxq.reference.broker.client_calls.clients import Clients
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.rpc import Connection, Handler, NotSent, Reply
from maxq.reference.wire.bodies import MessageQueue, ResetOffsets
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext
from maxq.reference.wire.message import decode
from maxq.reference.wire.node_headers import ResetOffsetRequest

TO_THE_END = -1  # instead of a time


class OffsetReset:
    """Handler of 222."""

    def __init__(
        self, config: BrokerConfig, store: Store, tables: Tables, clients: Clients
    ) -> None:
        self._config = config
        self._store = store
        self._tables = tables
        self._clients = clients

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self._reset}

    def _reset(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(ResetOffsetRequest, request.ext)
        topic = self._tables.topics.get(h.topic)
        if topic is None:
            why = f"[reset-offset] reset offset failed, no topic in this broker. topic={h.topic}"
            return request.answer(ResponseCode.SYSTEM_ERROR, why)
        table: dict[str, int] = {}
        for queue_id in range(topic.write_queue_nums):
            known = self._tables.offset(h.topic, h.group, queue_id)
            if known is None:
                why = f"THe consumer group <{h.group}> not exist"  # as Java spells it
                return request.answer(ResponseCode.SYSTEM_ERROR, why)
            there = self._offset_at(h.topic, queue_id, h.timestamp)
            queue = MessageQueue(
                broker_name=self._config.broker_name, queue_id=queue_id, topic=h.topic
            )
            table[queue.key()] = there if h.is_force else min(there, known)
        body = ResetOffsets(offset_table=table).to_json()
        if not self._notify(h, body):
            why = f"Consumer not online, so can not reset offset, Group: {h.group} Topic: {h.topic}"
            return request.answer(ResponseCode.CONSUMER_NOT_ONLINE, why)
        return request.answer(ResponseCode.SUCCESS, body=body)

    def _offset_at(self, topic: str, queue_id: int, timestamp: int) -> int:
        if timestamp == TO_THE_END:
            return self._store.bounds(topic, queue_id)[1]
        return self._store.search(
            topic, queue_id, lambda record: decode(record)[0].store_timestamp, timestamp
        )

    def _notify(self, h: ResetOffsetRequest, body: bytes) -> bool:
        """Notify every member; false if there is none."""
        order = Frame(
            code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
            ext=to_ext(
                ResetOffsetRequest(topic=h.topic, group=h.group, timestamp=h.timestamp)
            ),
            body=body,
        )  # fmt: skip
        members = self._clients.members(h.group)
        for _, member in sorted(members.items()):
            if isinstance(member.channel, Connection):
                with contextlib.suppress(NotSent):  # its end will be seen
                    member.channel.oneway(order)
        return bool(members)
