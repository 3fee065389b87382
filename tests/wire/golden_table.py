"""Decodes every byte captured from real clusters, and says what came of it.

The captures lie outside of the repository, in `ROOT`, one folder a release. Each item is
counted as equal (decoded and written again to the same bytes), or as excluded with a reason (the
format has no single right answer, or the capture was cut off), or it is a failure. Run
``python -m tests.wire.golden_table`` for the table.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire import (
    bodies,
    files,
    frame,
    ha,
    headers,
    lenient_json,
    message,
    plain_ha,
    route,
)
from maxq.reference.wire import node_headers as nodes
from maxq.reference.wire.body import Body
from maxq.reference.wire.headers import Header

ROOT = Path(__file__).resolve().parents[2].parent / "shared" / "golden"
RELEASES = ("5.1.1", "5.3.3", "5.5.0")
# Without controllers: those beside the repository, and those of which it has a selection.
PAIRS = ("5.5.0-pair", "5.5.0-pair-901", "5.5.0-pair-push")
PAIRS_HERE = (
    "5.1.1-pair", "5.3.3-pair", "5.5.0-no-escape", "5.5.0-three", "5.3.3-container",
    "5.5.0-container",
)  # fmt: skip
CUT_OFF = "cut off by the capture (48 KiB a side)"
PROBE = "sent by the capture's own Python probe, not by Java"
BARE_KEYS = "bare map keys: we write them quoted, which every release reads"
NO_REQUEST = "its request lies behind the cut; some record writes it again, equal"

# Keys that a header may carry and that no record reads.
IGNORED_KEYS = {"ReqT"}

REQUEST_HEADERS: dict[int, type[Header]] = {
    10: headers.SendRequest, 11: headers.PullRequest, 361: headers.PullRequest,
    12: headers.QueryMessageRequest, 14: headers.QueryConsumerOffsetRequest,
    15: headers.UpdateConsumerOffsetRequest, 17: nodes.CreateTopicRequest,
    29: headers.SearchOffsetRequest, 30: headers.MaxOffsetRequest, 31: headers.QueueRequest,
    32: headers.QueueRequest,
    21: nodes.AllTopicConfigRequest, 201: nodes.AllGroupConfigRequest,
    34: headers.NoHeader, 35: headers.UnregisterClientRequest, 36: headers.SendBackRequest,
    37: headers.EndTransactionRequest, 38: headers.ConsumerGroupRequest,
    39: headers.CheckTransactionRequest, 40: headers.ConsumerGroupRequest,
    41: headers.NoHeader, 42: headers.NoHeader,
    103: nodes.RegisterBrokerRequest, 104: nodes.BrokerRequest, 105: nodes.TopicRequest,
    202: nodes.TopicRequest, 351: nodes.TopicRequest, 208: headers.ConsumerGroupRequest,
    222: nodes.ResetOffsetRequest, 322: nodes.BrokerRequest, 901: nodes.MemberGroupRequest,
    902: nodes.AddBrokerRequest, 903: nodes.RemoveBrokerRequest, 904: nodes.BrokerHeartbeat,
    905: nodes.MinBrokerIdChange, 906: nodes.HaInfo,
    1001: nodes.AlterSyncStateSetRequest,
    1002: nodes.ElectMasterRequest, 1003: nodes.RegisterToControllerRequest,
    1004: nodes.ReplicaInfoRequest, 1008: nodes.RoleChanged,
    1012: nodes.NextBrokerIdRequest, 1013: nodes.ApplyBrokerIdRequest,
}  # fmt: skip
RESPONSE_HEADERS: dict[int, type[Header]] = {
    10: headers.SendResponse, 310: headers.SendResponse, 320: headers.SendResponse,
    11: headers.PullResponse, 361: headers.PullResponse, 12: headers.QueryMessageResponse,
    14: headers.OffsetResponse, 15: headers.NoHeader, 29: headers.OffsetResponse,
    30: headers.OffsetResponse, 31: headers.OffsetResponse, 32: headers.TimestampResponse,
    322: nodes.DataVersionResponse, 906: nodes.HaInfo, 21: nodes.AllTopicConfigResponse,
    201: nodes.AllGroupConfigResponse, 26: nodes.BrokerConfigResponse,
    34: headers.HeartbeatResponse, 35: headers.NoHeader, 38: headers.NoHeader,
    103: nodes.RegisterBrokerResponse,
    1001: nodes.AlterSyncStateSetResponse, 1002: nodes.MasterResponse,
    1003: nodes.RegisterToControllerResponse, 1004: nodes.ReplicaInfoResponse,
    1005: nodes.MetadataResponse, 1012: nodes.NextBrokerIdResponse,
    1013: nodes.ApplyBrokerIdResponse,
}  # fmt: skip
REQUEST_BODIES: dict[int, type[Body]] = {
    34: bodies.HeartbeatBody, 41: bodies.LockRequest, 42: bodies.LockRequest,
    103: route.RegisterBrokerBody, 200: bodies.SubscriptionGroupConfig, 322: route.DataVersion,
    1001: bodies.SyncStateSet, 1008: bodies.SyncStateSet,
}  # fmt: skip
RESPONSE_BODIES: dict[int, type[Body]] = {
    21: route.TopicConfigSerializeWrapper, 28: route.KVTable, 38: bodies.ConsumerList,
    41: bodies.LockResponse, 43: bodies.ConsumerOffsets, 45: bodies.DelayOffsets,
    61: bodies.TimerMetrics, 105: route.TopicRouteData, 106: route.ClusterInfo,
    201: bodies.SubscriptionGroups, 202: bodies.TopicStats, 208: bodies.ConsumeStats,
    222: bodies.ResetOffsets, 322: route.DataVersion, 901: route.MemberGroupBody,
    351: route.TopicConfig, 402: bodies.MessageRequestModes, 907: bodies.HaRuntimeInfo,
    1001: bodies.SyncStateSet, 1002: bodies.ElectMasterBody, 1003: bodies.SyncStateSet,
    1004: bodies.SyncStateSet, 1006: bodies.BrokerReplicasInfo, 1007: bodies.EpochEntryCache,
}  # fmt: skip
DELAYS_MS = {1: 1000, 2: 5000, 3: 10_000, 4: 30_000}  # by level
PROPERTIES_BODIES = {26, 319, 1010}
RECORD_BODIES = {11, 361, 12}


@dataclass(slots=True)
class Row:
    """One kind of thing in one release."""

    streams: int = 0  # or files
    items: int = 0
    size: int = 0  # bytes
    decoded: int = 0  # bytes that decoded items cover
    equal: int = 0  # items written again to the same bytes
    excluded: Counter[str] = field(default_factory=Counter)  # items, by reason
    cut: int = 0  # bytes of partial last items of truncated streams
    wrong: list[str] = field(default_factory=list)

    def check(self, got: bytes, wanted: bytes, where: str) -> None:
        """Count an item whose bytes have one right answer."""
        self.items += 1
        if got == wanted:
            self.equal += 1
        else:
            self.wrong.append(f"{where}: {got[:300]!r} is not {wanted[:300]!r}")

    def exclude(self, reason: str) -> None:
        """Count an item that was decoded but has no one right answer."""
        self.items += 1
        self.excluded[reason] += 1


@dataclass(slots=True)
class Stream:
    """One direction of a captured connection."""

    name: str
    kind: str
    truncated: bool
    data: bytes

    @property
    def direction(self) -> str:
        return self.name.split(".")[-2]


class Release:
    """Everything captured from one release."""

    def __init__(self, root: Path, release: str) -> None:
        self.root = root / release
        self.rows: dict[str, Row] = {}
        self.logs = {store.name: log_files(store) for store in self._stores()}

    def _stores(self) -> list[Path]:
        return sorted((self.root / "stores").glob("b*"))

    def row(self, kind: str) -> Row:
        return self.rows.setdefault(kind, Row())

    def streams(self) -> Iterator[tuple[Stream, Stream]]:
        """Both directions of each connection."""
        index = json.loads((self.root / "index.json").read_bytes())
        for conn in index["connections"]:
            pair = []
            for direction in ("c2s", "s2c"):
                name = f"{conn['file']}.{direction}.bin"
                data = (self.root / name).read_bytes()
                cut = conn[f"bytes_{direction}"] > len(data)
                pair.append(Stream(name=name, kind=conn["kind"], truncated=cut, data=data))
            yield pair[0], pair[1]

    def judge(self) -> None:
        """Decode everything; fill the rows."""
        for client, server in self.streams():
            if client.kind == "ha":
                self._ha(client, ha.slave_decoder())
                self._ha(server, ha.master_decoder())
            elif client.kind == "plain-ha":
                self._plain_ha(client, plain_ha.slave_decoder())
                self._plain_ha(server, plain_ha.master_decoder())
            else:
                self._remoting(client, server)
        for store in self._stores():
            self._store(store)

    # --- connections ---------------------------------------------------------------------------

    def _ha(self, stream: Stream, decoder: "ha.Decoder[Any]") -> None:
        row = self.row(f"ha {stream.direction}")
        row.streams += 1
        row.size += len(stream.data)
        at = 0
        for packet in decoder.feed(stream.data):
            again = ha.encode(packet)
            row.check(again, stream.data[at : at + len(again)], stream.name)
            at += len(again)
        self._tail(row, stream, decoder.pending)

    def _plain_ha(self, stream: Stream, decoder: "ha.Decoder[Any]") -> None:
        row = self.row(f"plain-ha {stream.direction}")
        row.streams += 1
        row.size += len(stream.data)
        at = 0
        for packet in decoder.feed(stream.data):
            again = plain_ha.encode(packet)
            row.check(again, stream.data[at : at + len(again)], stream.name)
            at += len(again)
        self._tail(row, stream, decoder.pending)

    def _tail(self, row: Row, stream: Stream, pending: int) -> None:
        row.decoded += len(stream.data) - pending
        if pending and not stream.truncated:
            row.wrong.append(f"{stream.name}: {pending} bytes left over")
        row.cut += pending

    def _remoting(self, client: Stream, server: Stream) -> None:
        asked: dict[tuple[str, int], int] = {}
        for stream in (client, server):
            for f in self._frames(stream):
                if not f.is_response:
                    asked[stream.direction, f.opaque] = f.code
        for stream, other in ((client, server), (server, client)):
            row = self.row(stream.kind)
            row.streams += 1
            row.size += len(stream.data)
            decoder = frame.Decoder()
            at = 0
            for f in decoder.feed(stream.data):
                size = 4 + int.from_bytes(stream.data[at : at + 4], "big")
                where = f"{stream.name}@{at}"
                if f.language == "PYTHON":
                    row.exclude(PROBE)
                else:
                    row.check(frame.encode(f), stream.data[at : at + size], where)
                    code = f.code if not f.is_response else asked.get((other.direction, f.opaque))
                    self._header(f, code, where)
                    self._body(f, code, where)
                at += size
            self._tail(row, stream, decoder.pending)

    def _frames(self, stream: Stream) -> list[frame.Frame]:
        return frame.Decoder().feed(stream.data)

    def _header(self, f: frame.Frame, code: int | None, where: str) -> None:
        row = self.row("typed header")
        if f.ext is None or (not f.is_response and code == 1005):
            return
        ext = {k: v for k, v in f.ext.items() if k not in IGNORED_KEYS}
        if code is None:
            again = next(filter(ext.__eq__, _header_guesses(ext)), None)
            if again is None:
                row.wrong.append(f"{where}: no record writes {ext}")
            row.exclude(NO_REQUEST)
            return
        if not f.is_response and code in (310, 320):
            again = headers.to_short_ext(headers.from_short_ext(ext))
        else:
            table = RESPONSE_HEADERS if f.is_response else REQUEST_HEADERS
            cls = table.get(code)
            if cls is None:
                row.wrong.append(f"{where}: no header for {code}")
                return
            if f.is_response and f.code not in (0, 12) and _is_partial(cls, ext):
                row.exclude(f"error answer {f.code} to {code} carries no full header")
                return
            again = headers.to_ext(headers.from_ext(cls, ext))
        row.size += len(str(ext))
        row.check(repr(sorted(again.items())).encode(), repr(sorted(ext.items())).encode(), where)

    def _body(self, f: frame.Frame, code: int | None, where: str) -> None:
        if f.body is None:
            return
        if code is None:
            self._orphan(f, where)
        elif f.is_response and code in RECORD_BODIES:
            self._records(f.body, where)
        elif not f.is_response and code == 39:
            again = b"".join(map(message.encode, message.decode_all(f.body)))
            self.row("record in 39").check(again, f.body, where)
        elif not f.is_response and code in (10, 310):
            self.row("message body").check(f.body, f.body, where)
        elif not f.is_response and code == 320:
            again = message.encode_batch(message.decode_batch(f.body))
            self.row("batch body").check(again, f.body, where)
        elif f.is_response and code in PROPERTIES_BODIES:
            self._properties(f.body, where)
        elif f.is_response and code == 60:
            again = files.encode_timer_checkpoint(files.decode_timer_checkpoint(f.body))
            self.row("timer checkpoint").check(again, f.body, where)
        elif not f.is_response and code == 1006:
            again = lenient_json.dumps(bodies.broker_names(f.body))
            self.row("json body").check(again, f.body, where)
        else:
            self._json(f, code, where)

    def _orphan(self, f: frame.Frame, where: str) -> None:
        """An answer whose request is lost: its kind shows in itself, or stays unknown."""
        row = self.row("body without request")
        body = f.body or b""
        if f.ext is not None and {"nextBeginOffset", "indexLastUpdatePhyoffset"} & f.ext.keys():
            self._records(body, where)
            return
        strict = lenient_json.dumps(lenient_json.loads(body))
        again = next(filter(strict.__eq__, _body_guesses(body)), None)
        row.size += len(body)
        row.decoded += len(body)
        if again is None:
            row.wrong.append(f"{where}: no record writes {body[:200]!r}")
        row.exclude(NO_REQUEST)

    def _records(self, body: bytes, where: str) -> None:
        row = self.row("record in answers")
        row.streams += 1
        row.size += len(body)
        at = 0
        for m in message.decode_all(body):
            again = message.encode(m)
            row.check(again, body[at : at + len(again)], where)
            log = self._log_holding(m.physical_offset, again)
            if log is None:
                row.wrong.append(f"{where}: record at {m.physical_offset} is in no commit log")
            at += len(again)
        row.decoded += at

    def _log_holding(self, offset: int, raw: bytes) -> str | None:
        for store, kept in self.logs.items():
            for start, log in kept.items():
                if start <= offset and log[offset - start :][: len(raw)] == raw:
                    return store
        return None

    def _properties(self, body: bytes, where: str) -> None:
        row = self.row("properties body")
        entries = files.decode_properties(body)
        row.size += len(body)
        row.decoded += len(body)
        lines = body.decode().splitlines()
        if len(entries) != len(lines):
            row.wrong.append(f"{where}: {len(entries)} entries of {len(lines)} lines")
        # Java's config text is written without escapes, so values with a backslash would differ.
        again = "".join(f"{e.key}={e.value}\n" for e in entries).encode()
        row.check(again, body, where)

    def _json(self, f: frame.Frame, code: int, where: str) -> None:
        row = self.row("json body" if code != 103 else "103 body")
        body = f.body or b""
        cls = (RESPONSE_BODIES if f.is_response else REQUEST_BODIES).get(code)
        if cls is None:
            row.wrong.append(f"{where}: no body record for {code}")
            return
        row.size += len(body)
        row.decoded += len(body)
        again = cls.from_json(body).to_json()
        strict = lenient_json.dumps(lenient_json.loads(body))
        if body in (strict, again):  # strict, or with queues as keys
            row.check(again, body, where)
        elif again == strict:
            row.exclude(BARE_KEYS)
        else:
            row.check(again, strict, where)
        if code == 103 and not f.is_response:
            header = headers.from_ext(nodes.RegisterBrokerRequest, f.ext)
            if header.body_crc32 != route.body_crc32(body):
                row.wrong.append(f"{where}: crc {header.body_crc32}")

    # --- stores ----------------------------------------------------------------------------------

    def _store(self, store: Path) -> None:
        row = self.row("commit log record")
        records: dict[int, message.Message] = {}
        for start, log in self.logs[store.name].items():
            where = f"{store.name}/commitlog"
            row.streams += 1
            row.size += len(log)
            at = 0
            while at < len(log):
                m, end = message.decode(log, at)
                row.check(message.encode(m), log[at:end], f"{where}@{start + at}")
                if m.physical_offset != start + at:
                    row.wrong.append(f"{where}@{start + at}: says it is at {m.physical_offset}")
                records[start + at] = m
                at = end
            row.decoded += at
        self._queues(store, records)
        self._small(store)

    def _queues(self, store: Path, records: dict[int, message.Message]) -> None:
        row = self.row("consume-queue unit")
        for path in sorted((store / "consumequeue").glob("*/*/*")):
            topic, queue = path.parts[-3], int(path.parts[-2])
            data = path.read_bytes()
            row.streams += 1
            row.size += len(data)
            for index, unit in enumerate(message.decode_units(data)):
                where = f"{store.name}/{topic}/{queue}[{index}]"
                row.check(message.encode_unit(unit), data[20 * index : 20 * index + 20], where)
                if unit.physical_offset < min(records, default=0):
                    continue  # its file was not kept
                m = records.get(unit.physical_offset)
                if m is None or (m.topic, m.queue_id, m.queue_offset) != (topic, queue, index):
                    row.wrong.append(f"{where}: points at {m}")
                    continue
                if message.encoded_size(m) != unit.size:
                    row.wrong.append(f"{where}: {unit.size} bytes")
                if topic == "SCHEDULE_TOPIC_XXXX":  # there it is the time of delivery
                    level = int(m.property_map()["DELAY"])
                    if unit.tags_code - m.store_timestamp != DELAYS_MS[level]:
                        row.wrong.append(f"{where}: delivery at {unit.tags_code}")
                elif message.tags_code(m.tags) != unit.tags_code:
                    row.wrong.append(f"{where}: tags code {unit.tags_code} of {m.tags}")
            row.decoded += len(data)

    def _small(self, store: Path) -> None:
        for name, encode in SMALL_FILES.items():
            for path in sorted(store.glob(f"{name}*")):
                row = self.row(f"file {name}")
                data = path.read_bytes()
                row.streams += 1
                row.size += len(data)
                row.decoded += len(data)
                row.check(encode(data), data, f"{store.name}/{path.name}")
        row = self.row("file config/*.json")
        for path in sorted((store / "config").glob("*.json*")):
            data = path.read_bytes()
            lenient_json.loads(data)
            row.streams += 1
            row.size += len(data)
            row.decoded += len(data)
            row.exclude("pretty-printed by Java; any JSON is right")


def log_files(store: Path) -> dict[int, bytes]:
    """The files of a log that were kept, by the offset at which each begins."""
    return {int(p.name): p.read_bytes() for p in sorted((store / "commitlog").glob("[0-9]*"))}


def _header_guesses(ext: dict[str, str]) -> Iterator[dict[str, str]]:
    for cls in RESPONSE_HEADERS.values():
        if not _is_partial(cls, ext):
            yield headers.to_ext(headers.from_ext(cls, ext))


def _body_guesses(body: bytes) -> Iterator[bytes]:
    for cls in RESPONSE_BODIES.values():
        with suppress(RemoteProtocolError):
            yield cls.from_json(body).to_json()


def _is_partial(cls: type[Header], ext: dict[str, str]) -> bool:
    try:
        headers.from_ext(cls, ext)
    except headers.BadHeader:
        return True
    return False


def _checkpoint(data: bytes) -> bytes:
    """Write a checkpoint again as long as the release did, which trims or pads it with zeros."""
    whole = files.encode_checkpoint(files.decode_checkpoint(data))
    return whole[: len(data)].ljust(len(data), b"\0")


def _identity(data: bytes) -> bytes:
    """Write an identity again, but for the last part, which is ours."""
    return files.encode_identity(files.decode_identity(data)).rpartition(b"#crc32=")[0]


SMALL_FILES: dict[str, Callable[[bytes], bytes]] = {
    "epochFileCheckpoint": lambda data: files.encode_epochs(files.decode_epochs(data)),
    "brokerIdentity": _identity,
    "checkpoint": _checkpoint,
    "config/timercheck": lambda data: files.encode_timer_checkpoint(
        files.decode_timer_checkpoint(data)
    ).ljust(len(data), b"\0"),
}


def needs(name: str) -> tuple[pytest.MarkDecorator, ...]:
    """Marks of a test that needs one of the captures beside the repository."""
    why = f"needs the captures beside the repository: shared/golden/{name}"
    return pytest.mark.golden, pytest.mark.skipif(not (ROOT / name).is_dir(), reason=why)


def judge(root: Path, releases: tuple[str, ...] = RELEASES) -> dict[str, dict[str, Row]]:
    """Judge all releases: release, then kind, then what came of it."""
    table: dict[str, dict[str, Row]] = {}
    for release in releases:
        found = Release(root, release)
        found.judge()
        table[release] = found.rows
    return table


def render(table: dict[str, dict[str, Row]]) -> str:
    """Write the table, then each reason for an exclusion, then each failure."""
    head = f"{'release':16}{'kind':22}{'streams':>8}{'items':>7}{'bytes':>9}{'cut':>7}"
    lines = [head + f"{'equal':>7}{'other':>7}{'wrong':>7}"]
    notes: Counter[str] = Counter()
    wrong: list[str] = []
    for release, rows in table.items():
        for kind, row in sorted(rows.items()):
            other = row.excluded.total()
            lines.append(
                f"{release:16}{kind:22}{row.streams:8}{row.items:7}{row.size:9}{row.cut:7}"
                f"{row.equal:7}{other:7}{len(row.wrong):7}"
            )
            notes.update({f"{kind}: {why}": n for why, n in row.excluded.items()})
            wrong += [f"{release} {kind} {w}" for w in row.wrong]
    lines += ["", "no one right answer:", *(f"  {n:5} {why}" for why, n in sorted(notes.items()))]
    return "\n".join([*lines, "", f"wrong: {len(wrong)}", *wrong])


if __name__ == "__main__":
    if not ROOT.is_dir():
        raise SystemExit(f"no captures: {ROOT} is missing")
    try:
        print(render(judge(ROOT)))
    except RemoteProtocolError as error:
        sys.exit(f"cannot be decoded: {error}")
