"""Leaving faults out: what is left is enough, and each of it is needed within it."""

from collections.abc import Callable, Collection, Iterator, Sequence

import pytest

from maxq.harness.experiments.explain import Shown, Trials, by_role, reduced
from maxq.harness.run.explained import Explained
from maxq.harness.schedule.format import Act, Done, Header, Schedule, When, Who

Needs = Callable[[frozenset[str]], bool]


def loss(*values: int, node: str = "b0-0", blamed: Sequence[str] = ()) -> Shown:
    return Shown(
        kind="loss", broker_set="b0", node=node, at_ns=0, lost=len(values), values=values,
        blamed=tuple(blamed), title="a loss", told="a loss",
    )  # fmt: skip


class Tried(Trials):
    """Repetitions that show the loss where a rule says so."""

    def __init__(self, names: Collection[str], shows: Needs, budget: int = 25) -> None:
        self.names = tuple(names)
        self.runs = 0
        self._shows, self._budget, self._jobs = shows, budget, 1
        self._known = {}
        self._say = lambda text: None

    def _repeated(self, sets: Sequence[frozenset[str]]) -> Iterator[list[Shown]]:
        return iter([[loss(1)] if self._shows(names) else [] for names in sets])


TWELVE = [f"f{n}" for n in range(1, 13)]


@pytest.mark.parametrize("names", ["f3", "f1 f12", "f5 f6", "f2 f7 f11"])
def test_the_smallest_set_is_found_without_an_idea(names: str) -> None:
    needed = frozenset(names.split())
    trials = Tried(TWELVE, lambda names: needed <= names, budget=60)
    assert reduced(trials, loss(1), None) == (needed, True)


def test_a_right_guess_saves_repetitions() -> None:
    needed = frozenset({"f5", "f9"})
    trials = Tried(TWELVE, lambda names: needed <= names)
    assert reduced(trials, loss(1), needed) == (needed, True)
    assert trials.runs == 4  # none, both, and each alone


def test_more_than_is_needed_is_taken_away_from_a_guess() -> None:
    trials = Tried(TWELVE, lambda names: "f5" in names)
    assert reduced(trials, loss(1), frozenset({"f4", "f5"})) == (frozenset({"f5"}), True)


def test_a_wrong_guess_does_no_harm() -> None:
    trials = Tried(TWELVE, lambda names: "f5" in names)
    assert reduced(trials, loss(1), frozenset({"f4"})) == (frozenset({"f5"}), True)


def test_what_shows_without_any_fault_needs_none() -> None:
    assert reduced(Tried(TWELVE, lambda names: True), loss(1), None) == (frozenset(), True)


def test_where_the_budget_ends_it_is_said_that_less_may_do() -> None:
    trials = Tried(TWELVE, lambda names: {"f2", "f7", "f11"} <= names, budget=6)
    found, whole = reduced(trials, loss(1), None)
    assert found >= {"f2", "f7", "f11"}
    assert not whole
    assert trials.runs <= 6


def test_of_two_that_each_suffice_one_is_left() -> None:
    trials = Tried(["f1", "f2"], lambda names: bool(names))
    found, whole = reduced(trials, loss(1), None)
    assert (len(found), whole) == (1, True)


def test_a_loss_is_the_same_by_its_broker_and_messages() -> None:
    assert loss(1, 2).same(loss(2, 3))
    assert not loss(1, 2).same(loss(3))
    assert not loss(1).same(loss(1, node="b0-1"))


# Words.


def told(**more: object) -> str:
    given = {"finding": "a loss", "enough": ("f1",), "acts": ("kill of b0-0",), "of": 3,
             "runs": 7, **more}  # fmt: skip
    return "\n".join(Explained(**given).lines())  # type: ignore[arg-type]


def test_what_was_tried_is_told() -> None:
    text = told(reduced=True, gone=True, rate=(4, 5))
    assert text.startswith("a loss: enough: kill of b0-0.\n")
    assert "The whole run without it does not show the finding." in text
    assert "5 other seeds show it 4 times" in text
    assert "not reduced further" in told(reduced=False)
    assert "another of its kind:\n    a second" in told(gone=True, instead=("a second",))
    assert "no fault is needed" in told(enough=(), acts=())
    assert told(why="it does not repeat") == "a loss: it does not repeat"


# Under another seed.


def act(nodes: dict[str, str], **more: object) -> Act:
    given = {"id": "f1", "f": "kill", "when": When(at=1.0), "done": Done(at=1.0, nodes=nodes)}
    return Act(**{**given, **more})  # type: ignore[arg-type]


def roles(one: Act) -> Act:
    return by_role(Schedule(header=Header(length=1.0), acts=(one,))).acts[0]


def test_whoever_leads_under_another_seed_is_struck_instead() -> None:
    one = act(who=Who(nodes=("b0-1",)), nodes={"b0-1": "master"})
    assert roles(one).who == Who(part="master")
    plain = act(who=Who(nodes=("n0",)), nodes={"n0": "namesrv"})
    assert roles(plain) == plain


def test_a_cut_of_the_leader_stays_one() -> None:
    grudge = {"b0-1": ["c0", "c1"]}
    one = act(f="start-partition", args={"grudge": grudge}, nodes={"b0-1": "master", "c0": "x"})
    assert roles(one).who == Who(part="master")
    assert roles(one).args == {"from": ["c0", "c1"], "ways": "in"}
    whole = {"b0-1": ["b0-0", "c0"], "b0-0": ["b0-1"], "c0": ["b0-1"]}
    both = act(f="start-partition", args={"grudge": whole}, nodes={"b0-1": "master"})
    assert roles(both).args == {"from": "rest", "ways": "both"}
