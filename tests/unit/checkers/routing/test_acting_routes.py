"""Acting routes: what name servers show of a set without its master, and once it is back."""

import pytest
from profiles import under
from route_histories import (
    ACTING,
    BOTH,
    READ,
    READ_WRITE,
    SLAVE,
    SLAVES,
    Routed,
    not_writable,
    writable,
)

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.routing.acting_routes import ActingRoutes
from maxq.histories.op import NEMESIS

CONTEXT = Context(
    broker_sets={"b0": ("b0-0", "b0-1", "b0-2")},
    settings={"broker:enableSlaveActingMaster": "true", "broker:enableControllerMode": "false"},
)


def judge(r: Routed) -> Verdict:
    return ActingRoutes().check(r.history, CONTEXT)


def found(r: Routed) -> list[tuple[str, tuple[int, ...]]]:
    return [(a.signature, a.ops) for a in judge(r).anomalies]


def test_what_is_as_it_should_be_is_kept() -> None:
    r = Routed()
    r.shows(1, BOTH, perm=READ_WRITE)
    r.shows(2, SLAVES, {"0": "b0-1:1", "2": "b0-2:1"}, perm=READ)
    r.shows(3, SLAVE, ACTING, perm=READ)
    r.shows(4, BOTH, perm=READ_WRITE)
    assert judge(r).of("kept") == ("N2", "N3", "N8")


def test_a_set_without_a_master_may_not_be_written_to() -> None:
    r = writable()
    assert found(r) == [("N2/masterless-writable", (1, 3))]
    r.shows(3, SLAVE, perm=READ_WRITE)
    r.shows(4, SLAVE, perm=READ_WRITE)
    assert len(found(r)) == 1, "one finding for one time"


@pytest.mark.parametrize(("until", "expected"), [(30, []), (60, ["N2/masterless-writable"])])
def test_a_master_that_is_listed_as_a_slave_takes_the_permission_along(
    until: float, expected: list[str]
) -> None:
    """Until the smallest id registers anew."""
    r = Routed()
    r.shows(1, {"0": "b0-0:1", "1": "b0-1:1"}, perm=READ_WRITE)
    for time in (2, 3, until, until + 1):
        r.shows(time, {"1": "b0-1:1", "3": "b0-0:1"}, perm=READ_WRITE)
    assert [signature for signature, _ in found(r)] == expected


def test_a_master_that_is_back_may_be_written_to() -> None:
    r = not_writable()
    assert found(r) == [("N8/master-not-writable", (3, 5))]


def test_one_that_was_never_gone_is_no_occasion() -> None:
    r = Routed()
    r.shows(1, BOTH, perm=READ)
    r.shows(2, BOTH, perm=READ)
    assert judge(r).of("no occasion") == ("N2", "N8")


@pytest.mark.parametrize(
    ("raw", "shown", "perm", "flagged"),
    [
        (SLAVES, {"0": "b0-2:1", "1": "b0-1:1"}, READ, True),  # not the smallest
        (SLAVES, ACTING, READ, True),  # the other one is left out
        (SLAVE, {"0": "b0-9:1"}, READ, True),
        (SLAVE, {}, READ, True),
        (SLAVE, ACTING, READ, False),
        (SLAVE, ACTING, READ_WRITE, True),
        (BOTH, ACTING, READ_WRITE, True),
        ({}, ACTING, READ, True),
    ],
)
def test_a_route_that_shows_anything_else(
    raw: dict[str, str], shown: dict[str, str], perm: int, *, flagged: bool
) -> None:
    r = Routed()
    for at in (1, 2):
        r.shows(at, raw, shown, perm=perm, flagged=flagged)
    assert "N3/shown-otherwise" in [signature for signature, _ in found(r)]


def test_a_group_that_changed_meanwhile_proves_nothing() -> None:
    r = Routed()
    for at in (1, 2):
        r.shows(at, SLAVE, perm=READ_WRITE, then=BOTH)
        r.shows(at, BOTH, ACTING, perm=READ, then=SLAVE)
    assert judge(r).anomalies == ()
    assert judge(r).of("kept") == ()


def test_nor_does_a_single_answer() -> None:
    r = Routed()
    r.shows(1, SLAVE, perm=READ_WRITE)
    r.shows(2, SLAVES, perm=READ_WRITE)  # of another group
    r.shows(3, SLAVES, perm=READ)
    assert judge(r).anomalies == ()


def test_nor_do_two_that_were_given_at_a_time() -> None:
    r = Routed()
    r.begin(8, "observe-route", {"node": "n0"})
    r.shows(1, SLAVE, perm=READ_WRITE)
    r.end("ok", 8, "observe-route", r.ops[-1].value)
    assert judge(r).anomalies == ()


def test_without_acting_masters_only_what_is_shown_is_promised() -> None:
    r = Routed()
    for at in (1, 2):
        r.shows(at, SLAVE, ACTING, perm=READ_WRITE, flagged=False)
    verdict = ActingRoutes().check(r.history, under("P-SAFE"))
    assert verdict.of("not promised") == ("N2", "N8")
    assert verdict.of("broken") == ("N3",)


def test_older_histories_have_no_groups() -> None:
    r = Routed()
    r.op("ok", 9, "observe-route", {"node": "n0"}, {"node": "n0", "sets": {"b0": SLAVE}})
    assert judge(r).of("no occasion") == ("N2", "N3", "N8")


def test_a_value_of_another_shape() -> None:
    r = Routed()
    r.op("ok", 9, "observe-route", {"node": "n0"}, {"node": "n0", "sets": 3})
    assert judge(r).of("not judged") == ("N2", "N3", "N8")


# Operators.


def ordered(r: Routed, at: float, f: str, of: str = "b0") -> None:
    """An operator's order about the permission of a broker set."""
    r.now = at
    r.begin(NEMESIS, f, f"{f}@{at}")
    r.end("info", NEMESIS, f, {"b0-0": {"holds": True, "set": of}})


@pytest.mark.parametrize(("of", "expected"), [("b0", []), ("b1", ["N2/masterless-writable"])])
def test_a_set_that_an_operator_has_opened_may_be_written_to(of: str, expected: list[str]) -> None:
    r = Routed()
    r.shows(1, SLAVE, ACTING, perm=READ)
    ordered(r, 2, "add-write", of)
    for at in (3, 4):
        r.shows(at, SLAVE, perm=READ_WRITE)
    assert [signature for signature, _ in found(r)] == expected


def test_until_its_master_was_back() -> None:
    r = Routed()
    ordered(r, 1, "add-write")
    r.shows(2, BOTH, perm=READ_WRITE)
    for at in (3, 4):
        r.shows(at, SLAVE, perm=READ_WRITE)
    assert [signature for signature, _ in found(r)] == ["N2/masterless-writable"]


@pytest.mark.parametrize("opened", [False, True])
def test_a_master_that_is_back_at_a_set_that_an_operator_has_closed(opened: bool) -> None:
    r = Routed()
    r.shows(1, SLAVE, ACTING, perm=READ)
    ordered(r, 1.5, "wipe-write")
    if opened:
        ordered(r, 1.7, "add-write")
    r.shows(2, BOTH, perm=READ)
    r.shows(3, BOTH, perm=READ)
    expected = ["N8/master-not-writable"] if opened else []
    assert [signature for signature, _ in found(r)] == expected
