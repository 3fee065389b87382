"""Where an acting slave sends what it has to store, and when it tries again. Pure.

Its own log is a copy that it must not write. So what is due there, and half messages that nobody
asks about any more, goes to a master of another broker name: never to its own name, never to one
whose queues take no messages, or that has no id 0.

What was sent counts as *stored* only if the target says so. A *refused* one was surely not stored,
and goes elsewhere. If it is *unsure* the message may be there: it is tried at the same broker
first, which knows the half message by its key, and is sent again elsewhere if that one stays
silent. So a message may come twice, and none is lost.

A message that finds no target waits apart, and holds up none behind it; at most `HELD_MAX` do.
RocketMQ tries the same message each 100 ms, and stops its level meanwhile. Times are ns of the
node's monotonic clock. Claims: E1, E4, E5. Source: RocketMQ ``EscapeBridge``;
docs/spec/acting-master.md 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from maxq.reference.broker.messages.send import TIMER_PROPERTIES
from maxq.reference.names import takes_messages
from maxq.reference.records import QueueOffset, Record
from maxq.reference.wire import property as props
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.headers import SendRequest
from maxq.reference.wire.message import TRANSACTION_MASK, TRANSACTION_PREPARED, Message
from maxq.reference.wire.route import PERM_WRITE, TopicRouteData

MASTER_ID = 0
HELD_MAX = 1000  # of a queue, on their way or waiting for a target
FLYING_MAX = 16  # of a queue, on their way
FIRST_PAUSE_NS, PAUSE_MAX_NS = 100_000_000, 3_200_000_000
TIED_MAX = 3  # tries at a broker that may have the message, before another one gets it
QUEUES_OF_NEW_TOPIC = 8  # as RocketMQ says; a target has the topic

Sent = Literal["stored", "refused", "unsure"]

# Answers that come before anything is stored.
_REFUSALS = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        ResponseCode.MESSAGE_ILLEGAL,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
    }
)


class Target(Record):
    """A broker that takes messages of a topic."""

    broker_name: str
    address: str  # of its master
    queues: int
    queue_id: int | None = None  # the only one that is meant; None: any


class Place(Record):
    """A queue of a target."""

    broker_name: str
    address: str
    queue_id: int


def targets(route: TopicRouteData, own_name: str) -> tuple[Target, ...]:
    """Who may get messages of the topic whose route this is, by name.

    Args:
        route: as a name server says.
        own_name: the broker name of who asks.
    """
    masters = {b.broker_name: b.broker_addrs.get(MASTER_ID) for b in route.broker_datas}
    found = []
    for queues in route.queue_datas:
        address = masters.get(queues.broker_name)
        takes = queues.perm & PERM_WRITE and queues.write_queue_nums > 0
        if address and takes and queues.broker_name != own_name:
            found.append(
                Target(
                    broker_name=queues.broker_name,
                    address=address,
                    queues=queues.write_queue_nums,
                )
            )
    return tuple(sorted(found, key=lambda t: t.broker_name))


def meaning(code: int) -> Sent:
    """What a target's answer says about the message. One that disk or replicas lack is unsure: it
    is in the log, and may be lost."""
    if code == ResponseCode.SUCCESS:
        return "stored"
    return "refused" if code in _REFUSALS else "unsure"


def pause_ns(tries: int) -> int:
    """How long a message waits after so many tries."""
    return min(FIRST_PAUSE_NS << min(max(tries - 1, 0), 10), PAUSE_MAX_NS)


@dataclass(slots=True)
class _Held:
    """A message that is not stored elsewhere yet."""

    tries: int = 0
    again_ns: int = 0
    flying: bool = False
    last: Place | None = None  # where it was tried
    unsure: int = 0  # how often `last`'s broker was silent about it, in a row


@dataclass(slots=True)
class Attempts:
    """The messages of one queue that are on their way, or wait to be tried again."""

    _held: dict[QueueOffset, _Held] = field(default_factory=dict)
    _turn: int = 0  # which of all queues comes next

    @property
    def room(self) -> bool:
        """Whether another message may be begun."""
        return len(self._held) < HELD_MAX

    @property
    def flying(self) -> int:
        """How many are on their way."""
        return sum(held.flying for held in self._held.values())

    @property
    def first(self) -> QueueOffset | None:
        """The first that is not stored elsewhere; None if all are."""
        return min(self._held, default=None)

    def __contains__(self, offset: QueueOffset) -> bool:
        return offset in self._held

    def begin(self, offset: QueueOffset) -> None:
        """A message that has to go elsewhere; it is due at once."""
        self._held.setdefault(offset, _Held())

    def drop(self, offset: QueueOffset) -> None:
        """A message that has to go nowhere any more."""
        self._held.pop(offset, None)

    def was_refused(self, offset: QueueOffset) -> bool:
        """Whether a message was not taken where it was tried last."""
        held = self._held[offset]
        return held.tries > 0 and not held.unsure

    def take_due(self, now_ns: int) -> list[QueueOffset]:
        """The messages to try now, no more than may be on their way, which they are from here on;
        those that were tried least come first, so that those without a target leave room."""
        waiting = [
            (held.tries, offset)
            for offset, held in self._held.items()
            if not held.flying and held.again_ns <= now_ns
        ]
        if not waiting:
            return []
        taken = [offset for _, offset in sorted(waiting)[: max(0, FLYING_MAX - self.flying)]]
        for offset in taken:
            self._held[offset].flying = True
        return taken

    def place(self, offset: QueueOffset, found: Sequence[Target]) -> Place | None:
        """Where a message is to be sent that is on its way; None: no target is known.

        Args:
            offset: the message.
            found: who takes messages of its topic.
        """
        held = self._held[offset]
        last = held.last
        if last is not None and 0 < held.unsure <= TIED_MAX:
            same = next((t for t in found if t.broker_name == last.broker_name), None)
            if same is not None and last.queue_id < same.queues:
                held.last = msgspec.structs.replace(last, address=same.address)
                return held.last
        others = [t for t in found if last is None or t.broker_name != last.broker_name] or found
        places = [
            Place(broker_name=t.broker_name, address=t.address, queue_id=q)
            for t in others
            for q in (range(t.queues) if t.queue_id is None else (t.queue_id,))
        ]
        if not places:
            return None
        self._turn += 1
        held.last, held.unsure = places[self._turn % len(places)], 0
        return held.last

    def on_result(self, offset: QueueOffset, result: Sent, now_ns: int) -> None:
        """What became of a message that was sent, or found no place (*refused*)."""
        held = self._held.get(offset)
        if held is None:
            return
        if result == "stored":
            del self._held[offset]
            return
        held.tries += 1
        held.flying, held.again_ns = False, now_ns + pause_ns(held.tries)
        held.unsure = held.unsure + 1 if result == "unsure" else 0


# --- what is sent -------------------------------------------------------------------------------


def delayed_copy(waiting: Message) -> tuple[str, Message] | None:
    """What is sent of a delayed message for which the time has come, and the topic that it is meant
    for; None if the record does not say it, or names a topic that no client may send to. The copy
    has the queue that it is meant for, which a neighbour may have as well."""
    properties = waiting.property_map()
    topic = properties.get(props.REAL_TOPIC, "")
    if not takes_messages(topic):
        return None
    for name in (props.DELAY, *TIMER_PROPERTIES):
        properties.pop(name, None)
    properties[props.WAIT] = "false"
    return topic, msgspec.structs.replace(
        waiting,
        topic=topic,
        queue_id=_real_queue(properties.get(props.REAL_QID, "")),
        properties=props.encode(properties),
    )


def half_copy(waiting: Message) -> tuple[str, Message] | None:
    """What is sent of a half message, as its producer would, and its topic; None as before."""
    properties = waiting.property_map()
    topic = properties.get(props.REAL_TOPIC, "")
    if not takes_messages(topic):
        return None
    queue_id = _real_queue(properties.pop(props.REAL_QID, ""))
    properties |= {props.WAIT: "false", props.TRAN_MSG: "true"}
    return topic, msgspec.structs.replace(
        waiting,
        topic=topic,
        queue_id=queue_id,
        sys_flag=waiting.sys_flag & ~TRANSACTION_MASK | TRANSACTION_PREPARED,
        properties=props.encode(properties),
    )


def _real_queue(text: str) -> int:
    """The queue that a message is meant for; 0 where its record does not say it."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def inner_group(broker_name: str, broker_id: int) -> str:
    """The producer group of messages that have none of their own."""
    return f"InnerProducerGroup_{broker_name}_{broker_id}"


def send_header(message: Message, place: Place, own_group: str) -> SendRequest:
    """The header of 310 that stores a copy at a place, as RocketMQ writes it."""
    group = message.property_map().get(props.PGROUP)
    return SendRequest(
        topic=message.topic,
        producer_group=group or own_group,
        default_topic="TBW102",
        default_topic_queue_nums=QUEUES_OF_NEW_TOPIC,
        queue_id=place.queue_id,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        flag=message.flag,
        properties=message.properties.decode(errors="replace"),
        reconsume_times=message.reconsume_times,
        unit_mode=False,
        batch=False,
    )


def reached(next_offset: QueueOffset, first_held: QueueOffset | None) -> QueueOffset:
    """How far a queue is settled: before the first message that is not stored elsewhere."""
    return next_offset if first_held is None else min(next_offset, first_held)
