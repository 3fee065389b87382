"""The compressed body of a broker registration (103 with ``compressed=true``): a zlib stream.

Inside, each piece is ``length i32 | text``: the data version as JSON, a count and that many topics
as a line of words, the filter servers as JSON, and from brokers of 5.0 on a count and that many
queue mappings as JSON. No captured broker sends it; RocketMQ's ``RegisterBrokerBody`` is the
source. Bounded: a small stream must not unpack into all memory.
"""

import zlib

from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire.route import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)

UNPACKED_BYTES_MAX = 64 << 20


def decode_compressed(data: bytes) -> RegisterBrokerBody:
    """Read a compressed registration; queue mappings, of static topics only, are skipped.

    Raises:
        RemoteProtocolError: no such stream, or one that unpacks into too much.
    """
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, UNPACKED_BYTES_MAX)
    except zlib.error as error:
        raise RemoteProtocolError(f"not a compressed registration: {error}") from None
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise RemoteProtocolError(
            f"compressed registration is torn or unpacks to more than {UNPACKED_BYTES_MAX} bytes"
        )
    version, at = _piece(text, 0)
    count, at = _number(text, at)
    topics: dict[str, TopicConfig] = {}
    for _ in range(count):
        line, at = _piece(text, at)
        topic = _topic(line.decode(errors="replace"))
        topics[topic.topic_name] = topic
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
            data_version=DataVersion.from_json(version), topic_config_table=topics
        )
    )


def _number(text: bytes, at: int) -> tuple[int, int]:
    if at + 4 > len(text):
        raise RemoteProtocolError(f"compressed registration ends at {len(text)}")
    return int.from_bytes(text[at : at + 4], "big", signed=True), at + 4


def _piece(text: bytes, at: int) -> tuple[bytes, int]:
    size, start = _number(text, at)
    if size < 0 or start + size > len(text):
        raise RemoteProtocolError(f"piece of {size} bytes at {at} of {len(text)}")
    return text[start : start + size], start + size


def _topic(line: str) -> TopicConfig:
    """Read ``name readQueues writeQueues perm filterType {attributes}``."""
    words = line.split(" ", 5)
    try:
        return TopicConfig(
            topic_name=words[0],
            read_queue_nums=int(words[1]),
            write_queue_nums=int(words[2]),
            perm=int(words[3]),
            topic_filter_type=words[4],
        )
    except (IndexError, ValueError):
        raise RemoteProtocolError(f"not a topic line: {line!r:.80}") from None
