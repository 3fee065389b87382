"""Pre-online: when a master that returns is shown."""

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
    assert judge(returned()).of("kept") == ("P1", "P2")


@pytest.mark.parametrize(
    ("history", "found"),
    [
        ({"listed": True}, [("P1", "isolated-listed")]),
        ({"online_at": 90}, [("P2", "stays-isolated")]),
    ],
)
def test_what_is_wrong_is_blamed(history: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert sorted((a.claim, a.name) for a in judge(returned(**history)).anomalies) == found


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
