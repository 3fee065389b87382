"""Writes a capture as a folder: what `tests/wire/golden_table.py` reads.

``index.json`` names release, nodes, marks and connections; ``NNN-<client>-to-<server>-<port>`` with
``.c2s.bin`` and ``.s2c.bin`` are the bytes of each direction, cut at 48 KiB; ``frames.jsonl`` has
the first frames of each kind with their times; ``stores/<node>`` is what was left on disk. Pure but
for the files that it writes. Times are seconds from the beginning of the capture.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.captures.streams import Conversation, End, Stream
from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire import plain_ha
from maxq.reference.wire.frame import Decoder, Frame, Serialize

STREAM_BYTES_MAX = 48 * 1024
KIND_FRAMES_MAX = 6
BODY_BYTES_MAX = 8192
HA_PORTS = (10912, 10922)  # the second one: of another broker of the same process
REMOTING, PLAIN_HA = "remoting", "plain-ha"
WAYS = (("c2s", ">"), ("s2c", "<"))


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario that was played: `nodes` are names by address, `began_ns` is of the wall clock,
    `marks` say what was begun or found, and when (s). Connections of ends without a name are left
    out."""

    release: str
    nodes: Mapping[str, str]
    began_ns: int
    marks: Sequence[tuple[float, str]]
    conversations: Sequence[Conversation]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A connection under its name."""

    file: str
    kind: str
    client: str
    server: str
    talk: Conversation

    def ways(self) -> tuple[tuple[str, str, Stream], ...]:
        """Both directions: how files and frames call them, and the bytes."""
        (up, forth), (down, back) = WAYS
        return (up, forth, self.talk.up), (down, back, self.talk.down)


def write(folder: Path, seen: Seen) -> None:
    """Write all but the stores."""
    folder.mkdir(parents=True, exist_ok=True)
    found = list(named(seen))
    for f in found:
        for way, _, stream in f.ways():
            (folder / f"{f.file}.{way}.bin").write_bytes(stream.data[:STREAM_BYTES_MAX])
    index = {
        "release": seen.release,
        "nodes": {name: address for address, name in seen.nodes.items()},
        "started_unix": seen.began_ns // 10**9,
        "marks": [[round(at, 2), text] for at, text in seen.marks],
        "connections": [_entry(f, seen.began_ns) for f in found],
    }
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    lines = sorted(frames(found, seen.began_ns), key=lambda line: line["t"])
    kept = first_of_each_kind(lines)
    (folder / "frames.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))


def named(seen: Seen) -> Iterator[Found]:
    """Connections that carried anything, between nodes that have names, numbered in order."""
    number = 0
    for talk in seen.conversations:
        ends = [_name(seen.nodes, end) for end in (talk.client, talk.server)]
        if not all(ends) or not talk.up.size + talk.down.size:
            continue
        number += 1
        port = talk.server[1]
        yield Found(
            file=f"{number:03}-{ends[0]}-to-{ends[1]}-{port}",
            kind=PLAIN_HA if port in HA_PORTS else REMOTING,
            client=ends[0],
            server=ends[1],
            talk=talk,
        )


def _name(nodes: Mapping[str, str], end: End) -> str:
    return nodes.get(end[0], "")


def _seconds(at_ns: int, began_ns: int) -> float:
    return round((at_ns - began_ns) / 1e9, 3)


def _entry(f: Found, began_ns: int) -> dict[str, Any]:
    """A connection in the index. `truncated`: some bytes of it are in no file."""
    talk = f.talk
    closed = None if talk.closed_ns is None else _seconds(talk.closed_ns, began_ns)
    kept = all(s.size == len(s.data) <= STREAM_BYTES_MAX for s in (talk.up, talk.down))
    return {
        "file": f.file,
        "kind": f.kind,
        "client": f.client,
        "server": f.server,
        "port": talk.server[1],
        "opened": _seconds(talk.opened_ns, began_ns),
        "closed": closed,
        "bytes_c2s": talk.up.size,
        "bytes_s2c": talk.down.size,
        "truncated": not (kept and talk.whole),
        "frames": sum(len(decoded(f.kind, s, way)) for _, way, s in f.ways()),
    }


def decoded(kind: str, stream: Stream, way: str) -> list[tuple[int, bytes, Any]]:
    """Frames of a stream, up to the first that cannot be read: where each begins, its bytes, and
    the frame, or the packet of a log's connection."""
    decoder: Any = Decoder()
    if kind == PLAIN_HA:
        decoder = plain_ha.slave_decoder() if way == WAYS[0][1] else plain_ha.master_decoder()
    found, at = [], 0
    try:
        items = decoder.feed(stream.data)
    except RemoteProtocolError:
        return []
    for item in items:
        size = _size(item, stream.data, at)
        found.append((at, stream.data[at : at + size], item))
        at += size
    return found


def _size(item: Any, data: bytes, at: int) -> int:
    if isinstance(item, Frame):
        return 4 + int.from_bytes(data[at : at + 4], "big")
    return len(plain_ha.encode(item))


def frames(found: Sequence[Found], began_ns: int) -> Iterator[dict[str, Any]]:
    """Lines about all remoting frames. An answer has the code of its request, or none."""
    for f in found:
        if f.kind != REMOTING:
            continue
        both = {way: (stream, decoded(f.kind, stream, way)) for _, way, stream in f.ways()}
        asked = {
            (way, frame.opaque): frame.code
            for way, (_, items) in both.items()
            for _, _, frame in items
            if not frame.is_response
        }
        for way, (stream, items) in both.items():
            other = "<" if way == ">" else ">"
            for at, raw, frame in items:
                code = asked.get((other, frame.opaque)) if frame.is_response else frame.code
                seconds = _seconds(stream.known_at(at + len(raw) - 1), began_ns)
                yield {
                    "t": seconds,
                    "conn": f.file,
                    "dir": way,
                    "at": at,
                    **_told(raw, frame, code),
                }


def _told(raw: bytes, frame: Frame, code: int | None) -> dict[str, Any]:
    head = int.from_bytes(raw[4:8], "big") & 0xFFFFFF
    line: dict[str, Any] = {
        "len": len(raw),
        "serialize": frame.serialize.name,
        "request_code": code,
        "response_code": frame.code if frame.is_response else None,
    }
    header = raw[8 : 8 + head]
    if frame.serialize is Serialize.JSON:
        line["header_text"] = header.decode()
    else:
        line["header_hex"] = header.hex()
    if frame.body is not None:
        body = frame.body[:BODY_BYTES_MAX]
        try:
            line["body_text"] = body.decode()
        except UnicodeDecodeError:
            line["body_hex"] = body.hex()
        line["body_len"] = len(frame.body)
    return line


def first_of_each_kind(lines: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The first few of the requests of each code, and of each answer to them."""
    seen: Counter[tuple[int | None, int | None]] = Counter()
    for line in lines:
        kind = line["request_code"], line["response_code"]
        seen[kind] += 1
        if seen[kind] <= KIND_FRAMES_MAX:
            yield line
