"""The selection of captures in this repository: see golden/PROVENANCE.md."""

from pathlib import Path

import golden_table as golden
import pytest

from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset
from maxq.reference.wire import ha

ROOT = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, golden.Row]]:
    return golden.judge(ROOT)


def test_nothing_is_wrong(table: dict[str, dict[str, golden.Row]]) -> None:
    wrong = [w for rows in table.values() for row in rows.values() for w in row.wrong]
    assert wrong == [], golden.render(table)


def test_every_kind_is_covered(table: dict[str, dict[str, golden.Row]]) -> None:
    """The selection has each kind of frame, header, body and file of the whole set."""
    items = {kind: 0 for rows in table.values() for kind in rows}
    for rows in table.values():
        for kind, row in rows.items():
            items[kind] += row.items

    assert len(items) == 21
    assert all(items.values()), items
    assert sum(items.values()) > 2500


def test_a_rejoin_with_truncation() -> None:
    """In 5.3.3 the old master held 198 bytes of epoch 1 that the new master does not have."""
    name = "083-broker0-to-broker1-10912"
    from_slave = ha.slave_decoder().feed((ROOT / "5.3.3" / f"{name}.c2s.bin").read_bytes())
    from_master = ha.master_decoder().feed((ROOT / "5.3.3" / f"{name}.s2c.bin").read_bytes())

    assert from_slave[0] == ha.SlaveHandshake(broker_id=BrokerId(1))
    assert from_slave[1] == ha.SlaveAck(offset=PhyOffset(9081))
    assert from_master[0] == ha.MasterHandshake(
        max_offset=PhyOffset(10041),
        last_epoch=MasterEpoch(2),
        epochs=(
            ha.EpochStart(epoch=MasterEpoch(1), start=PhyOffset(0)),
            ha.EpochStart(epoch=MasterEpoch(2), start=PhyOffset(9081)),
        ),
    )
    heartbeat, data = from_master[1:3]
    assert isinstance(heartbeat, ha.Transfer)
    assert isinstance(data, ha.Transfer)
    assert (heartbeat.start, heartbeat.epoch, heartbeat.data) == (9081, 2, b"")
    assert (data.start, data.epoch_start, len(data.data)) == (9081, 9081, 960)


def test_a_slave_replays_its_masters_stream() -> None:
    """The transfers of a first sync, put together, are the log from its beginning."""
    name = "014-broker1-to-broker0-10912.s2c.bin"
    log = bytearray()
    for packet in ha.master_decoder().feed((ROOT / "5.3.3" / name).read_bytes()):
        if isinstance(packet, ha.Transfer) and packet.data:
            assert packet.start == len(log)
            log += packet.data
    stored = (ROOT / "5.3.3/stores/broker1/commitlog/00000000000000000000").read_bytes()

    # The end was written by the old master alone and cut off later.
    assert stored[:9081] == log[:9081]
    assert len(log) == 9279
