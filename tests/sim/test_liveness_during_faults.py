"""S13d in whole runs: a set goes on without its master, and one that does not is caught."""

from maxq.harness.experiments.simulate import Simulated, simulated
from maxq.harness.run.replay import options_for
from maxq.harness.schedule.format import Act, Header, Load, Schedule, When, Who

KILLED = Schedule(
    header=Header(
        name="the master is away for longer than a recovery takes",
        length=52,
        seed=1,
        options={"profile": "P-SAFE", "workload": ["queue"], "constant_latency": True},
    ),
    loads=(Load(id="l", until=52, rate=5),),
    acts=(
        Act(id="k", f="kill", when=When(at=5), who=Who(part="master")),
        Act(id="h", f="start", when=When(after="k", at=40), who=Who(of="k")),
    ),
)


def run(mutant: str = "") -> Simulated:
    return simulated(KILLED, options_for(KILLED, "simulated", mutant=mutant))


def test_writes_go_on_without_the_master() -> None:
    results = run().results
    [verdict] = [v for v in results.verdicts if v.checker == "availability"]
    assert verdict.valid is True
    assert "S13d" in verdict.claims
    assert verdict.counts["lulls-judged"] == 1


def test_a_slave_that_never_finds_the_new_master_is_caught_while_the_fault_lasts() -> None:
    results = run("ha_address_of_first_master").results
    [found] = [a for v in results.verdicts for a in v.anomalies if a.claim == "S13d"]
    assert found.signature == "S13d/not-writable-during-fault"
    assert "kill of b0-" in found.story
