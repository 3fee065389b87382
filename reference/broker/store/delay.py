"""Delayed messages and second tries: what is stored instead of what was sent. Pure.

A message with a delay level waits as a record of the schedule topic, in the queue of its level;
topic and queue that it is meant for are properties. The unit of its consume queue holds the time
of delivery where others hold the hash of a tag. When that time comes a copy goes where it was
meant to go (`maxq.reference.broker.client_calls.schedule`).

A consumer that cannot handle a message sends it back: a copy waits for the group's retry topic, a
level longer each time, or goes to the group's dead letters when it was tried often enough.

Levels count from 1, queues of the schedule topic from 0; times are ms of a broker's wall clock.
Source: RocketMQ ``ScheduleMessageService``, ``HookUtils.transformDelayLevelMessage``,
``AbstractSendMessageProcessor.consumerSendMsgBack``; captures of 5.1.1, 5.3.3 and 5.5.0.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from maxq.reference.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, takes_messages
from maxq.reference.wire import property as props
from maxq.reference.wire.message import Message, tags_code

Levels = tuple[int, ...]  # ms of level 1, 2, ...
RETRY_LEVEL_FIRST = 3  # of the first second try: 10 s
UNKNOWN_LEVEL_MS = 1000  # RocketMQ's delay where a record names a level that there is not
INT64_MAX = 2**63 - 1  # what a unit holds, whatever another writer of the log says
MAX_RECONSUME_VERSION = 121  # 3.4.9: from here on a client's own bound counts

_TIMER = (props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS, props.TIMER_DELIVER_MS)


def level_of(properties: Mapping[str, str]) -> int:
    """The delay level that a message asks for; 0 for none.

    Raises:
        ValueError: it is no number.
    """
    return max(0, int(properties.get(props.DELAY, "0")))


def scheduled(message: Message, level: int, levels: Levels) -> Message:
    """The record that waits for a message's time.

    Raises:
        LocalProtocolError: the properties get too long.
    """
    level = min(level, len(levels))
    properties = {k: v for k, v in message.property_map().items() if k not in _TIMER}
    properties |= {
        props.DELAY: str(level),
        props.REAL_TOPIC: message.topic,
        props.REAL_QID: str(message.queue_id),
    }
    return msgspec.structs.replace(
        message,
        topic=SCHEDULE_TOPIC,
        queue_id=level - 1,
        properties=props.encode(properties),
    )


def delivered(waiting: Message, store_host: bytes) -> Message | None:
    """The copy for which the time has come; None if the record does not say where it goes, or names
    a topic that no client may send to.

    Its properties are those of the waiting record. Java keeps the first store host as well; here it
    is the broker's that stores the copy, so that its id leads to it after a fail-over.
    """
    properties = waiting.property_map()
    topic, queue = properties.get(props.REAL_TOPIC, ""), properties.get(props.REAL_QID, "")
    if not takes_messages(topic) or not queue.isdecimal() or len(queue) > 9:
        return None
    return msgspec.structs.replace(waiting, topic=topic, queue_id=int(queue), store_host=store_host)


def unit_code(message: Message, stored_ms: int, levels: Levels) -> int:
    """What a consume queue's unit says besides the place: tag, or time of delivery."""
    if message.topic != SCHEDULE_TOPIC:
        return tags_code(message.tags)
    level = props.value_of(message.properties, props.DELAY) or ""
    if not level.isdecimal() or len(level) > 9 or level == "0":
        return tags_code(message.tags)
    at = min(int(level), len(levels))
    return min(stored_ms + (levels[at - 1] if at else UNKNOWN_LEVEL_MS), INT64_MAX)


@dataclass(slots=True)
class Dues:
    """When the messages of one level are due.

    A time that is further ahead than the level's delay is of a clock that was ahead of ours, or
    ours was set back. (Java takes such a message for due at once, and delivers it early.) Then
    the delay counts from when we have seen it in the log. Times of `is_due` are ms of the wall
    clock, and ns of the monotonic one.
    """

    delay_ms: int
    _seen_end: int = 0  # where the queue ended when a message that is too far ahead was first seen
    _seen_ns: int = 0

    def is_due(self, offset: int, at_ms: int, *, now_ms: int, now_ns: int, end: int) -> bool:
        """Whether the time of the message at `offset`, by its unit `at_ms`, has come.

        Args:
            offset: of the level's queue; asked in order.
            at_ms: its time.
            now_ms: the wall clock.
            now_ns: the monotonic clock.
            end: where the queue ends.
        """
        if at_ms <= now_ms:
            return True
        if at_ms <= now_ms + self.delay_ms:
            return False
        if offset >= self._seen_end:
            self._seen_end, self._seen_ns = end, now_ns
        return now_ns - self._seen_ns >= self.delay_ms * 1_000_000


# --- second tries --------------------------------------------------------------------------------


def is_dead(reconsume_times: int, delay_level: int, times_max: int) -> bool:
    """Whether a message that is sent back was tried often enough, or is given up by its level."""
    return reconsume_times >= times_max or delay_level < 0


def sent_back(
    message: Message, group: str, delay_level: int, *, dead: bool, queue_id: int, store_host: bytes
) -> Message:
    """The copy of a message that a consumer sends back, before it is scheduled.

    Java writes ``WAIT=false`` into it. Here it waits as its original did: its sender takes our
    answer for the end of the matter and commits an offset behind the original.

    Args:
        message: the original, as stored.
        group: the consumers' group.
        delay_level: as asked; 0 leaves it to the broker.
        dead: whether it goes to the dead letters.
        queue_id: of the retry topic, or of the dead letters.
        store_host: this broker, as records carry it.
    """
    properties = message.property_map()
    level = 0 if dead else delay_level or RETRY_LEVEL_FIRST + message.reconsume_times
    properties.setdefault(props.RETRY_TOPIC, message.topic)
    properties.setdefault(props.ORIGIN_MESSAGE_ID, message.msg_id)
    properties[props.DELAY] = str(level)
    return Message(
        topic=(DLQ_PREFIX if dead else RETRY_PREFIX) + group,
        body=message.body,
        properties=props.encode(properties),
        queue_id=queue_id,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_host=store_host,
        reconsume_times=message.reconsume_times + 1,
    )
