"""Messages by key (12): what operators look for when they do not know where it is.

RocketMQ keeps an index in files; here the topic's queues are read from their ends back to the
begin of the asked time, and no more than `LOOKED_MAX` records: anyone who asks for more than that
finds the newest. Times are ms of the broker's wall clock. Source: RocketMQ
``QueryMessageProcessor``, ``IndexService``.
"""

import asyncio
import heapq
from collections.abc import Iterable, Iterator

from maxq.reference.broker.client_calls.record_reads import record_at
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.records import QueueOffset
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.wire import property as props
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import QueryMessageRequest, QueryMessageResponse, from_ext, to_ext
from maxq.reference.wire.message import Message, decode

LOOKED_MAX = 100_000  # records that one question may read
SLICE = 200  # records between two turns for others
FOUND_MAX = 64  # messages, RocketMQ's maxMsgsNumBatch
FOUND_BYTES_MAX = 8 << 20


class Lookup:
    """Handler of 12."""

    def __init__(self, store: Store, tables: Tables) -> None:
        self._store = store
        self._tables = tables

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.QUERY_MESSAGE: self._query}

    async def _query(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(QueryMessageRequest, request.ext)
        count = FOUND_MAX if h.unique_key_query else max(0, min(h.max_num, FOUND_MAX))
        # The newest: time, how early it was found, place. Records are read once these are known.
        found: list[tuple[int, int, int]] = []
        for looked, message in enumerate(self._newest_first(h)):
            if looked >= LOOKED_MAX:
                break
            if looked % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            if message.store_timestamp <= h.end_timestamp and _has_key(message, h):
                heapq.heappush(found, (message.store_timestamp, -looked, message.physical_offset))
                if len(found) > count:
                    heapq.heappop(found)
        answer = QueryMessageResponse(
            index_last_update_timestamp=0, index_last_update_phyoffset=self._store.confirm_offset
        )
        body = self._records(place for _, _, place in sorted(found, reverse=True))
        if not body:
            why = "can not find message, maybe time range not correct"
            return request.answer(ResponseCode.QUERY_NOT_FOUND, why, ext=to_ext(answer))
        return request.answer(ResponseCode.SUCCESS, ext=to_ext(answer), body=body)

    def _records(self, places: Iterable[int]) -> bytes:
        """The records at these places, as many as an answer may hold."""
        body = b""
        for place in places:
            record = record_at(self._store, place) or b""
            if len(body) + len(record) > FOUND_BYTES_MAX:
                break
            body += record
        return body

    def _newest_first(self, h: QueryMessageRequest) -> Iterator[Message]:
        """Each queue's messages, from its end back to the begin of the asked time."""
        topic = self._tables.topics.get(h.topic)
        queues = max(topic.read_queue_nums, topic.write_queue_nums) if topic else 0
        for queue_id in range(queues):
            first, end = self._store.bounds(h.topic, queue_id)
            for offset in range(end - 1, first - 1, -1):
                _, unit = next(self._store.units(h.topic, queue_id, QueueOffset(offset)))
                message, _ = decode(self._store.record(unit))
                if message.store_timestamp < h.begin_timestamp:
                    break
                yield message


def _has_key(message: Message, h: QueryMessageRequest) -> bool:
    if not h.key:  # which no message is indexed by
        return False
    properties = message.property_map()
    if properties.get(props.UNIQ_KEY) == h.key:
        return True
    return not h.unique_key_query and h.key in properties.get(props.KEYS, "").split(" ")
