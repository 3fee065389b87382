"""HA packets: the vectors of docs/spec/controller-ha.md 4.1, bounds, refusals."""

import pytest

from maxq.reference.records import (
    BrokerId,
    LocalProtocolError,
    MasterEpoch,
    PhyOffset,
    RemoteProtocolError,
)
from maxq.reference.wire import ha

EPOCHS = (
    ha.EpochStart(epoch=MasterEpoch(1), start=PhyOffset(0)),
    ha.EpochStart(epoch=MasterEpoch(3), start=PhyOffset(4096)),
)
SLAVE_VECTORS: list[tuple[ha.SlavePacket, str]] = [
    (ha.SlaveHandshake(broker_id=BrokerId(2)), "00000001 0000 0000 0000000000000002"),
    (
        ha.SlaveHandshake(broker_id=BrokerId(2), sync_from_last_file=True, async_learner=True),
        "00000001 0001 0001 0000000000000002",
    ),
    (ha.SlaveAck(offset=PhyOffset(10005)), "00000002 0000000000002715"),
]
MASTER_VECTORS: list[tuple[ha.MasterPacket, str]] = [
    (
        ha.MasterHandshake(max_offset=PhyOffset(10000), last_epoch=MasterEpoch(3), epochs=EPOCHS),
        "00000001 00000018 0000000000002710 00000003"
        "00000001 0000000000000000 00000003 0000000000001000",
    ),
    (
        ha.Transfer(
            start=PhyOffset(10000),
            epoch=MasterEpoch(3),
            epoch_start=PhyOffset(4096),
            confirm_offset=PhyOffset(9000),
            data=b"12345",
        ),
        "00000002 00000005 0000000000002710 00000003 0000000000001000 0000000000002328 3132333435",
    ),
    (
        ha.Transfer(
            start=ha.NO_OFFSET,
            epoch=MasterEpoch(1),
            epoch_start=PhyOffset(0),
            confirm_offset=PhyOffset(0),
        ),
        "00000002 00000000 ffffffffffffffff 00000001 0000000000000000 0000000000000000",
    ),
    (
        ha.MasterHandshake(max_offset=PhyOffset(0), last_epoch=ha.NO_EPOCH, epochs=()),
        "00000001 00000000 0000000000000000 ffffffff",
    ),
]


@pytest.mark.parametrize(("packet", "text"), SLAVE_VECTORS)
def test_slave_vectors(packet: ha.SlavePacket, text: str) -> None:
    assert ha.encode(packet) == bytes.fromhex(text)
    assert ha.slave_decoder().feed(bytes.fromhex(text)) == [packet]


@pytest.mark.parametrize(("packet", "text"), MASTER_VECTORS)
def test_master_vectors(packet: ha.MasterPacket, text: str) -> None:
    assert ha.encode(packet) == bytes.fromhex(text)
    assert ha.master_decoder().feed(bytes.fromhex(text)) == [packet]


def test_a_partial_packet_waits() -> None:
    decoder = ha.slave_decoder()
    assert decoder.feed(bytes.fromhex("00000002 0000000000002715 000000")) == [
        ha.SlaveAck(offset=PhyOffset(10005))
    ]
    assert decoder.pending == 3
    assert decoder.feed(b"\x01") == []


@pytest.mark.parametrize(
    "text", ["00000000", "00000003", "ffffffff", "00000002" + "00" * 8 + "07" * 4]
)
def test_refused_slaves(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        ha.slave_decoder().feed(bytes.fromhex(text))


@pytest.mark.parametrize(
    "text",
    [
        "00000000",
        "00000005",
        "00000001 ffffffff",
        "00000001 0000000b",  # no multiple of 12
        "00000001 00002eec",  # 1001 epochs
        "00000002 ffffffff",
        "00000002 00400000",
    ],
)
def test_refused_masters(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        ha.master_decoder().feed(bytes.fromhex(text))


def test_bounds_of_what_we_write() -> None:
    epoch = EPOCHS[:1]
    most = ha.MasterHandshake(
        max_offset=PhyOffset(0), last_epoch=MasterEpoch(1), epochs=epoch * ha.EPOCHS_MAX
    )
    assert len(ha.master_decoder().feed(ha.encode(most))) == 1
    with pytest.raises(LocalProtocolError):
        ha.encode(
            ha.MasterHandshake(
                max_offset=PhyOffset(0), last_epoch=MasterEpoch(1), epochs=epoch * 1001
            )
        )
    with pytest.raises(LocalProtocolError):
        ha.encode(ha.SlaveAck(offset=PhyOffset(2**63)))
    for size, fits in ((ha.BODY_BYTES_MAX, True), (ha.BODY_BYTES_MAX + 1, False)):
        transfer = ha.Transfer(
            start=PhyOffset(0),
            epoch=MasterEpoch(1),
            epoch_start=PhyOffset(0),
            confirm_offset=PhyOffset(0),
            data=bytes(size),
        )
        if fits:
            assert ha.master_decoder().feed(ha.encode(transfer)) == [transfer]
        else:
            with pytest.raises(LocalProtocolError):
                ha.encode(transfer)
