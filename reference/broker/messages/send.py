"""Sends: what a broker checks before it stores, what it stores, and what it answers.

The checks are pure and in RocketMQ's order, because the code of a refusal shows a client whether
anything was stored: every refusal here comes before the append. After the append the answers are
SUCCESS, FLUSH_DISK_TIMEOUT and FLUSH_SLAVE_TIMEOUT
(`maxq.reference.broker.client_calls.acknowledgement`): stored, but maybe not on disk, or not on the
replicas that must have it. The last one outweighs the other.

Source: docs/spec/remoting.md 2.4 and 6.1, RocketMQ ``AbstractSendMessageProcessor``,
``SendMessageProcessor``, ``HookUtils``.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Protocol

from maxq.reference.broker.messages import transaction
from maxq.reference.broker.messages.refusal import Refusal
from maxq.reference.broker.store import delay
from maxq.reference.config import BrokerConfig
from maxq.reference.names import (
    DEFAULT_TOPIC,
    FORBIDDEN_TOPICS,
    RETRY_PREFIX,
    topic_name_fault,
)
from maxq.reference.records import LocalProtocolError, Record, RemoteProtocolError
from maxq.reference.wire import property as props
from maxq.reference.wire.bodies import SubscriptionGroupConfig
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.headers import SendRequest
from maxq.reference.wire.message import (
    TRANSACTION_MASK,
    TRANSACTION_NONE,
    TRANSACTION_PREPARED,
    Message,
    decode_batch,
)
from maxq.reference.wire.route import PERM_INHERIT, TopicConfig

TIMER_PROPERTIES = (props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS, props.TIMER_DELIVER_MS)


class Accepted(Record):
    """Messages of one queue, to be stored together."""

    messages: tuple[Message, ...]
    transaction_id: str | None  # RocketMQ's name for the UNIQ_KEY in an answer
    waits: bool  # whether some sender waits for disk and replicas; it does unless it says no
    moved: bool  # by a slave that acts, which forgets it once it is answered


class Situation(Record):
    """What the checks know of the broker."""

    role: str  # fenced, master, slave
    configured_slave: bool
    in_sync_count: int
    in_sync_count_min: int
    body_bytes_max: int


class Self(Protocol):
    """Who this broker is now; its `Membership`."""

    @property
    def role(self) -> str: ...
    @property
    def in_sync_count(self) -> int: ...
    @property
    def copies_needed(self) -> int: ...


def situation(config: BrokerConfig, me: Self) -> Situation:
    """What the checks know, now."""
    return Situation(
        role=me.role,
        configured_slave=config.broker_role == "SLAVE",
        in_sync_count=me.in_sync_count,
        in_sync_count_min=me.copies_needed,
        body_bytes_max=config.max_message_size,
    )


def role_fault(s: Situation) -> Refusal | None:
    """Why a broker in this role takes no message now."""
    if s.role == "slave" or (s.role == "fenced" and s.configured_slave):
        return Refusal(
            code=ResponseCode.SYSTEM_BUSY,
            remark="[REJECTREQUEST]system busy, start flow control for a while",
        )
    if s.role == "fenced":
        return Refusal(
            code=ResponseCode.SERVICE_NOT_AVAILABLE,
            remark="service not available now. It may be caused by the broker being fenced",
        )
    return None


def topic_fault(topic: str) -> Refusal | None:
    """Why clients may not send to a topic of this name."""
    fault = topic_name_fault(topic)
    if fault is not None:
        return Refusal(code=ResponseCode.INVALID_PARAMETER, remark=fault)
    if topic in FORBIDDEN_TOPICS:
        why = f"Sending message to topic[{topic}] is forbidden."
        return Refusal(code=ResponseCode.NO_PERMISSION, remark=why)
    return None


def created_topic(h: SendRequest, topics: Mapping[str, TopicConfig]) -> TopicConfig | None:
    """The topic that a first send brings into being; None where that is not allowed."""
    template = topics.get(h.default_topic)
    if template is None or h.default_topic != DEFAULT_TOPIC:
        return None
    if not template.perm & PERM_INHERIT:
        return None
    queues = max(1, min(h.default_topic_queue_nums, template.write_queue_nums))
    return TopicConfig(
        topic_name=h.topic,
        perm=template.perm & ~PERM_INHERIT,
        read_queue_nums=queues,
        write_queue_nums=queues,
    )


def accept(
    h: SendRequest,
    body: bytes,
    topic: TopicConfig,
    s: Situation,
    *,
    queue_id: int,
    groups: Container[str] | None,
    additions: Mapping[str, str],
    levels: delay.Levels,
    born_host: bytes,
    store_host: bytes,
) -> Accepted | Refusal:
    """Check a send to an existing topic and build what is stored.

    Args:
        h: the request.
        body: its body.
        topic: the topic's settings.
        s: the broker's situation.
        queue_id: the chosen queue.
        groups: the known consumer groups, to whose retry topics may be sent; None for any.
        additions: properties that the broker sets on every message.
        levels: the broker's delays.
        born_host: where the request came from, as records carry it.
        store_host: this broker, as records carry it.
    """
    raw = props.decode((h.properties or "").encode())
    fault = _target_fault(topic, queue_id, groups) or _content_fault(h, body, raw, s)
    if fault is not None:
        return fault
    waits = raw.get(props.WAIT) != "false"
    if waits and s.in_sync_count < s.in_sync_count_min:
        why = f"in-sync replicas not enough: {s.in_sync_count} < {s.in_sync_count_min}"
        return Refusal(code=ResponseCode.SYSTEM_ERROR, remark=why)
    template = _template(h, body, queue_id, born_host, store_host)
    try:
        if h.batch:
            messages = _unpack(template, body)
        else:
            raw.pop(props.POP_CK, None)
            own = props.encode({**additions, **raw, **_forced(additions)})
            messages = [_waiting(_with(template, body, own, h.flag), raw, levels)]
    except (LocalProtocolError, RemoteProtocolError) as error:
        return _illegal(str(error))
    if h.batch:
        fault = _batch_fault(messages)
        if fault is not None:
            return fault
        waits = any(m.property_map().get(props.WAIT) != "false" for m in messages)
    return Accepted(
        messages=tuple(messages),
        transaction_id=raw.get(props.UNIQ_KEY, additions.get(props.UNIQ_KEY)),
        waits=waits,
        moved=not waits and props.REAL_TOPIC in raw,
    )


def is_dead(
    h: SendRequest, group: SubscriptionGroupConfig, *, version: int, is_ordered: bool
) -> bool:
    """Whether a send to a group's retry topic goes to its dead letters.

    Clients send there by themselves when they cannot send back (36). Those that consume in order
    hold locks, try again in place, and send only what they give up.
    """
    times_max = group.retry_max_times
    if version >= delay.MAX_RECONSUME_VERSION and h.max_reconsume_times is not None:
        times_max = h.max_reconsume_times
    return is_ordered or (h.reconsume_times or 0) > times_max


def _template(
    h: SendRequest, body: bytes, queue_id: int, born_host: bytes, store_host: bytes
) -> Message:
    """What all messages of a request share."""
    return Message(
        topic=h.topic,
        body=body,
        queue_id=queue_id,
        flag=h.flag,
        sys_flag=h.sys_flag,
        born_timestamp=h.born_timestamp,
        born_host=born_host,
        store_host=store_host,
        reconsume_times=h.reconsume_times or 0,
    )


def _waiting(message: Message, properties: Mapping[str, str], levels: delay.Levels) -> Message:
    """What is stored for a message that waits for something; itself, if it does not."""
    if transaction.is_half(properties):
        return transaction.half(message)
    level = delay.level_of(properties)
    return delay.scheduled(message, level, levels) if level else message


def _target_fault(
    topic: TopicConfig, queue_id: int, groups: Container[str] | None
) -> Refusal | None:
    name = topic.topic_name
    queues = max(topic.read_queue_nums, topic.write_queue_nums)
    if not 0 <= queue_id < queues:
        why = f"request queueId[{queue_id}] is illegal, topic {name} has {queues} queues"
        return Refusal(code=ResponseCode.INVALID_PARAMETER, remark=why)
    group = name.removeprefix(RETRY_PREFIX)
    if group != name and groups is not None and group not in groups:
        why = f"subscription group not exist, {group}"
        return Refusal(code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark=why)
    return None


def _content_fault(
    h: SendRequest, body: bytes, raw: Mapping[str, str], s: Situation
) -> Refusal | None:
    why = _delay_fault(raw, batch=bool(h.batch)) or _not_here(raw) or _half_fault(h, raw)
    if not body:
        why = "message body is empty"
    elif len(body) > s.body_bytes_max:
        why = f"message body of {len(body)} bytes, at most {s.body_bytes_max}"
    elif h.batch and h.topic.startswith(RETRY_PREFIX):
        why = "a batch to a retry topic"
    return _illegal(why) if why else None


def _delay_fault(properties: Mapping[str, str], *, batch: bool) -> str | None:
    try:
        level = delay.level_of(properties)
    except ValueError:
        return f"delay level {properties[props.DELAY]!r:.20} is no number"
    return "a batch cannot be delayed" if batch and level else None


def _not_here(properties: Mapping[str, str]) -> str | None:
    """What the properties ask for and this broker does not do."""
    delayed = delay.level_of(properties) > 0  # which wins over a timer
    if not delayed and any(p in properties for p in TIMER_PROPERTIES):
        return "timer messages are not supported"
    return None


def _half_fault(h: SendRequest, properties: Mapping[str, str]) -> str | None:
    """Why a message cannot be the half of a transaction that it says to be."""
    state = h.sys_flag & TRANSACTION_MASK
    if not transaction.is_half(properties):
        return "in a transaction by its sysFlag only" if state else None
    if state not in (TRANSACTION_NONE, TRANSACTION_PREPARED):
        return f"sysFlag of an ended transaction: {h.sys_flag}"
    if h.batch or h.topic.startswith(RETRY_PREFIX):
        return "a half message in a batch, or to a retry topic"
    return "a half message cannot be delayed" if delay.level_of(properties) else None


def _batch_fault(elements: Sequence[Message]) -> Refusal | None:
    for element in elements:
        why = _delay_fault(element.property_map(), batch=True)
        why = why or _not_here(element.property_map())
        if transaction.is_half(element.property_map()):
            why = "a half message"
        if element.properties.endswith(b"\0"):
            why = "properties end in a zero byte, which a recovery takes for a torn write"
        if why:
            return _illegal(f"in a batch: {why}")
    return None


def _illegal(why: str) -> Refusal:
    return Refusal(code=ResponseCode.MESSAGE_ILLEGAL, remark=f"the message is illegal: {why}")


def _forced(additions: Mapping[str, str]) -> dict[str, str]:
    """What a client cannot override; the UNIQ_KEY is its own if it sent one."""
    return {k: v for k, v in additions.items() if k != props.UNIQ_KEY}


def _unpack(template: Message, body: bytes) -> Sequence[Message]:
    """The messages of a batch, each with its own properties, as 5.4.0 and later store them."""
    return [_with(template, e.body, e.properties, e.flag) for e in decode_batch(body)]


def _with(m: Message, body: bytes, properties: bytes, flag: int) -> Message:
    return Message(
        topic=m.topic,
        body=body,
        properties=properties,
        queue_id=m.queue_id,
        flag=flag,
        sys_flag=m.sys_flag,
        born_timestamp=m.born_timestamp,
        born_host=m.born_host,
        store_host=m.store_host,
        reconsume_times=m.reconsume_times,
    )
