"""Rejoining: a slave that is back copies its master's log."""

import msgspec
import pytest
from history_recorder import SECOND_NS, Recorder
from pair_histories import rejoined

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.replication.pairs.rejoining import Rejoining
from maxq.histories.fault_facts import TRIM
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, Op

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1")},
    shrink_ns=8 * SECOND_NS,
    settings={"broker:enableSlaveActingMaster": "true", "broker:enableControllerMode": "false"},
)


def judge(r: Recorder, *by_hand: str) -> Verdict:
    context = msgspec.structs.replace(CONTEXT, by_hand=by_hand)
    return Rejoining().check(r.history, context)


def test_a_slave_that_stands_still_is_blamed() -> None:
    [found] = judge(rejoined(*[50] * 8)).anomalies
    assert (found.claim, found.name) == ("A11", "slave-stands-still")
    assert found.detail == {"set": "b0", "node": "b0-1", "end": 50}


@pytest.mark.parametrize(
    "ends",
    [[100] * 8, [50, 60, 70, 80, 90, 100, 100, 100], [50, 51, 52, 53, 54, 55, 56, 57]],
    ids=["whole", "caught up", "slow"],
)
def test_a_slave_that_copies_is_not(ends: list[int]) -> None:
    assert judge(rejoined(*ends)).of("kept") == ("A11",)


def test_it_has_time_to_join() -> None:
    """Asked for the last time 16 s after its master was seen online, or 21 s."""
    assert judge(rejoined(*[50] * 4)).of("no occasion") == ("A11",)
    assert judge(rejoined(*[50] * 5)).of("broken") == ("A11",)


def test_beside_a_master_that_is_isolated_nothing_is_judged() -> None:
    assert judge(rejoined(*[50] * 8, isolated=True)).of("no occasion") == ("A11",)


@pytest.mark.parametrize(
    ("node", "to", "name"),
    [
        ("b0-0", 70, "slave-behind-trim"),
        ("b0-0", 50, "slave-stands-still"),  # what comes next is there
        ("b0-1", 70, "slave-stands-still"),  # old files of its own
    ],
)
def test_a_slave_whose_log_ends_before_its_masters_begins(node: str, to: int, name: str) -> None:
    r = rejoined(*[50] * 8)
    trim = [
        Op("info", NEMESIS, TRIM, "t", time=SECOND_NS),
        Op("info", NEMESIS, TRIM, {node: {"holds": True, "aged-to": to}}, time=SECOND_NS),
    ]
    ops = [msgspec.structs.replace(op, index=n) for n, op in enumerate([*trim, *r.ops])]
    [found] = Rejoining().check(History(ops), CONTEXT).anomalies
    assert found.name == name
    assert found.detail.get("begins") == (70 if name == "slave-behind-trim" else None)


def test_where_links_are_dead_after_another_silence_nothing_is_judged() -> None:
    r = rejoined(*[50] * 8)
    assert judge(r, "broker:haHousekeepingInterval").of("no occasion") == ("A11",)


def test_a_value_of_another_shape_is_not_judged() -> None:
    r = rejoined(*[50] * 8)
    r.op("ok", 9, "observe-replica", {"node": "b0-1"}, {"node": 1})
    assert judge(r).of("not judged") == ("A11",)
