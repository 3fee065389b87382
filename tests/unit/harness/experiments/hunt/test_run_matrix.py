"""What the hunt deals to its runs, and what counts as met."""

from collections import Counter

import msgspec
import pytest

from maxq.harness.contracts.environment import SIMULATED_ONLY, Capability
from maxq.harness.experiments.hunt import run_matrix
from maxq.harness.experiments.hunt.run_matrix import CONTROLLERS, PAIRS, SLAVE_READ, Matrix
from maxq.harness.sampling.factors import FACTORS, KINDS, Row, possible
from maxq.harness.schedule.format import Act, Done, Schedule, Who
from maxq.harness.schedule.reductions import family
from maxq.histories.fault_facts import TRIM

REAL = frozenset(Capability) - SIMULATED_ONLY - {Capability.CLOCK, Capability.DELAY}
USUAL: Row = {name: values[0] for name, values in FACTORS.items()}
FORTY = sum(CONTROLLERS.shares.values())


def test_each_forty_runs_have_the_wanted_shares() -> None:
    for block in range(3):
        trials = [CONTROLLERS.trial_of(block * FORTY + n) for n in range(FORTY)]
        assert Counter(c.profile for c in trials) == CONTROLLERS.shares
        assert Counter(c.value for c in trials) == {"dledger": 20, "jraft": 20}
    both = map(CONTROLLERS.trial_of, range(2 * FORTY))
    odd = Counter(trial for trial in both if trial.profile == "P-NUM")
    assert set(odd.values()) == {3}, "two blocks give an odd share's runs to both alike"


def test_the_rows_of_the_array_come_first() -> None:
    rows = [CONTROLLERS.row_for(n, {}, REAL) for n in range(CONTROLLERS.array_size)]
    for number, row in enumerate(rows):
        assert (
            row[run_matrix.PROFILE],
            row[run_matrix.BACK_END],
        ) == CONTROLLERS.trial_of(number)
        assert possible(row, REAL) == row
    met = run_matrix.pairs_met(rows)
    every = CONTROLLERS.every_pair(REAL)
    assert met.keys() <= every
    assert len(met) > 0.95 * len(every), "all but some of the profile's, which are dealt"


def test_a_drawn_row_has_more_of_what_was_met_least() -> None:
    number = CONTROLLERS.array_size
    first = CONTROLLERS.row_for(number, {}, REAL)
    assert CONTROLLERS.row_for(number, {}, REAL) == first
    often = run_matrix.pairs_met([first] * 100)
    other = CONTROLLERS.row_for(number, often, REAL)
    assert other != first
    assert (
        other[run_matrix.PROFILE],
        other[run_matrix.BACK_END],
    ) == CONTROLLERS.trial_of(number)


def test_pairs_have_profiles_of_their_own_and_half_of_them_are_not_read_from_slaves() -> None:
    trials = [PAIRS.trial_of(n) for n in range(20)]
    assert Counter(t.profile for t in trials) == {"P-SYNC": 12, "P-AUTO": 4, "P-ASYNC": 4}
    assert Counter(t.value for t in trials) == {"on": 10, "off": 10}
    rows = [PAIRS.row_for(n, {}, REAL) for n in range(PAIRS.array_size)]
    assert {row["aim"] for row in rows} == {"pairs", "returns"}
    assert "none" not in {row["first-load"] for row in rows}, "no run is idle"
    assert run_matrix.pairs_met(rows).keys() <= PAIRS.every_pair(REAL)
    assert {pair[1] for pair in PAIRS.every_pair(REAL) if pair[0] == "push"} == {"off", "on"}
    for row in rows[:4]:
        script = PAIRS.script_for(0, row)
        assert script.header.options["controllers"] == 0
        keys = script.header.options["keys"]
        assert (keys.get("broker:slaveReadEnable") == "false") == (row[SLAVE_READ] == "off")
        assert ("namesrv:notifyMinBrokerIdChanged" in keys) == (row["push"] == "on")
        assert 120 <= script.header.length <= 150


@pytest.mark.parametrize("matrix", [CONTROLLERS, PAIRS])
@pytest.mark.parametrize("number", range(8))
def test_a_run_has_at_most_six_faults_and_each_of_its_kinds(number: int, matrix: Matrix) -> None:
    row = matrix.row_for(number, {}, REAL)
    script = matrix.script_for(number, row)
    kinds = {kind for kind in KINDS if row[kind] != "off"}
    faults = {family(act) for act in script.acts if act.f != TRIM}
    assert len(faults) <= 6
    assert {run_matrix.kind_of(act) for act in script.acts} - {""} == kinds
    assert matrix.script_for(number, row, length_ms=40_000).header.length == 40


@pytest.mark.parametrize("matrix", [CONTROLLERS, PAIRS])
def test_a_hunt_in_containers_adds_and_removes_brokers(matrix: Matrix) -> None:
    script = matrix.script_for(0, matrix.row_for(0, {}, REAL), layout="crossed-2")
    assert script.header.options["layout"] == "crossed-2"
    assert "containers" in script.header.options["workload"]
    assert {"remove-broker", "add-broker"} <= {act.f for act in script.acts}


def test_what_struck_nobody_was_not_met() -> None:
    row = {**USUAL, "crash": "kill", "cut": "in", "whole-stop": "kill", "hang": "pause"}
    struck = Done(at=1.0, nodes={"b0-0": "master"})
    acts = (
        Act(id="f0", f="kill", done=struck),
        Act(id="f0.b0-0", f="start", done=struck),
        Act(id="f1", f="start-partition", done=Done(at=2.0)),
        Act(id="f2", f="kill", who=Who(nodes=("b0-0", "c0"))),
        Act(id="f3", f="order-election", done=Done(at=3.0)),
    )
    met = run_matrix.met_row({**row, "order": "on"}, Schedule(acts=acts))
    assert (met["crash"], met["cut"], met["whole-stop"], met["hang"]) == (
        "kill",
        "off",
        "off",
        "off",
    )
    assert met["order"] == "on"
    whole = msgspec.structs.replace(acts[2 + 1], done=struck)
    assert run_matrix.met_row(row, Schedule(acts=(whole,)))["whole-stop"] == "kill"
