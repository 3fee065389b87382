"""What a run of an upgrade came to, whether that is as documented, and the page of all."""

from pathlib import Path
from typing import Any

import pytest

from maxq.checkers.core.api import ClaimVerdict
from maxq.checkers.judgement.lost import Lost
from maxq.harness.client.stored_logs import StoredLog
from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.contracts.target import Profile
from maxq.harness.experiments.engine import JOURNAL
from maxq.harness.experiments.journal import append
from maxq.harness.experiments.upgrade import trials as module
from maxq.harness.experiments.upgrade.logs import Before, Replica, measured, words
from maxq.harness.experiments.upgrade.page import cell, page, section
from maxq.harness.experiments.upgrade.pair_outcomes import Absence, PairOutcome
from maxq.harness.experiments.upgrade.plans import Expected, Upgrade, upgrades
from maxq.harness.experiments.upgrade.trials import (
    TOO_SLOW,
    Came,
    Entry,
    Job,
    Trials,
    measure,
    unsaid,
)
from maxq.harness.schedule.format import digest_of

BY_NAME = {upgrade.name: upgrade for upgrade in upgrades()}
PAIR = "reference-pair-under-4.9.7-compatible"
SWITCHES, NEVER, ROLLING = "5.1.0-under-5.1.0", "5.1.1-under-5.1.0", "rolling-5.5.0-to-5.5.1"


def entry(name: str = SWITCHES, came: Came = "up", **more: Any) -> Entry:
    profile: Profile = "P-SYNC" if BY_NAME[name].pair else "P-SAFE"
    job = Job(name=name, profile=profile, environment="local")
    digest = digest_of(BY_NAME[name].schedule(profile))
    acknowledged, lost = more.pop("acknowledged", 1), more.pop("lost", 0)
    messages = Lost(lost=lost, acknowledged=acknowledged, why="")
    return Entry(job=job, digest=digest, came=came, messages=messages, **more)


ACTS = Absence(acted_ms=400.0, shown="slave as master")
BACK = PairOutcome(killed=ACTS, back_ms=1700.0, paused=Absence(acted_ms=None))
AWAY = PairOutcome(killed=ACTS, back_ms=None)


def log(node: str = "b0-0", **more: Any) -> Replica:
    whole: dict[str, Any] = {"before": 90, "after": 100, "kept": True, "equal": True}
    return Replica(node=node, **{**whole, **more})


@pytest.mark.parametrize(
    ("expected", "made", "shown"),
    [
        ("never up", entry(came="never up"), True),
        ("never up", entry(serves=True), False),
        ("never up", entry(came="failed"), False),
        ("switches", entry(struck=True, recovered_ms=200.0), True),
        ("switches", entry(struck=True, recovered_ms=200.0, lost=1), True),
        ("switches", entry(struck=True, recovered_ms=26_000.0), False),
        ("switches", entry(came="never up"), False),
        ("no switch", entry(struck=True, recovered_ms=26_000.0), True),
        ("no switch", entry(struck=True), True),
        ("no switch", entry(struck=False), False),
        ("no switch", entry(struck=True, recovered_ms=200.0), False),
        ("stays away", entry(struck=True), True),
        ("stays away", entry(struck=True, recovered_ms=40_000.0), False),
        ("keeps all", entry(replaced=6, asked=6, serves=True), True),
        ("keeps all", entry(replaced=5, asked=6, serves=True), False),
        ("keeps all", entry(replaced=6, asked=6, serves=True, lost=1), False),
        ("keeps all", entry(replaced=6, asked=6, serves=True, lost=None), False),
        ("keeps all", entry(replaced=6, asked=6), False),
        ("keeps all", entry(replaced=6, asked=6, serves=True, logs=(log(),)), True),
        ("keeps all", entry(replaced=6, asked=6, serves=True, logs=(log(kept=False),)), False),
        ("keeps all", entry(replaced=6, asked=6, serves=True, logs=(log(equal=False),)), False),
        ("acts", entry(serves=True, pair=BACK), True),
        ("acts", entry(serves=True, pair=BACK, lost=1), False),
        ("acts", entry(serves=True, pair=AWAY), False),
        ("acts", entry(serves=True), False),
        ("does not act", entry(serves=True, pair=AWAY), True),
        ("does not act", entry(came="never up"), True),
        ("does not act", entry(came="failed"), False),
        ("does not act", entry(serves=True, pair=BACK), False),
        ("", entry(), False),
    ],
)
def test_what_is_documented_and_what_was_seen(expected: Expected, made: Entry, shown: bool) -> None:
    assert made.shows(expected) is shown


def test_a_cell_says_what_was_seen_in_how_many_runs() -> None:
    upgrade = BY_NAME[SWITCHES]
    good = entry(struck=True, recovered_ms=200.0, acknowledged=1234, serves=True)
    assert cell(upgrade, []) == "not run"
    assert cell(upgrade, [entry(came="failed", error="no mvn")]) == "not run: no mvn"
    assert cell(upgrade, [good, good, entry(came="never up")]) == (
        "as documented in 2 of 3: the next send was acknowledged after 0.2 s. 0 of 1,234 lost. "
        "Serves at the end (2 times); never up."
    )
    rolling = entry(
        ROLLING, replaced=6, asked=7, lost=3, acknowledged=9, found=("S6/lost-write", "S12/order")
    )
    assert cell(BY_NAME[ROLLING], [rolling]) == (
        "1 run: 6 of 7 nodes replaced. 3 of 9 lost. Does not serve at the end. Found: a consumer "
        "got one producer's messages in another order (S12/order). Also: an acknowledged message "
        "was lost (S6/lost-write)."
    )


def made(folder: Path, rounds: int = 1) -> Trials:
    return Trials(
        folder,
        names=[SWITCHES, NEVER],
        profiles=["P-SAFE"],
        environment="local",
        rounds=rounds,
    )


def test_it_goes_on_where_it_was_and_leaves_what_fails_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path / JOURNAL, entry(serves=True))
    done: list[str] = []

    def failing(job: Job, folder: Path) -> Entry:
        done.append(job.name)
        return entry(job.name, came="failed", error="no network")

    monkeypatch.setattr(module, "measure", failing)
    trials = made(tmp_path)
    assert trials.run(budget_ns=None, say=lambda text: None), "nothing that could be run is left"
    assert done == [NEVER, NEVER]
    assert [job.name for job in made(tmp_path, rounds=2).missing()] == [SWITCHES]
    text = page(trials)
    cells = sum(len(u.profiles(["P-SAFE", "P-DEFAULT"])) for u in upgrades())
    assert text.count("| not run") == cells - 1, "under P-DEFAULT, and of all others"
    assert "| cannot be brought up | not run: no network | not run | " in text
    assert "`maxq upgrade rolling-5.5.0-to-5.5.1` |" in text


@pytest.mark.parametrize(
    ("error", "came"),
    [(SetupFailed("no master"), "never up"), (EnvironmentUnavailable("no mvn"), "failed")],
)
def test_a_cluster_that_never_comes_up_is_an_outcome_and_no_failure(
    error: Exception, came: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_test(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(module, "run_test", run_test)
    found = measure(Job(name=NEVER, profile="P-SAFE", environment="local"), tmp_path)
    assert (found.came, found.error) == (came, str(error))
    assert found.shows("never up") == (came == "never up")


def test_a_cell_of_a_pair_says_who_acted_and_who_came_back() -> None:
    one = entry(PAIR, serves=True, acknowledged=900, pair=BACK)
    assert cell(BY_NAME[PAIR], [one]) == (
        "as documented in 1 of 1: master killed: the slave acts after 0.4 s, routes show it as the "
        "master. The master is back 1.7 s after its start. Master paused: the slave does not act, "
        "routes go on showing the master. 0 of 900 lost. Serves at the end."
    )


def test_a_run_that_was_not_judged_to_its_end_says_nothing() -> None:
    served, late = ClaimVerdict(claim="S13", status="kept"), "the harness was woken late"
    doubt = ClaimVerdict(claim="S13", status="not judged", why=late)
    plain, pair = BY_NAME[SWITCHES], BY_NAME[PAIR]
    assert unsaid(entry(), plain, served) == unsaid(entry(PAIR, pair=BACK), pair, None) == ""
    assert unsaid(entry(), plain, doubt).endswith(late)
    assert unsaid(entry(PAIR), pair, served) == TOO_SLOW


def test_a_section_of_which_nothing_was_run_here_stays_as_it_is(tmp_path: Path) -> None:
    """Runs of all upgrades take hours, and a page is written by who has made some."""
    append(tmp_path / JOURNAL, entry(serves=True))
    title = "## Neighbouring releases, one node after the other"
    before = f"# Upgrades\n\n## Gone\n\nx\n\n{title}\n\n| kept |\n\n## Another\n\ny\n"
    assert section(before, title.removeprefix("## ")) == f"{title}\n\n| kept |"
    assert section(before, "Another") == "## Another\n\ny"
    assert section(before, "Nothing") == ""
    text = page(made(tmp_path), before)
    assert f"{title}\n\n| kept |\n\n## " in text
    assert "Gone" not in text
    assert "| upgrade | documented | P-SYNC | command |\n|---|---|---|---|\n" in text
    assert page(made(tmp_path), text) == text


def test_a_cell_of_which_nothing_was_run_here_stays_as_it_is(tmp_path: Path) -> None:
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    other = next(u.name for u in upgrades() if u.group == BY_NAME[PAIR].group and u.name != PAIR)
    for folder, name in ((elsewhere, PAIR), (here, other)):
        folder.mkdir()
        append(folder / JOURNAL, entry(name, serves=True, pair=BACK))
    before, after = page(made(elsewhere)), page(made(here), page(made(elsewhere)))
    rows = [next(r for r in p.splitlines() if r.startswith(f"| {PAIR} |")) for p in (before, after)]
    assert rows[0] == rows[1]
    assert "lost. Serves" in rows[0]
    assert f"| {other} |" in after
    assert after.count("lost. Serves") == 2
    append(here / JOURNAL, entry(PAIR, came="failed", error="no network"))
    assert page(made(here), after) == after, "a run that says nothing takes nothing away"


def test_where_logs_ended_and_what_they_have_now() -> None:
    new = log("b0-1", before=None)
    assert words([log(), new]) == (
        "logs ended at b0-0 90. Now all 2 at 100, equal to the byte, with all that they had"
    )
    short = log("b0-1", before=80, after=80, equal=False)
    assert words([log(), short]) == (
        "logs ended at b0-0 90, b0-1 80. Now b0-0 100, b0-1 80, with all that they had"
    )
    other = log("b0-1", equal=False, kept=False)
    assert words([log(), other]).endswith(
        "Now b0-0 100, b0-1 100, with other bytes, without what it had: b0-1"
    )
    assert "b0-1 unreadable" in words([log(), log("b0-1", after=None, equal=False)])


def test_logs_are_read_from_what_the_nodes_left(tmp_path: Path) -> None:
    first = tmp_path / "nodes" / "b0-0" / "store" / "commitlog"
    for node in ("b0-0", "b0-1", "n0"):
        (tmp_path / "nodes" / node / "store" / "commitlog").mkdir(parents=True)
    (first / "00000000000000000000").write_bytes(bytes(4096))
    empty = Before(end=0, digest=StoredLog(0, b"", (), ()).digest())
    found = measured(tmp_path, {"b0-0": empty, "b0-1": Before(end=9, digest="other")})
    assert [(r.node, r.before, r.after, r.kept, r.equal) for r in found] == [
        ("b0-0", 0, 0, True, True),
        ("b0-1", 9, 0, False, True),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "documented-reference-to-reference",
        "documented-reference-to-reference-quiet",
        "alone-reference-to-reference",
    ],
)
def test_our_nodes_keep_everything(name: str, tmp_path: Path) -> None:
    """S6, S8, S14: logs have what they had, and are equal to the byte."""
    found = measure(Job(name=name, profile="P-SAFE", environment="simulated"), tmp_path)
    assert found.shows(BY_NAME[name].expected), found
    assert found.found == ()
    assert min(found.after, found.messages.acknowledged - found.after) > 100
    assert (Path(found.run) / "upgrade.txt").read_text() == f"{name}: {found.seen}\n"
    ends = {r.node: r.before for r in found.logs}
    if "alone" in name:
        assert ends["b0-0"]
        assert ends["b0-1"] is ends["b0-2"] is None
    else:
        assert (len(set(ends.values())) == 1) is ("quiet" in name), ends


def test_our_nodes_alone_are_as_documented(tmp_path: Path) -> None:
    name = "reference-under-reference"
    found = measure(Job(name=name, profile="P-SAFE", environment="simulated"), tmp_path)
    upgrade: Upgrade = BY_NAME[name]
    assert found.shows(upgrade.expected), found
    assert found.messages.acknowledged > 500
    assert found.serves
