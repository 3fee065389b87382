"""What tells that a row of a decision table was reached: lines as RocketMQ 5.5.0 writes them."""

from typing import Any

import msgspec
import pytest

from maxq.harness.experiments.hunt.by_mode import evidence
from maxq.harness.experiments.hunt.decisions import DECISIONS
from maxq.harness.known.run_artifacts import Event, RunArtifacts, events
from maxq.histories.history import History
from maxq.histories.op import Op

MORE = "\torg.apache.rocketmq.client.exception.MQBrokerException: CODE: {} DESC: {}"
HANDSHAKE = "RocketmqStore - Receive handshake, masterMaxPosition 300, masterEpochEntries:[], try"
LOCAL = "RocketmqStore - local epoch entries is [EpochEntry{epoch=1, startOffset=0, endOffset=%s}]"
STARTED = "RocketmqStore - Load AutoSwitch HA Service: AutoSwitchHAService"
RAN = "RocketmqBroker - All register process has been done, change state to: RUNNING"
OPEN = 2**63 - 1


def log(*texts: str) -> str:
    """Lines of a log, a second apart; what begins with a tab goes on with a trace."""
    lines = []
    for second, text in enumerate(texts):
        lines.append(text if text[:1] == "\t" else f"12:00:{second:02}.000 INFO  {text}")
    return "\n".join(lines)


def artifacts(back_end: str = "dledger", ops: tuple[Op, ...] = (), **logs: str) -> RunArtifacts:
    profile: Any = "P-SAFE"
    named = {name.replace("_", "-"): tuple(events(t.splitlines())) for name, t in logs.items()}
    return RunArtifacts(logs=named, history=History(ops), profile=profile, back_end=back_end)


def reached(left: RunArtifacts) -> dict[str, int]:
    found = {row.id: row.seen(left) for row in DECISIONS if row.seen is not None}
    return {name: count for name, count in found.items() if count}


def result(name: str, code: int, events: str, response: str, *, jraft: bool = False) -> str:
    what = f"ControllerResult{{events=[{events}], response={response}}}"
    if jraft:
        begin = f"process event: term 1, index 7, request code {code} success with result"
        return f"RocketmqController - {begin} {what}"
    return f"RocketmqController - Event queue run event {name}, get the result {what}"


def apply(number: int, code: str, **more: Any) -> str:
    event = "ApplyBrokerIdEvent{clusterName='q', brokerName='b0', brokerAddress='h:1', "
    event += f"registerCheckCode='{code}', newBrokerId={number}}}"
    return result("applyBrokerId", 1013, event, refusal("b0"), **more)


def refusal(name: str) -> str:
    return f"ApplyBrokerIdResponseHeader{{clusterName='q', brokerName='{name}'}}"


def test_a_log_is_read_with_the_first_lines_of_its_traces() -> None:
    text = log("RocketmqBroker - one", "\tat x", "RocketmqRemoting - noise", "\tat y")
    assert list(events(text.splitlines())) == [
        Event("12:00:00.000", "one\n\tat x"),
        Event("12:00:02.000", "\n\tat y"),
    ]
    assert list(events(["no line of theirs", ""])) == []


def test_rows_have_names_of_their_own_and_say_why_they_are_not_visible() -> None:
    assert len({row.id for row in DECISIONS}) == len(DECISIONS)
    assert all((row.seen is None) == bool(row.why) for row in DECISIONS)
    assert reached(artifacts(b0_0="", c0="")) == {}


def test_applications_for_ids() -> None:
    refused = result("applyBrokerId", 1013, "", refusal("b0"))
    strange = result("applyBrokerId", 1013, "", refusal("b9"))
    first = log(strange, apply(1, "h:1;5"), apply(2, "i:1;6"), refused)
    later = log("RocketmqStore - x", "RocketmqStore - y", *["RocketmqStore - z"] * 3,
                apply(2, "i:1;6"))  # fmt: skip
    assert reached(artifacts(c0=first, c1=later)) == {
        "2.4 apply/1": 1, "2.4 apply/2": 1, "2.4 apply/3": 1, "2.4 apply/4": 1, "2.4 apply/5": 1,
    }  # fmt: skip


def test_controllers_of_jraft_write_each_decision() -> None:
    text = log(
        apply(1, "h:1;5", jraft=True),
        "RocketmqController - The newSyncStateSet is equal with oldSyncStateSet, no needed",
    )
    assert reached(artifacts("jraft", c0=log(*[apply(1, "h:1;5", jraft=True)] * 2))) == {
        "2.4 apply/1": 1
    }, "it has started again"
    found = reached(artifacts("jraft", c0=text, c1=text, c2=text))
    assert found == {"2.4 apply/1": 1, "2.4 alter/2": 1}
    assert reached(artifacts(c0=text, c1=text))["2.4 alter/2"] == 2


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("the current leader is:{3}, not {1}", "3"),
        ("the current master epoch is:{3}, not {2}", "4"),
        ("the current syncStateSet epoch is:{3}, not {2}", "5"),
        ("the replicas {3} don't exist", "6"),
        ("the replicas {3} don't alive", "7"),
        ("the newSyncStateSet don't contains origin leader {1}", "8"),
    ],
)
def test_refused_changes_of_a_set(line: str, row: str) -> None:
    text = log(f"RocketmqController - Rejecting alter syncStateSet request because {line}")
    assert reached(artifacts(c0=text)) == {f"2.4 alter/{row}": 1}


def test_elections() -> None:
    def elected(epoch: int) -> str:
        event = "ElectMasterEvent{newMasterElected=true, brokerName='b0', newMasterBrokerId=2}"
        told = f"ElectMasterResponseHeader{{masterBrokerId=2, masterEpoch={epoch}}}"
        return result("electMaster", 1002, event, told)

    nobody = result("electMaster", 1002, "ElectMasterEvent{newMasterElected=false}", "null")
    failed = "RocketmqController - Failed to elect a new master for broker b0"
    asked = result("electMaster", 1002, "", "ElectMasterResponseHeader{masterBrokerId=null}")
    still = "RocketmqController - The old master 1 is still alive, not need to elect new master"
    text = log(elected(1), elected(12), failed, nobody, failed, asked, still)
    assert reached(artifacts(c0=text)) == {
        "2.4 elect/2": 1, "2.4 elect/3": 1, "2.4 elect/4": 1, "2.4 elect/5": 2, "2.4 elect/6": 1,
        "2.4 elect/7": 1,
    }  # fmt: skip


def test_a_poll_changes_roles_where_nobody_notified() -> None:
    def slave(epoch: int) -> str:
        return f"RocketmqBroker - Begin to change to slave, brokerName=b0, newMasterEpoch={epoch}"

    told = "RocketmqBroker - Receive notifyBrokerRoleChanged request, masterEpoch=2, x"
    master = "RocketmqBroker - Begin to change to master, brokerName:b0, replicas:h:1, new Epoch:4"
    text = log(STARTED, slave(1), RAN, told, slave(2), slave(3), master)
    assert reached(artifacts(b0_0=text)) == {"3.5/1": 1, "3.5/2": 1}
    asked = "RocketmqBroker - Error happen when get broker b0's metadata"
    text = log(asked, MORE.format(2008, "unknown"), asked, MORE.format(2007, "no leader"))
    assert reached(artifacts(b0_0=text)) == {"3.5/6": 1, "3.5/7": 1}


def test_truncation_at_the_handshake() -> None:
    point = "RocketmqStore - truncateOffset is 200"
    on = "RocketmqStore - change state to TRANSFER"
    cut = "RocketmqStore - truncate dirty files to 200"
    dry = "RocketmqStore - no need to truncate files, truncate offset is 200, max is 200"
    text = log(STARTED, cut, HANDSHAKE, LOCAL % 300, point, cut, on, HANDSHAKE, LOCAL % OPEN,
               point, dry, on)  # fmt: skip
    assert reached(artifacts(b0_0=text)) == {
        "4.6/2": 1, "4.6/2b": 1, "4.6/3": 2, "4.6/5": 1, "4.6/6": 1, "4.6/7": 2,
    }  # fmt: skip
    none = "RocketmqStore - Failed to find a consistent point between masterEpoch:[] and []"
    text = log(HANDSHAKE, LOCAL % 300, "RocketmqStore - truncateOffset is -1", none, HANDSHAKE)
    assert reached(artifacts(b0_0=text)) == {"4.6/2": 1, "4.6/4": 1}


def test_lists_of_epochs() -> None:
    text = log(STARTED, LOCAL % 300, STARTED, LOCAL % 300, LOCAL % 300)
    assert reached(artifacts(b0_0=text))["4.8 load"] == 1
    entry = "EpochEntry{epoch=%d, startOffset=%d, endOffset=9}"
    refused = "RocketmqStore - The appending entry's lastEpoch or endOffset %s is not bigger than "
    refused += "lastEntry %s, append failed"
    text = log(
        refused % (entry % (3, 50), entry % (3, 40)), refused % (entry % (3, 50), entry % (2, 50))
    )
    assert reached(artifacts(b0_0=text)) == {"4.8 append/epoch": 1, "4.8 append/start": 1}
    assert evidence(artifacts(b0_0=text)) == ("epoch-entry-refused",)


def replica(*epochs: tuple[int, int, int]) -> dict[str, Any]:
    return {
        "node": "b0-0", "set": "b0", "address": "h:1", "id": 1, "leads": False,
        "epochs": [list(e) for e in epochs], "end": 300, "confirmed": None,
    }  # fmt: skip


def test_lists_that_brokers_told() -> None:
    told = [
        replica((1, 0, 100)),
        replica((1, 0, 100), (2, 100, 300)),
        replica((1, 0, 200)),
        replica((1, 0, 200), (3, 200, 300)),
        replica((3, 200, 300)),
    ]
    ops = [Op("ok", 9, "observe-replica", v, time=n, index=n) for n, v in enumerate(told)]
    found = reached(artifacts(ops=tuple(ops)))
    assert found == {"4.8 append": 2, "4.8 cut suffix/offset": 1, "4.8 cut prefix": 1}


def of_set(number: int, *members: int) -> Op:
    view = {
        "master": 1, "master_address": "h:1", "master_epoch": 1, "sync_state_set": list(members),
        "sync_state_set_epoch": number, "replicas": {},
    }  # fmt: skip
    value = {"node": "c0", "sets": {"b0": view}}
    return Op("ok", 8, "observe-controller", value, time=0)


def test_what_an_acknowledgement_waited_for() -> None:
    def send(at: int) -> list[Op]:
        first = Op("invoke", at, "send", [["send", 0, at]])
        last = Op("ok", at, "send", [["send", 0, [1, at]]], ext={"node": "b0"})
        return [first, last]

    both, alone = of_set(4, 1, 2), of_set(5, 1)
    steps = [both, *send(1), both, *send(2), alone, *send(3), *send(4), alone, *send(5)]
    dated = [Op(o.type, o.process, o.f, o.value, time=n, index=n, ext=o.ext)
             for n, o in enumerate(steps)]  # fmt: skip
    assert reached(artifacts(ops=tuple(dated))) == {"5.2 all": 1, "5.2 all/alone": 2}


def test_what_a_master_does_to_its_set() -> None:
    def caught(slave: int, confirmed: int = 50) -> str:
        return (
            f"RocketmqStore - The slave {slave} has caught up, slaveMaxOffset: 90, confirmOffset: "
            f"{confirmed}, epoch: 2, leader epoch startOffset: 10."
        )

    def asked(members: str) -> str:
        return f"RocketmqStore - Notify the syncStateSet has been changed into [{members}]."

    def changed(old: str, new: str) -> str:
        return f"RocketmqBroker - SyncStateSet changed from [{old}] to [{new}]"

    begin = "RocketmqBroker - Begin to change to master, brokerName:b0, new Epoch:2"
    text = log(
        begin, changed("", "1"), caught(2), asked("1, 2"), caught(2), asked("1, 2"),
        changed("1", "1, 2"), caught(3, 40), asked("1, 2, 3"), changed("1, 2", "1, 2, 3"),
        asked("1, 3"), changed("1, 2, 3", "1, 3"), changed("1, 3", "1"),
    )  # fmt: skip
    assert reached(artifacts(b0_0=text)) == {
        "5.3/1": 2, "5.3/3": 3, "5.3 back": 1, "5.4 expand": 3, "5.4 expand/again": 1,
        "5.4 shrink/time": 1, "5.4 shrink/disconnect": 1, "5.5 success": 4,
    }  # fmt: skip


def test_reports_that_were_not_granted() -> None:
    failed = (
        "RocketmqBroker - Error happen when change SyncStateSet, broker:b0, syncStateSetEpoch:4"
    )
    twice = MORE.format(2013, "The newSyncStateSet is equal with oldSyncStateSet, no needed")
    text = log(failed, twice, failed, MORE.format(2002, "Rejecting"), failed, "\tTimeout")
    assert reached(artifacts(b0_0=text)) == {"5.5 twice": 1, "5.5 failure": 2}


def test_evidence_of_known_causes() -> None:
    def told(old: str, new: str) -> str:
        return f"RocketmqStore - update master ha address, OLD: {old} NEW: {new}"

    def dialled(to: str) -> str:
        return f"RocketmqStore - AutoSwitchHAClient connect to master {to}"

    fine = log(told("null", "h:1"), dialled("h:1"), told("h:1", "i:1"), dialled("i:1"))
    assert evidence(artifacts(b0_0=fine)) == ()
    stays = log(told("null", "h:1"), dialled("h:1"), told("h:1", "i:1"))
    empty = log("RocketmqBroker - x", "\tjava.lang.NumberFormatException: Cannot parse null string",
                "\tat org.apache.rocketmq.common.utils.CheckpointFile.read(C.java:1)")  # fmt: skip
    found = evidence(artifacts(b0_0=stays, b0_1=empty))
    assert found == ("epoch-file-empty", "stays-with-deposed-master")
    late = log(told("null", "h:1"), dialled("h:1"), told("h:1", "i:1"), *["x"] * 20, dialled("i:1"))
    assert evidence(artifacts(b0_0=late)) == ("stays-with-deposed-master",)
    ahead = log(LOCAL % 300, LOCAL % OPEN)
    assert evidence(artifacts(b0_0=ahead)) == ("list-ahead-of-log",)
    assert evidence(artifacts(b0_0=log(LOCAL % 300))) == ()
    cut = "RocketmqStore - truncate dirty files to 200"
    assert evidence(artifacts(b0_0=log(STARTED, cut, STARTED, LOCAL % 300))) == (
        "truncation-comes-back",
    )
    assert evidence(artifacts(b0_0=log(STARTED, cut, LOCAL % 300, STARTED, LOCAL % 200))) == ()
    unclean = msgspec.structs.replace(artifacts(b0_0=fine), profile="P-UNCLEAN")
    assert evidence(unclean) == ("elects-from-outside",)
