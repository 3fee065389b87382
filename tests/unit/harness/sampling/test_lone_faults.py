"""Lone faults: one kind a run, longer than three time-outs, with peace before and after."""

import pytest

from maxq.harness.sampling.draw import LENGTH_MS, draw
from maxq.harness.sampling.factors import FACTORS, KINDS, TURN, row_of
from maxq.harness.sampling.faults import LASTING_MS, LEASE_MS, REST_MS
from maxq.harness.sampling.lone_faults import FAULTS, LONE, MISSED, lone_values
from maxq.harness.sampling.pair_factors import pair_row
from maxq.harness.schedule.format import Act, Schedule
from maxq.harness.schedule.reductions import family

SEEDS = [TURN * n + 1 for n in range(2 * len(FAULTS))]


def times(script: Schedule) -> dict[str, float]:
    """When each act is due, in seconds, were every act done at once."""
    found: dict[str, float] = {}
    for act in script.acts:
        found[act.id] = found.get(act.when.after, 0.0) + act.when.at
    return found


def strikes(script: Schedule) -> list[Act]:
    return [act for act in script.acts if family(act) == act.id != "late"]


def test_which_fault_it_is_follows_from_the_number_of_the_seed() -> None:
    for turn, fault in enumerate(FAULTS):
        for round_ in (turn, turn + len(FAULTS)):
            assert fault.items() <= lone_values(5, round_).items()
            row = row_of(TURN * round_ + 1)
            assert [kind for kind in KINDS if row[kind] != "off"] == [
                name for name in fault if name in KINDS
            ]
    assert set().union(*FAULTS) >= {"crash", "hang", "cut", "whole-stop", "disk", "clock", "move"}


def test_its_values_are_those_of_factors() -> None:
    for seed in SEEDS:
        row = row_of(seed)
        assert row.keys() == FACTORS.keys()
        assert {name for name, value in row.items() if value not in FACTORS[name]} == {"pace"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pairs", [False, True])
def test_it_has_peace_before_and_after_it(seed: int, *, pairs: bool) -> None:
    row = pair_row(seed) if pairs else row_of(seed)
    script = draw(seed, row, length_ms=LENGTH_MS[0])
    due, acts = times(script), strikes(script)
    assert row["pace"] == LONE
    assert len({act.f for act in acts}) <= 2, "a cut, or connections that are reset"
    assert all(1000 * act.when.at >= REST_MS[0] for act in acts)
    for act in acts:
        healed = [1000 * due[a.id] for a in script.acts if family(a) == act.id and a is not act]
        assert not healed or max(healed) >= 1000 * due[act.id] + LASTING_MS[0]
    assert LASTING_MS[0] >= 3 * LEASE_MS


def test_it_strikes_whoever_is_missed() -> None:
    scripts = [draw(seed, row_of(seed), length_ms=LENGTH_MS[0]) for seed in SEEDS * 4]
    parts = {act.who.part for script in scripts for act in strikes(script)}
    assert parts - {"", "broker", "sync-state-set-slave"} <= set(MISSED)
    assert {"master", "slave", "namesrv"} <= parts
