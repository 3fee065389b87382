"""Pre-online: when a master that returns is shown, and which offsets it knows then."""

from typing import Any

import msgspec
import pytest
from history_recorder import SECOND_NS
from pair_histories import Offsets, Told, parted, returned

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.replication.pairs.pre_online import PreOnline
from maxq.histories.observed import ReplicaView

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1")},
    eviction_ns=6 * SECOND_NS,
    settings={"broker:enableSlaveActingMaster": "true", "broker:enableControllerMode": "false"},
)


def judge(r: Told, context: Context = CONTEXT) -> Verdict:
    return PreOnline().check(r.history, context)


def test_a_master_that_returns_as_it_should_keeps_all() -> None:
    assert judge(returned()).of("kept") == ("P1", "P2", "P4", "P5")


@pytest.mark.parametrize(
    ("history", "found"),
    [
        ({"listed": True}, [("P1", "isolated-listed")]),
        ({"online_at": 90}, [("P2", "stays-isolated")]),
        ({"knows": 1}, [("P4", "acting-offset-lost")]),
        ({"knows": 0}, [("P4", "acting-offset-lost"), ("P5", "written-offset-lost")]),
    ],
)
def test_what_is_wrong_is_blamed(history: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert sorted((a.claim, a.name) for a in judge(returned(**history)).anomalies) == found


def test_a_slave_that_was_struck_meanwhile_may_have_given_nothing() -> None:
    verdict = judge(returned(knows=1, strikes="b0-1"))
    assert "P4" in verdict.of("no occasion")
    assert "P5" in verdict.of("kept")


@pytest.mark.parametrize("online_at", [25, 90])
def test_an_offset_counts_at_the_master_once_that_is_online(online_at: float) -> None:
    verdict = judge(returned(knows=1, online_at=online_at))
    assert ("P4" in verdict.of("broken")) is (online_at == 25)


def test_an_offset_that_was_just_committed_may_not_be_written() -> None:
    assert "P5" in judge(returned(knows=0, written_at=6)).of("no occasion")


def test_where_offsets_are_written_at_other_times_p5_is_left_out() -> None:
    by_hand = ("broker:flushConsumerOffsetInterval",)
    context = msgspec.structs.replace(CONTEXT, by_hand=by_hand)
    assert "P5" in judge(returned(knows=0), context).of("no occasion")


@pytest.mark.parametrize("end", [0, 1])
def test_a_slave_with_a_longer_log_holds_its_master_back(end: int) -> None:
    r = returned(online_at=90)
    at = next(n for n, op in enumerate(r.ops) if op.type == "ok" and op.value == _says(r, "b0-1"))
    slave = msgspec.convert(r.ops[at].value, ReplicaView)
    longer = msgspec.to_builtins(msgspec.structs.replace(slave, end=end))
    for n, op in enumerate(r.ops):
        if op.f == "observe-replica" and op.time == 25 * SECOND_NS and op.type == "ok":
            r.ops[n] = msgspec.structs.replace(op, value=longer)
    assert ("P2" in judge(r).of("broken")) is (end == 0)


def _says(r: Offsets, node: str) -> Any:
    return next(op.value for op in r.ops if op.type == "ok" and op.f == "observe-replica"
                and op.value["node"] == node)  # fmt: skip


def test_a_master_that_waits_for_a_slave_it_is_parted_from_is_blamed() -> None:
    verdict = judge(parted())
    assert [(a.claim, a.name) for a in verdict.anomalies] == [("P3", "waits-for-unreachable")]
    assert "P2" in verdict.of("no occasion")
    assert "P3" in judge(parted(online_at=70)).of("kept")


@pytest.mark.parametrize(
    "history",
    [{"others": ("b0-0", "n0")}, {"others": ("b0-1", "n0")}, {"others": ("client", "b0-1")},
     {"asked": False}],
)  # fmt: skip
def test_a_parted_master_may_wait_where_name_servers_are_cut_off_or_nobody_asked_the_slave(
    history: dict[str, Any],
) -> None:
    assert "P3" in judge(parted(**history)).of("no occasion")


def test_a_value_of_another_shape_is_not_judged() -> None:
    r = returned()
    r.op("ok", 3, "fetch-offset", 3, ["3", 1], broker="b0-0:1")
    assert judge(r).of("not judged") == PreOnline.claims
