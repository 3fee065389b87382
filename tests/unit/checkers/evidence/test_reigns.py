"""When one and the same master surely led a set."""

import msgspec
import pytest
from cluster_recorder import Cluster, set_view

from maxq.checkers.evidence.observations import NEVER
from maxq.checkers.evidence.reigns import NO_UNREST, unrest_of


def led(*views: tuple[int, int]) -> Cluster:
    """Controllers tell, one after the other, of master epochs and masters."""
    r = Cluster()
    for number, (epoch, master) in enumerate(views):
        r.controllers(set_view(epoch, number, master, 1, 2))
    return r


def test_between_two_answers_of_one_epoch_its_master_led() -> None:
    unrest = unrest_of(led((1, 1), (1, 1)).history)
    assert unrest.led_by("b0", 1, 2) == {"x1:1"}
    assert unrest.led_by("b1", 1, 2) == frozenset(), "a set of which nobody told"


@pytest.mark.parametrize(("low", "high"), [(0, 2), (1, 3), (-1, NEVER), (3, NEVER)])
def test_before_the_first_answer_and_after_the_last_nobody_knows(low: int, high: int) -> None:
    """Each answer is true at an instant between its two operations: here 0 and 1, 2 and 3."""
    assert unrest_of(led((1, 1), (1, 1)).history).led_by("b0", low, high) == frozenset()


def test_around_an_election_nobody_knows_who_led() -> None:
    unrest = unrest_of(led((1, 1), (1, 1), (2, 2), (2, 2), (2, 2)).history)
    for low, high in [(1, 2), (1, 5), (3, 4), (4, 5), (5, 5)]:
        known = unrest.led_by("b0", low, high)
        assert known == ({"x1:1"} if high < 2 else frozenset()), (low, high)
    assert unrest.led_by("b0", 6, 7) == {"x2:1"}
    assert unrest.led_by("b0", 1, 7) == frozenset()


def test_a_master_that_is_elected_again_begins_another_reign() -> None:
    unrest = unrest_of(led((1, 1), (1, 1), (2, 1), (2, 1)).history)
    assert unrest.led_by("b0", 1, 6) == frozenset()


def test_an_answer_from_old_state_leaves_it_open() -> None:
    unrest = unrest_of(led((2, 2), (1, 1), (2, 2)).history)
    assert unrest.led_by("b0", 1, 4) == frozenset()


def test_while_power_is_lost_and_for_ever_if_nobody_saw_the_end() -> None:
    r = led((1, 1))
    r.fault("power-loss", b0=True)  # 2 and 3
    r.controllers(set_view(1, 1, 1, 1, 2))
    r.controllers(set_view(1, 1, 1, 1, 2))
    unrest = unrest_of(r.history)
    assert unrest.led_by("b0", 1, 4) == frozenset()
    assert unrest.led_by("b0", 4, 6) == {"x1:1"}
    r.begin("nemesis", "power-loss", "again")
    r.controllers(set_view(1, 1, 1, 1, 2))
    r.controllers(set_view(1, 1, 1, 1, 2))
    assert unrest_of(r.history).led_by("b0", 9, 10) == frozenset()


def test_a_master_without_a_name_leads_nobody() -> None:
    r = Cluster()
    for _ in range(2):
        r.controllers(set_view(1, 1, None, 1, 2))
    assert unrest_of(r.history).led_by("b0", 1, 2) == frozenset()


def test_who_moved_is_known_by_both_addresses() -> None:
    r = led((1, 1), (1, 1))
    for _ in range(2):
        moved = msgspec.structs.replace(set_view(1, 1, 1, 1, 2), master_address="y1:1")
        r.controllers(moved)
    unrest = unrest_of(r.history)
    assert unrest.led_by("b0", 1, 2) == {"x1:1"}
    assert unrest.led_by("b0", 5, 6) == {"y1:1"}
    assert unrest.led_by("b0", 1, 6) == {"x1:1", "y1:1"}


def test_what_nobody_can_read_is_told_by_who_judges_it() -> None:
    r = Cluster()
    r.op("ok", 8, "observe-controller", {"node": "c0"}, "master?")
    assert unrest_of(r.history) is NO_UNREST
    assert NO_UNREST.led_by("b0", 0, 1) == frozenset()
