"""Which grounds of a verdict are whole: every kind, taken away alone and in many ways."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cluster_recorder import Cluster, broker, set_view, table

from maxq.checkers.core.api import Context
from maxq.checkers.core.claims import CLAIMS
from maxq.checkers.judgement.grounds import AGAIN, standing_of
from maxq.histories.grounds import (
    BROKER,
    CONSUMER_OFFSET,
    CONTROLLER,
    FINAL_READ,
    KINDS,
    LOCK,
    NAMESRV,
    PROBE,
    RECOVERY,
    REPLICA_LOG_READ,
    Ground,
    conclusion,
    declaration,
)
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, HistoryError, Op, OpType

GROUNDS: tuple[Ground, ...] = (
    (RECOVERY,),
    (PROBE, 0, "b0"),
    (FINAL_READ, 0, "b0", None),
    (LOCK, 0, "b0"),
    (CONSUMER_OFFSET, 0),
    (REPLICA_LOG_READ, "b0-0"),
    (CONTROLLER, "c0"),
    (NAMESRV, "n0"),
    (BROKER, "b0-0"),
)
CONTEXT = Context(broker_sets={"b0": ("b0-0", "b0-1")})
SOUND = {"holds": True, "after_ms": 1, "nodes": 4}


class Run(Cluster):
    """A run with its declaration; what `part` names is done, each in one way."""

    def __init__(self, grounds: Sequence[Ground] = GROUNDS) -> None:
        super().__init__()
        self.own(declaration(grounds))

    def own(self, op: Op) -> None:
        self._add(op.type, op.process, op.f, op.value, {})

    def ended(self) -> History:
        self.own(conclusion(stopped=False))
        return self.history

    def recovered(self, **more: Any) -> "Run":
        self.begin(NEMESIS, "await-recovery", None)
        self.end("info", NEMESIS, "await-recovery", {"cluster": {**SOUND, **more}})
        return self

    def probed(self, how: OpType = "ok") -> None:
        what = {"key": 0, "value": 1, "offset": 1}
        self.op(how, 5, "probe", what, what)

    def read(self, how: OpType = "ok", **ext: Any) -> None:
        self.poll(1, (0, 1), op_type=how, **(ext or {"end": {0: 1}}))

    def granted(self, process: int, how: OpType = "ok") -> int:
        return self.op(how, process, "acquire", 0, 0)

    def fetched(self, how: OpType = "ok", key: int = 7) -> int:
        self.begin(6, "fetch-offset", key)
        return self.end(how, 6, "fetch-offset", [key, 1], final=0)

    def logged(self, at: int = 0, *, more: bool = False, how: OpType = "ok") -> int:
        return self.op(how, 10, "replica-log", {"node": "b0-0", "at": at}, {}, more=more)

    def asked(self, f: str, node: str, how: OpType = "ok") -> None:
        told: dict[str, Any] = {
            "observe-controller": table(set_view(1, 1, 1, 1), node),
            "observe-replica": broker(node, 1),
        }.get(f, {"node": node, "sets": {}})
        self.op(how, 8, f, {"node": node}, told)


PARTS: dict[str, Callable[[Run], Any]] = {
    RECOVERY: Run.recovered,
    PROBE: Run.probed,
    FINAL_READ: Run.read,
    LOCK: lambda r: [r.granted(process) for process in (3, 4)],
    CONSUMER_OFFSET: Run.fetched,
    REPLICA_LOG_READ: lambda r: [r.logged(0, more=True), r.logged(1)],
    CONTROLLER: lambda r: r.asked("observe-controller", "c0"),
    NAMESRV: lambda r: r.asked("observe-route", "n0"),
    BROKER: lambda r: r.asked("observe-replica", "b0-0"),
}


def run(*but: str, **instead: Callable[[Run], Any]) -> Run:
    """A run of all parts but some, others done in another way; kinds with `_` for `-`."""
    r = Run()
    for kind, part in PARTS.items():
        if kind not in but:
            instead.get(kind.replace("-", "_"), part)(r)
    return r


def lacking(history: History, context: Context = CONTEXT) -> list[str]:
    """The kinds of grounds that are not whole."""
    standing = standing_of(history, context)
    return [kind for kind in KINDS if standing.missing([kind])]


def test_a_run_of_which_every_answer_is_there() -> None:
    assert lacking(run().ended()) == []
    assert set(PARTS) == set(KINDS)


def test_every_kind_is_a_ground_of_some_claim() -> None:
    assert {kind for claim in CLAIMS for kind in claim.grounds} == set(KINDS)
    assert all(claim.grounds for claim in CLAIMS)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != RECOVERY])
def test_an_answer_that_is_missing_is_missed_alone(kind: str) -> None:
    history = run(kind).ended()
    assert lacking(history) == [kind]
    [missing] = standing_of(history, CONTEXT).missing(KINDS)
    assert missing.advice == AGAIN


@pytest.mark.parametrize("kind", [k for k in KINDS if k != RECOVERY])
@pytest.mark.parametrize("how", ["info", "fail"])
def test_an_answer_that_is_none_is_missed(kind: str, how: OpType) -> None:
    ways: dict[str, Callable[[Run], Any]] = {
        PROBE: lambda r: r.probed(how),
        FINAL_READ: lambda r: r.read(how, end={0: 1}),
        LOCK: lambda r: [r.granted(3), r.granted(4, how)],
        CONSUMER_OFFSET: lambda r: r.fetched(how),
        REPLICA_LOG_READ: lambda r: [r.logged(0, more=True), r.logged(1, how=how)],
        CONTROLLER: lambda r: r.asked("observe-controller", "c0", how),
        NAMESRV: lambda r: r.asked("observe-route", "n0", how),
        BROKER: lambda r: r.asked("observe-replica", "b0-0", how),
    }
    assert lacking(run(**{kind.replace("-", "_"): ways[kind]}).ended()) == [kind]


def test_without_the_wait_nothing_was_said_of_a_healed_cluster() -> None:
    """But probes: they are tried from the last heal on, and need an end of the wait as well."""
    assert lacking(run(RECOVERY).ended()) == list(KINDS)
    r = run(RECOVERY)
    r.begin(NEMESIS, "await-recovery", None)
    assert lacking(r.ended()) == list(KINDS)


def test_what_was_said_before_the_wait_was_said_under_faults() -> None:
    r = run(RECOVERY)
    r.recovered()
    assert lacking(r.ended()) == [k for k in KINDS if k != RECOVERY]


def test_probes_go_on_beside_the_wait() -> None:
    r = Run([(RECOVERY,), (PROBE, 0, "b0")])
    r.begin(NEMESIS, "await-recovery", None)
    r.probed()
    r.end("info", NEMESIS, "await-recovery", {"cluster": SOUND})
    assert lacking(r.ended()) == []


def test_a_history_that_is_cut_is_no_ground_for_anything() -> None:
    standing = standing_of(run().history, CONTEXT)
    [missing] = standing.missing(())
    assert "cut short" in missing.why


@pytest.mark.parametrize(
    ("ended", "grounds", "wanted"),
    [
        (True, GROUNDS, []),
        (None, GROUNDS, []),
        (False, (), list(KINDS)),
        (True, (*GROUNDS, (BROKER, "b0-9")), [BROKER]),
        (None, (), []),
    ],
)
def test_a_history_that_declares_nothing_is_judged_by_how_it_was_set_up(
    ended: bool | None, grounds: tuple[Ground, ...], wanted: list[str]
) -> None:
    bare = run().history.filter(lambda op: op.process != "run")
    context = Context(broker_sets=CONTEXT.broker_sets, grounds=grounds, ended=ended)
    assert lacking(bare, context) == wanted


def test_what_a_run_declares_stands_above_how_it_was_set_up() -> None:
    context = Context(grounds=((BROKER, "b0-9"),), ended=False)
    assert lacking(run().ended(), context) == []


@pytest.mark.parametrize("value", [None, {}, {"grounds": 1}, {"grounds": [["rumour"]]}])
def test_a_declaration_that_nobody_can_read_is_refused(value: Any) -> None:
    r = Cluster()
    r._add("info", "run", "run", value, {})
    with pytest.raises(HistoryError, match="value of 0"):
        standing_of(r.history, CONTEXT)


# Controllers.


def refusing(r: Run) -> None:
    r.begin(8, "observe-controller", {"node": "c0"})
    refused = Op("fail", 8, "observe-controller", None, ["CONTROLLER_NOT_LEADER", "no"])
    r.ops.append(Op("fail", 8, refused.f, None, refused.error, len(r.ops), len(r.ops)))


def test_a_controller_that_does_not_lead_has_answered_if_another_one_leads() -> None:
    assert lacking(run(controller=refusing).ended()) == [CONTROLLER]
    r = run(controller=refusing)
    r.asked("observe-controller", "c1")
    assert lacking(r.ended()) == []


# Locks.


def test_a_lock_that_one_client_was_granted_twice_was_not_handed_over() -> None:
    history = run(lock=lambda r: [r.granted(3), r.granted(3)]).ended()
    assert lacking(history) == [LOCK]


# Places.


def test_an_offset_may_be_asked_for_until_it_is_told() -> None:
    assert lacking(run(consumer_offset=lambda r: [r.fetched("fail"), r.fetched()]).ended()) == []


def test_each_group_that_was_asked_for_must_be_told() -> None:
    history = run(consumer_offset=lambda r: [r.fetched(), r.fetched("fail", key=8)]).ended()
    assert lacking(history) == [CONSUMER_OFFSET]


# Replicas' logs.


@pytest.mark.parametrize(
    "epochs", [[(0, True)], [(1, False)], [(0, True), (2, False)], [(0, True), (1, True)]]
)
def test_a_log_of_which_an_epoch_is_missing(epochs: list[tuple[int, bool]]) -> None:
    def logs(r: Run) -> None:
        for at, more in epochs:
            r.logged(at, more=more)

    assert lacking(run(replica_log=logs).ended()) == [REPLICA_LOG_READ]


@pytest.mark.parametrize(("at", "wanted"), [(0, []), (1, [REPLICA_LOG_READ])])
def test_a_replica_to_which_nobody_ever_wrote_has_no_log(at: int, wanted: list[str]) -> None:
    def none(r: Run) -> None:
        r.begin(10, "replica-log", {"node": "b0-0", "at": at})
        r.ops.append(Op("fail", 10, "replica-log", None, "no-log", len(r.ops), len(r.ops)))

    assert lacking(run(replica_log=none).ended()) == wanted


# Final reads.


@pytest.mark.parametrize("ext", [{"node": "b0"}, {"end": {1: 1}}, {"end": 3}])
def test_a_poll_that_confirms_no_end_of_the_queue_is_no_final_read(ext: dict[str, Any]) -> None:
    assert lacking(run(final_read=lambda r: r.read(**ext)).ended()) == [FINAL_READ]


def elected(r: Run, node: str, *, holds: bool = True) -> None:
    r.begin(NEMESIS, "elect-master", "end/0")
    r.end("info", NEMESIS, "elect-master", {node: {"holds": holds}})


@pytest.mark.parametrize("wrong", ["", "one reads twice", "no proof", "no reign"])
def test_each_replica_is_read_in_its_own_reign(wrong: str) -> None:
    r = Run([(FINAL_READ, 0, "b0", "b0-0"), (FINAL_READ, 0, "b0", "b0-1")]).recovered()
    for node in ("b0-0", "b0-1"):
        if wrong != "no reign":
            second = "b0-0" if wrong == "one reads twice" else node
            elected(r, second, holds=wrong != "no proof")
        r.read()
    assert lacking(r.ended()) == ([FINAL_READ] if wrong else [])


def test_what_was_not_read_is_named() -> None:
    grounds = [(FINAL_READ, key, "b0", None) for key in range(6)]
    [missing] = standing_of(Run(grounds).recovered().ended(), CONTEXT).missing([FINAL_READ])
    assert missing.why.endswith("(missing: 0, 1, 2, 3 and 2 more)")


# Who is gone.


def test_a_node_that_has_ended_by_itself_cannot_answer() -> None:
    instead = {
        "recovery": lambda r: r.recovered(crashed={"b0-0": 1}),
        "broker": lambda r: r.asked("observe-replica", "b0-0", "fail"),
        "replica_log": lambda r: r.logged(how="fail"),
    }
    assert lacking(run(**instead).ended()) == []
    others = {**instead, "recovery": lambda r: r.recovered(crashed={"b0-1": 1})}
    assert lacking(run(**others).ended()) == [REPLICA_LOG_READ, BROKER]


@pytest.mark.parametrize(
    ("crashed", "wanted"),
    [({"b0-0": 1, "b0-1": 9}, []), ({"b0-0": 1}, [FINAL_READ, PROBE, LOCK])],
)
def test_nor_can_a_broker_set_that_has_no_other(crashed: dict[str, int], wanted: list[str]) -> None:
    r = run(PROBE, FINAL_READ, LOCK, recovery=lambda r: r.recovered(crashed=crashed))
    assert lacking(r.ended()) == wanted


def test_who_was_found_gone_at_the_very_end_is_gone_too() -> None:
    r = run(BROKER)
    r.begin(NEMESIS, "last-look", None)
    r.end("info", NEMESIS, "last-look", {"cluster": {**SOUND, "crashed": {"b0-0": 1}}})
    assert lacking(r.ended()) == []
