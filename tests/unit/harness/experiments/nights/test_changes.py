"""What is worse, what is better and what cannot be compared, of nights that are made up."""

import math
from itertools import product

import pytest
from entries_made import nights, recovery, run
from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.experiments.nights.changes import Times, changes, more_often
from maxq.harness.experiments.overview.entries import Entry
from maxq.harness.run.replay import Rate

KEPT, BROKEN = {"S6": "kept"}, {"S6": "broken"}
LOSES = {"S6": "not promised"}


def found(*each: list[Entry]) -> list[tuple[str, str]]:
    return [(change.kind, change.what) for change in changes(nights(*each))]


def test_nothing_changes_in_equal_nights_and_one_night_is_compared_with_nothing() -> None:
    same = [run(n) for n in range(3)]
    assert found(same, same, same) == []
    assert found(same) == []


def test_one_broken_promise_after_none_is_worse_and_the_way_back_is_better() -> None:
    good, bad = [run(n) for n in range(3)], [run(0), run(1, claims=BROKEN)]
    assert found(good, good, bad) == [
        ("worse", "no acknowledged message lost (S6): broken in 1 of 2 runs, before in 0 of 6 "
                  "(0% to 39%)")
    ]  # fmt: skip
    [(kind, what)] = found(bad, good)
    assert kind == "better"
    assert what.startswith("no acknowledged message lost (S6): broken in 0 of 3 runs, before in 1")
    assert changes(nights(good, bad))[0].run == "queue/1", "the run that shows it"


def test_what_was_broken_before_is_worse_only_where_that_is_no_chance() -> None:
    before = [run(n, claims=BROKEN if n == 0 else KEPT) for n in range(20)]
    assert found(before, [run(n, claims=BROKEN if n < 2 else KEPT) for n in range(9)]) == []
    [(kind, _)] = found(before, [run(n, claims=BROKEN) for n in range(9)])
    assert kind == "worse"


@pytest.mark.parametrize("state", ["not judged", "no occasion", "not promised"])
def test_what_is_not_judged_any_more_is_not_kept(state: str) -> None:
    [(kind, what)] = found([run()], [run(claims={"S6": state})])
    assert kind == "not compared"
    assert "not judged in 1 run; in 1 before" in what


def test_runs_that_are_missing_or_have_no_verdict_are_said() -> None:
    gone = [run(settings={"nemesis": "partition"})]
    assert found([run(), *gone], [run()]) == [("not compared", "did not run: 1 run before")]
    cut = run(1, state="unfinished", claims={}, lost=None)
    assert found([run()], [run(), cut]) == [("not compared", "1 run of 2 without a verdict")]


def test_new_settings_are_compared_with_nothing() -> None:
    new = [run(settings={"target": "rocketmq:6.0.0"}, claims=BROKEN)]
    assert found([run()], [run(), *new]) == [
        ("new", "ran for the first time, 1 run; broken: no acknowledged message lost (S6)")
    ]


def test_allowed_losses_are_compared_by_how_many_runs_lost_something() -> None:
    before = [run(n, claims=LOSES) for n in range(4)]
    [(kind, what)] = found(before, [run(claims=LOSES, lost=3)])
    assert kind == "worse"
    assert what.startswith("messages lost, as the settings allow, in 1 of 1 run, before in 0 of 4")
    assert found(before, [run(claims=LOSES, lost=None)]) == [], "what is not judged is no loss"


def test_a_seeded_bug_that_is_not_found_any_more_is_worse() -> None:
    seeded = {"mutant": "ack_without_replicas"}
    bug, blind = run(settings=seeded, claims=BROKEN), run(settings=seeded)
    [(kind, what)] = found([bug], [blind])
    assert kind == "worse"
    assert what.startswith("a seeded bug is not found any more: ")
    assert found([blind], [bug]) == [], "that it is found is what it is for"


def test_a_seeded_bug_of_the_newest_night_alone_is_what_changed() -> None:
    bug = run(settings={"mutant": "ack_without_replicas"}, claims=BROKEN)
    [(kind, _)] = found([run()], [run()], [bug])
    assert kind == "worse"


def test_times_are_worse_where_the_bounds_of_both_medians_do_not_overlap() -> None:
    quick, slow = [run(took_s=(1.0, 1.1) * 5)], [run(took_s=(2.0, 2.2) * 5)]
    [(kind, what)] = found(quick, slow)
    assert (kind, what) == (
        "worse", "until a send was ok after kill of a master: 2.1 s of 10 (2.0 s to 2.2 s), "
                 "before 1.1 s of 10 (1.0 s to 1.1 s)",
    )  # fmt: skip
    assert [kind for kind, _ in found(slow, quick)] == ["better"]
    assert found(quick, [run(took_s=(1.2,) * 10)]) == [], "a little slower"
    assert found(quick, [run(took_s=(9.0,) * 5)]) == [], "too few to have bounds"


def test_what_never_recovered_counts_as_longest() -> None:
    times = Times((1.0, 1.0, math.inf))
    assert str(times) == "1.0 s of 3, 1 not while watched"
    assert str(Times((math.inf,) * 7)) == (
        "longer than watched of 7 (longer than watched to longer than watched), 7 not while watched"
    )
    never = [run(recoveries=tuple(recovery(None) for _ in range(8)))]
    [(kind, _)] = found([run(took_s=(1.0,) * 8)], never)
    assert kind == "worse"


@given(st.lists(st.floats(0, 100), max_size=60))
def test_the_bounds_of_a_median_are_those_that_miss_it_once_in_twenty(seconds: list[float]) -> None:
    """By counting: the true median is missed where all but so few draws fall on one side."""
    bounds, n = Times(tuple(seconds)).bounds, len(seconds)
    least = [k for k in range(n // 2) if sum(math.comb(n, i) for i in range(k + 1)) <= 2**n / 40]
    ordered = sorted(seconds)
    assert bounds == ((ordered[least[-1]], ordered[n - 1 - least[-1]]) if least else None)


@pytest.mark.parametrize(("now", "before"), list(product(range(6), range(8))))
def test_chance_is_what_counting_says(now: int, before: int) -> None:
    """Of all ways to draw the runs of now from all runs, those with as many hits or more."""
    from itertools import combinations

    every = [1] * (now + before) + [0] * (5 - now + 7 - before)
    draws = [sum(drawn) for drawn in combinations(every, 5)]
    share = sum(hits >= now for hits in draws) / len(draws)
    assert more_often(Rate(now, 5), Rate(before, 7)) is (share < 0.001)
