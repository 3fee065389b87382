"""What a random run may differ in: the covering array, whose turn it is, and what is promised."""

from itertools import combinations

import pytest

from maxq.harness.contracts.environment import SIMULATED_ONLY, Capability
from maxq.harness.sampling.draw import LENGTH_MS, draw
from maxq.harness.sampling.factors import (
    EVEN,
    FACTORS,
    INSTEAD,
    KINDS,
    PROMISES,
    TURN,
    Row,
    coverage,
    covering_array,
    drawn_row,
    every_pair,
    loses_stores,
    pairs_of,
    possible,
    row_of,
)
from maxq.harness.sampling.lone_faults import LONE
from maxq.nemeses.catalogue import acts

SHORT_MS = 15_000
USUAL: Row = {name: values[0] for name, values in FACTORS.items()}


def test_the_covering_array_meets_every_pair_with_few_rows() -> None:
    rows = covering_array()
    assert coverage(rows).met == coverage(rows).of == len(every_pair())
    assert coverage(rows).missing == ()
    most = sorted((len(values) for values in FACTORS.values()), reverse=True)[:2]
    assert most[0] * most[1] <= len(rows) <= 2 * most[0] * most[1]
    assert all(row[name] in values for row in rows for name, values in FACTORS.items())


def test_coverage_counts_pairs_of_values_of_two_factors() -> None:
    names = len(FACTORS)
    one = coverage([USUAL])
    assert one.met == len(pairs_of(USUAL)) == names * (names - 1) // 2
    assert one.of == sum(len(FACTORS[a]) * len(FACTORS[b]) for a, b in combinations(FACTORS, 2))
    assert len(one.missing) == one.of - one.met
    assert coverage([USUAL, USUAL]).met == one.met
    assert coverage([USUAL, {**USUAL, "flush": "async"}]).met == one.met + names - 1
    assert coverage([]).met == 0


def test_of_four_seeds_one_takes_a_row_of_the_array_in_turn_and_one_has_a_lone_fault() -> None:
    rows = covering_array()
    assert tuple(row_of(TURN * n) for n in range(len(rows))) == rows
    assert row_of(TURN * len(rows)) == rows[0]
    paces = [row_of(seed)["pace"] == LONE for seed in range(80)]
    assert [seed for seed, lone in enumerate(paces) if lone] == [*range(1, 80, TURN)]
    free = [drawn_row(seed) for seed in range(400)]
    assert all(row.keys() == FACTORS.keys() for row in free)
    assert [row_of(seed) for seed in (2, 3, 6, 7)] == [free[seed] for seed in (2, 3, 6, 7)]
    for name, values in FACTORS.items():
        if name in KINDS or name in PROMISES:  # of which most rows have few, or what promises
            continue
        usual = sum(row[name] == values[0] for row in free) / len(free)
        share = 0.0 if name in {*EVEN, "pace"} else 0.5
        assert usual == pytest.approx(share + (1 - share) / len(values), abs=0.12), name


def test_where_stores_are_lost_most_runs_promise_to_keep_them() -> None:
    """And somebody writes all the time."""
    rows = [row for seed in range(1200) if loses_stores(row := row_of(seed))]
    promised = [row for row in rows if row["flush"] == "sync" and row["from-last-file"] == "off"
                and row["profile"] in PROMISES["profile"]]  # fmt: skip
    assert len(rows) > 300
    assert 0.6 < len(promised) / len(rows) < 0.9
    sends = [
        sum(call.f == "send" for call in draw(seed, row, length_ms=LENGTH_MS[0]).calls)
        for seed, row in enumerate(promised[:60])
    ]
    assert sum(count > 300 for count in sends) / len(sends) > 0.85


def test_what_an_environment_lacks_is_replaced_and_nothing_else() -> None:
    every = frozenset(Capability)
    rootless = SIMULATED_ONLY | {Capability.POWER_LOSS}
    rows = [*covering_array(), {**USUAL, "crash": "power-loss", "move": "live"}]
    for row in rows:
        assert possible(row, every) == row
        left = possible(row, every - rootless)
        assert "power-loss" not in left.values()
        assert (left["clock"] == "jump") == (row["clock"] != "off"), "off by steps only"
        clockless = possible(row, every - rootless - {Capability.CLOCK})
        assert clockless["clock"] == "off"
        changed = {name for name in row if row[name] != left[name]}
        lacking = {factor for (factor, value), (need, _) in INSTEAD.items()
                   if row[factor] == value and need in rootless}  # fmt: skip
        assert changed == lacking
        still = possible(row, every - {Capability.CHANGE_ADDRESS})
        assert still["move"] == "off"
        needs = [acts()[a.f].needs | acts()[a.f].also(a.args)
                 for a in draw(1, left, length_ms=SHORT_MS).acts]  # fmt: skip
        assert all(need <= every - rootless for need in needs)
