"""O1: places that were committed, left in peace for long enough, and told again."""

import pytest
from cluster_recorder import set_view
from history_recorder import SECOND_NS
from test_availability import Timed

from checkers.api import Anomaly, Context, Verdict
from checkers.offsets import Offsets

CONTEXT = Context(broker_sets={"b0": ("b0-0", "b0-1")}, recovery_ns=20 * SECOND_NS)


class Placed(Timed):
    """Groups that move on."""

    def at(self, seconds: float) -> "Placed":
        super().at(seconds)
        return self

    def commit(self, key: int, place: int, *, ok: bool = True) -> int:
        return self.op("ok" if ok else "info", key, "commit-place", [key, place], [key, place])

    def fetch(self, key: int, place: int, by: int = 90) -> int:
        return self.op("ok", by, "fetch-place", key, [key, place])


def judge(r: Placed) -> Verdict:
    return Offsets().check(r.history, CONTEXT)


def only(r: Placed) -> Anomaly:
    verdict = judge(r)
    assert verdict.valid is False, verdict.reason
    [found] = verdict.anomalies
    assert found.signature == "O1/place-forgotten"
    return found


def failed_over(*, after: float = 40.0, told: int = 0) -> Placed:
    """A place at 1 s, the master dies so much later, and the next one says what it knows."""
    r = Placed()
    r.at(0).controllers(set_view(1, 1, 1, 1, 2))
    r.at(1).commit(7, 5)
    r.at(1 + after).controllers(set_view(1, 1, 1, 1, 2))
    r.fault("kill", **{"b0-0": True})
    r.at(4 + after).controllers(set_view(2, 2, 2, 2))
    r.at(5 + after).fetch(7, told)
    return r


def test_a_place_that_a_fail_over_takes_away() -> None:
    found = only(failed_over())
    assert found.detail == {"key": 7, "place": 5, "told": 0, "broker": None}
    assert "committed place 5 (at 1.000 s), and was told 0 (at 45.000 s)" in found.story


@pytest.mark.parametrize("told", [5, 6])
def test_a_place_that_is_kept(told: int) -> None:
    verdict = judge(failed_over(told=told))
    assert (verdict.valid, verdict.claims) == (True, ("O1",))
    assert verdict.counts == {"groups": 1, "places-judged": 1}


def test_a_place_that_nobody_had_time_to_copy() -> None:
    verdict = judge(failed_over(after=30))
    assert verdict.valid == "unknown"
    assert verdict.reason == "no offset was asked for that had been left undisturbed for 30 s"


@pytest.mark.parametrize("what", ["kill", "order", "election", "wipe", "cut"])
def test_what_disturbs_the_copying(what: str) -> None:
    r = Placed()
    r.at(0).controllers(set_view(1, 1, 1, 1, 2))
    r.at(1).commit(7, 5)
    r.at(20)
    if what == "kill":
        r.fault("kill", c0=True)
    elif what == "order":
        r.fault("order-election", **{"b0-1": True})
    elif what == "election":
        r.controllers(set_view(2, 2, 2, 1, 2))
    elif what == "cut":
        r.fault("start-partition", **{"b0-1": True})
    else:
        r.op("ok", 80, "wipe", {"node": "r0"}, {"node": "r0"})
    r.at(45).fault("kill", **{"b0-0": True})
    r.at(50).fetch(7, 0)
    assert judge(r).valid == "unknown"


def test_what_nobody_knows_to_be_committed_counts_for_nothing() -> None:
    r = Placed()
    r.at(1).commit(7, 5, ok=False)
    r.at(50).fetch(7, 0)
    assert judge(r).valid == "unknown"


def test_the_furthest_of_the_places_that_count() -> None:
    r = Placed()
    for place in (1, 2):
        r.at(place).commit(7, place)
    r.at(30).commit(7, 3)
    r.at(45).fetch(7, 2)
    assert judge(r).valid is True
    r.at(46).fetch(7, 1)
    assert only(r).detail["place"] == 2


def test_a_value_of_another_shape_is_told() -> None:
    r = Placed()
    r.op("ok", 7, "commit-place", [7, 1], "far")
    verdict = judge(r)
    assert verdict.valid == "unknown"
    assert verdict.reason.startswith("W9: ")
