"""A broker container as captured: what it answers, and what ours says in the same words.

Each capture has one name server and two crossed containers (golden/PROVENANCE.md).
"""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from maxq.reference.config import BrokerConfig
from maxq.reference.container import files
from maxq.reference.container.registry import (
    INIT_FAILED,
    START_FAILED,
    NotAdmitted,
    Registry,
    member_of,
)
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Decoder, Frame
from maxq.reference.wire.headers import from_ext
from maxq.reference.wire.node_headers import RegisterBrokerRequest

GOLDEN = Path(__file__).parent / "golden"
BOTH = pytest.mark.parametrize("name", ["5.3.3-container", "5.5.0-container"])


class Answered(NamedTuple):
    """A request, and its answer, if there was one."""

    request: Frame
    answer: Frame | None


def talks(name: str, client: str, server: str, port: int) -> list[list[Answered]]:
    """What was asked on each connection between two machines, from the oldest one on."""
    index = json.loads((GOLDEN / name / "index.json").read_bytes())
    found = []
    for conn in index["connections"]:
        if (conn["client"], conn["server"], conn["port"]) != (client, server, port):
            continue
        up, down = (
            Decoder().feed((GOLDEN / name / f"{conn['file']}.{way}.bin").read_bytes())
            for way in ("c2s", "s2c")
        )
        answers = {f.opaque: f for f in down if f.is_response}
        found.append([Answered(f, answers.get(f.opaque)) for f in up if not f.is_response])
    return found


def asked(name: str, code: int) -> list[tuple[int, str]]:
    """What the container of b0's master answered to each request of a code, in order."""
    every = [one for talk in talks(name, "client", "b0-0", 10811) for one in talk]
    return [
        (-1, "") if one.answer is None else (one.answer.code, one.answer.remark or "")
        for one in every
        if one.request.code == code
    ]


INIT = "Failed to initialize master broker c1_{}_0"
ILLEGAL = "java.lang.IllegalStateException: Invalid state transition from SHUTDOWN_BEGIN"
THERE = "{} has already been added to current broker container"


@BOTH
def test_what_a_container_says_to_additions(name: str) -> None:
    """As docs/spec/acting-master.md 2.2. It makes a broker with default settings of an empty file,
    and one with id 0 of a master's file that has another."""
    b2, b3 = INIT.format("b2"), INIT.format("b3")
    old = name == "5.3.3-container"
    failed = f"{START_FAILED}, " if old else START_FAILED
    shared = f"{failed}java.nio.channels.OverlappingFileLockException" if old else ILLEGAL
    expected = [
        (1, files.NO_PATH), (1, files.NO_PATH), (1, files.NOTHING), (1, files.NOTHING),
        (0, ""), (1, files.SLAVE_ID), (0, ""), (1, files.REPLICAS), (1, files.DUPLICATION),
        (1, THERE.format("c1_b0_0")), (1, b2), (1, b2),
        (1, f"{failed}java.net.BindException: Address already in use"), (1, b2), (1, shared),
        (0, ""), (1, THERE.format("c1_b2_0")), (1, b3), (1, b3),
    ]  # fmt: skip
    said = zip(asked(name, 902), expected, strict=True)
    assert [(code, text[: len(why)]) for (code, text), (_, why) in said] == expected


@BOTH
def test_what_a_container_says_to_removals(name: str) -> None:
    """An id that is no number is one that is missing. Who was removed is not listed any more."""
    absent, missing = (
        (211, "Broker not exist"),
        (1, "java.lang.NullPointerException: Cannot invoke"),
    )
    said = [(code, text[: len(missing[1])]) for code, text in asked(name, 903)]
    assert said == [
        (0, ""), (0, ""), absent, absent, absent, missing, missing, (0, ""), absent, absent,
    ]  # fmt: skip


@BOTH
def test_what_a_container_says_to_changes(name: str) -> None:
    """A key of the black list refuses all. What it does not know or cannot read is answered 0; of
    a key twice the last counts. Each of these changes counts up the version."""
    black = (16, "Can not update config in black list.")
    assert asked(name, 25) == [black, black, black, (0, ""), (0, ""), (0, ""), black, (0, "")]
    every = [one for talk in talks(name, "client", "b0-0", 10811) for one in talk]
    first, last = (one.answer for one in every if one.request.code == 26)
    assert first is not None
    assert last is not None
    assert b"\nfetchNamesrvAddrInterval=10000\n" in (first.body or b"")
    assert b"\nfetchNamesrvAddrInterval=10002\n" in (last.body or b"")
    assert '"counter":3' in (last.ext or {})["version"]


@BOTH
def test_no_other_request_is_answered(name: str) -> None:
    """Within 20 s; the reference answers 3."""
    assert asked(name, 28) == [(-1, "")]


@BOTH
def test_the_brokers_of_a_container_share_a_connection_to_a_name_server(name: str) -> None:
    """So it knows by its end that one of them is gone, and the other by its silence."""
    [talk] = talks(name, "b0-0", "n0", 9876)
    headers = [
        from_ext(RegisterBrokerRequest, one.request.ext)
        for one in talk
        if one.request.code == RequestCode.REGISTER_BROKER
    ]
    assert {(h.broker_name, h.broker_id) for h in headers} == {("b0", 0), ("b1", 1)}


@BOTH
def test_a_slave_takes_what_is_sent_back_and_makes_its_group(name: str) -> None:
    """36 to the slave of b0, which stores at b1's master: of a group that this knows, and not."""
    [talk] = talks(name, "client", "b1-0", 10921)
    said = [one.answer.code for one in talk if one.request.code == 36 and one.answer is not None]
    assert said == [0, 0]


def test_ours_refuses_in_the_same_words() -> None:
    """`tests/e2e/test_java_containers.py` asks both; this needs no RocketMQ."""
    registry, config = Registry(10811), BrokerConfig(broker_cluster_name="c1", broker_name="b2")
    member = member_of(config)
    registry.admit(member)
    with pytest.raises(NotAdmitted) as refused:
        registry.admit(member)
    assert refused.value.remark == THERE.format("c1_b2_0")
    assert INIT_FAILED.format(member) == INIT.format("b2")
