"""Payloads: what is written is read back, and nothing else is taken for it."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.workloads.payload import CORRUPT, CORRUPT_BYTES_MAX, decode, encode

NUMBERS = st.integers(min_value=0, max_value=2**63)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_round_trip(key: int, process: int, value: int) -> None:
    assert decode(key, encode(key, process, value)) == value


@given(NUMBERS, NUMBERS, NUMBERS, st.data())
def test_any_changed_byte_is_seen(key: int, process: int, value: int, data: st.DataObject) -> None:
    body = bytearray(encode(key, process, value))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= data.draw(st.integers(1, 255))
    assert decode(key, bytes(body)) == CORRUPT + body.hex()


@given(NUMBERS, NUMBERS, NUMBERS, st.data())
def test_any_missing_or_added_byte_is_seen(
    key: int, process: int, value: int, data: st.DataObject
) -> None:
    body = encode(key, process, value)
    cut = data.draw(st.integers(0, len(body) - 1))
    for other in (body[:cut], body[cut + 1 :], body + b"\0", b" " + body, body + body):
        assert isinstance(decode(key, other), str)


SIZES = st.integers(0, 3000)


@given(NUMBERS, NUMBERS, NUMBERS, SIZES)
def test_a_larger_payload_is_exactly_so_large(key: int, p: int, value: int, size: int) -> None:
    small, body = encode(key, p, value), encode(key, p, value, size=size)
    assert len(body) == max(size, len(small))
    assert body.startswith(small)
    assert decode(key, body) == value


@given(NUMBERS, NUMBERS, NUMBERS, SIZES, st.data())
def test_any_damage_of_the_padding_is_seen(
    key: int, p: int, value: int, size: int, data: st.DataObject
) -> None:
    """A changed byte, zeros from somewhere on, a byte too many."""
    least = len(encode(key, p, value))
    body = encode(key, p, value, size=least + 1 + size)
    at = data.draw(st.integers(least, len(body) - 1))
    changed = bytearray(body)
    changed[at] ^= data.draw(st.integers(1, 255))
    zeros = body[:at] + bytes(len(body) - at)
    for damaged in (bytes(changed), zeros, body + b"\0"):
        assert decode(key, damaged) == CORRUPT + damaged[:CORRUPT_BYTES_MAX].hex()


@given(NUMBERS, NUMBERS, NUMBERS, SIZES, st.data())
def test_a_cut_of_the_padding_is_a_smaller_payload_and_nothing_else(
    key: int, p: int, value: int, size: int, data: st.DataObject
) -> None:
    """Padding has no end of its own: a body's length is told by the frame that carries it."""
    least = len(encode(key, p, value))
    body = encode(key, p, value, size=least + size)
    cut = data.draw(st.integers(0, len(body)))
    expected: object = value if cut >= least else CORRUPT + body[:cut][:CORRUPT_BYTES_MAX].hex()
    assert decode(key, body[:cut]) == expected


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_a_payload_of_another_key_is_nobodys(key: int, other: int, p: int, value: int) -> None:
    assert isinstance(decode(other, encode(key, p, value)), str) == (other != key)


@given(st.binary(max_size=1000))
def test_any_bytes_become_a_bounded_value(body: bytes) -> None:
    value = decode(0, body)
    assert value == CORRUPT + body[:CORRUPT_BYTES_MAX].hex()


@pytest.mark.parametrize(
    "text",
    [
        *("maxq1 0 1 abc", "maxq1 0 1 +5", "maxq1 0 1 1_0", "maxq1 0 1 05", "maxq1 0 1 "),
        *("maxq1 0 -1 5", "maxq1 0 x 5", "maxq2 0 1 5", "maxq1 00 1 5", "maxq1 0 1 5 6"),
        *("maxq1 0 1 \u0665", "maxq1 0 1 " + "9" * 5000),
    ],
)
def test_a_sound_checksum_over_other_words_is_not_ours(text: str) -> None:
    """As of a broker that builds payloads by itself: one value has one spelling."""
    body = f"{text} {zlib.crc32(text.encode()):08x}".encode()
    assert decode(0, body) == CORRUPT + body[:CORRUPT_BYTES_MAX].hex()
