"""Captures of pairs without controllers: each byte read and written again; what they decide.

The selection of this repository (golden/PROVENANCE.md), and, where they are, all others.
"""

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import golden_table as golden
import pytest

from maxq.reference.wire import message
from maxq.reference.wire.bodies import ConsumerOffsets, DelayOffsets
from maxq.reference.wire.frame import Decoder, Frame
from maxq.reference.wire.headers import OffsetResponse, from_ext
from maxq.reference.wire.node_headers import HaInfo, MinBrokerIdChange
from maxq.reference.wire.route import MemberGroupBody

SELECTION = Path(__file__).parent / "golden"
STREAMS = ("remoting", "plain-ha c2s", "plain-ha s2c")
FOLDERS = [pytest.param(SELECTION, name, id=name) for name in golden.PAIRS_HERE] + [
    pytest.param(golden.ROOT, name, id=f"shared-{name}", marks=golden.needs(name))
    for name in golden.PAIRS
]
MASTER, FIRST, SECOND = "198.18.0.48:10911", "198.18.0.64:10911", "198.18.0.80:10911"
OFFSETS, HALF = "T1@g1", "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS"


class Answered(NamedTuple):
    """A request, and its answer, if one was captured."""

    request: Frame
    answer: Frame | None


def rows(root: Path, name: str) -> dict[str, golden.Row]:
    return golden.judge(root, (name,))[name]


def asked(name: str, client: str, server: str, code: int) -> list[list[Answered]]:
    """Requests of a code on each of the connections between two nodes, from the older one on."""
    index = json.loads((SELECTION / name / "index.json").read_bytes())
    found = []
    for conn in index["connections"]:
        if (conn["client"], conn["server"]) != (client, server) or conn["kind"] != "remoting":
            continue
        up, down = (
            Decoder().feed((SELECTION / name / f"{conn['file']}.{way}.bin").read_bytes())
            for way in ("c2s", "s2c")
        )
        answers = {f.opaque: f for f in down if f.is_response}
        mine = [Answered(f, answers.get(f.opaque)) for f in up if f.code == code]
        found += [mine] if mine else []
    return found


def offsets(one: Answered) -> ConsumerOffsets:
    assert one.answer is not None
    return ConsumerOffsets.from_json(one.answer.body)


def committed(one: Answered) -> int:
    assert one.answer is not None
    return from_ext(OffsetResponse, one.answer.ext).offset


def announced(name: str, client: str, server: str) -> list[MinBrokerIdChange]:
    return [
        from_ext(MinBrokerIdChange, one.request.ext)
        for connection in asked(name, client, server, 905)
        for one in connection
    ]


@pytest.mark.parametrize(("root", "name"), FOLDERS)
def test_nothing_is_wrong_and_every_item_is_counted(root: Path, name: str) -> None:
    found = rows(root, name)
    wrong = [w for row in found.values() for w in row.wrong]
    assert wrong == [], golden.render({name: found})
    for row in found.values():
        assert row.items == row.equal + row.excluded.total()


@pytest.mark.parametrize(("root", "name"), FOLDERS)
def test_every_stream_is_decoded_to_its_end(root: Path, name: str) -> None:
    found = [row for kind, row in rows(root, name).items() if kind in STREAMS]
    files = list((root / name).glob("*.bin"))
    assert sum(row.streams for row in found) == len(files)
    assert sum(row.size for row in found) == sum(path.stat().st_size for path in files)
    for row in found:  # what is missing is the partial last frame of a stream that was cut off
        assert row.decoded + row.cut == row.size


def test_the_selection_has_what_pairs_alone_say() -> None:
    """Requests of brokers and name servers, by code: probes do not count."""
    codes: Counter[int] = Counter()
    for name in golden.PAIRS_HERE:
        for pair in golden.Release(SELECTION, name).streams():
            for stream in pair:
                if stream.kind == "remoting":
                    frames = Decoder().feed(stream.data)
                    codes.update(
                        f.code for f in frames if not f.is_response and f.language == "JAVA"
                    )
    assert {21, 41, 42, 43, 45, 60, 103, 201, 901, 904, 905, 906} <= codes.keys()


def test_who_is_the_smallest_is_told_to_all_others() -> None:
    """In 5.5.0: at a registration with the HA address, at an eviction with who is gone."""
    ha = MASTER.replace("10911", "10912")
    up = MinBrokerIdChange(min_broker_id=0, min_broker_addr=MASTER, ha_broker_addr=ha)
    down = MinBrokerIdChange(min_broker_id=1, min_broker_addr=FIRST, offline_broker_addr=MASTER)
    assert announced("5.5.0-three", "n0", "b0-1") == [up, down, up, down]
    assert announced("5.5.0-three", "n1", "b0-2") == [
        up, down, up, down,
        MinBrokerIdChange(min_broker_id=2, min_broker_addr=SECOND, offline_broker_addr=FIRST),
        MinBrokerIdChange(min_broker_id=1, min_broker_addr=FIRST,
                          ha_broker_addr=FIRST.replace("10911", "10912")),
        up,
    ]  # fmt: skip


def test_a_group_of_three_as_its_members_go_and_return() -> None:
    answers = asked("5.5.0-three", "client", "n0", 901)[0]
    groups = []
    for one in answers:
        assert one.answer is not None
        group = MemberGroupBody.from_json(one.answer.body).broker_member_group
        assert group is not None
        groups.append(sorted(group.broker_addrs))
    assert groups == [[0, 1, 2], [1, 2], [0, 1, 2], [1, 2], [2], [1, 2]]


def test_the_second_slaves_table_overwrites_the_first_ones() -> None:
    """In 5.5.0: 3, committed at the slave that acted, becomes 1, both tables having one version."""
    first = offsets(asked("5.5.0-three", "b0-0", "b0-1", 43)[0][-1])
    second = offsets(asked("5.5.0-three", "b0-0", "b0-2", 43)[0][-1])
    assert first.data_version == second.data_version
    assert (first.offset_table[OFFSETS], second.offset_table[OFFSETS]) == ({0: 3}, {0: 1})
    assert committed(asked("5.5.0-three", "client", "b0-0", 14)[0][0]) == 1


@pytest.mark.parametrize("name", ["5.1.1-pair", "5.3.3-pair"])
def test_a_pull_from_a_slave_keeps_no_older_master_away(name: str) -> None:
    """Offsets of pulls are in no answer to 43, and the master has what the slave was told."""
    pulled = asked(name, "client", "b0-1", 11)[0]
    assert [one.answer.code for one in pulled if one.answer is not None] == [0, 19]
    taken = offsets(asked(name, "b0-0", "b0-1", 43)[-1][0])
    assert taken.pull_offset_table is None
    assert taken.offset_table == {OFFSETS: {0: 3}}
    assert committed(asked(name, "client", "b0-0", 14)[-1][0]) == 3
    said = from_ext(HaInfo, asked(name, "b0-0", "b0-1", 906)[-1][0].request.ext)
    log = (SELECTION / name / "stores/b0-0/commitlog" / f"{0:020}").read_bytes()
    last = len(log) - said.master_flush_offset if said.master_flush_offset else 0
    assert 0 < last < 300  # one message came after it was online


def test_without_escape_a_half_message_is_skipped_and_a_delayed_one_waits() -> None:
    """In 5.5.0 the slave's progress goes to the master, which never asks about the half message."""
    connection = asked("5.5.0-no-escape", "b0-0", "b0-1", 43)[-1]
    assert offsets(connection[0]).offset_table[HALF] == {0: 1}
    delays = asked("5.5.0-no-escape", "b0-0", "b0-1", 45)[-1][0].answer
    assert delays is not None
    assert DelayOffsets.from_json(delays.body).offset_table == {3: 0}
    back = SELECTION / "5.5.0-no-escape" / "026-client-to-b0-0-10911.s2c.bin"
    assert all(f.is_response for f in Decoder().feed(back.read_bytes()))  # in 13 s no 39
    pulled = asked("5.5.0-no-escape", "client", "b0-0", 11)[-1][0].answer
    assert pulled is not None
    bodies = [m.body for m in message.decode_all(pulled.body or b"")]
    assert bodies == [b"before0", b"before4", b"delayed"]
