"""Codecs of the wire: round trips, every split of a stream, garbage.

A codec may refuse bytes, but only with `RemoteProtocolError`; whatever it accepts and writes again
it must read as the same value.
"""

import string
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.reference.records import (
    BrokerId,
    MasterEpoch,
    PhyOffset,
    QueueOffset,
    RemoteProtocolError,
)
from maxq.reference.wire import bodies, files, frame, ha, headers, lenient_json, message, route
from maxq.reference.wire import property as property_text
from maxq.reference.wire.frame import Frame, Serialize

quick = settings(max_examples=60, deadline=None)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(max_size=12)
name = st.text(string.ascii_letters + string.digits + "_-%", min_size=1, max_size=12)
offset = st.builds(PhyOffset, int64)
epoch = st.builds(MasterEpoch, int32)

frames = st.one_of(
    st.builds(
        Frame,
        code=int32, opaque=int32, flag=int32, version=int32,
        ext=st.none() | st.dictionaries(text, text, max_size=4),
        body=st.none() | st.binary(min_size=1, max_size=40),
        remark=st.none() | text, language=st.sampled_from(frame.LANGUAGES),
    ),
    st.builds(
        Frame,
        code=int16, opaque=int32, flag=int32, version=int16,
        ext=st.none()
        | st.dictionaries(
            st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9), min_size=1, max_size=4
        ),
        body=st.none() | st.binary(min_size=1, max_size=40),
        remark=st.none() | st.text(min_size=1, max_size=9),
        language=st.sampled_from(frame.LANGUAGES),
        serialize=st.just(Serialize.ROCKETMQ),
    ),
)  # fmt: skip
hosts = st.one_of(
    st.binary(min_size=8, max_size=8),
    st.binary(min_size=20, max_size=20),
)


@st.composite
def messages(draw: st.DrawFn) -> message.Message:
    born, stored = draw(hosts), draw(hosts)
    sys_flag = draw(int32) & ~(message.BORN_HOST_V6 | message.STORE_HOST_V6)
    sys_flag |= message.BORN_HOST_V6 * (len(born) == 20)
    sys_flag |= message.STORE_HOST_V6 * (len(stored) == 20)
    topic = draw(name | st.text(max_size=60))
    long_topic = len(topic.encode()) > message.TOPIC_BYTES_V1_MAX or draw(st.booleans())
    return message.Message(
        topic=topic,
        body=draw(st.binary(max_size=60)),
        properties=draw(st.binary(max_size=30)),
        queue_id=draw(int32),
        flag=draw(int32),
        queue_offset=QueueOffset(draw(int64)),
        physical_offset=PhyOffset(draw(int64)),
        sys_flag=sys_flag,
        born_timestamp=draw(int64),
        born_host=born,
        store_timestamp=draw(int64),
        store_host=stored,
        reconsume_times=draw(int32),
        prepared_transaction_offset=PhyOffset(draw(int64)),
        magic=message.MAGIC_V2 if long_topic else message.MAGIC_V1,
    )


batches = st.lists(
    st.builds(
        message.BatchElement,
        body=st.binary(max_size=20), properties=st.binary(max_size=20), flag=int32,
    ),
    max_size=4,
)  # fmt: skip
slave_packets = st.one_of(
    st.builds(
        ha.SlaveHandshake,
        broker_id=st.builds(BrokerId, int64),
        sync_from_last_file=st.booleans(), async_learner=st.booleans(),
    ),
    st.builds(ha.SlaveAck, offset=offset),
)  # fmt: skip
epoch_starts = st.builds(ha.EpochStart, epoch=epoch, start=offset)
master_packets = st.one_of(
    st.builds(
        ha.MasterHandshake,
        max_offset=offset, last_epoch=epoch,
        epochs=st.lists(epoch_starts, max_size=4).map(tuple),
    ),
    st.builds(
        ha.Transfer,
        start=offset, epoch=epoch, epoch_start=offset, confirm_offset=offset,
        data=st.binary(max_size=40),
    ),
)  # fmt: skip
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | int64 | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


def check_splits(
    make: Callable[[], Any], raw: bytes, want: Sequence[object], cuts: Sequence[int]
) -> None:
    """Feed `raw` cut at `cuts`; the items must come out in order, and nothing stay behind."""
    decoder = make()
    got: list[object] = []
    edges = [0, *sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]
    for start, end in pairwise(edges):
        got += decoder.feed(raw[start:end])
    assert got == list(want)
    assert decoder.pending == 0


cuts = st.lists(st.integers(0, 10_000), max_size=6)


@quick
@given(st.lists(frames, max_size=3), cuts)
def test_frames_in_any_split(sent: list[Frame], at: list[int]) -> None:
    check_splits(frame.Decoder, b"".join(map(frame.encode, sent)), sent, at)


@quick
@given(frames, st.binary(max_size=3))
def test_frames_byte_by_byte_and_with_a_tail(sent: Frame, tail: bytes) -> None:
    raw = frame.encode(sent)
    check_splits(frame.Decoder, raw, [sent], range(len(raw)))
    decoder = frame.Decoder()
    assert decoder.feed(raw + tail) == [sent]
    assert decoder.pending == len(tail)


@quick
@given(st.lists(slave_packets, max_size=4), cuts)
def test_slave_packets_in_any_split(sent: list[ha.SlavePacket], at: list[int]) -> None:
    check_splits(ha.slave_decoder, b"".join(map(ha.encode, sent)), sent, at)


@quick
@given(st.lists(master_packets, max_size=4), cuts)
def test_master_packets_in_any_split(sent: list[ha.MasterPacket], at: list[int]) -> None:
    check_splits(ha.master_decoder, b"".join(map(ha.encode, sent)), sent, at)


@quick
@given(st.lists(messages(), max_size=3))
def test_messages(sent: list[message.Message]) -> None:
    raw = [message.encode(one) for one in sent]

    assert message.decode_all(b"".join(raw)) == sent
    assert [message.encoded_size(one) for one in sent] == [len(one) for one in raw]
    assert [message.peek(one) for one in raw] == [
        (len(b), one.magic) for b, one in zip(raw, sent, strict=True)
    ]


@quick
@given(messages(), int64, int64, int64)
def test_a_position_changes_nothing_else(
    sent: message.Message, queue_offset: int, physical_offset: int, store_timestamp: int
) -> None:
    raw = message.encode_at(
        sent,
        queue_offset=QueueOffset(queue_offset),
        physical_offset=PhyOffset(physical_offset),
        store_timestamp=store_timestamp,
    )
    got, end = message.decode(raw)

    assert end == len(raw)
    there = (got.queue_offset, got.physical_offset, got.store_timestamp)
    assert there == (queue_offset, physical_offset, store_timestamp)
    assert message.encode_at(
        got,
        queue_offset=sent.queue_offset,
        physical_offset=sent.physical_offset,
        store_timestamp=sent.store_timestamp,
    ) == message.encode(sent)


@quick
@given(batches)
def test_batches(sent: list[message.BatchElement]) -> None:
    assert message.decode_batch(message.encode_batch(sent)) == sent


property_texts = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1)


@quick
@given(st.dictionaries(property_texts, property_texts, max_size=4))
def test_message_properties(sent: dict[str, str]) -> None:
    raw = property_text.encode(sent)

    assert property_text.decode(raw) == property_text.decode(raw[:-1]) == sent
    assert all(property_text.value_of(raw, key) == value for key, value in sent.items())


@quick
@given(st.binary(max_size=60))
def test_any_bytes_are_properties(raw: bytes) -> None:
    got = property_text.decode(raw)
    assert all(got)
    assert all(got.values())


@quick
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1000)), min_size=1, max_size=5))
def test_epoch_files(steps: list[tuple[int, int]]) -> None:
    entries, last, start = [], 0, 0
    for step, size in steps:
        last, start = last + 1 + step, start + size
        entries.append(ha.EpochStart(epoch=MasterEpoch(last), start=PhyOffset(start)))
    raw = files.encode_epochs(entries)

    assert files.decode_epochs(raw) == tuple(entries)
    for cut in range(len(raw) - 1):  # only the last separator may be missing
        with pytest.raises(RemoteProtocolError):
            files.decode_epochs(raw[:cut])


@quick
@given(name, name, st.integers(1, 2**63 - 1), st.none() | name)
def test_identity_files(cluster: str, broker: str, broker_id: int, code: str | None) -> None:
    sent = files.Identity(
        cluster=cluster, broker_name=broker, broker_id=BrokerId(broker_id), check_code=code
    )
    raw = files.encode_identity(sent)
    assert files.decode_identity(raw, temporary=code is not None) == sent


@quick
@given(st.dictionaries(text, text, max_size=4))
def test_java_properties(sent: dict[str, str]) -> None:
    entries = files.decode_properties(files.encode_properties(sent))

    assert {e.key: e.value for e in entries} == sent
    assert [e.line for e in entries] == list(range(1, len(sent) + 1))


@quick
@given(json_values)
def test_strict_json_is_lenient_json(sent: Any) -> None:
    raw = lenient_json.dumps(sent)
    assert lenient_json.loads(raw) == sent
    assert lenient_json.loads(b" " + raw + b"\n") == sent


@quick
@given(st.dictionaries(int64, json_values, max_size=3), st.dictionaries(name, int32, max_size=3))
def test_bare_and_object_keys(numbers: dict[int, Any], key: dict[str, int]) -> None:
    """What fastjson writes for ``Map<Long, ...>`` and ``Map<MessageQueue, ...>``."""
    inner = b",".join(b"%d:%s" % (k, lenient_json.dumps(v)) for k, v in numbers.items())
    raw = b"{" + lenient_json.dumps(key) + b":{" + inner + b"}}"

    got = lenient_json.loads(raw)

    want = {lenient_json.object_key(key): {str(k): v for k, v in numbers.items()}}
    assert got == want
    assert lenient_json.loads(lenient_json.dumps(got)) == want


@quick
@given(
    st.dictionaries(st.integers(0, 2**63 - 1), text, max_size=3),
    st.booleans(),
    st.none() | text,
)
def test_bodies_with_bare_keys(addrs: dict[int, str], acting: bool, zone: str | None) -> None:
    sent = route.TopicRouteData(
        broker_datas=(
            route.BrokerData(
                broker_addrs=addrs, broker_name="b", enable_acting_master=acting, zone_name=zone
            ),
        )
    )
    raw = sent.to_json()
    bare = raw
    for key in addrs:
        bare = bare.replace(b'"%d":' % key, b"%d:" % key)

    assert route.TopicRouteData.from_json(raw) == sent
    assert route.TopicRouteData.from_json(bare) == sent


@quick
@given(int32, int64, st.none() | text, st.none() | st.booleans())
def test_typed_headers(queue: int, at: int, subscription: str | None, batch: bool | None) -> None:
    pull = headers.PullRequest(
        topic="T", consumer_group="g", queue_id=queue, queue_offset=at, max_msg_nums=1,
        sys_flag=4, commit_offset=0, suspend_timeout_millis=0, sub_version=0,
        subscription=subscription,
    )  # fmt: skip
    send = headers.SendRequest(
        topic="T", producer_group="g", default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=queue, sys_flag=0, born_timestamp=at, flag=0, batch=batch,
    )  # fmt: skip

    assert headers.from_ext(headers.PullRequest, headers.to_ext(pull)) == pull
    assert headers.from_short_ext(headers.to_short_ext(send)) == send


def refuses_or_reads(read: Callable[[bytes], object], raw: bytes) -> None:
    with suppress(RemoteProtocolError):
        read(raw)


READERS: dict[str, Callable[[bytes], object]] = {
    "frame": lambda raw: frame.Decoder().feed(raw),
    "json header": lambda raw: frame.decode(len(raw).to_bytes(4, "big") + raw),
    "binary header": lambda raw: frame.decode((1 << 24 | len(raw)).to_bytes(4, "big") + raw),
    "slave": lambda raw: ha.slave_decoder().feed(raw),
    "master": lambda raw: ha.master_decoder().feed(raw),
    "record": message.decode_all,
    "record, crc unchecked": lambda raw: message.decode(raw, check_crc=False),
    "batch": message.decode_batch,
    "units": message.decode_units,
    "id": lambda raw: message.parse_offset_msg_id(raw.decode("latin-1")),
    "json": lenient_json.loads,
    "route": route.TopicRouteData.from_json,
    "heartbeat": bodies.HeartbeatBody.from_json,
    "names": bodies.broker_names,
    "epochs": files.decode_epochs,
    "identity": files.decode_identity,
    "properties": files.decode_properties,
    "checkpoint": files.decode_checkpoint,
    "timer checkpoint": files.decode_timer_checkpoint,
}


@pytest.mark.parametrize("reader", sorted(READERS))
@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=160))
def test_garbage(reader: str, raw: bytes) -> None:
    refuses_or_reads(READERS[reader], raw)


MUTATED: dict[str, tuple[st.SearchStrategy[bytes], tuple[str, ...]]] = {
    "frame": (frames.map(frame.encode), ("frame",)),
    "slave": (slave_packets.map(ha.encode), ("slave", "master")),
    "master": (master_packets.map(ha.encode), ("slave", "master")),
    "record": (messages().map(message.encode), ("record", "record, crc unchecked", "batch")),
    "batch": (batches.map(message.encode_batch), ("batch", "record")),
    "json": (json_values.map(lenient_json.dumps), ("json", "route", "heartbeat", "names")),
    "json header": (
        frames.filter(lambda f: f.serialize is Serialize.JSON).map(lambda f: frame.encode(f)[8:]),
        ("json header", "json", "route"),
    ),
    "text": (
        st.text('0123456789-#=:\\u\n\r{}[]",.e', max_size=60).map(str.encode),
        ("json", "epochs", "identity", "properties", "route"),
    ),
}


@pytest.mark.parametrize("kind", sorted(MUTATED))
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_damaged_bytes(kind: str, data: st.DataObject) -> None:
    """Almost right is harder than random: flip, cut or double a part of real bytes."""
    source, readers = MUTATED[kind]
    raw = bytearray(data.draw(source))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(raw)))
        match data.draw(st.integers(0, 2)):
            case 0 if at < len(raw):
                raw[at] ^= data.draw(st.integers(1, 255))
            case 1:
                del raw[at : at + data.draw(st.integers(1, 9))]
            case _:
                raw[at:at] = raw[max(0, at - 9) : at]
    for reader in readers:
        refuses_or_reads(READERS[reader], bytes(raw))
