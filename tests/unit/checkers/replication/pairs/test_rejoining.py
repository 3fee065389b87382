"""Rejoining: a slave that is back copies its master's log."""

import msgspec
import pytest
from history_recorder import SECOND_NS, Recorder
from pair_histories import rejoined

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.replication.pairs.rejoining import Rejoining
from maxq.histories.fault_facts import TRIM

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


def test_where_old_files_are_deleted_nothing_is_judged() -> None:
    assert judge(rejoined(*[50] * 8, also=TRIM)).of("no occasion") == ("A11",)


def test_where_links_are_dead_after_another_silence_nothing_is_judged() -> None:
    r = rejoined(*[50] * 8)
    assert judge(r, "broker:haHousekeepingInterval").of("no occasion") == ("A11",)


def test_a_value_of_another_shape_is_not_judged() -> None:
    r = rejoined(*[50] * 8)
    r.op("ok", 9, "observe-replica", {"node": "b0-1"}, {"node": 1})
    assert judge(r).of("not judged") == ("A11",)
