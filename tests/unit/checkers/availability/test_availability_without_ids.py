"""S13b, S13d, S14 and S14b of releases whose brokers have no ids: by addresses, or by routes and
sends alone."""

from typing import Any

import pytest
from cluster_recorder import Cluster, broker
from history_recorder import SECOND_NS
from profiles import under

from maxq.checkers.availability.availability import Availability
from maxq.checkers.core.api import Anomaly, Context, Verdict
from maxq.harness.contracts.target import Profile
from maxq.harness.run.judging import judge as judge_run
from maxq.harness.schedule.options import Options
from maxq.histories.observed import AddressedSet, ControllerView, RouteView, SetView, encoded
from maxq.histories.op import Op

NODES = ("b0-0", "b0-1", "b0-2")
ALL = ("b0-0:1", "b0-1:1", "b0-2:1")


def context(profile: Profile = "P-SAFE") -> Context:
    return under(
        profile,
        target="rocketmq:5.0.0",
        broker_sets={"b0": NODES},
        recovery_ns=20 * SECOND_NS,
        shrink_ns=8 * SECOND_NS,
        has_ids=False,
    )


class Old(Cluster):
    """A run on 5.0.0, at the time that was set last, in seconds. `b0-0` leads at first; name
    servers and all brokers answer, and a message was acknowledged at 9 s."""

    now = 0.0

    def __init__(self, *, silent: bool = False) -> None:
        super().__init__()
        self.silent = silent  # controllers tell nothing of sets
        self.fault("inspect", **{"b0-0": True})
        for node in ("c0", "c1"):
            self.op("fail", 9, "observe-controller", {"node": node}, {"node": node})
        self.told(ALL[0], 1, *ALL)
        self.route(ALL[0])
        self.live(0, leads=True)
        self.live(1)
        self.live(2)
        self.at(9).send(1, 1, 0, node="b0")

    def at(self, seconds: float) -> "Old":
        self.now = seconds
        return self

    def _add(self, op_type: Any, process: Any, f: str, value: Any, ext: dict[str, Any]) -> int:
        index, time = len(self.ops), round(self.now * SECOND_NS)
        self.ops.append(Op(op_type, process, f, value, None, index, time, ext or None))
        return index

    def told(self, master: str, epoch: int, *members: str) -> int:
        view = AddressedSet(
            master_address=master,
            master_epoch=epoch,
            sync_state_set=members,
            sync_state_set_epoch=epoch,
        )
        known = {} if self.silent else {"b0": view}
        value = encoded(ControllerView(node="c2", sets={}, by_address=known))
        return self.op("ok", 9, "observe-controller", {"node": "c2"}, value)

    def route(self, master: str | None, *slaves: str) -> int:
        ids = {str(n): address for n, address in enumerate(slaves, 1)}
        value = encoded(RouteView(node="n0", sets={"b0": ids | ({"0": master} if master else {})}))
        return self.op("ok", 9, "observe-route", {"node": "n0"}, value)

    def live(self, n: int, *, leads: bool = False) -> int:
        value = broker(f"b0-{n}", None, (1, 0, 9), leads=leads)
        return self.op("ok", 8, "observe-replica", {"node": f"b0-{n}"}, value)

    def refused(self, begin: int, end: int) -> "Old":
        for second in range(begin, end):
            self.at(second).send(2, 100 + second, None, "fail")
        return self


def outage(*, silent: bool, master: str | None = None, alive: tuple[int, ...] = (1, 2)) -> Old:
    """At 10 s the master is killed, and nobody takes its place for 49 s."""
    r = Old(silent=silent).at(10)
    r.fault("kill", **{"b0-0": True})
    r.refused(11, 12)
    for n in alive:
        r.at(12).live(n)
    r.refused(12, 58)
    r.at(58).told(ALL[0], 1, *ALL)
    r.at(58.5).route(master, *ALL[1:])
    r.at(59).fault("start", **{"b0-0": True})
    return r


def judge(r: Old, profile: Profile = "P-SAFE") -> Verdict:
    return Availability().check(r.history, context(profile))


def found(r: Old, profile: Profile = "P-SAFE") -> list[Anomaly]:
    return list(judge(r, profile).anomalies)


def test_a_master_that_is_known_by_its_address_is_not_replaced() -> None:
    anomalies = found(outage(silent=False))
    by_claim = {a.claim: a for a in anomalies}
    assert by_claim.keys() == {"S13b", "S13d"}
    stays = by_claim["S13b"]
    assert stays.signature == "S13b/dead-master-stays"
    assert stays.detail == {
        "set": "b0", "node": "b0-0", "id": "b0-0:1", "fault": "kill", "epoch": 1, "for-ms": 48_000,
    }  # fmt: skip
    assert "b0-0 (b0-0:1) led, and was silent since the kill" in stays.story
    lull = by_claim["S13d"]
    assert lull.signature == "S13d/not-writable-during-fault"
    assert lull.detail["sync-state-set"] == list(ALL)
    assert "Its SyncStateSet was b0-0:1, b0-1:1 and b0-2:1" in lull.story


def test_by_routes_where_controllers_tell_nothing() -> None:
    r = outage(silent=True)
    [lost] = found(r)
    assert lost.signature == "S13b/master-not-replaced"
    assert lost.detail == {
        "set": "b0", "node": "b0-0", "fault": "kill", "listed": "", "sends": 28, "for-ms": 49_000,
    }  # fmt: skip
    assert "n0 lists no broker as master" in lost.story
    assert "But of 28 sends that were begun later than 20.0 s" in lost.story
    [lost] = found(outage(silent=True, master=ALL[0]))
    assert "n0 lists b0-0:1 still as master" in lost.story


@pytest.mark.parametrize("silent", [True, False])
def test_such_an_outage_makes_a_run_invalid(silent: bool) -> None:
    options = Options(environment="local", seed=1, target="rocketmq:5.0.0", workload=("queue",))
    results = judge_run(options, outage(silent=silent).history)
    assert results.valid is False
    assert results.claims["S13b"].status == "broken"


def test_who_was_replaced_or_may_have_been_alone_is_not_blamed() -> None:
    replaced = judge(outage(silent=True, master=ALL[1]))
    assert (replaced.anomalies, "S13b" in replaced.of("kept")) == ((), True)
    no_ack = outage(silent=True)
    no_ack.ops = [op for op in no_ack.ops if not (op.f == "send" and op.type == "ok")]
    assert not found(no_ack)
    assert "S13b" in judge(no_ack).of("no occasion")
    assert not found(outage(silent=True, alive=(1,)), "P-SAFE"), "nobody knows of the other"
    assert not found(outage(silent=True), "P-ALL"), "one copy may be the master's own"
    assert not found(outage(silent=True), "P-NUM"), "members need not have acknowledged"


def test_a_slow_acknowledgement_shows_nothing_of_the_time_before_the_kill() -> None:
    r = Old(silent=True)
    r.ops = [op for op in r.ops if op.f != "send"]
    r.at(7).send(1, 1, 0, node="b0")
    rest = outage(silent=True)
    r.ops += [op for op in rest.ops if op.time >= 10 * SECOND_NS]
    r.ops = [Op(o.type, o.process, o.f, o.value, o.error, n, o.time, o.ext)
             for n, o in enumerate(r.ops)]  # fmt: skip
    assert not found(r)


def test_all_replicas_are_there_and_nobody_takes_messages() -> None:
    """Whoever is a member, it is one of them."""
    r = Old(silent=True).at(10)
    r.fault("kill", c0=True)
    r.refused(11, 12)
    for n in range(3):
        r.at(12).live(n)
    r.refused(12, 59)
    r.at(59).fault("start", c0=True)
    [anomaly] = found(r)
    assert anomaly.signature == "S13d/not-writable-during-fault"
    assert anomaly.detail["sync-state-set"] == []
    assert "All its replicas were among them" in anomaly.story
    without = [op for op in r.ops if not (op.f == "observe-replica" and op.time == 12 * SECOND_NS)]
    r.ops = without
    assert not found(r), "nobody knows whether they ran"


def test_a_replica_is_a_member_by_the_address_where_it_is() -> None:
    """5.1.0 tells ids beside addresses, that of a master as 0: it goes by addresses as well."""

    def healed(*members: str) -> Verdict:
        r = outage(silent=False).at(60)
        for n in range(3):
            r.live(n, leads=n == 0)
        view = SetView(
            master=0,
            master_address=ALL[0],
            master_epoch=2,
            sync_state_set=tuple(range(len(members))),
            sync_state_set_epoch=9,
            replicas={str(n): address for n, address in enumerate(members)},
        )
        value = encoded(ControllerView(node="c2", sets={"b0": view}))
        r.at(90).op("ok", 9, "observe-controller", {"node": "c2"}, value)
        return judge(r)

    assert "S14" in healed(*ALL).of("kept")
    [missing] = [a for a in healed(ALL[0], "b0-1:1", "b0-9:1").anomalies if a.claim == "S14"]
    assert missing.detail["node"] == "b0-2"
    assert missing.detail["sync-state-set"] == ["b0-0:1", "b0-1:1", "b0-9:1"]
    assert "b0-2 (b0-2:1) runs" in missing.story


def test_a_silent_member_that_is_known_by_its_address_stays() -> None:
    r = Old()
    r.at(10).fault("kill", **{"b0-2": True})
    r.at(40).live(0, leads=True)
    r.at(41).live(1)
    r.at(45).told(ALL[0], 1, *ALL)
    [anomaly] = [a for a in found(r) if a.claim == "S14b"]
    assert anomaly.detail["id"] == "b0-2:1"
    assert "still in the SyncStateSet b0-0:1, b0-1:1 and b0-2:1" in anomaly.story
