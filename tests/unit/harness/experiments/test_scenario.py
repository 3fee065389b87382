"""Scenarios: when one is shown, how many clean trials call a release good, where a bug begins."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from maxq.checkers.core.api import Anomaly, ClaimVerdict, Status, Valid, Verdict
from maxq.checkers.judgement.runner import Results
from maxq.harness.cli.given.param_types import Target
from maxq.harness.experiments import scenario
from maxq.harness.experiments.scenario import (
    Scenario,
    Tally,
    Trial,
    Trials,
    Way,
    between,
    bisect,
    came_to,
    clean_needed,
    complaint,
    scenario_of,
    show_scenario,
)
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged
from maxq.harness.schedule.format import (
    Act,
    Header,
    Known,
    Schedule,
    ScheduleError,
    When,
    Who,
    decode,
    encode,
    read,
)
from maxq.harness.schedule.options import Options
from maxq.histories.history import History

KNOWN = Known(bad="rocketmq:5.5.0", good="rocketmq:5.3.1", shows=("S6/lost-tail",))
SCRIPT = Schedule(
    header=Header(name="test", known=KNOWN),
    acts=(Act(id="k", f="kill", when=When(at=1), who=Who(part="master")),),
)
A = scenario.Scenario("test", SCRIPT, KNOWN)


class Canned(Trials):
    """Trials whose outcomes are given: target to what its trials come to, the last one for ever."""

    def __init__(self, folder: Path, outcomes: Mapping[str, str], script: Scenario = A) -> None:
        super().__init__(script, folder, environment="local", say=lambda _: None)
        self.outcomes = outcomes
        self.ran: list[str] = []

    def _run(self, target: str, *, way: Way) -> Trial:
        letters = self.outcomes["control" if way == "control" else target]
        count = len(self.of(target, way=way))
        letter = letters[min(count, len(letters) - 1)]
        came: Any = {"b": "bad", "c": "clean", "f": "failed"}[letter]
        digest = self._digest(way=way)
        self.ran.append(target)
        return Trial(target=target, environment="local", came=came, digest=digest)


@pytest.mark.parametrize(
    ("bad", "good", "control", "shown", "counts"),
    [
        ("b", "c", "c", True, (3, 3, 1)),
        ("cbcbcb", "c", "c", True, (6, 6, 2)),
        ("cccccccbbc", "c", "c", False, (10, 10, 3)),
        ("b", "ccb", "c", False, (3, 3, 1)),
        ("b", "c", "b", False, (3, 3, 1)),
        ("fbfbb", "fc", "c", True, (3, 3, 1)),
        ("f", "c", "c", False, (0, 0, 1)),
    ],
)
def test_when_it_is_shown(
    tmp_path: Path, bad: str, good: str, control: str, shown: bool, counts: tuple[int, ...]
) -> None:
    outcomes = {"rocketmq:5.5.0": bad, "rocketmq:5.3.1": good, "control": control}
    found = show_scenario(Canned(tmp_path, outcomes), times=10)
    assert found.control is not None
    assert found.holds is shown
    assert (found.bad.trials, found.good.trials, found.control.trials) == counts


def test_what_was_done_is_not_done_again(tmp_path: Path) -> None:
    outcomes = {"rocketmq:5.5.0": "b", "rocketmq:5.3.1": "c", "control": "c"}
    first = Canned(tmp_path, outcomes)
    show_scenario(first, times=10)
    again = Canned(tmp_path, outcomes)
    assert show_scenario(again, times=10).holds
    assert (len(first.ran), again.ran) == (7, [])


def test_another_schedule_is_another_trial(tmp_path: Path) -> None:
    outcomes = {"rocketmq:5.5.0": "b", "rocketmq:5.3.1": "c", "control": "c"}
    show_scenario(Canned(tmp_path, outcomes), times=10)
    longer = Schedule(header=Header(known=KNOWN, length=61), acts=SCRIPT.acts)
    again = Canned(tmp_path, outcomes, Scenario("test", longer, KNOWN))
    show_scenario(again, times=10)
    assert len(again.ran) == 7


def test_one_without_faults_needs_no_trial_without_them(tmp_path: Path) -> None:
    faultless = Scenario("test", Schedule(header=SCRIPT.header), KNOWN)
    outcomes = {"rocketmq:5.5.0": "b", "rocketmq:5.3.1": "c"}
    found = show_scenario(Canned(tmp_path, outcomes, faultless), times=10)
    assert found.control is None
    assert found.holds


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
        "rocketmq:5.4.0:jraft", "rocketmq:5.3.3:jraft"
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
        found = bisect(trials, targets, said.append)
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
    found = bisect(Canned(tmp_path, outcomes), targets, lambda _: None)
    assert (found.open, found.good, found.bad) == (why, "", "")


def judged(valid: Valid, *found: str, truncation: int = 0) -> Judged:
    """A run whose only checker, of S6 and S10, says so."""
    anomalies = tuple(
        Anomaly(claim=claim, name=name, signature=f"{claim}/{name}", ops=(), story="")
        for claim, _, name in (signature.partition("/") for signature in found)
    )
    accused = {anomaly.claim for anomaly in anomalies}
    spared: Status = "kept" if valid is True else "not judged"
    verdict = Verdict(
        checker="durability",
        claim_verdicts=tuple(
            ClaimVerdict(claim=claim, status="broken" if claim in accused else spared)
            for claim in ("S6", "S10")
        ),
        anomalies=anomalies,
        counts={"truncation": truncation},
    )
    return Judged(
        stored=cast(Any, SimpleNamespace(history=History(()), path=Path("run"))),
        options=Options(environment="local", seed=1),
        results=Results(valid=valid, verdicts=(verdict,)),
    )


@pytest.mark.parametrize(
    ("shows", "run", "came"),
    [
        (("S6/lost-tail",), judged(False, "S6/lost-tail"), "bad"),
        (("S6/lost-tail",), judged(True), "clean"),
        (("S6/lost-tail",), judged(False, "S6/unseen"), "clean"),
        (("S6/lost-tail",), judged(False, "S10/truncation"), "failed"),
        (("S6/lost-tail",), judged("unknown"), "failed"),
        (("S14/replica-not-in-set",), judged(True), "failed"),
        (("S14/replica-not-in-set", "S6/lost-tail"), judged(True), "clean"),
        (("S10/truncation", "durability:truncation"), judged("unknown", truncation=2), "bad"),
        (("S10/truncation", "durability:truncation"), judged("unknown"), "clean"),
    ],
)
def test_a_run_that_could_not_be_judged_is_not_clean(
    shows: tuple[str, ...], run: Judged, came: str
) -> None:
    assert came_to(run, Known(bad="a", good="b", shows=shows))[0] == came


def test_what_differs_on_the_good_one_is_told() -> None:
    keys = {"broker:a": "1", "broker:b": "2"}
    known = Known(bad="x", good="y", instead={"profile": "P-SAFE", "keys": {**keys, "c": "3"}})
    usual = Schedule(header=Header(options={"keys": keys}, known=known))
    assert Scenario("test", usual, known).differing == "c 3, profile P-SAFE"
    assert A.differing == ""


def test_an_interrupted_trial_is_none_and_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_test(*_: Any, context: RunContext, **__: Any) -> Judged:
        context.stop.asked = True
        return judged(True)

    monkeypatch.setattr(scenario, "run_test", run_test)
    trials = Trials(A, tmp_path, environment="local", say=lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        show_scenario(trials, times=10)
    assert trials.done == []
    assert Trials(A, tmp_path, environment="local", say=lambda _: None).done == []


def test_every_scenario_can_be_read_and_says_what_it_shows() -> None:
    for name in scenario.names():
        known = scenario_of(name).known
        assert known.shows or known.slower_ms
        for target in (known.bad, known.good):
            assert Target().convert(target, None, None) == target


def test_what_every_schedule_that_comes_with_us_shows_can_be_found() -> None:
    """Also of those that are no scenarios."""
    paths = sorted(scenario.FOLDER.parent.rglob("*.jsonl"))
    headers = [read(path).header for path in paths]
    assert len(headers) > len(scenario.names()) > 10
    assert [complaint(h.known) for h in headers if h.known] == [""] * len(scenario.names())


@pytest.mark.parametrize(
    ("shown", "nearest"),
    [
        ("S6/lost-tial", "S6/lost-tail"),
        ("S9/lost-tail", "S6/lost-tail"),
        ("S13/not-writeable", "S13/not-writable"),
        ("log-diverged", "S8/log-diverged"),
        ("durabilty:truncation", "durability:"),
    ],
)
def test_what_no_checker_finds_is_refused_with_the_nearest(
    tmp_path: Path, shown: str, nearest: str
) -> None:
    known = Known(bad="rocketmq:5.5.0", good="reference", shows=("S6/lost-write", shown))
    path = tmp_path / "mine.jsonl"
    path.write_bytes(encode(Schedule(header=Header(known=known))))
    with pytest.raises(ScheduleError) as refused:
        scenario_of(str(path))
    why = f"it is known to show {shown!r}, which no checker finds; nearest: {nearest!r}"
    assert str(refused.value) == f"{path}: {why}"


def test_a_schedule_that_shows_nothing_known_is_no_scenario(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"item": "header"}\n')
    with pytest.raises(ScheduleError, match="does not say what it is known to show"):
        scenario_of(str(path))
    with pytest.raises(ScheduleError, match="no scenario 'none'; there are: "):
        scenario_of("none")


def test_a_header_with_an_unknown_field_of_what_is_known_is_refused() -> None:
    with pytest.raises(ScheduleError, match="line 1"):
        decode(b'{"item": "header", "known": {"bad": "a", "good": "b", "showz": []}}\n')
