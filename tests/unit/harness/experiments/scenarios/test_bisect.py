"""Where a bug begins: between which releases, and how many clean trials call one good."""

from pathlib import Path

import pytest
from canned_trials import Canned

from maxq.harness.experiments.scenarios.bisect import Bisection, between, clean_needed
from maxq.harness.experiments.scenarios.scenario import Tally


@pytest.mark.parametrize(
    ("bad", "trials", "needed"), [(3, 3, 2), (3, 10, 8), (3, 6, 5), (10, 10, 1), (1, 10, 21)]
)
def test_how_many_clean_trials_call_a_release_good(bad: int, trials: int, needed: int) -> None:
    rate = (bad + 0.5) / (trials + 1)
    assert clean_needed(Tally(bad, trials)) == needed
    assert (1 - rate) ** needed < 0.05 <= (1 - rate) ** (needed - 1)


def test_the_releases_between_two() -> None:
    assert between("rocketmq:5.2.0", "rocketmq:5.3.1") == [
        "rocketmq:5.2.0", "rocketmq:5.3.0", "rocketmq:5.3.1"
    ]  # fmt: skip
    assert between("rocketmq:5.4.0:jraft", "rocketmq:5.3.3:jraft") == [
        "rocketmq:5.4.0:jraft", "rocketmq:5.3.4:jraft", "rocketmq:5.3.3:jraft"
    ]  # fmt: skip
    for good, bad in (("rocketmq:5.2.0", "rocketmq:5.2.0"),
                      ("rocketmq:5.2.0:jraft", "rocketmq:5.3.3")):  # fmt: skip
        with pytest.raises(ValueError, match="two releases with the same back end"):
            between(good, bad)


def test_a_bisection_finds_where_it_begins(tmp_path: Path) -> None:
    targets = between("rocketmq:5.1.0", "rocketmq:5.5.0")
    for first_bad in range(1, len(targets)):
        outcomes = {t: "b" if n >= first_bad else "c" for n, t in enumerate(targets)}
        trials = Canned(tmp_path / str(first_bad), outcomes)
        said: list[str] = []
        bisection = Bisection(trials, targets)
        found = bisection.find(said.append)
        assert bisection.judged <= bisection.most
        assert (found.good, found.bad) == (targets[first_bad - 1], targets[first_bad])
        assert (
            said[0]
            == "rocketmq:5.5.0 is bad in 3 of 3 (44% to 100%): 2 clean trials call a release good"
        )
        assert len(set(trials.ran)) <= 6


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        ("cc", "rocketmq:5.3.3 is not bad: 0 of 10 (0% to 28%)"),
        ("bb", "rocketmq:5.3.1 is bad as well"),
        ("fb", "rocketmq:5.3.1 does not come up"),
    ],
)
def test_a_bisection_whose_ends_are_wrong_says_so(tmp_path: Path, ends: str, why: str) -> None:
    outcomes = {"rocketmq:5.3.1": ends[0], "rocketmq:5.3.2": "c", "rocketmq:5.3.3": ends[1]}
    targets = between("rocketmq:5.3.1", "rocketmq:5.3.3")
    found = Bisection(Canned(tmp_path, outcomes), targets).find(lambda _: None)
    assert (found.open, found.good, found.bad) == (why, "", "")
