"""Which anomaly of a pair a cause explains: lines as RocketMQ 5.5.0 wrote them in runs, which must
fit the anomaly's broker and time."""

from typing import Any

import msgspec
import pytest

from maxq.checkers.core.api import Anomaly, Answer, Stretch
from maxq.harness.contracts.target import Profile
from maxq.harness.experiments.hunt.by_mode import labels
from maxq.harness.known.causes import Traces
from maxq.harness.known.naming import TIES, Naming, known_as, known_in
from maxq.harness.known.run_artifacts import Event, RunArtifacts, events
from maxq.harness.schedule.options import Options
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, Op

S = 1_000_000_000
TARGET = "rocketmq:5.5.0"
RUN_BEGAN_MS = 1_795_478_400_000 + (2 * 3600 + 25 * 60) * 1000  # logs have another zone
BOOTED = "RocketmqBroker - rocketmqHome=/nodes/b0-0"
WAITS = "RocketmqBroker - wait for handshake completion with 198.18.0.48:10911"
REVERSE = "RocketmqBroker - Get metadata reverse from 198.18.0.48:10911"
TOOK = "RocketmqBroker - 198.18.0.48:10911's consumerOffset data version is larger than master broker, 198.18.0.48:10911's consumerOffset will be used."  # noqa: E501
ONLINE = "RocketmqBroker - master preOnline complete, start service"
ALONE = "RocketmqBroker - no other broker online, will start service directly"
FAILED = "RocketmqBroker - GetMetadataReverse Failed"
UNQUOTED = "com.alibaba.fastjson2.JSONException: not support unquoted name, offset 127"
ACTS = "RocketmqBroker - ScheduleServiceStatus changed to true"
ACTS_NO_MORE = "RocketmqBroker - ScheduleServiceStatus changed to false"
HALF = "RocketmqTransaction - Escaping transactional message failed {} times! msgId(offsetId)=C6, UNIQ_KEY(transactionId)={:032X}"  # noqa: E501
CHECKED = "RocketmqTransaction - Check transaction. real_topic=maxq-transactions,uniqKey={:032X},offset=23,commitLogOffset=14753"  # noqa: E501
PUT_FAILED = "RocketmqBroker - ScheduleMessageService put message failed. info: PutMessageResult"
NOT_COPIED = "RocketmqBroker - SyncConsumerOffset Exception, 198.18.0.32:10911"


def log(*lines: tuple[float, str]) -> tuple[Event, ...]:
    """Lines at seconds of the run, an hour later by the log's time zone."""
    text = []
    for at, line in lines:
        minutes, seconds = divmod(at, 60)
        first, *trace = line.split("\n")
        text += [f"03:{25 + int(minutes):02}:{seconds:06.3f} INFO  {first}", *trace]
    return tuple(events(text))


class Pair:
    """b0-0 and its slave b0-1, and b1-0 of another set."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        for node in ("b0-0", "b0-1", "b1-0"):
            value: dict[str, Any] = {
                "node": node, "set": node[:2], "address": node, "id": 0, "leads": False,
                "epochs": [], "end": 9, "confirmed": None,
            }  # fmt: skip
            self.add(1, "observe-replica", value)

    def add(self, at: float, f: str, value: Any) -> int:
        index = len(self.ops)
        self.ops.append(Op("ok", 9, f, value, None, index, round(at * S), None))
        return index

    def asked(self, at: float, node: str) -> int:
        index = self.add(at, "acquire", 2)
        self.ops[index] = msgspec.structs.replace(self.ops[index], ext={"broker": node})
        return index

    def anomaly(self, signature: str, since: float, until: float, **detail: Any) -> Anomaly:
        ops = self.add(since, "commit-offset", [3, 7]), self.add(until, "fetch-offset", [3, 5])
        claim, _, name = signature.partition("/")
        return Anomaly(
            claim=claim, name=name, signature=signature, ops=ops, story="", detail=detail
        )

    def run(self, profile: Profile = "P-SYNC", **logs: tuple[Event, ...]) -> Traces:
        named = {name.replace("_", "-"): events_ for name, events_ in logs.items()}
        pair = Options(environment="local", seed=1, profile=profile, controllers=0, replicas=2)
        settings = dict(pair.context().settings or {})
        return Traces(
            RunArtifacts(
                logs={"n0": log((1, "RocketmqNamesrv - up")), **named},
                history=History(self.ops),
                profile=profile,
                settings=settings,
                back_end="dledger",
                zero_wall_ms=RUN_BEGAN_MS,
                pair=True,
            )
        )


def of(run: Traces, anomaly: Anomaly, target: str = TARGET) -> str:
    known = known_as(anomaly, target, run)
    return known.what[:3] if known else ""


def test_every_known_anomaly_has_a_tie_of_its_cause() -> None:
    rows = known_in("pair")
    assert all(row.shown in TIES for row in rows if row.shown)
    assert len({row.what for row in rows}) == len(rows)


def back(*lines: str, at: float = 40) -> tuple[Event, ...]:
    """A master that was started again 10 s before."""
    return log((2, BOOTED), (9, ONLINE), (at - 10, BOOTED), *((at, line) for line in lines))


@pytest.mark.parametrize(
    ("lines", "acting", "written"),
    [
        pytest.param((WAITS, REVERSE, ONLINE), "R1:", "", id="kept its own"),
        pytest.param((REVERSE, TOOK, REVERSE, TOOK, ONLINE), "R2:", "R2:", id="took two"),
        pytest.param((ALONE,), "R3:", "", id="found nobody"),
        pytest.param((WAITS, REVERSE, TOOK, ONLINE), "R5:", "R6:", id="took one"),
        pytest.param((REVERSE, FAILED), "", "", id="never online"),
    ],
)
def test_how_a_master_returned_tells_why_offsets_are_gone(
    lines: tuple[str, ...], acting: str, written: str
) -> None:
    pair = Pair()
    lost = pair.anomaly("P4/acting-offset-lost", 20, 50, node="b0-0")
    older = pair.anomaly("P5/written-offset-lost", 20, 50, node="b0-0")
    run = pair.run(b0_0=back(*lines))
    assert (of(run, lost), of(run, older)) == (acting, written)
    elsewhere = pair.run(b1_0=back(*lines))
    assert (of(elsewhere, lost), of(elsewhere, older)) == ("", "")
    later = pair.run(b0_0=back(*lines, at=70))
    assert (of(later, lost), of(later, older)) == ("", "")


def test_a_master_that_was_only_cut_off() -> None:
    pair = Pair()
    lost = pair.anomaly("P4/acting-offset-lost", 20, 50, node="b0-0")
    acted = log((15, ACTS), (30, ACTS_NO_MORE))
    assert of(pair.run(b0_0=log((2, BOOTED)), b0_1=acted), lost) == "R4:"
    assert of(pair.run(b0_0=log((2, BOOTED), (25, BOOTED)), b0_1=acted), lost) == ""
    assert of(pair.run(b0_1=log((15, ACTS))), lost) == "", "its slave still acts"


def test_a_master_that_cannot_read_what_its_slave_has() -> None:
    pair = Pair()
    closed = pair.anomaly("S13/not-writable", 20, 50, set="b0")
    failed = f"{FAILED}\n{UNQUOTED}"
    run = pair.run(b0_0=log((30, failed), (49, failed)))
    assert labels([closed], TARGET, run) == {
        "S13/not-writable": {"a master whose slave was read from never comes back": 1}
    }
    assert of(run, closed, "rocketmq:5.3.3") == ""
    assert of(pair.run(b0_0=log((30, failed), (49, ONLINE))), closed) == ""
    assert of(pair.run(b0_0=log((30, f"{FAILED}\nconnect to h:1 failed"))), closed) == ""
    assert of(pair.run(b1_0=log((30, failed))), closed) == "", "another set"
    assert of(pair.run(b0_0=log((51, failed))), closed) == "", "later"


def test_locks_of_a_set_whose_master_never_comes_back() -> None:
    pair = Pair()
    kept = pair.anomaly("L9/released-lock-kept", 20, 50, key=2)
    own = msgspec.structs.replace(kept, ops=(pair.asked(45, "b0-1"),))
    others = msgspec.structs.replace(kept, ops=(pair.asked(45, "b1-0"),))
    run = pair.run(b0_0=log((30, f"{FAILED}\n{UNQUOTED}")))
    assert of(run, own) == "a m"
    assert of(run, others) == of(run, kept) == ""


def test_a_slave_that_cannot_read_what_its_master_has() -> None:
    pair = Pair()
    lost = pair.anomaly("P6/copied-offset-lost", 20, 50, node="b0-1")
    assert of(pair.run(b0_1=log((30, f"{NOT_COPIED}\n{UNQUOTED}"))), lost) == "a s"
    assert of(pair.run(b0_1=log((30, NOT_COPIED))), lost) == ""


def test_half_messages_that_were_left_behind() -> None:
    pair = Pair()
    lost = pair.anomaly("E4/half-lost", 20, 50, set="b0", value=7)
    assert of(pair.run(b0_1=log(*((60, HALF.format(n, 7)) for n in range(1, 12)))), lost) == "a h"
    assert of(pair.run(b0_1=log(*((30, HALF.format(n, 7)) for n in range(1, 11)))), lost) == ""
    assert of(pair.run(b0_1=log((30, HALF.format(11, 8)))), lost) == "", "another message"


def test_slaves_that_are_not_read_from() -> None:
    pair = Pair()
    unread = pair.anomaly("A5/acting-not-readable", 20, 50, set="b0", node="b0-1")
    assert of(pair.run(b0_1=log((2, "RocketmqBroker - slaveReadEnable=false"))), unread) == "con"
    assert of(pair.run(b0_1=log((2, "RocketmqBroker - slaveReadEnable=true"))), unread) == ""


def test_slaves_that_do_not_act() -> None:
    pair = Pair()
    nobody = pair.anomaly("A1/nobody-acts", 20, 50, set="b0", node="b0-1")
    for setting, known in (("false", "no "), ("true", "")):
        line = f"RocketmqBroker - enableSlaveActingMaster={setting}"
        assert of(pair.run(b0_1=log((2, line))), nobody) == known


def test_locks_that_are_not_strict() -> None:
    pair = Pair()
    twice = pair.anomaly("L2/lease-overlap", 20, 50, key=2)
    assert of(pair.run("P-ASYNC"), twice) == "loc"
    assert of(pair.run("P-SYNC"), twice) == ""


def test_a_master_that_may_acknowledge_alone() -> None:
    pair = Pair()
    alone = pair.anomaly("A8/acknowledged-uncopied", 20, 50, set="b0", value=7)
    assert of(pair.run("P-AUTO"), alone) == "wit"
    assert of(pair.run("P-SYNC"), alone) == ""


def test_delayed_messages_that_wait_for_another() -> None:
    pair = Pair()
    late = pair.anomaly("E1/delayed-late", 20, 50, set="b0", value=7)
    assert of(pair.run(b0_1=log(*[(30, PUT_FAILED)] * 20)), late) == "a d"
    assert of(pair.run(b0_1=log(*[(30, PUT_FAILED)] * 19)), late) == ""
    assert of(pair.run(b0_1=log(*[(60, PUT_FAILED)] * 20)), late) == ""


def test_each_question_to_producers_copies_a_half_message() -> None:
    pair = Pair()
    twice = pair.anomaly("E9/committed-again", 20, 50, set="b0", value=7)
    assert of(pair.run(b1_0=log((30, CHECKED.format(7)))), twice) == "eac"
    assert of(pair.run(b1_0=log((30, CHECKED.format(8)))), twice) == "", "another message"
    assert of(pair.run(b1_0=log((60, CHECKED.format(7)))), twice) == "", "it had come by then"


def test_what_is_said_of_a_finding() -> None:
    pair = Pair()
    twice = pair.anomaly("E9/committed-again", 20, 50, set="b0", value=7)
    asked = pair.run(b1_0=log((30, CHECKED.format(7)))).artifacts
    of_another = pair.run(b1_0=log((30, CHECKED.format(8)))).artifacts
    gone = msgspec.structs.replace(asked, logs={})

    def said(run: RunArtifacts, *targets: str) -> str:
        return Naming(targets or (TARGET,), lambda: run)(twice)

    what = "each question to producers copies a half message, and each copy is committed by itself"
    assert said(asked) == f"known: {what} (RocketMQ #8158, seen in 4.9.7 to 5.5.0)"
    assert said(of_another) == "", "same target and signature, and another cause"
    assert said(gone).startswith("may be RocketMQ #8158"), "nothing shows its cause"
    assert said(asked, "reference") == ""
    assert said(asked, "reference", TARGET).startswith("known: ")


def test_what_was_mended_is_not_known_of_later_releases() -> None:
    pair = Pair()
    lacks = pair.anomaly("A12/typed-topic-not-copied", 20, 50, node="b0-1")
    line = "RocketmqBroker - SyncTopicConfig Exception\nonly add attribute is supported while creating topic"  # noqa: E501
    run = pair.run(b0_1=log((30, line))).artifacts
    [old, mixed, new] = [
        Naming(targets, lambda: run)(lacks)
        for targets in (["rocketmq:5.3.3"], ["rocketmq:5.3.3", TARGET], [TARGET])
    ]
    assert old == (
        "known: slaves copy no topic once one has attributes (RocketMQ #9403, #9879, #9984, seen "
        "in 5.3.2 to 5.3.3, fixed in 5.4.0)"
    )
    assert mixed.startswith("may be RocketMQ #9403")
    assert new == ""
    refused = pair.anomaly("A6/acting-refuses", 20, 50, set="b0", node="b0-1")
    for error, known in (("TOPIC_NOT_EXIST", True), ("NO_PERMISSION", False)):
        pair.ops[refused.ops[0]] = msgspec.structs.replace(
            pair.ops[refused.ops[0]], error=[error, ""]
        )
        run = pair.run(b0_1=log((30, line))).artifacts
        assert (known_as(refused, "rocketmq:5.3.3", Traces(run)) is not None) == known


def test_a_slave_that_is_longer() -> None:
    pair = Pair()
    parted = pair.anomaly("S8/log-diverged", 20, 50, set="b0", nodes=["b0-0", "b0-1"])
    line = "RocketmqStore - master pushed offset not equal the max phy offset in slave, SLAVE: 9 MASTER: 7"  # noqa: E501
    assert of(pair.run(b0_1=log((30, line))), parted) == "a s"
    assert of(pair.run(b0_1=log((60, line))), parted) == ""
    behind = line.replace("MASTER: 7", "MASTER: 12")
    assert of(pair.run(b0_1=log((30, behind))), parted) == "", "it is shorter, and lacks a piece"


def test_sends_that_wait_for_a_slave_that_stands_still() -> None:
    pair = Pair()
    pair.ops += [
        Op("info", NEMESIS, "pause", "p", None, len(pair.ops), 10 * S, None),
        Op(
            "info",
            NEMESIS,
            "pause",
            {"b0-1": {"holds": True}},
            None,
            len(pair.ops) + 1,
            10 * S,
            None,
        ),
    ]
    stalled = Stretch(
        f="send",
        from_ns=12 * S,
        until_ns=50 * S,
        first=0,
        last=1,
        failed=20,
        answers=(Answer(name="FLUSH_SLAVE_TIMEOUT", count=20, first_ns=12 * S, last_ns=50 * S),),
    )
    run = pair.run().artifacts
    [told] = Naming((TARGET,), lambda: run).of_answers([stalled, stalled])
    assert told.startswith("known: send: sends stall while a slave that is connected ")
    assert "(RocketMQ #3484, #1244, seen in " in told
    before = msgspec.structs.replace(stalled, from_ns=2 * S, until_ns=9 * S)
    assert not list(Naming((TARGET,), lambda: run).of_answers([before]))
