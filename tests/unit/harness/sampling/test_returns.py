"""Faults around the return of a master: who is away when, and what outlasts it."""

from collections.abc import Iterator

import pytest

from maxq.harness.contracts.target import plan
from maxq.harness.experiments.hunt.run_matrix import BOUNDS
from maxq.harness.sampling.draw import draw
from maxq.harness.sampling.factors import FACTORS, Row
from maxq.harness.sampling.faults import RETURNS
from maxq.harness.sampling.pair_factors import pair_row, pair_values
from maxq.harness.sampling.returns import MOST
from maxq.harness.schedule.format import Act, Schedule
from maxq.harness.schedule.options import Options
from maxq.histories.fault_facts import ADD_WRITE, WIPE_WRITE

USUAL = {name: values[0] for name, values in FACTORS.items()}
LENGTH_MS = 180_000


def row(**values: str) -> Row:
    off = dict.fromkeys(("crash", "hang", "cut", "move", "clock", "disk", "link-delay"), "off")
    return {**pair_values({**USUAL, "aim": "brokers"}), **off, **values}


def drawn(seed: int, of: Row) -> Schedule:
    return draw(seed, of, length_ms=LENGTH_MS)


def times(script: Schedule) -> dict[str, float]:
    """When each act is due, in seconds, were every act done at once."""
    found: dict[str, float] = {}
    for act in script.acts:
        found[act.id] = found.get(act.when.after, 0.0) + act.when.at
    return found


def rounds(of: Row, seeds: int = 60) -> Iterator[tuple[dict[str, Act], dict[str, float], str]]:
    """Each round of some seeds: the run's acts and their times, and the id of the round."""
    for seed in range(seeds):
        script = drawn(seed, of)
        acts, due = {a.id: a for a in script.acts}, times(script)
        for name in acts:
            if name.removeprefix("f").isdecimal() and int(name[1:]) < 10:
                yield acts, due, name


def test_each_round_is_a_broker_that_goes_and_returns_mostly_a_master() -> None:
    away, masters = [], 0
    for acts, due, name in rounds(row(crash="kill")):
        assert acts[name].f == "kill"
        assert acts[name].who.nodes in (("b0-0",), ("b1-0",), ("b0-1",), ("b1-1",))
        masters += acts[name].who.nodes[0].endswith("-0")
        assert (acts[f"{name}.h"].f, acts[f"{name}.h"].who.of) == ("start", name)
        away.append(due[f"{name}.h"] - due[name])
    assert len(away) * 7 // 10 < masters < len(away)
    assert min(away) < 6
    assert max(away) > 32


def test_companions_begin_before_a_return_and_half_of_them_outlast_it() -> None:
    every, across = 0, 0
    for acts, due, name in rounds(row(crash="kill", hang="pause", cut="both")):
        for one in (f"{name}a", f"{name}b"):
            if one in due and f"{one}.h" in due:
                every += 1
                assert due[one] >= due[name] or acts[one].who.part == "slave"
                across += due[one] <= due[f"{name}.h"] <= due[f"{one}.h"]
    assert every > 100
    assert across > every * 0.45


def test_a_slave_may_have_been_away_for_long_when_its_master_goes() -> None:
    old = []
    for acts, due, name in rounds(row(crash="kill")):
        for one in (f"{name}a", f"{name}b"):
            if one in due and due[one] < due[name]:
                assert acts[one].who.nodes[0][:2] == acts[name].who.nodes[0][:2]
                assert due[name] < due[f"{one}.h"] < due[f"{name}.h"]
                old.append(due[name] - due[one])
    assert len(old) > 10
    assert max(old) > 20


def test_companions_are_of_kinds_that_the_run_has() -> None:
    by_crash = {acts[i].f for acts, _, _ in rounds(row(crash="kill")) for i in acts}
    assert by_crash == {"kill", "start", WIPE_WRITE, ADD_WRITE}
    by_cut = {acts[i].f for acts, _, _ in rounds(row(cut="out")) for i in acts}
    assert by_cut == {"start-partition", "stop-partition", WIPE_WRITE, ADD_WRITE}
    moved = {acts[i].f for acts, _, _ in rounds(row(hang="pause", move="live")) for i in acts}
    assert {"change-address", "restore-address"} <= moved


def test_name_servers_slaves_and_other_masters_are_among_those_who_are_away() -> None:
    struck = {n for acts, _, _ in rounds(row(crash="kill")) for a in acts.values()
              for n in a.who.nodes}  # fmt: skip
    assert struck == {"n0", "b0-0", "b0-1", "b1-0", "b1-1"}


def test_without_a_kind_that_takes_a_master_away_faults_come_as_in_other_runs() -> None:
    acts = drawn(3, row(clock="jump")).acts
    assert {act.f for act in acts} == {"bump-clock", "reset-clock"}


@pytest.mark.parametrize("seed", range(0, 60, 2))
def test_acts_count_from_acts_that_come_before_and_are_of_nodes_that_there_are(seed: int) -> None:
    of = {**pair_row(seed), "aim": RETURNS, "crash": "kill"}
    script = drawn(seed, of)
    options = Options(environment="simulated", seed=seed, **script.header.options)
    names = {node.name for node in plan(options.topology)}
    seen = {""}
    for act in script.acts:
        assert act.id not in seen
        assert act.when.after in seen
        assert set(act.who.nodes) <= names
        assert act.who.of in seen
        seen.add(act.id)
    assert sum(act.id.endswith(".h") for act in script.acts) <= 3 * MOST


def test_a_bound_holds_for_what_strikes() -> None:
    for seed in range(40):
        script = draw(seed, row(crash="kill", cut="both"), length_ms=600_000, bounds=BOUNDS)
        strikes = [a for a in script.acts if not a.id.endswith(".h")]
        assert 1 < len(strikes) <= BOUNDS.faults[1]
