"""Of many runs a sample is asked how much its verdicts could have called."""

from maxq.harness.experiments.campaign import table
from maxq.harness.experiments.campaign_cases import Done
from maxq.harness.experiments.overview.power_sample import EVERY, Powers, called_in, is_asked
from maxq.harness.experiments.simulate import Summary, drawn, run_seed, simulated
from maxq.harness.run.replay import options_for


def test_one_seed_of_so_many_is_asked() -> None:
    assert [seed for seed in range(3 * EVERY) if is_asked(seed)] == [0, EVERY, 2 * EVERY]


def test_runs_are_added_up_and_weak_claims_named() -> None:
    powers = Powers()
    assert powers.line() == ""
    powers.add({})
    powers.add({"S6": (9, 9), "N5": (0, 20), "S14b": (0, 0)})
    powers.add({"S6": (1, 1), "N5": (1, 10)})
    assert powers.line() == (
        "power: of the wrong answers planted in 2 valid runs less than a tenth was called of these"
        ", so that they were kept says little: dead brokers are dropped (N5): 1 of 30; silent "
        "members leave the SyncStateSet (S14b): no place"
    )
    strong = Powers()
    strong.add({"S6": (1, 1)})
    assert strong.line().endswith("in 1 valid run a tenth or more was called, of each claim")


def test_a_campaign_says_it_below_its_runs() -> None:
    done = [Done(name="1", passed=True, exit_code=0, seconds=1.0, power={"N5": (0, 3)}),
            Done(name="2", passed=True, exit_code=0, seconds=1.0)]  # fmt: skip
    assert table(done).splitlines()[-2:] == [
        "power: of the wrong answers planted in 1 valid run less than a tenth was called of these"
        ", so that they were kept says little: dead brokers are dropped (N5): 0 of 3",
        "2 of 2 passed",
    ]


def test_a_seed_of_the_sample_has_its_power_and_another_has_none() -> None:
    asked, other = run_seed(EVERY, length_ms=5_000), run_seed(EVERY + 1, length_ms=5_000)
    assert (asked.valid, other.power) == (True, {})
    assert sum(called for called, _ in asked.power.values()) > 10
    assert all(0 <= called <= tried for called, tried in asked.power.values())
    summary = Summary()
    summary.add(asked)
    assert any(line.startswith("power: of the wrong answers") for line in summary.lines())


def test_what_was_called_is_counted_by_claim() -> None:
    script = drawn(EVERY, 5_000)
    options = options_for(script, "simulated")
    called = called_in(simulated(script, options).history, options)
    assert called["S6"][0] == called["S6"][1] > 0
