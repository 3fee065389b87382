"""The property text of a message: ``key 0x01 value 0x02 key 0x01 value 0x02 ...``.

Records carry it as raw bytes, because one meaning has several spellings: 5.1 leaves out the last
0x02, later releases keep it, and an element of a batch may hold one key twice. Anyone who copies a
record must copy the bytes; anyone who asks for a value uses `decode`, which reads as Java does: the
last of equal keys wins, and a pair with an empty key or value is lost.

Source: RocketMQ ``MessageDecoder.string2messageProperties``, ``MessageConst``.
"""

from collections.abc import Mapping

from maxq.reference.records import LocalProtocolError

PROPERTIES_BYTES_MAX = 32_767  # the length is a signed 16-bit number

KEYS = "KEYS"  # space separated
TAGS = "TAGS"
WAIT = "WAIT"  # wait for flush and replicas; absent means true
DELAY = "DELAY"  # level
UNIQ_KEY = "UNIQ_KEY"
PGROUP = "PGROUP"
TRAN_MSG = "TRAN_MSG"
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
CLUSTER = "CLUSTER"
INNER_NUM = "INNER_NUM"
POP_CK = "POP_CK"
FIRST_POP_TIME = "1ST_POP_TIME"
SHARDING_KEY = "__SHARDINGKEY"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_OUT_MS = "TIMER_OUT_MS"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
TRANSACTION_ID = "__transactionId__"
CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
INSTANCE_ID = "INSTANCE_ID"
BORN_TIMESTAMP = "BORN_TIMESTAMP"


def encode(properties: Mapping[str, str]) -> bytes:
    """Write properties in the given order, with the last separator.

    Raises:
        LocalProtocolError: a pair that a reader would lose or tear apart, or too many bytes.
    """
    for key, value in properties.items():
        if not key or not value or "\x02" in value or "\x01" in key or "\x02" in key:
            raise LocalProtocolError(f"property that cannot be read back: {key!r}={value!r:.80}")
    try:
        raw = "".join([f"{k}\x01{v}\x02" for k, v in properties.items()]).encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"property is not text: {error}") from None
    if len(raw) > PROPERTIES_BYTES_MAX:
        raise LocalProtocolError(f"properties too long: {len(raw)} > {PROPERTIES_BYTES_MAX} bytes")
    return raw


def decode(raw: bytes) -> dict[str, str]:
    """Read properties; never fails, since a broker keeps whatever bytes a producer sent."""
    properties: dict[str, str] = {}
    for pair in raw.decode(errors="replace").split("\x02"):
        key, _, value = pair.partition("\x01")
        if key and value:
            properties[key] = value
    return properties


def value_of(raw: bytes, key: str) -> str | None:
    """Read one property without building the others: cheap when it is absent."""
    return decode(raw).get(key) if key.encode() + b"\x01" in raw else None


def joined(*parts: bytes) -> bytes:
    """Append property texts to each other, adding the separators they lack."""
    whole = b""
    for part in parts:
        if whole and part and not whole.endswith(b"\x02"):
            whole += b"\x02"
        whole += part
    return whole
