"""What the fuzzer sends: drawn from a random source that is given, and nothing else.

Three kinds: requests of every code whose header and body are nearly right, frames that are damaged,
and bytes that are none. To the ports of replication go a slave's packets, likewise.
"""

import json
import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

from maxq.reference.records import BrokerId, LocalProtocolError, PhyOffset
from maxq.reference.wire import ha
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame, Serialize, encode
from maxq.reference.wire.message import BatchElement, Message, encode_batch
from maxq.reference.wire.message import encode as encode_record

ESCAPED = "ESCAPED"  # the name of what must never come to be
CODES = [int(code) for code in RequestCode] + [0, -1, 999, 2**31 - 1, -(2**31)]
INT64 = (2**63 - 1, -(2**63))
NUMBERS = [
    "0", "1", "-1", "2", "7", "17", "100", "65536", str(2**31 - 1), str(-(2**31)), str(2**31),
    *map(str, INT64), str(2**63), "9" * 400, "1.5", "0x10", "\uff11\uff12", " 1 ", "+1",
    "-0", "1_000",
]  # fmt: skip
TEXTS = [
    "", "T", "T2", "g", "%RETRY%g", "%DLQ%g", "TBW102", "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC", f"../../../../{ESCAPED}", "..", "/", f"/{ESCAPED}", "a/b", "a\0b",
    "\0", "é" * 50, "😀" * 64, "x" * 128, "%DLQ%" + "x" * 250, "x" * 256, "x" * 3000, "true",
    "false", "NaN", "1e309", "127.0.0.1:1", "127.0.0.1:99999", "a:b:c", "::1", "b", "C", "c0",
    "1;2;3", "b\n#", "*", "||", "A || B" * 300, "null", "{}",
    "TRAN_MSG\x01true\x02PGROUP\x01p\x02", "DELAY\x013\x02", "DELAY\x01-3\x02",
    "DELAY\x0199999999999\x02", f"REAL_TOPIC\x01../../{ESCAPED}\x02REAL_QID\x01-1\x02",
    "TIMER_DELAY_SEC\x015\x02", "UNIQ_KEY\x01" + "U" * 200 + "\x02", "WAIT\x01false\x02",
    "\x01\x02\x01\x02", "TAGS\x01" + "t" * 30000 + "\x02",
]  # fmt: skip
SEND = {
    "topic": "T", "producerGroup": "p", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
    "queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": "",
    "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
}  # fmt: skip
PULL = {
    "topic": "T", "consumerGroup": "g", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32",
    "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0",
    "subscription": "*",
}  # fmt: skip
GOOD: list[dict[str, str]] = [
    SEND, {**SEND, "batch": "true"}, {**SEND, "topic": "%RETRY%g"}, PULL,
    {**PULL, "sysFlag": "7", "suspendTimeoutMillis": "10"},
    {"clusterName": "C", "brokerName": "z", "brokerAddr": "127.0.0.1:1", "brokerId": "0",
     "haServerAddr": "127.0.0.1:2", "appliedBrokerId": "1", "registerCheckCode": "a;1",
     "brokerAddress": "127.0.0.1:1", "masterBrokerId": "1", "masterEpoch": "1"},
    {"topic": "T", "consumerGroup": "g", "queueId": "0", "commitOffset": "1", "timestamp": "5",
     "defaultTopic": "T", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
     "topicFilterType": "X", "clientID": "c", "groupName": "g", "key": "k", "maxNum": "5"},
    {"producerGroup": "p", "tranStateTableOffset": "0", "commitLogOffset": "0",
     "commitOrRollback": "8", "msgId": "x"},
    {"group": "g", "offset": "0", "delayLevel": "0", "originMsgId": "", "originTopic": "T"},
    {"namespace": "N", "key": "k", "value": "v"},
]  # fmt: skip
KEYS = sorted({key for header in GOOD for key in header} | set("abcdefghijklmn"))
HEADERS = [
    b'{"code":1e2}', b'{"code":"310"}', b'{"code":99999999999}', b'{"code":null}', b"[1,2]",
    b'{"code":10,"extFields":{"topic":{"a":[1,2]}}}', b'{"code":10,"extFields":{"topic":1e999}}',
    b'{"code":10,"extFields":' + b'{"a":' * 3000 + b"1" + b"}" * 3000 + b"}", b"{" * 60_000,
    b'{"code":10,"flag":-1,"opaque":-5,"language":-3}', b'{"code":10,"extFields":[1]}', b"\xff\xfe",
    b'{"code":105,"extFields":{"topic":"\\ud800"}}', b'{"code":105,"extFields":{"t":"a\\u0000b"}}',
]  # fmt: skip


def value(rng: Random) -> str:
    """A header's field."""
    draw = rng.random()
    if draw < 0.5:
        return rng.choice(NUMBERS)
    if draw < 0.9:
        return rng.choice(TEXTS)
    ranges = ((1, 128), (128, 0xD7FF), (0x10000, 0x10FFFF))
    return "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(rng.randrange(30)))


def header(rng: Random) -> dict[str, str] | None:
    """A header that is nearly one of the good ones."""
    if rng.random() < 0.03:
        return None
    fields = dict(rng.choice(GOOD)) if rng.random() < 0.75 else {}
    for _ in range(rng.randrange(5)):
        fields[rng.choice(KEYS)] = value(rng)
    return fields


def _json(content: Callable[[Random], object]) -> Callable[[Random], bytes]:
    return lambda rng: json.dumps(content(rng)).encode()


def _number(rng: Random) -> Any:
    return rng.choice([0, 1, -1, 2**40, 2**70, 10**9, "x", None, 1e3])


def _record(rng: Random) -> bytes:
    """A half message, as a client may put it into a body."""
    topic = rng.choice(TEXTS)
    properties = f"REAL_TOPIC\x01{topic}\x02REAL_QID\x010\x02PGROUP\x01p\x02".encode()
    place = PhyOffset(rng.choice([0, 88, rng.randrange(10**6)]))
    message = Message(topic="RMQ_SYS_TRANS_HALF_TOPIC", body=b"x", properties=properties[:30_000],
                      physical_offset=place)  # fmt: skip
    return encode_record(message)


def _batch(rng: Random) -> bytes:
    properties = rng.choice([b"", b"\0", b"A\x01", b"A\x01B\x02"])
    whole = encode_batch([BatchElement(body=b"1", properties=properties)] * rng.choice([1, 2, 300]))
    return whole[: rng.choice([len(whole), len(whole) - 3])]


BODIES: list[Callable[[Random], bytes]] = [
    lambda rng: b"",
    lambda rng: rng.randbytes(rng.randrange(60)),
    lambda rng: b"[" * rng.choice([10, 1000, 100_000]),
    lambda rng: b'{"a":' * rng.choice([10, 5000]),
    lambda rng: b"x" * rng.choice([1, 100, 5000, (4 << 20) + 1 if rng.random() < 0.02 else 9]),
    lambda rng: zlib.compress(b"\0" * rng.choice([10, 1 << 20])),
    lambda rng: rng.choice([b"brokerPermission=6\n", b"\\u00zz=1", b"a=" + b"b" * 100_000,
                            b"brokerName=../../x\n", b"maxMessageSize=-1\n"]),
    _record,
    _batch,
    _json(lambda rng: [value(rng) for _ in range(rng.choice([0, 1, 20]))]),
    _json(lambda rng: {
        "clientID": rng.choice(["c", "", "x" * 1000]),
        "consumerDataSet": [{"groupName": value(rng), "subscriptionDataSet": [
            {"topic": value(rng), "subString": value(rng), "subVersion": _number(rng)}]}],
        "producerDataSet": [{"groupName": value(rng)}],
    }),
    _json(lambda rng: {"groupName": value(rng), "retryMaxTimes": _number(rng),
                       "retryQueueNums": _number(rng)}),
    _json(lambda rng: {"topicConfigSerializeWrapper": {
        "topicConfigTable": {value(rng): {"topicName": value(rng), "perm": _number(rng),
                                          "readQueueNums": _number(rng)}},
        "dataVersion": {"counter": _number(rng), "timestamp": 1}}}),
    _json(lambda rng: {"consumerGroup": value(rng), "clientId": value(rng), "mqSet": [
        {"topic": value(rng), "brokerName": value(rng), "queueId": _number(rng)}
    ] * rng.choice([1, 3, 300])}),
    _json(lambda rng: {"syncStateSet": [_number(rng) for _ in range(rng.choice([0, 1, 3]))],
                       "syncStateSetEpoch": _number(rng)}),
]  # fmt: skip


def request(rng: Random) -> bytes:
    """A frame of some code."""
    fields = header(rng)
    kind = Serialize.JSON if rng.random() < 0.8 else Serialize.ROCKETMQ
    code = rng.choice(CODES)
    if kind is Serialize.ROCKETMQ:
        code %= 30_000
        fields = {k: v for k, v in (fields or {}).items() if k}
    frame = Frame(
        code=code,
        opaque=rng.choice([1, 0, -1, 2**31 - 1]),
        flag=rng.choice([0, 0, 0, 0, 2, 1, 3, 77, -1]),
        ext=fields,
        body=rng.choice(BODIES)(rng) if rng.random() < 0.7 else None,
        version=rng.choice([479, 0, -1, 2**15 - 1]),
        serialize=kind,
    )
    try:
        return encode(frame)
    except LocalProtocolError:  # too long for any peer to send
        return encode(Frame(code=code))


def damaged(rng: Random) -> bytes:
    """A frame with flipped bits, cut short, or of another length; or none at all."""
    raw, draw = bytearray(request(rng)), rng.random()
    if draw < 0.4:
        for _ in range(rng.randrange(1, 4)):
            raw[rng.randrange(4, min(len(raw), 300))] ^= 1 << rng.randrange(8)
    elif draw < 0.5:
        raw = raw[: rng.randrange(1, len(raw))]
    elif draw < 0.6:
        raw[0:4] = struct.pack(">i", rng.choice([0, 1, 3, -1, -(2**31), 2**31 - 1, 16 << 20]))
    elif draw < 0.7:
        raw[4:8] = rng.randbytes(4)
    elif draw < 0.85:
        raw = bytearray(rng.randbytes(rng.randrange(1, 300)))
    else:
        text = rng.choice(HEADERS)
        raw = bytearray(struct.pack(">iI", 4 + len(text), len(text)) + text)
    return bytes(raw)


def slave_packets(rng: Random) -> bytes:
    """What a slave, or none, says to a master."""
    number = BrokerId(rng.choice([2, 1, 3, 0, -1, 99, *INT64]))
    places = [0, 1, 100, -1, rng.randrange(10**6), *INT64]
    hello = ha.encode(ha.SlaveHandshake(broker_id=number, async_learner=rng.random() < 0.5))
    said = [ha.SlaveAck(offset=PhyOffset(rng.choice(places))) for _ in range(rng.randrange(5))]
    acks = b"".join(map(ha.encode, said))
    noise = rng.randbytes(rng.randrange(1, 200))
    state = struct.pack(">i", rng.choice([0, 3, 1, 2, -1, 2**31 - 1]))
    return rng.choice([hello + acks, hello + acks, acks, hello * 3, noise, state + noise])
