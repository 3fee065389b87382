"""Scenarios: when one is shown, and what a run of one came to."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from canned_trials import KNOWN, SCRIPT, A, Canned

from maxq.checkers.core.api import Anomaly, ClaimVerdict, Status, Valid, Verdict
from maxq.checkers.core.claims import BY_ID, unmade
from maxq.checkers.judgement.runner import Results
from maxq.harness.cli.given.param_types import Target
from maxq.harness.experiments.scenarios import scenario
from maxq.harness.experiments.scenarios.scenario import (
    Scenario,
    Trials,
    ahead,
    came_to,
    complaint,
    scenario_of,
    show_scenario,
    so_far,
)
from maxq.harness.run.judging import context_of
from maxq.harness.run.replay import options_for
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged
from maxq.harness.schedule.format import (
    Header,
    Known,
    Schedule,
    ScheduleError,
    decode,
    encode,
    read,
)
from maxq.harness.schedule.options import Options
from maxq.histories.history import History

UPSTREAM = Path(scenario.__file__).parents[2] / "schedule" / "upstream"


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


@pytest.mark.parametrize(
    ("shows", "came"),
    [(("S6/lost-tail",), "clean"), (("durability:truncation",), "failed"), ((), "failed")],
)
def test_a_late_harness_leaves_open_only_what_goes_by_time(
    shows: tuple[str, ...], came: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim of which time matters is not judged then."""
    monkeypatch.setattr(scenario, "late_harness", lambda history: "it was late")
    known = Known(bad="a", good="b", shows=shows)
    assert came_to(judged(True), known)[0] == came
    assert came_to(judged("unknown"), known)[0] == "failed"


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
        assert context.stop.at_once, "it is not healed and judged, but cut off"
        raise KeyboardInterrupt

    monkeypatch.setattr(scenario, "run_test", run_test)
    trials = Trials(A, tmp_path, environment="local")
    with pytest.raises(KeyboardInterrupt):
        show_scenario(trials, times=10)
    assert trials.done == []
    assert Trials(A, tmp_path, environment="local").done == []


def test_how_many_trials_are_done_and_at_most_to_do(tmp_path: Path) -> None:
    """It begins with the most that there can be, and ends with what there was."""
    outcomes = {"rocketmq:5.5.0": "b", "rocketmq:5.3.1": "c", "control": "c"}
    trials, seen = Canned(tmp_path, outcomes), list[tuple[int, int]]()
    seen.append(ahead(trials, times=10))
    trials.say = lambda _: seen.append(ahead(trials, times=10))
    show_scenario(trials, times=10)
    assert seen[0] == (0, 23)
    assert seen[3:] == [(3, 7), (4, 7), (5, 7), (6, 7), (7, 7)]
    assert so_far(trials) == "test: bad in 3 of 3 on rocketmq:5.5.0, in 0 of 3 on rocketmq:5.3.1"


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
    with pytest.raises(ScheduleError, match="no scenario 'none'; `maxq list"):
        scenario_of("none")


def test_a_header_with_an_unknown_field_of_what_is_known_is_refused() -> None:
    with pytest.raises(ScheduleError, match="line 1"):
        decode(b'{"item": "header", "known": {"bad": "a", "good": "b", "showz": []}}\n')


@pytest.mark.parametrize("path", sorted(UPSTREAM.glob("*.jsonl")), ids=lambda path: path.stem)
def test_what_a_scenario_shows_is_promised_under_its_settings(path: Path) -> None:
    """Or a narrower claim would take what it shows away, and nobody would see it. Some show by a
    checker's counts, which rest on no promise."""
    script = read(path)
    known = script.header.known
    if known is None or any(":" in one for one in known.shows):
        return
    shown = {one.partition("/")[0] for one in known.shows} & BY_ID.keys()
    settings = context_of(options_for(script, "local"), ended=True).settings
    lost = any("power" in act.f for act in script.acts)
    assert not shown or [c for c in shown if not unmade(c, settings, power_lost=lost)]
