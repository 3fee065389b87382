"""Rows of runs of pairs: every pair of values is met, and their schedules ask for no controller."""

import pytest

from maxq.harness.contracts.target import Topology
from maxq.harness.sampling.draw import draw
from maxq.harness.sampling.factors import FACTORS, TURN, covering_array
from maxq.harness.sampling.faults import PAIRS, RETURNS
from maxq.harness.sampling.pair_factors import every_pair, pair_array, pair_coverage, pair_row
from maxq.harness.schedule.options import PAIR_PROFILES, Options

SEEDS = range(40)
OF_CONTROLLERS = {"controller", "controller-leader", "sync-state-set-slave", "controllers"}


def test_the_covering_array_meets_every_pair_of_values() -> None:
    rows = [pair_row(TURN * n) for n in range(len(pair_array()))]
    found = pair_coverage(rows)
    assert (found.met, found.missing) == (found.of, ())
    assert found.of == len(every_pair()) > 1000
    assert len(covering_array()) <= len(pair_array()) <= len(covering_array()) + 8


def test_rows_have_what_pairs_can_have() -> None:
    rows = [pair_row(seed) for seed in SEEDS]
    assert {row["profile"] for row in rows} == set(PAIR_PROFILES)
    assert {row["aim"] for row in rows} == {PAIRS, RETURNS}
    assert {row["order"] for row in rows} == {"off"}
    assert all(row.keys() == FACTORS.keys() for row in rows)


def test_machines_of_pairs_lose_their_power_too() -> None:
    rows = [pair_row(seed) for seed in range(80)]
    assert {row["crash"] for row in rows} == set(FACTORS["crash"])
    assert {row["whole-stop"] for row in rows} == set(FACTORS["whole-stop"])
    lost = [row for row in rows if "power-loss" in (row["crash"], row["whole-stop"])]
    assert {row["flush"] for row in lost} == {"sync"}
    assert {row["flush"] for row in rows} == {"sync", "async"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_schedule_of_pairs_names_no_controller(seed: int) -> None:
    script = draw(seed, pair_row(seed), length_ms=60_000)
    options = Options(environment="simulated", seed=seed, **script.header.options)
    assert options.pair
    assert options.topology.broker_sets == int(script.header.factors["topology"][3])
    assert options.ending == "current"
    assert isinstance(options.topology, Topology)
    parts = {act.who.part for act in script.acts} | {str(a.args.get("from")) for a in script.acts}
    assert not parts & OF_CONTROLLERS
    assert not any(name[0] == "c" for act in script.acts for name in act.who.nodes)
