"""A capture's folder: which connections are in it, where they are cut, which frames are noted."""

import json
from pathlib import Path

from benchmarks.captures.folder import KIND_FRAMES_MAX, STREAM_BYTES_MAX, Seen, write
from benchmarks.captures.streams import Conversation, Stream
from maxq.reference.records import PhyOffset
from maxq.reference.wire import frame, plain_ha
from maxq.reference.wire.frame import Frame

NODES = {"198.18.0.2": "client", "198.18.0.16": "b0-0"}
CLIENT, BROKER = ("198.18.0.2", 4000), ("198.18.0.16", 10911)
BEGAN_NS = 10**18


def stream(data: bytes, missing: int = 0) -> Stream:
    return Stream(data, len(data) + missing, ((0, BEGAN_NS + 2 * 10**9),) if data else ())


def talk(up: Stream, down: Stream, port: int = 10911, client: str = CLIENT[0]) -> Conversation:
    return Conversation((client, 4000), (BROKER[0], port), BEGAN_NS + 10**9, None, True, up, down)


def written(tmp_path: Path, *talks: Conversation) -> tuple[Path, dict[str, dict[str, object]]]:
    folder = tmp_path / "capture"
    marks = [(0.123, "begun")]
    write(folder, Seen(release="5.5.0", nodes=NODES, began_ns=BEGAN_NS, marks=marks,
                       conversations=talks))  # fmt: skip
    index = json.loads((folder / "index.json").read_bytes())
    assert index["marks"] == [[0.12, "begun"]]
    assert index["nodes"] == {"client": "198.18.0.2", "b0-0": "198.18.0.16"}
    return folder, {c["file"]: c for c in index["connections"]}


def test_connections_have_names_and_those_without_are_left_out(tmp_path: Path) -> None:
    asks = frame.encode(Frame(code=30, opaque=7, ext={}))
    says = frame.encode(Frame(code=0, opaque=7, ext={"offset": "3"}, flag=1))
    nobody = talk(stream(asks), stream(says), client="198.18.0.3")
    refused = talk(stream(b""), stream(b""))
    folder, found = written(tmp_path, nobody, refused, talk(stream(asks), stream(says)))
    (connection,) = found.values()
    assert connection == {
        "file": "001-client-to-b0-0-10911", "kind": "remoting", "client": "client",
        "server": "b0-0", "port": 10911, "opened": 1.0, "closed": None, "bytes_c2s": len(asks),
        "bytes_s2c": len(says), "truncated": False, "frames": 2,
    }  # fmt: skip
    assert (folder / "001-client-to-b0-0-10911.s2c.bin").read_bytes() == says
    lines = [json.loads(x) for x in (folder / "frames.jsonl").read_text().splitlines()]
    assert [(x["t"], x["dir"], x["request_code"], x["response_code"]) for x in lines] == [
        (2.0, ">", 30, None), (2.0, "<", 30, 0),
    ]  # fmt: skip
    assert json.loads(lines[1]["header_text"])["extFields"] == {"offset": "3"}


def test_long_and_holed_streams_are_marked(tmp_path: Path) -> None:
    piece = plain_ha.encode(plain_ha.LogPiece(start=PhyOffset(0), data=b"x" * 32_756))
    report = plain_ha.encode(plain_ha.Report(offset=PhyOffset(0)))
    long = talk(stream(report), stream(piece * 2), port=10912)
    holed = talk(stream(report, missing=8), stream(b""), port=10912)
    folder, found = written(tmp_path, long, holed)
    first, second = found.values()
    assert (first["kind"], first["truncated"], first["bytes_s2c"]) == ("plain-ha", True, 65_536)
    assert (folder / f"{first['file']}.s2c.bin").stat().st_size == STREAM_BYTES_MAX
    assert first["frames"] == 3
    assert (second["truncated"], second["bytes_c2s"]) == (True, 16)


def test_of_each_kind_the_first_frames_are_noted(tmp_path: Path) -> None:
    many = [frame.encode(Frame(code=11, opaque=i, ext={}, body=b"\xff")) for i in range(20)]
    folder, _ = written(tmp_path, talk(stream(b"".join(many)), stream(b"")))
    lines = [json.loads(x) for x in (folder / "frames.jsonl").read_text().splitlines()]
    assert [x["at"] for x in lines] == [i * len(many[0]) for i in range(KIND_FRAMES_MAX)]
    assert {x["body_hex"] for x in lines} == {"ff"}
