"""Stale masters: who takes the place of a master that leads in a newer epoch."""

import pytest
from test_routes import SLAVE_AS_MASTER, Led, judge

from maxq.checkers.core.api import Verdict

RIGHTLY = {"id0": "b0-0:1", "id1": "b0-1:1"}


def listed(*answers: tuple[float, dict[str, str]], newest: int = 3) -> Led:
    """Broker 0 leads in epoch 3 all the while; controllers are asked at the end."""
    r = Led()
    for at, of in answers:
        r.asked(at, **of)
    r.at(60).controllers(newest)
    return r


def displaced(verdict: Verdict) -> list[tuple[int, ...]]:
    return [a.ops for a in verdict.anomalies if a.signature == "N13/stale-master-listed"]


def test_who_was_listed_in_its_epoch_is_not_displaced() -> None:
    r = listed((1, SLAVE_AS_MASTER), (2, RIGHTLY), (3, SLAVE_AS_MASTER), (4, SLAVE_AS_MASTER))
    verdict = judge(r)
    routes = [op.index for op in r.ops if op.f == "observe-route" and op.type == "ok"]
    assert displaced(verdict) == [(routes[1], routes[2])]
    assert "N13" in verdict.of("broken")


def test_nor_is_who_was_listed_for_longer_than_the_bound() -> None:
    """Within the bound it may be listed from an earlier reign."""
    assert displaced(judge(listed((1, RIGHTLY), (20, RIGHTLY), (23, SLAVE_AS_MASTER)))) == []
    assert displaced(judge(listed((1, RIGHTLY), (22, RIGHTLY), (23, SLAVE_AS_MASTER)))) != []


def test_nobody_listed_is_not_another() -> None:
    verdict = judge(listed((1, SLAVE_AS_MASTER), (2, RIGHTLY), (3, {"id1": "b0-1:1"})))
    assert displaced(verdict) == []
    assert "N13" in verdict.of("kept")


def test_a_newer_epoch_takes_its_place_by_right() -> None:
    r = listed((1, SLAVE_AS_MASTER), (2, RIGHTLY), (3, SLAVE_AS_MASTER), newest=4)
    assert displaced(judge(r)) == []


@pytest.mark.parametrize("who", ["b0-0", "n0"])
def test_so_does_anybody_after_something_was_done(who: str) -> None:
    r = Led()
    r.asked(1, **SLAVE_AS_MASTER)
    r.asked(2, **RIGHTLY)
    r.at(3).fault("pause", **{who: True})
    r.at(9).fault("resume", **{who: True})
    r.asked(10, **SLAVE_AS_MASTER)
    r.at(60).controllers()
    assert displaced(judge(r)) == []
