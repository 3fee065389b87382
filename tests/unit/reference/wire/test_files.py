"""Small files: epochs, identity, Java properties, checkpoint."""

from collections.abc import Iterator

import pytest

from maxq.reference.records import (
    BrokerId,
    LocalProtocolError,
    MasterEpoch,
    PhyOffset,
    RemoteProtocolError,
)
from maxq.reference.wire import files
from maxq.reference.wire.bodies import ConsumerOffsets
from maxq.reference.wire.files import Identity
from maxq.reference.wire.ha import EpochStart
from maxq.reference.wire.seal import seal, unseal


def epochs(*pairs: tuple[int, int]) -> tuple[EpochStart, ...]:
    return tuple(EpochStart(epoch=MasterEpoch(e), start=PhyOffset(s)) for e, s in pairs)


@pytest.mark.parametrize(
    ("entries", "raw"),
    [
        (epochs((7, 7000), (8, 8000)), b"2\n773307083\n7-7000\n8-8000\n"),
        (epochs((1, 0)), b"1\n1725254278\n1-0\n"),
        (epochs((1, 0), (2, 9081)), b"2\n1393928971\n1-0\n2-9081\n"),
    ],
)
def test_epoch_file_vectors(entries: tuple[EpochStart, ...], raw: bytes) -> None:
    """docs/spec/controller-ha.md 4.7."""
    assert files.encode_epochs(entries) == raw
    assert files.decode_epochs(raw) == entries


def test_epoch_files_of_others() -> None:
    assert files.decode_epochs(b"1\n0\n5-6\n") == epochs((5, 6))  # 0: no check
    assert files.decode_epochs(b"1\n0\n5-6") == epochs((5, 6))
    assert files.decode_epochs(b"0\n0\n") == ()
    windows = b"1\r\n1\r\n1-0\r\n"
    with pytest.raises(RemoteProtocolError, match="crc"):
        files.decode_epochs(windows)
    with pytest.raises(LocalProtocolError):
        files.encode_epochs(())


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"2", b"2\n", b"2\n773307083\n7-7000\n", b"2\n773307083\n7-7000\n8-800",
        b"1\n773307083\n7-7000\n8-8000\n", b"2\n773307084\n7-7000\n8-8000\n", b"x\n0\n",
        b"1\nx\n1-0\n", b"1\n0\n10\n", b"1\n0\n1-x\n", b"1\n0\n1-\n", b"-1\n0\n",
        b"999999999\n0\n", b"2\n0\n2-5\n1-9\n", b"2\n0\n1-9\n2-5\n", b"1\n0\n\xff\n",
        b"1\n0\n1-9223372036854775808\n", b"1\n0\n1-1\n\n\nx",
    ],
)  # fmt: skip
def test_refused_epoch_files(raw: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        files.decode_epochs(raw)


def test_identity_files() -> None:
    """docs/spec/controller-ha.md 3.1."""
    final = Identity(cluster="DefaultCluster", broker_name="broker-a", broker_id=BrokerId(2))
    temporary = Identity(
        cluster="DefaultCluster",
        broker_name="broker-a",
        broker_id=BrokerId(2),
        check_code="10.0.0.5:10911;1700000000000",
    )

    assert files.encode_identity(final) == b"DefaultCluster#broker-a#2#crc32=e0cda982"
    assert files.decode_identity(b"DefaultCluster#broker-a#2\n") == final
    raw = b"DefaultCluster#broker-a#2#10.0.0.5:10911;1700000000000"
    assert files.encode_identity(temporary).startswith(raw + b"#crc32=")
    assert files.decode_identity(raw, temporary=True) == temporary


@pytest.mark.parametrize("code", [None, "10.0.0.5:10911;1700000000000"])
def test_a_flipped_bit_makes_no_other_identity(code: str | None) -> None:
    """Each of the bits of either file: refused, or what was written."""
    sent = Identity(cluster="c", broker_name="b", broker_id=BrokerId(3), check_code=code)
    refused = 0
    for flipped in flips(files.encode_identity(sent)):
        try:
            assert files.decode_identity(flipped, temporary=code is not None) == sent
        except RemoteProtocolError:
            refused += 1
    assert refused >= 8 * len(b"c#b#3")


def test_a_flipped_bit_makes_no_other_table() -> None:
    """Of a sealed JSON file: refused, or what was written."""
    sent = ConsumerOffsets(offset_table={"T@g": {0: 17, 1: 4}})
    data = seal(sent.to_json())
    refused = 0
    for flipped in flips(data):
        try:
            assert ConsumerOffsets.from_json(unseal(flipped)) == sent
        except RemoteProtocolError:
            refused += 1
    assert refused >= 8 * len(sent.to_json()) - 8


def test_what_java_writes_needs_no_seal() -> None:
    for raw in (b"{}", b'{"offsetTable":{"T@g":{0:17}}}'):
        assert unseal(raw) == unseal(seal(raw)) == raw
    with pytest.raises(LocalProtocolError):
        seal(b"[]")


def flips(data: bytes) -> Iterator[bytes]:
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


@pytest.mark.parametrize(
    "raw", [b"", b"c", b"c#b", b"c#b#", b"c#b#x", b"#b#1", b"c##1", b"c#b#1#x", b"c#b#1\xff"]
)
def test_refused_identity_files(raw: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        files.decode_identity(raw)
    with pytest.raises(RemoteProtocolError):
        files.decode_identity(raw + b"#", temporary=True)


@pytest.mark.parametrize("name", ["", " ", "a#b", "a\nb"])
def test_identities_that_cannot_be_read_back(name: str) -> None:
    with pytest.raises(LocalProtocolError):
        files.encode_identity(Identity(cluster="c", broker_name=name, broker_id=BrokerId(1)))


def test_properties_as_java_reads_them() -> None:
    text = (
        "# comment\n! other \\\n\n  listenPort = 10911\r\nname:b1\nflag\nempty=\n"
        "path=a\\\\b\\tc\nlong=1,\\\n    2,\\\r\n\t3\n  with\\ space\\==x=y:z\n"
        "uni=\\u00e9\\ud83d\\ude00\n"
        "odd=\\q\nlast=1\\"
    )
    got = [(e.key, e.value, e.line) for e in files.decode_properties(text.encode())]

    assert got == [
        ("listenPort", "10911", 4),
        ("name", "b1", 5),
        ("flag", "", 6),
        ("empty", "", 7),
        ("path", "a\\b\tc", 8),
        ("long", "1,2,3", 9),
        ("with space=", "x=y:z", 12),
        ("uni", "é\U0001f600", 13),
        ("odd", "q", 14),
        ("last", "1", 15),
    ]


def test_refused_properties_name_the_line() -> None:
    with pytest.raises(RemoteProtocolError, match="line 2"):
        files.decode_properties(b"a=1\nb=\\u00g0\n")
    with pytest.raises(RemoteProtocolError, match="UTF-8"):
        files.decode_properties(b"a=\xff")
    with pytest.raises(LocalProtocolError):
        files.encode_properties({"a": "\ud800"})


def test_checkpoints() -> None:
    """Layout: docs/spec/controller-ha.md 5.3; 40 bytes up to 5.3.3, 48 in 5.5.0."""
    checkpoint = files.Checkpoint(
        physic_msg_timestamp=1, confirm_offset=PhyOffset(9), logics_physical_offset=PhyOffset(8)
    )
    raw = files.encode_checkpoint(checkpoint)

    assert len(raw) == 48
    assert raw[32:40] == (9).to_bytes(8, "big")
    assert files.decode_checkpoint(raw.ljust(4096, b"\0")) == checkpoint
    assert files.decode_checkpoint(raw[:40]).confirm_offset == 9
    with pytest.raises(RemoteProtocolError):
        files.decode_checkpoint(raw[:39])
    with pytest.raises(LocalProtocolError):
        files.encode_checkpoint(files.Checkpoint(physic_msg_timestamp=2**63))


def test_timer_checkpoints() -> None:
    """Code 60 (docs/spec/remoting.md 2.17)."""
    raw = bytes(range(56))
    assert files.encode_timer_checkpoint(files.decode_timer_checkpoint(raw + b"x")) == raw
    with pytest.raises(RemoteProtocolError):
        files.decode_timer_checkpoint(raw[:-1])
    with pytest.raises(LocalProtocolError):
        files.encode_timer_checkpoint(files.TimerCheckpoint(counter=2**63))
