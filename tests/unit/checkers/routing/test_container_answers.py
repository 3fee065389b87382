"""What a container answers about guests, and what is seen right after it."""

from typing import Any

import pytest
from history_recorder import Recorder

from maxq.checkers.core.api import Context
from maxq.checkers.routing.container_answers import Containers
from maxq.histories.history import History
from maxq.histories.observed import ADD_BROKER, REMOVE_BROKER

SET = ("b0-0", "b1-1")
PORTS = {"fast": "refused", "main": "refused", "ha": "refused"}


class Asked:
    """A history of requests about one guest."""

    def __init__(self) -> None:
        self.r = Recorder()
        self.there = False

    def ask(self, f: str, code: int, *, there: bool | None = None, **more: Any) -> "Asked":
        """A request and its answer; `there` is what is seen after it."""
        self.there = self.there if there is None else there
        asked = {"broker": "g0"} | {k: more.pop(k) for k in ("clash", "moved") if k in more}
        seen = ("open" if self.there else "refused") if "clash" not in asked else "refused"
        said = {
            "code": code, "remark": "so", "listed": {"n0": [*SET, *(["g0"] if self.there else [])]},
            "ports": dict.fromkeys(PORTS, seen), "beside": list(SET), **more,
        }  # fmt: skip
        self.r.op("ok", 1, f, asked, {**asked, **said})
        return self

    def add(self, code: int = 0, **more: Any) -> "Asked":
        return self.ask(ADD_BROKER, code, **({"there": True} if code == 0 else {}) | more)

    def remove(self, code: int = 0, **more: Any) -> "Asked":
        return self.ask(REMOVE_BROKER, code, **({"there": False} if code == 0 else {}) | more)

    def ended(self, f: str = "kill") -> "Asked":
        """The container is ended and started."""
        self.r.fault(f, **dict.fromkeys(SET, True))
        self.r.fault("start", **dict.fromkeys(SET, True))
        self.there = False
        return self

    def later(self, seconds: int) -> "Asked":
        for _ in range(seconds // 2):  # each of its two operations is a second
            self.r.op("fail", 5, "poll", [0, None], [0, None])
        return self

    @property
    def found(self) -> list[tuple[str, str]]:
        verdict = Containers().check(History(self.r.ops), Context())
        return [(a.claim, a.name) for a in verdict.anomalies]

    @property
    def kept(self) -> set[str]:
        return set(Containers().check(History(self.r.ops), Context()).of("kept"))


def test_what_is_right_is_kept() -> None:
    right = (
        Asked().remove(211).add().add(1).remove().add(1, clash="ha").add().ended().add().remove()
    )
    assert right.found == []
    assert right.kept == {"B1", "B2", "B3", "B4", "B5", "B6", "B7"}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (Asked().add().add(), ("B1", "added-twice")),
        (Asked().add().add(1, there=False), ("B1", "added-twice")),
        (Asked().remove(), ("B2", "absent-removed")),
        (Asked().remove(1), ("B2", "absent-removed")),
        (Asked().add(there=False), ("B3", "added-in-name-only")),
        (Asked().add(ports=PORTS), ("B3", "added-in-name-only")),
        (Asked().add(1), ("B3", "added-in-name-only")),
        (Asked().add().remove(there=True), ("B4", "removed-in-name-only")),
        (Asked().add().remove(211), ("B4", "removed-in-name-only")),
        (Asked().add().remove(listed={"n0": ["b0-0"]}), ("B5", "neighbour-unlisted")),
        (Asked().add(1, clash="fast", ports={"main": "open"}), ("B6", "failed-add-remains")),
        (Asked().add(1, clash="fast").add(1), ("B6", "no-room-after-failure")),
        (Asked().add().ended().add(1), ("B7", "added-survives")),
        (Asked().add().ended().remove(), ("B7", "added-survives")),
        (Asked().add().ended("power-loss").remove(), ("B7", "added-survives")),
    ],
)
def test_each_wrong_answer_is_found(asked: Asked, found: tuple[str, str]) -> None:
    assert found in asked.found


def moved(*, code: int = 0, **more: Any) -> Asked:
    """A guest that was there is taken to a container with other brokers."""
    asked = Asked().add(held=["g0/1"])
    return asked.add(code, moved=True, beside=["b0-1", "b1-0"], **more)


def test_a_guest_whose_store_was_taken_elsewhere_was_removed_before_it_was_added() -> None:
    assert moved(held=["g0/1", "g0/2"]).remove().found == []
    assert "B11" in moved(held=["g0/1", "g0/2"]).kept
    assert moved(held=["g0/2"]).found == [("B11", "guest-message-lost")]
    assert moved(ports=PORTS).found == [("B3", "added-in-name-only")]
    assert moved(code=1).found == [("B3", "added-in-name-only")]


def test_what_becomes_of_the_container_that_a_guest_has_left_is_nothing_to_it() -> None:
    left = moved(held=["g0/1", "g0/2"])
    left.r.fault("kill", **dict.fromkeys(SET, True))
    left.r.fault("start", **dict.fromkeys(SET, True))
    there = left.add(1, there=True, beside=["b0-1", "b1-0"]).remove(beside=["b0-1", "b1-0"])
    assert there.found == []
    left.r.fault("kill", **{"b0-1": True, "b1-0": True})
    left.r.fault("start", **{"b0-1": True, "b1-0": True})
    assert left.remove(beside=["b0-1", "b1-0"]).found == [("B7", "added-survives")]


def test_where_a_guest_is_that_was_to_be_moved_and_no_answer_came_nobody_knows() -> None:
    asked = Asked().add()
    value = {"broker": "g0", "moved": True}
    asked.r.op("info", 1, ADD_BROKER, value, value)
    asked.ended()
    assert asked.remove(there=False).found == []


def test_a_request_without_an_answer_leaves_the_guest_unknown_until_the_next() -> None:
    asked = Asked()
    asked.r.op("info", 1, ADD_BROKER, {"broker": "g0"}, {"broker": "g0"})
    assert asked.add(1, there=True).found == []
    assert asked.remove().remove(211).found == []
    assert asked.add().add().found == [("B1", "added-twice")]


def test_nothing_is_judged_while_something_happens_to_those_concerned() -> None:
    asked = Asked().add()
    asked.r.fault("pause", **{"b0-0": True})
    assert asked.remove(there=True).add(1).found == []


def test_a_name_server_that_is_down_is_not_taken_for_one_that_lists_nobody() -> None:
    asked = Asked().add().remove()
    asked.r.fault("kill", n0=True)
    assert asked.add(1, listed={}).found == []


def test_who_is_in_no_container_with_the_guest_may_come_and_go() -> None:
    """Such as a spare broker of the workload registration."""
    asked = Asked().add(listed={"n0": [*SET, "g0", "r0", "b9-0"]}).remove(listed={"n0": list(SET)})
    assert asked.found == []


@pytest.mark.parametrize("apart_s", [0, 2, 18, 22])
def test_who_comes_back_to_a_name_server_may_be_missing_for_as_long_as_a_recovery_takes(
    apart_s: int,
) -> None:
    """After its address changed, or it was paused or away."""
    asked = Asked().add()
    asked.r.fault("change-address", n0=True)
    asked.r.fault("restore-address", n0=True)
    asked.later(apart_s).add(1).remove(listed={"n0": ["b0-0"]})
    assert asked.found == ([("B5", "neighbour-unlisted")] if apart_s > 20 else [])


def test_an_addition_may_fail_while_those_whom_it_needs_come_back() -> None:
    for node in ("c0", "n0", "b0-0"):
        asked = Asked()
        asked.r.fault("pause", **{node: True})
        asked.r.fault("resume", **{node: True})
        assert asked.add(1, there=True).found == []
        assert asked.remove().later(22).add(1).found == [("B3", "added-in-name-only")]


def test_a_neighbour_that_is_removed_takes_no_guest_along() -> None:
    asked = Asked().add()
    asked.r.fault("remove-broker", **{"b1-1": True})
    assert asked.remove(listed={"n0": ["b0-0"]}).found == []
    asked.r.fault("add-broker", **{"b1-1": True})
    assert asked.add().remove().found == []
    assert "B7" not in asked.kept


MINE, OTHERS = "g0/1", "g1/1"


@pytest.mark.parametrize(
    ("held", "found"),
    [([MINE], []), ([MINE, "g0/2"], []), ([], ["guest-message-lost"]),
     ([MINE, OTHERS], ["neighbours-message"])],
)  # fmt: skip
def test_a_guest_has_what_it_had_and_nothing_else(held: list[str], found: list[str]) -> None:
    asked = Asked().add(held=[MINE]).remove().add(held=held)
    assert asked.found == [("B11", name) for name in found]
    assert ("B11" in asked.kept) is not bool(found)


@pytest.mark.parametrize(("f", "found"), [("kill", 1), ("power-loss", 0), ("wipe", 0)])
def test_who_lost_its_power_or_its_store_may_miss_messages(f: str, found: int) -> None:
    assert len(Asked().add(held=[MINE]).ended(f).add(held=[]).found) == found


def test_what_was_not_read_says_nothing_about_a_store() -> None:
    assert "B11" not in Asked().add().remove().add().kept
