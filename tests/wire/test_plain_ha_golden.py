"""Captured connections of pairs without controllers: each byte read and written again, our slave
fed by a real master, our master by real slaves.

Source: the selection of captures in this repository (golden/PROVENANCE.md), and, where they are,
others, which are too big for it.
"""

import json
from pathlib import Path
from typing import Any

import golden_table as golden
import pytest

from maxq.reference.broker.replication.plain import plain_events as events
from maxq.reference.broker.replication.plain.plain_master import PlainMaster
from maxq.reference.broker.replication.plain.plain_slave import PlainSlave
from maxq.reference.records import PhyOffset
from maxq.reference.wire import plain_ha as wire

SELECTION = Path(__file__).parent / "golden"
FOLDERS = [(SELECTION / name, ()) for name in golden.PAIRS_HERE] + [
    (golden.ROOT / name, golden.needs(name)) for name in golden.PAIRS
]
STORES = {
    "b1-0": "broker0",
    "b1-1": "broker1",
}  # of the others, where they are not the nodes' names
HUGE = 10**9  # what a probe said that had nothing


def connections() -> list[Any]:
    found = []
    for folder, marks in FOLDERS:
        index = folder / "index.json"
        known = json.loads(index.read_bytes())["connections"] if index.is_file() else []
        found += [
            pytest.param(folder, c, id=f"{folder.name}/{c['file'][:3]}", marks=marks)
            for c in known
            if c["kind"] == "plain-ha"
        ]
    return found


def log_bytes(store: Path, start: int, size: int) -> bytes:
    """Bytes of a kept log from an offset on; fewer where files of it were not kept."""
    files = sorted((store / "commitlog").glob("[0-9]*"))
    for file in reversed(files):
        if int(file.name) <= start:
            return file.read_bytes()[start - int(file.name) :][:size]
    return b""


def streams(folder: Path, connection: dict[str, Any]) -> tuple[bytes, bytes]:
    up, down = (folder / f"{connection['file']}.{way}.bin" for way in ("c2s", "s2c"))
    return up.read_bytes(), down.read_bytes()


@pytest.mark.parametrize(("folder", "connection"), connections())
def test_a_connection_is_read_and_written_again_byte_for_byte(
    folder: Path, connection: dict[str, Any]
) -> None:
    raw_up, raw_down = streams(folder, connection)
    up, down = wire.slave_decoder(), wire.master_decoder()
    reports, pieces = up.feed(raw_up), down.feed(raw_down)
    assert up.pending == 0
    assert b"".join(map(wire.encode, reports)) == raw_up
    again = b"".join(map(wire.encode, pieces))
    assert again == raw_down[: len(again)]
    assert down.pending == len(raw_down) - len(again)
    assert connection["truncated"] or not down.pending
    server = connection["server"]
    stores = folder / "stores"
    named = stores / STORES.get(server, server)
    store = named if named.is_dir() else stores / server
    for piece in pieces:
        kept = log_bytes(store, piece.start, len(piece.data))
        assert piece.data[: len(kept)] == kept
        assert len(piece.data) <= events.PlainSettings(file_size=1).batch_bytes


@pytest.mark.parametrize(("folder", "connection"), connections())
def test_our_slave_reports_what_the_real_one_did(folder: Path, connection: dict[str, Any]) -> None:
    raw_up, raw_down = streams(folder, connection)
    reports, pieces = wire.slave_decoder().feed(raw_up), wire.master_decoder().feed(raw_down)
    if connection["client"] == "client" or not reports:
        return  # a probe
    core = PlainSlave(settings=events.PlainSettings(file_size=1 << 26))
    end = reports[0].offset
    core.step(0, events.Follow(address="m:1", end=end))
    core.step(0, events.Connected(link=core.link))
    bounds = events.Bounds(link=core.link, start=PhyOffset(0), end=PhyOffset(HUGE))
    said = core.step(0, bounds)
    log = b""
    for piece in pieces:
        begins = core.end == 0 and bool(piece.start and piece.data)
        effects = core.step(0, events.Received(link=core.link, piece=piece))
        if begins:  # it asks for the ends of queues, then goes on
            assert isinstance(effects[1], events.Hangup)
            core.step(0, events.Follow(address="", end=core.end))
            core.step(0, events.Follow(address="m:1", end=core.end))
            core.step(0, events.Connected(link=core.link))
            effects += core.step(0, events.Bounds(link=core.link, start=PhyOffset(0), end=core.end))
        said += effects
        log += piece.data
    appended = b"".join(e.data for e in said if isinstance(e, events.Append))
    assert appended == log
    mine = {e.offset for e in said if isinstance(e, events.SendReport)}
    theirs = {r.offset for r in reports}
    assert theirs <= mine or connection["truncated"]


@pytest.mark.parametrize(("folder", "connection"), connections())
def test_our_master_sends_the_same_bytes_and_turns_away_what_cannot_be(
    folder: Path, connection: dict[str, Any]
) -> None:
    raw_up, raw_down = streams(folder, connection)
    reports, pieces = wire.slave_decoder().feed(raw_up), wire.master_decoder().feed(raw_down)
    ends = [p.start + len(p.data) for p in pieces if p.start < HUGE]
    end = PhyOffset(max([*ends, *(r.offset for r in reports if r.offset < HUGE)], default=0))
    # The master had more than is kept of the stream, and begins an empty slave at its last file.
    file_size = 1 << 20 if connection["server"] == "b2-0" else 1 << 26
    settings = events.PlainSettings(file_size=file_size, window_bytes=1 << 30)
    core = PlainMaster(settings=settings, start=PhyOffset(0), end=end, counted=end)
    core.step(0, events.Accepted(link=1, host="10.0.0.1", port=7))
    sent: list[events.SendPiece] = []
    for report in reports:
        effects = core.step(0, events.Reported(link=1, offset=report.offset))
        sent += [e for e in effects if isinstance(e, events.SendPiece)]
        if report.offset >= HUGE:
            assert isinstance(effects[0], events.Close)
            assert core.refused["10.0.0.1"].startswith(f"10.0.0.1:7 reports {report.offset}, ")
            return
    if not pieces or not reports:
        return
    assert sent[0].start == pieces[0].start
    at = sent[0].start
    for piece in sent:
        assert piece.start == at
        at = PhyOffset(at + piece.size)
    assert at == end
