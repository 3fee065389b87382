"""What tells that a row of the tables of pairs was reached: lines as RocketMQ 5.5.0 writes them."""

from typing import Any

import pytest

from maxq.harness.experiments.hunt.by_mode import evidence
from maxq.harness.experiments.hunt.pair_decisions import PAIR_DECISIONS
from maxq.harness.known.run_artifacts import RunArtifacts, events
from maxq.histories.history import History
from maxq.histories.op import Op

S = 1_000_000_000
UNREGISTER = "RocketmqNamesrv - unregisterBroker, remove "
IDENTITY = "BrokerIdentityInfo [clusterName=maxq, brokerAddr=198.18.0.{}:10911]"
LIVE, IN_GROUP = UNREGISTER + "from brokerLiveTable OK, ", UNREGISTER + "addr from brokerAddrTable "
DESTROYED = "RocketmqNamesrv - the broker's channel destroyed, submit the unregister request at once, broker info: org.apache.rocketmq.remoting.protocol.header.namesrv.UnRegisterBrokerRequestHeader@64ff1f6d, submit result: true"  # noqa: E501
EXPIRED = f"RocketmqNamesrv - The broker channel expired, {IDENTITY.format(48)} 3000ms"
CHANGED = "RocketmqBroker - Min broker changed, old: {}-198.18.0.32:10911, new {}-198.18.0.48:10911"
ACTS = "RocketmqBroker - ScheduleServiceStatus changed to true"
DIAL = "RocketmqStore - update master ha address, OLD: null NEW: 198.18.0.32:10912"
BOOTED = "RocketmqBroker - rocketmqHome=/nodes/b0-0"
WAITS = "RocketmqBroker - wait for handshake completion with 198.18.0.48:10911"
REVERSE = "RocketmqBroker - Get metadata reverse from 198.18.0.48:10911"
TOOK = "RocketmqBroker - 198.18.0.48:10911's {} data version is larger than master broker, 198.18.0.48:10911's {} will be used."  # noqa: E501
ONLINE = "RocketmqBroker - master preOnline complete, start service"
FAILED = "RocketmqBroker - GetMetadataReverse Failed"
UNQUOTED = "com.alibaba.fastjson2.JSONException: not support unquoted name, offset 127, character 0"
ALONE = "RocketmqBroker - no other broker online, will start service directly"
BEGINS = "RocketmqBroker - maxq_b0_{0} start service, min broker id is {0}, min broker addr: h:1"
PUT_FAILED = "RocketmqBroker - ScheduleMessageService put message failed. info: PutMessageResult [putMessageStatus=PUT_TO_REMOTE_BROKER_FAIL, appendMessageResult=null, remotePut=true]."  # noqa: E501
HALF = "RocketmqTransaction - Escaping transactional message failed {} times! msgId(offsetId)=C6, UNIQ_KEY(transactionId)=7"  # noqa: E501


def log(*texts: str, apart_s: int = 2) -> str:
    """Lines of a log; one that is no line of theirs goes on with a trace."""
    lines, second = [], 0
    for text in texts:
        second += apart_s
        of_theirs = text.startswith("Rocketmq")
        at = f"12:{second // 60:02}:{second % 60:02}.000 INFO  "
        lines.append(f"{at}{text}" if of_theirs else text)
    return "\n".join(lines)


def artifacts(ops: tuple[Op, ...] = (), **logs: str) -> RunArtifacts:
    named = {name.replace("_", "-"): tuple(events(t.splitlines())) for name, t in logs.items()}
    return RunArtifacts(
        logs=named, history=History(ops), profile="P-SYNC", back_end="dledger", pair=True
    )


def reached(left: RunArtifacts) -> dict[str, int]:
    found = {row.id: row.seen(left) for row in PAIR_DECISIONS if row.seen is not None}
    return {name: count for name, count in found.items() if count}


def test_rows_have_names_of_their_own_and_say_why_they_are_not_visible() -> None:
    assert len({row.id for row in PAIR_DECISIONS}) == len(PAIR_DECISIONS)
    assert all((row.seen is None) == bool(row.why) for row in PAIR_DECISIONS)
    assert reached(artifacts(b0_0="", n0="")) == {}


def test_who_said_goodbye_had_no_connection_that_ended() -> None:
    gone = LIVE + IDENTITY.format(48)
    killed = log(DESTROYED, gone, IN_GROUP + "OK, " + IDENTITY.format(48), apart_s=0)
    assert reached(artifacts(n0=killed)) == {"eviction channel": 1, "eviction reduced": 1}
    assert reached(artifacts(n0=log("RocketmqNamesrv - x", gone))) == {"eviction goodbye": 1}
    late = log(DESTROYED, gone, apart_s=3)
    assert reached(artifacts(n0=late)) == {"eviction channel": 1, "eviction goodbye": 1}


def test_an_address_that_stays_is_found_silent_again_and_again() -> None:
    assert reached(artifacts(n0=log(EXPIRED, EXPIRED))) == {"eviction scan": 2}
    stays = reached(artifacts(n0=log(*[EXPIRED] * 5)))
    assert stays == {"eviction scan": 5, "eviction scan/stale": 1}
    removed = log(EXPIRED, EXPIRED, LIVE + IDENTITY.format(48), EXPIRED)
    assert "eviction scan/stale" not in reached(artifacts(n0=removed))


def test_a_change_of_the_smallest_id_is_told_by_what_follows() -> None:
    own = artifacts(b0_1=log(CHANGED.format(0, 1), ACTS))
    assert reached(own) == {"transition poll/own": 1, "transition on": 1}
    other = artifacts(b0_2=log(CHANGED.format(0, 1)))
    assert reached(other) == {"transition poll/other": 1}
    back = artifacts(b0_1=log(CHANGED.format(1, 0), DIAL, DIAL))
    assert reached(back) == {"transition poll/master": 1, "transition dial": 1}
    left = log("RocketmqBroker - Update master address from 198.18.0.32:10911 to null")
    assert reached(artifacts(b0_1=left)) == {"transition leave": 1}


def route(index: int, node: str, *acting: str) -> Op:
    value = {"node": node, "sets": {}, "acting": list(acting)}
    return Op("ok", 9, "observe-route", value, None, index, index * S, None)


def test_a_group_is_only_read_from_once_until_it_has_a_master_again() -> None:
    ops = (route(0, "n0"), route(1, "n0", "b0"), route(2, "n0", "b0"), route(3, "n0"),
           route(4, "n0", "b0"), route(5, "n1", "b0"))  # fmt: skip
    assert reached(artifacts(ops)) == {"eviction reduced/write": 3}


def test_what_a_returning_master_takes_and_keeps() -> None:
    offsets = TOOK.format("consumerOffset", "consumerOffset")
    took = artifacts(b0_0=log(WAITS, REVERSE, offsets, ONLINE))
    assert reached(took) == {
        "pre-online master/announce": 1, "pre-online master/reverse": 1,
        "pre-online master/online": 1, "reverse offsets/theirs": 1, "reverse progress/mine": 1,
        "reverse checkpoint/mine": 1,
    }  # fmt: skip
    failed = artifacts(b0_0=log(WAITS, REVERSE, FAILED, UNQUOTED))
    assert reached(failed) == {
        "pre-online master/announce": 1, "pre-online master/reverse": 1, "reverse failed": 1,
    }  # fmt: skip
    assert evidence(failed) == ("cannot-read-offsets",)
    assert evidence(artifacts(b0_0=log(REVERSE, FAILED, "connect to h:1 failed"))) == ()


def test_a_master_that_returns_to_nobody() -> None:
    first = log(BOOTED, ALONE, BEGINS.format(0))
    assert reached(artifacts(b0_0=first)) == {"pre-online empty": 1}
    assert evidence(artifacts(b0_0=first)) == ()
    again = log(BOOTED, ONLINE, BOOTED, ALONE, BEGINS.format(0))
    assert evidence(artifacts(b0_0=again)) == ("online-with-nobody",)
    slave = log(BOOTED, ONLINE, BOOTED, ALONE, BEGINS.format(1))
    assert evidence(artifacts(b0_1=slave)) == ()


def test_messages_that_cannot_escape() -> None:
    some, many = artifacts(b0_1=log(*[PUT_FAILED] * 5)), artifacts(b0_1=log(*[PUT_FAILED] * 20))
    assert reached(some) == {"escape delayed/again": 5}
    assert (evidence(some), evidence(many)) == ((), ("level-blocked",))
    tried = artifacts(b0_1=log(*[HALF.format(n) for n in range(1, 11)]))
    assert reached(tried) == {"escape half/again": 10}
    skipped = artifacts(b0_1=log(*[HALF.format(n) for n in range(1, 12)]))
    assert reached(skipped) == {"escape half/again": 11, "escape half/skipped": 1}
    assert evidence(skipped) == ("half-message-skipped",)


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("RocketmqBroker - sendMessageInFailover to remote failed", ""),
        ("RocketmqBroker - sendMessageInFailover to remote failed\njava.lang.ArithmeticException: "
         "/ by zero", "escape own"),
        ("RocketmqBroker - putMessageToRemoteBroker exception, MsgId: 7, RT: 3000ms, Broker: b1",
         "escape silent"),
        ("RocketmqBroker - Couldn't find any broker member from namesrv in maxq/b0",
         "transition poll/empty"),
        ("RocketmqBroker - slave preOnline complete, start service", "pre-online slave/master"),
        ("RocketmqBroker - no master online, start service directly", "pre-online slave/alone"),
    ],
)  # fmt: skip
def test_a_line_tells_its_row(line: str, row: str) -> None:
    assert reached(artifacts(b0_1=log(*line.split("\n")))) == ({row: 1} if row else {})


def test_messages_that_another_set_delivered() -> None:
    def op(index: int, f: str, value: Any, node: str) -> Op:
        return Op("ok", 5, f, value, None, index, index * S, {"node": node})

    ops = (op(0, "send-delayed", [7, 1000], "b0"), op(1, "send-delayed", [8, 1000], "b0"),
           op(2, "read-delayed", [7, 8], "b0"), op(3, "read-delayed", [8, 9], "b1"),
           op(4, "send-half", [3, "commit", "soon"], "b1"),
           op(5, "read-transactions", [3], "b0"))  # fmt: skip
    assert reached(artifacts(ops)) == {"escape delayed": 1, "escape half": 1}
