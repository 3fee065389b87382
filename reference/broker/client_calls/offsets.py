"""Where queues begin and end, and how far groups are in them: 14, 15, 29 to 32.

None of these looks at the broker's role: master and slave answer from what they have, as in
RocketMQ. Offsets are message indices; times are ms of the broker's wall clock.
"""

from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.records import QueueOffset
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.wire import headers
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext
from maxq.reference.wire.message import decode


class Offsets:
    """Handlers of requests about offsets."""

    def __init__(self, store: Store, tables: Tables) -> None:
        self._store = store
        self._tables = tables

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self._query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._search_offset,
            RequestCode.GET_MAX_OFFSET: self._max_offset,
            RequestCode.GET_MIN_OFFSET: self._min_offset,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self._earliest_time,
        }

    def _query_offset(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.QueryConsumerOffsetRequest, request.ext)
        offset = self._tables.offset(h.topic, h.consumer_group, h.queue_id)
        if offset is None and h.set_zero_if_not_found is not False:
            first, end = self._store.bounds(h.topic, h.queue_id)
            offset = 0 if first <= 0 < end else None  # only where message 0 is still there
        if offset is None:
            why = "Not found, maybe this group consumer boot first"
            return request.answer(ResponseCode.QUERY_NOT_FOUND, why)
        return _offset(request, offset)

    def _update_offset(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.UpdateConsumerOffsetRequest, request.ext)
        if h.consumer_group not in self._tables.groups:
            why = f"Group {h.consumer_group} not exist!"
            return request.answer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, why)
        topic = self._tables.topics.get(h.topic)
        if topic is None:
            return request.answer(ResponseCode.TOPIC_NOT_EXIST, f"topic[{h.topic}] not exist")
        if not 0 <= h.queue_id < max(topic.read_queue_nums, topic.write_queue_nums):
            why = f"queueId[{h.queue_id}] is illegal, topic {h.topic}"
            return request.answer(ResponseCode.INVALID_PARAMETER, why)
        self._tables.commit_offset(h.topic, h.consumer_group, h.queue_id, h.commit_offset)
        return request.answer(ResponseCode.SUCCESS)

    def _search_offset(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.SearchOffsetRequest, request.ext)
        found = self._store.search(h.topic, h.queue_id, _stored_at, h.timestamp)
        if (h.boundary_type or "lower").lower() == "upper":
            # The last record stored at `timestamp` or before it.
            after = self._store.search(h.topic, h.queue_id, _stored_at, h.timestamp + 1)
            first, _ = self._store.bounds(h.topic, h.queue_id)
            found = QueueOffset(max(first, after - 1))
        return _offset(request, found)

    def _max_offset(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.MaxOffsetRequest, request.ext)
        return _offset(request, self._store.bounds(h.topic, h.queue_id)[1])

    def _min_offset(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.QueueRequest, request.ext)
        return _offset(request, self._store.bounds(h.topic, h.queue_id)[0])

    def _earliest_time(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.QueueRequest, request.ext)
        first, _ = self._store.bounds(h.topic, h.queue_id)
        _, unit = next(self._store.units(h.topic, h.queue_id, first), (first, None))
        time = -1 if unit is None else _stored_at(self._store.record(unit))
        return request.answer(
            ResponseCode.SUCCESS, ext=to_ext(headers.TimestampResponse(timestamp=time))
        )


def _offset(request: Frame, offset: int) -> Reply:
    return request.answer(ResponseCode.SUCCESS, ext=to_ext(headers.OffsetResponse(offset=offset)))


def _stored_at(record: bytes) -> int:
    return decode(record)[0].store_timestamp
