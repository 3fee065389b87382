"""Captured HA connections replayed: our slave fed by a real master, our master by a real slave.

All connections of the shared captures where they are there, else those kept in the repository. The
last transfer of the connections to the first master was cut off its successor's log later: the
stores hold other bytes there, from the start of epoch 2 on.
"""

import json
from pathlib import Path
from typing import Any

import golden_table as golden
import pytest

from maxq.harness.contracts.draws import Draws
from maxq.harness.simulation.disk import SimDisk
from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication import ha_master_events as master
from maxq.reference.broker.replication import ha_slave_events as slave
from maxq.reference.broker.replication.epochs import EpochFile, Epochs
from maxq.reference.broker.replication.ha_master import HaMaster
from maxq.reference.broker.replication.ha_settings import MasterSettings
from maxq.reference.broker.replication.ha_slave import HaSlave
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset, some
from maxq.reference.wire import files, ha

KEPT = Path(__file__).parent / "golden"
ROOT = golden.ROOT if golden.ROOT.is_dir() else KEPT


def connections() -> list[Path]:
    found = []
    for release in golden.RELEASES:
        index = json.loads((ROOT / release / "index.json").read_bytes())
        names = [c["file"] for c in index["connections"] if c["kind"] == "ha"]
        found += [ROOT / release / name for name in names]
    return found


class Capture:
    """A connection and the log that its release's brokers ended with."""

    def __init__(self, path: Path) -> None:
        up, down = ha.slave_decoder(), ha.master_decoder()
        self.raw_down = path.with_name(path.name + ".s2c.bin").read_bytes()
        c2s: list[Any] = list(up.feed(path.with_name(path.name + ".c2s.bin").read_bytes()))
        s2c: list[Any] = list(down.feed(self.raw_down))
        assert (up.pending, down.pending) == (0, 0)
        self.hello: ha.SlaveHandshake = c2s[0]
        self.acks: list[ha.SlaveAck] = c2s[1:]
        self.reply: ha.MasterHandshake = s2c[0]
        self.frames: list[ha.Transfer] = s2c[1:]
        store = path.parent / "stores" / "broker1"
        self.log = (store / "commitlog" / "00000000000000000000").read_bytes()
        self.epochs = files.decode_epochs((store / "epochFileCheckpoint").read_bytes())
        # There the old master rejoined, with a record that nobody else had.
        self.truncated = path.name[:3] in ("083", "084")
        # What the first master sent from here on, its successor did not have.
        first_master = self.reply.last_epoch == 1
        self.equal_to = self.epochs[1].start if first_master else len(self.log)

    @property
    def request(self) -> PhyOffset:
        return self.acks[0].offset

    @property
    def end(self) -> int:
        return max([self.request, *(f.start + len(f.data) for f in self.frames)])

    def data(self) -> bytes:
        """What the captured transfers carried, from the request on."""
        return b"".join(f.data for f in self.frames)


@pytest.fixture(params=connections(), ids=lambda p: f"{p.parent.name}/{p.name[:3]}")
def capture(request: pytest.FixtureRequest) -> Capture:
    return Capture(request.param)


def acked(effects: list[slave.Effect]) -> list[int]:
    sends = [e for e in effects if isinstance(e, slave.Send)]
    for e in effects:
        sends += e.then if isinstance(e, slave.Append) else ()
    return [s.packet.offset for s in sends if isinstance(s.packet, ha.SlaveAck)]


def before(capture: Capture) -> tuple[bytes, Epochs]:
    """The slave's log and epochs when it connected, as far as the captures tell."""
    log = capture.log[: capture.request]
    epochs = capture.reply.epochs if log else ()
    known = tuple(e for e in epochs if e.start < capture.request)
    return (log + b"of a dead master" if capture.truncated else log), known


def test_our_slave_ends_with_the_masters_bytes(capture: Capture) -> None:
    """S8: also after a truncation; and it acknowledges what the real one did."""
    log, known = before(capture)
    core = HaSlave(broker_id=capture.hello.broker_id)
    state = slave.LogState(
        start=PhyOffset(0), end=PhyOffset(len(log)), epochs=known, confirm=PhyOffset(0)
    )
    core.step(
        0,
        slave.Follow(
            address="m:1",
            master_epoch=capture.reply.last_epoch,
            in_sync_state_set=True,
            log=state,
        ),
    )
    core.step(0, slave.Timeout())
    hello = core.step(0, slave.Connected(connection=1))
    assert hello == [slave.Send(connection=1, packet=capture.hello)]
    acks, saved = [], known
    packets: list[ha.MasterPacket] = [capture.reply, *capture.frames]
    for packet in packets:
        effects = core.step(0, slave.Received(connection=1, packet=packet))
        for effect in effects:
            assert not isinstance(effect, slave.Hangup), effects
            match effect:
                case slave.Truncate():
                    assert effect.end == capture.request
                    log, saved = log[: effect.end], effect.epochs
                    acks += acked(core.step(0, effect.done))
                case slave.Append():
                    assert effect.start == len(log)
                    log += effect.data
                    saved = effect.epochs or saved
        acks += acked(effects)
    assert log[: capture.equal_to] == capture.log[: capture.equal_to][: len(log)]
    assert log[capture.request :] == capture.data()
    assert saved == policy.reconcile(capture.epochs[: len(capture.reply.epochs)], core.end)
    assert acks[0] == capture.request
    assert {a.offset for a in capture.acks} <= set(acks)
    assert core.confirm <= core.end


def test_our_master_answers_as_the_real_one_did(capture: Capture) -> None:
    """The reply byte by byte; transfers of the same bytes under the same labels.

    docs/spec/controller-ha.md 4.1 and 4.4
    """
    core = HaMaster(
        broker_id=BrokerId(99), settings=MasterSettings(file_size=1 << 30, all_ack=True)
    )
    end = capture.reply.max_offset
    epochs = policy.cut_from_epoch(capture.epochs, MasterEpoch(capture.reply.last_epoch + 1))
    core.step(
        0,
        master.Lead(
            master_epoch=capture.reply.last_epoch,
            members=frozenset({BrokerId(99)}),
            sync_state_set_epoch=1,
            epochs=epochs,
            start=PhyOffset(0),
            end=end,
            counted=end,
        ),
    )
    core.step(0, master.Accepted(link=1))
    effects = core.step(0, master.Received(link=1, packet=capture.hello))
    assert isinstance(effects[0], master.Reply)
    answer = ha.encode(effects[0].packet)
    assert answer == capture.raw_down[: len(answer)]
    sent: list[master.SendLog] = []
    for packet in capture.acks:
        if packet.offset > core.end:
            written = master.Written(end=packet.offset, counted=packet.offset)
            sent += [e for e in core.step(0, written) if isinstance(e, master.SendLog)]
        effects = core.step(0, master.Received(link=1, packet=packet))
        assert not any(isinstance(e, master.Close) for e in effects), effects
        sent += [e for e in effects if isinstance(e, master.SendLog)]
    last = PhyOffset(capture.end)
    written = master.Written(end=last, counted=last)
    sent += [e for e in core.step(0, written) if isinstance(e, master.SendLog)]
    at = capture.request
    for piece in sent:
        assert piece.start == at
        at = PhyOffset(at + piece.size)
        label = some(policy.index_at(epochs, piece.start), "the log begins with epoch 1")
        assert (piece.epoch, piece.epoch_start) == (epochs[label].epoch, epochs[label].start)
    assert at == capture.end
    assert {(f.epoch, f.epoch_start) for f in capture.frames} <= {
        (e.epoch, e.epoch_start) for e in sent
    }


@pytest.mark.parametrize("release", golden.RELEASES)
def test_a_captured_epoch_file_is_ours(release: str) -> None:
    """A captured broker's store is opened as our own."""
    store = ROOT / release / "stores" / "broker1"
    disk = SimDisk(Draws(0))
    for name in ("epochFileCheckpoint", "epochFileCheckpoint.bak"):
        disk.files[f"/d/{name}"] = bytearray((store / name).read_bytes())
    file = EpochFile(disk, "/d/epochFileCheckpoint")
    assert [e.epoch for e in file.load()] == [1, 2]
    assert file.fault == ""
