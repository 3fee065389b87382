"""Typed headers: the ``extFields`` of each request and response as a record.

Every field keeps RocketMQ's own name on the wire (its camelCase, or the letter of the short send
header) and has its snake_case form here. What is None is not written, numbers are decimal text,
booleans are ``true`` and ``false`` and are read as Java's ``Boolean.parseBoolean`` does. Unknown
keys are ignored: Java clients of one API put a ``ReqT`` into every request. A field without a
default is one that Java marks not-null, or unboxes without looking.

Times are milliseconds of the sender's clock. Source: the header classes of RocketMQ 5.1.1 to
5.5.0, one record each; captures of all three lines.
"""

from collections.abc import Mapping
from inspect import get_annotations
from typing import Annotated, ClassVar, TypeVar

import msgspec

from maxq.reference.records import Record, RemoteProtocolError

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

# Names that camelCase alone does not give.
_ODD_NAMES = {
    "client_id": "clientID",
    "zone_name": "__ZONE_NAME",
    "msg_region": "MSG_REGION",
    "trace_on": "TRACE_ON",
    "unique_key_query": "_UNIQUE_KEY_QUERY",
    "is_support_heart_beat_v2": "IS_SUPPORT_HEART_BEAT_V2",
    "is_sub_change": "IS_SUB_CHANGE",
}


def java_name(name: str) -> str:
    """Give the wire's name of a field."""
    head, *tail = name.split("_") if name not in _ODD_NAMES else [_ODD_NAMES[name]]
    return head + "".join(part.capitalize() for part in tail)


class BadHeader(RemoteProtocolError):
    """A header that lacks a needed field, or has one that cannot be parsed."""


class Header(Record, tag=False, rename=java_name):
    """Base of all typed headers. `booleans` are the wire's names of a header's boolean fields."""

    booleans: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        own = get_annotations(cls)
        found = {java_name(name) for name, kind in own.items() if kind in (bool, bool | None)}
        cls.booleans = cls.booleans | found


class NoHeader(Header):
    """A header object without fields: written as an empty map, not left out."""


H = TypeVar("H", bound=Header)


def to_ext(header: Header) -> dict[str, str]:
    """Write a header as text; fields that are None are left out."""
    ext: dict[str, str] = {}
    for name, value in msgspec.to_builtins(header).items():
        if value is True or value is False:
            ext[name] = "true" if value else "false"
        elif value is not None:
            ext[name] = str(value)
    return ext


def from_ext(cls: type[H], ext: Mapping[str, str] | None) -> H:
    """Read a header.

    Args:
        cls: which header.
        ext: the frame's ext; None, where the sender made no header at all, reads as empty.

    Raises:
        BadHeader: a needed field is missing, or a number cannot be parsed or does not fit.
    """
    fields = {} if ext is None else dict(ext)
    for name in cls.booleans:
        if name in fields:
            fields[name] = "true" if fields[name].lower() == "true" else "false"
    try:
        return msgspec.convert(fields, cls, strict=False)
    except msgspec.ValidationError as error:
        raise BadHeader(f"bad {cls.__name__}: {error}") from None


# --- producers -------------------------------------------------------------------------------


class SendRequest(Header):
    """10, and 310 and 320 by short names. `batch` alone decides whether the body is a batch."""

    topic: str
    producer_group: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None
    bname: str | None = None


_SHORT_NAMES = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
    "bname": "n",
}
_LONG_NAMES = {short: long for long, short in _SHORT_NAMES.items()}


def to_short_ext(header: SendRequest) -> dict[str, str]:
    """Write a send header with the one-letter names of 310 and 320."""
    return {_SHORT_NAMES.get(name, name): value for name, value in to_ext(header).items()}


def from_short_ext(ext: Mapping[str, str] | None) -> SendRequest:
    """Read a send header of 310 or 320.

    Raises:
        BadHeader: as `from_ext`; fields are named by their long names.
    """
    return from_ext(SendRequest, {_LONG_NAMES.get(k, k): v for k, v in (ext or {}).items()})


class SendResponse(Header):
    """Answer to a send with code 0, 10, 11 or 12. `msg_id` of a batch is comma-joined."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = None
    trace_on: str | None = None


class EndTransactionRequest(Header):
    """37. `commit_or_rollback`: 8 commit, 12 rollback, 0 unknown."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    msg_id: str
    from_transaction_check: bool | None = None
    transaction_id: str | None = None
    topic: str | None = None
    bname: str | None = None


class CheckTransactionRequest(Header):
    """39, broker to producer."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    topic: str | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    bname: str | None = None


# --- consumers -------------------------------------------------------------------------------


class PullRequest(Header):
    """11 and 361. sysFlag: 1 commit offset, 2 suspend, 4 subscription given, 16 lite pull."""

    topic: str
    consumer_group: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    sub_version: Int64
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None  # RocketMQ's own spelling
    bname: str | None = None


class PullResponse(Header):
    """Answer to a pull. Java unboxes the first four also when nothing was found."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


class QueryConsumerOffsetRequest(Header):
    """14."""

    topic: str
    consumer_group: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None
    bname: str | None = None


class UpdateConsumerOffsetRequest(Header):
    """15."""

    topic: str
    consumer_group: str
    queue_id: Int32
    commit_offset: Int64
    bname: str | None = None


class MaxOffsetRequest(Header):
    """30."""

    topic: str
    queue_id: Int32
    committed: bool | None = None
    bname: str | None = None


class QueueRequest(Header):
    """31 and 32."""

    topic: str
    queue_id: Int32
    bname: str | None = None


class SearchOffsetRequest(Header):
    """29. `boundary_type` is ``lower`` or ``upper`` in any case."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None
    bname: str | None = None


class OffsetResponse(Header):
    """Answer to 14, 29, 30 and 31."""

    offset: Int64


class TimestampResponse(Header):
    """Answer to 32; -1 when the queue is empty."""

    timestamp: Int64


class SendBackRequest(Header):
    """36. `offset` is the physical offset of the original on that broker."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    bname: str | None = None


class ConsumerGroupRequest(Header):
    """38, 40 and 208."""

    consumer_group: str
    topic: str | None = None
    bname: str | None = None


class UnregisterClientRequest(Header):
    """35."""

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None
    bname: str | None = None


class HeartbeatResponse(Header):
    """Answer to 34 from 5.1.3 on; earlier releases send no header."""

    is_support_heart_beat_v2: bool | None = None
    is_sub_change: bool | None = None


class QueryMessageRequest(Header):
    """12."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key_query: bool | None = None
    index_type: str | None = None  # 5.4.0 and later


class QueryMessageResponse(Header):
    """Answer to 12."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageRequest(Header):
    """33. `offset` is physical."""

    offset: Int64
    topic: str | None = None
    bname: str | None = None
