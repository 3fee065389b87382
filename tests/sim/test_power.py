"""How much a verdict could have called: wrong answers planted in a recorded run."""

from html import escape
from itertools import count, pairwise

import pytest

from maxq.checkers.core.claims import BY_ID
from maxq.checkers.power.power import SAMPLE_MAX, UNPLANTED, WRONGS, Power, power_of, spread, weakly
from maxq.checkers.power.wrong import Plant, planted
from maxq.harness.report.evidence import Evidence
from maxq.harness.report.tables import power_table
from maxq.harness.run import judging
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule.options import Options
from maxq.histories.history import wellformed

SECONDS_NS = 1_000_000_000
TRIES = 4  # of each wrong answer


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    options = Options(
        environment="simulated",
        seed=5,
        workload=("queue", "lock", "registration"),
        profile="P-SAFE",
        nemesis=("kill",),
        time_limit_ns=20 * SECONDS_NS,
    )
    judged = run_test(options, tmp_path_factory.mktemp("runs"), quiet=True)
    assert judged.results.valid is True
    return judged


@pytest.fixture(scope="module")
def powers(judged: Judged) -> dict[str, Power]:
    ticks = count()
    checkers = judging.checkers_of(judged.options)
    found = power_of(judged.stored.history, checkers, judged.context,
                     clock=lambda: float(next(ticks)), each_s=TRIES + 1)  # fmt: skip
    return {power.wrong: power for power in found}


def test_every_claim_has_a_wrong_answer_or_says_why_not() -> None:
    claims = {claim for wrong in WRONGS for claim in wrong.claims[:1]}
    assert claims.isdisjoint(UNPLANTED)
    assert claims | UNPLANTED.keys() == BY_ID.keys()
    assert all(UNPLANTED.values())


@pytest.mark.parametrize(
    "wrong",
    [
        "an acknowledged message is in no reading after its send",
        "a reader is given a message that nobody sent",
        "two messages of one producer stand in the wrong order",
        "the log of one replica lacks an acknowledged message",
        "64 KiB of one replica's log are other bytes",
        "a lock that a client holds is granted to a second one",
        "a controller gives an id that another broker has",
        "a broker says another id than before",
        "a controller reports an older master epoch",
        "a controller reports another master of one epoch",
        "a name server lists one address under two ids",
        "a slave is never in the SyncStateSet again",
        "a queue serves nobody after the last heal",
    ],
)
def test_what_no_bound_hides_is_called_wherever_it_stands(
    powers: dict[str, Power], wrong: str
) -> None:
    power = powers[wrong]
    assert power.called == power.tried > 0, power
    assert power.why == ""


def test_what_is_called_by_little_says_why(judged: Judged, powers: dict[str, Power]) -> None:
    weak = [power for power in powers.values() if power.weak]
    assert weak
    assert all(power.why for power in weak)
    assert set(weakly(powers.values())) <= {power.claim for power in weak}
    evidence = Evidence(
        history=judged.stored.history, results=judged.results, context=judged.context,
        options=judged.options, config={}, run="r", commit="c", power=tuple(powers.values()),
    )  # fmt: skip
    page = str(power_table(evidence))
    assert all(escape(power.wrong) in page for power in powers.values())
    assert escape(weak[0].why) in page


def test_a_plant_is_well_formed_and_changes_the_run(judged: Judged) -> None:
    history = judged.stored.history
    for wrong in WRONGS:
        for plant in list(wrong.plants(history, judged.context))[:2]:
            changes = plant.changes()
            assert any(history[at] != op for at, op in changes.items()), wrong.name
            assert not [b for b in wellformed(planted(history, changes)) if not b.warning]


def test_a_first_part_of_a_sample_lies_evenly() -> None:
    places = [Plant(at, dict) for at in range(5_000)]
    tried = [plant.at for plant in spread(places)]
    assert len(set(tried)) == SAMPLE_MAX
    first = sorted(tried[:8])
    assert max(b - a for a, b in pairwise(first)) < 1_300
    assert list(spread([])) == []
