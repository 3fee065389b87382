"""Which anomaly a cause explains: lines as RocketMQ 5.5.0 wrote them in runs of the scenarios,
which must fit the anomaly's broker, bytes and time."""

from typing import Any

import msgspec
import pytest

from maxq.checkers.core.api import Anomaly
from maxq.harness.experiments.hunt.by_mode import labels
from maxq.harness.known.causes import Traces
from maxq.harness.known.harm import Clock, Scene
from maxq.harness.known.naming import fits, known_as
from maxq.harness.known.run_artifacts import Event, RunArtifacts, events
from maxq.harness.schedule.options import Options
from maxq.histories.history import History
from maxq.histories.op import Op

S = 1_000_000_000
TARGET = "rocketmq:5.5.0"
ZERO_MS = 1_795_478_400_000  # a midnight; the run begins at 02:25:00, and logs have another zone
RUN_BEGAN_MS = ZERO_MS + (2 * 3600 + 25 * 60) * 1000
START = "RocketmqStore - Load AutoSwitch HA Service: AutoSwitchHAService"
CUT = "RocketmqStore - truncate dirty files to {}"
LOCAL = "RocketmqStore - local epoch entries is [EpochEntry{{epoch=1, startOffset=0, endOffset=161000}}, EpochEntry{{epoch=5, startOffset={}, endOffset={}}}]"  # noqa: E501
ASKED = "RocketmqStore - Notify the syncStateSet has been changed into [1]."
CHANGED = "RocketmqBroker - SyncStateSet changed from [1, 2] to [1]"
SLAVE = "RocketmqBroker - Begin to change to slave, brokerName=b0, brokerId=1"
REJECTED = "RocketmqController - Rejecting alter syncStateSet request because the current leader is:{{2}}, not {{{}}}"  # noqa: E501
REFUSED = "RocketmqStore - The appending entry's lastEpoch or endOffset EpochEntry{{epoch={}, startOffset={}, endOffset=9223372036854775807}} is not bigger than lastEntry EpochEntry{{epoch={}, startOffset={}, endOffset=9223372036854775807}}, append failed"  # noqa: E501
TOLD = "RocketmqStore - update master ha address, OLD: h:1 NEW: h:2"
DIALS = "RocketmqStore - AutoSwitchHAClient connect to master {}"
OPEN = 2**63 - 1
BACK, SHRUNK = "what was cut off a log comes back after a kill", "an election takes acknowledged"


def log(*lines: tuple[float, str]) -> tuple[Event, ...]:
    """Lines at seconds of the run, an hour later by the log's time zone."""
    text = []
    for at, line in lines:
        minutes, seconds = divmod(at, 60)
        text.append(f"03:{25 + int(minutes):02}:{seconds:06.3f} INFO  {line}")
    return tuple(events("\n".join(text).splitlines()))


class Lost:
    """b0-0, at h:1, acknowledges message 7 of queue 0 at 78 s, in bytes 161000 to 161805."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        for node, address, number in (("b0-0", "h:1", 1), ("b0-1", "h:2", 2), ("b1-0", "h:9", 2)):
            self.view(1, node, address, number, 100_000)
        self.view(70, "b0-1", "h:2", 2, 161_000)
        self.view(76, "b0-0", "h:1", 1, 161_000)
        self.add(77, "invoke", 3, "send", [["send", 0, 7]])
        self.add(78, "ok", 3, "send", [["send", 0, [100, 7]]], node="b0", broker="h:1")
        self.acked = len(self.ops) - 1
        self.view(79, "b0-0", "h:1", 1, 161_805)

    def add(self, at: float, kind: Any, process: int, f: str, value: Any, **ext: Any) -> int:
        index = len(self.ops)
        self.ops.append(Op(kind, process, f, value, None, index, round(at * S), ext or None))
        return index

    def view(self, at: float, node: str, address: str, number: int, end: int) -> None:
        self.add(at - 0.1, "invoke", 9, "observe-replica", {"node": node})
        value = {"node": node, "set": node[:2], "address": address, "id": number, "leads": False,
                 "epochs": [[1, 0, end]], "end": end, "confirmed": None}  # fmt: skip
        self.add(at, "ok", 9, "observe-replica", value)

    def run(self, profile: Any = "P-SAFE", **logs: tuple[Event, ...]) -> Traces:
        named = {name.replace("_", "-"): events_ for name, events_ in logs.items()}
        return Traces(
            RunArtifacts(
                logs={"n0": log((1, "RocketmqNamesrv - up")), **named},
                history=History(self.ops),
                profile=profile,
                settings=dict(
                    Options(environment="local", seed=1, profile=profile).context().settings or {}
                ),
                back_end="dledger",
                zero_wall_ms=RUN_BEGAN_MS,
            )
        )

    def anomaly(
        self, signature: str = "S6/lost-tail", until: float = 120, **detail: Any
    ) -> Anomaly:
        """Certain at a time."""
        end = self.add(until, "ok", 8, "poll", [["poll", {}]])
        claim, _, name = signature.partition("/")
        told = {"key": 0, "value": 7, "writer": self.acked, **detail}
        return Anomaly(claim=claim, name=name, signature=signature, ops=(self.acked, end), story="",
                       detail={k: v for k, v in told.items() if v is not None})  # fmt: skip


def of(run: Traces, anomaly: Anomaly) -> str:
    known = known_as(anomaly, TARGET, run)
    return known.what if known else ""


def back(cut: int = 161_000, end: int = 167_440, *, at: float = 88) -> tuple[Event, ...]:
    """A replica cuts its log at 47 s, starts again, and has more than it was left with."""
    return log((1, START), (47, CUT.format(cut)), (at - 4, START), (at, LOCAL.format(cut, end)))


def test_what_was_cut_off_comes_back() -> None:
    lost = Lost()
    anomalies = [
        lost.anomaly(),
        lost.anomaly("S10/truncation"),
        lost.anomaly("S11/inconsistent-offsets", value=None, values=[5, 7]),
        lost.anomaly("S9/missing-in-replica", nodes=["b0-1"], set="b0", instead=5),
        lost.anomaly("S8/log-diverged", key=None, value=None, set="b0", epoch=5, start=161_000,
                     nodes=["b0-0", "b0-1"], offset=161_000),
    ]  # fmt: skip
    # Any run has such lines, and they did nothing here.
    c0 = log((47, REJECTED.format(2)))
    run = lost.run(b0_1=back(), b0_0=log((1, START)), c0=c0)
    found = labels(anomalies, TARGET, run)
    assert len(found) == 5
    assert all(of_one == {BACK: 1} for of_one in found.values())


@pytest.mark.parametrize(
    "logs",
    [
        pytest.param({"b1_0": back()}, id="another set"),
        pytest.param({"b0_0": back()}, id="who acknowledged it"),
        pytest.param({"b0_1": back(150_000, 161_000)}, id="bytes before it"),
        pytest.param({"b0_1": back(161_805, 167_440)}, id="bytes behind it"),
        pytest.param({"b0_1": back(at=130)}, id="after it was certain"),
        pytest.param({"b0_1": back(at=60)}, id="before it was acknowledged"),
        pytest.param({"b0_1": back()[:2]}, id="nothing came back"),
        pytest.param({"b0_1": back()[2:]}, id="nothing was cut"),
        pytest.param({"b0_1": back(end=OPEN)}, id="a list that is ahead"),
    ],
)
def test_a_return_that_does_not_fit(logs: dict[str, tuple[Event, ...]]) -> None:
    lost = Lost()
    anomaly = lost.anomaly(until=125)
    run = lost.run(**logs)
    assert not fits(run, "truncation-comes-back", anomaly)


def test_what_was_copied_before_the_start_did_not_come_back() -> None:
    lost = Lost()
    lost.view(83, "b0-1", "h:2", 2, 162_000)
    anomaly = lost.anomaly()
    assert of(lost.run(b0_1=back()), anomaly) == "", "and more perhaps, when nobody looked"


def test_another_replica_than_the_one_that_lacks_it() -> None:
    lost = Lost()
    anomaly = lost.anomaly("S9/missing-in-replica", nodes=["b0-2"], set="b0")
    assert of(lost.run(b0_1=back()), anomaly) == ""


def deposed(*, at: float = 77.9, slave: float = 90, cut: int = 161_000, more: Any = ()) -> Any:
    lines = [(at, ASKED), (slave, SLAVE), (slave + 1, CUT.format(cut)), *more]
    return log(*sorted(lines))


REJECTS = log((84, REJECTED.format(1)))


def test_a_deposed_master_acknowledges_alone() -> None:
    lost = Lost()
    anomaly = lost.anomaly()
    assert of(lost.run(b0_0=deposed(), c0=REJECTS), anomaly).startswith(SHRUNK)
    refused_first = deposed(more=[(85, CHANGED)])
    assert of(lost.run(b0_0=refused_first, c0=REJECTS), anomaly).startswith(SHRUNK)
    killed = deposed(more=[(80, START)])
    assert of(lost.run(b0_0=killed), anomaly).startswith(SHRUNK), "it ended unanswered"
    lacking = lost.anomaly("S9/missing-in-replica", nodes=["b0-0", "b0-1"], set="b0")
    assert of(lost.run(b0_0=deposed(), c0=REJECTS), lacking).startswith(SHRUNK)


@pytest.mark.parametrize(
    "logs",
    [
        pytest.param({"b0_1": deposed(), "c0": REJECTS}, id="another broker"),
        pytest.param({"b0_0": deposed(more=[(77.95, CHANGED)]), "c0": REJECTS}, id="granted"),
        pytest.param(
            {"b0_0": deposed(more=[(85, CHANGED)]), "c0": log((84, REJECTED.format(2)))},
            id="granted, and another one refused",
        ),
        pytest.param({"b0_0": deposed(at=79), "c0": REJECTS}, id="after it was acknowledged"),
        pytest.param({"b0_0": deposed(at=60, slave=70), "c0": REJECTS}, id="long before"),
        pytest.param({"b0_0": deposed(cut=161_805), "c0": REJECTS}, id="its bytes were not cut"),
        pytest.param({"b0_0": deposed()[:2], "c0": REJECTS}, id="it never followed another"),
    ],
)
def test_a_set_that_shrank_elsewhere_or_at_another_time(logs: dict[str, Any]) -> None:
    lost = Lost()
    anomaly = lost.anomaly(until=125)
    assert of(lost.run(**logs), anomaly) == ""


def test_a_list_that_is_ahead_of_its_log() -> None:
    ahead = log((85, LOCAL.format(161_000, OPEN)), (110, LOCAL.format(161_000, 170_000)))
    lost = Lost()
    what = "a replica whose list of epochs is ahead of its log has what it has not"
    anomaly, early = lost.anomaly(), lost.anomaly(until=84)
    assert of(lost.run(b0_1=ahead), anomaly) == what
    assert of(lost.run(b1_0=ahead), anomaly) == ""
    assert of(lost.run(b0_1=ahead), early) == ""
    over = log((20, LOCAL.format(161_000, OPEN)), (30, LOCAL.format(161_000, 170_000)))
    assert of(lost.run(b0_1=over), anomaly) == ""
    lost.view(84, "b0-1", "h:2", 2, 161_900)
    assert of(lost.run(b0_1=ahead), anomaly) == "", "its log has these bytes"
    outside = lost.anomaly("S14/replica-not-in-set", key=None, set="b0", node="b0-1")
    assert of(lost.run(b0_1=ahead[:1]), outside) == what


def test_two_masters_under_one_entry() -> None:
    lost = Lost()
    parted = lost.anomaly("S8/log-diverged", key=None, set="b0", epoch=1, start=0, offset=0,
                          nodes=["b0-0", "b0-2"])  # fmt: skip
    refused = log((40, REFUSED.format(2, 0, 1, 0)))
    assert of(lost.run(b0_1=refused), parted).startswith("an epoch in which nothing was written")
    assert of(lost.run(b1_0=refused), parted) == "", "another set"
    assert of(lost.run(b0_1=log((40, REFUSED.format(2, 9, 1, 9)))), parted) == "", "another byte"
    assert of(lost.run(b0_1=log((40, REFUSED.format(1, 0, 1, 0)))), parted) == "", "the same epoch"
    assert of(lost.run(b0_1=log((130, REFUSED.format(2, 0, 1, 0)))), parted) == "", "later"
    differ = lost.anomaly("S8b/epochs-differ", key=None, set="b0", nodes=["b0-0", "b0-1"],
                          epochs=[[1, 0, 9], [2, 0, 9]])  # fmt: skip
    assert of(lost.run(b0_1=refused), differ)


def test_a_replica_that_stays_with_the_deposed_master() -> None:
    lost = Lost()
    outside = lost.anomaly("S14/replica-not-in-set", key=None, set="b0", node="b0-1")
    stays = log((90, TOLD))
    assert of(lost.run(b0_1=stays), outside) == "a replica stays with the deposed master"
    assert of(lost.run(b0_0=stays), outside) == "", "another replica"
    assert of(lost.run(b0_1=log((90, TOLD), (95, DIALS.format("h:2")))), outside) == ""
    assert of(lost.run(b0_1=log((121, TOLD))), outside) == "", "later"


def test_a_broker_that_does_not_start_is_the_one() -> None:
    lost = Lost()
    gone = lost.anomaly("N6/living-broker-not-listed", key=None, node="b0-1", namesrv="n0")
    trace = (
        "RocketmqBroker - x\n\tjava.lang.NumberFormatException: Cannot parse null string\n\tat Ch"
    )
    running = "RocketmqBroker - change state to: RUNNING"
    what = "an epoch file that is empty after a loss of power: its broker does not start"
    assert of(lost.run(b0_1=log((90, trace))), gone) == what
    assert of(lost.run(b0_0=log((90, trace))), gone) == ""
    assert of(lost.run(b0_1=log((90, trace), (95, running))), gone) == ""
    assert of(lost.run(b0_1=log((121, trace))), gone) == ""
    changed = lost.anomaly("S2/id-changed", key=None, set="b0", owner="b0-1", ids=[1, 4])
    read = log((90, "RocketmqBroker - Read metadata file failed"))
    assert of(lost.run(b0_1=read), changed).startswith("an identity file")
    assert of(lost.run(b0_0=read), changed) == ""


def test_a_lock_that_one_broker_forgot_was_not_granted_by_two() -> None:
    lost = Lost()
    first = lost.add(10, "ok", 1, "acquire", 0, broker="h:1")
    other = lost.add(11, "ok", 2, "acquire", 0, broker="h:2")
    again = lost.add(12, "ok", 2, "acquire", 0, broker="h:1")
    soon = lost.anomaly("L1/granted-too-soon", value=None)
    two = msgspec.structs.replace(soon, ops=(first, other))
    one = msgspec.structs.replace(soon, ops=(first, again))
    assert of(lost.run(), two) == "a broker counts itself twice among those that grant a lock"
    assert of(lost.run(), one) == ""


def test_nothing_is_tied_where_nobody_knows_the_time() -> None:
    lost = Lost()
    anomaly = lost.anomaly()
    artifacts = RunArtifacts(
        logs={"b0-1": back()}, history=History(lost.ops), profile="P-SAFE", back_end="dledger"
    )
    assert of(Traces(artifacts), anomaly) == ""
    assert known_as(anomaly, "rocketmq:5.3.3", lost.run(b0_1=back())) is None


def test_the_clock_goes_on_after_midnight_and_knows_no_zone() -> None:
    logs = {"b0-0": (Event("21:59:58.000", "x"), Event("22:00:01.500", "y"))}
    clock = Clock(ZERO_MS - 3000, logs)  # 23:59:57, two hours before that by the log
    assert clock.ns("21:59:58.000") == S
    assert clock.ns("22:00:01.500") == 4_500_000_000
    assert Clock(None, logs).ns("22:00:01.500") is None


def test_what_a_consumer_was_shown_and_nobody_acknowledged() -> None:
    lost = Lost()
    read = lost.add(80, "ok", 4, "poll", [["poll", {0: [[9, 99]]}]], node="b0", broker="h:1")
    anomaly = lost.anomaly("S10/truncation", value=99, reader=read)
    shown = msgspec.structs.replace(anomaly, ops=(read, *anomaly.ops))
    [harm] = Scene(History(lost.ops)).harms(shown)
    assert (harm.set, harm.by, harm.since_ns, harm.low) == ("b0", "b0-0", 80 * S, 0)


def test_who_stands_in_its_place_was_not_harmed() -> None:
    lost = Lost()
    lost.add(99, "invoke", 3, "send", [["send", 0, 8]])
    lost.add(100, "ok", 3, "send", [["send", 0, [100, 8]]], node="b0", broker="h:2")
    two = lost.anomaly("S11/inconsistent-offsets", value=None, values=[8, 7])
    lacking = lost.anomaly("S9/missing-in-replica", nodes=["b0-1"], set="b0", instead=8)
    scene = Scene(History(lost.ops))
    assert [h.by for h in scene.harms(two)] == ["b0-0"]
    assert [(h.by, h.nodes) for h in scene.harms(lacking)] == [("b0-0", frozenset({"b0-1"}))]
