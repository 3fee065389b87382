"""What a run of an upgrade came to, whether that is as documented, and the page of all."""

from pathlib import Path
from typing import Any

import pytest

from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.experiments.engine import JOURNAL
from maxq.harness.experiments.journal import append
from maxq.harness.experiments.upgrade import trials as module
from maxq.harness.experiments.upgrade.page import cell, page
from maxq.harness.experiments.upgrade.plans import Expected, Upgrade, upgrades
from maxq.harness.experiments.upgrade.trials import Came, Entry, Job, Trials, measure
from maxq.harness.schedule.format import digest_of

BY_NAME = {upgrade.name: upgrade for upgrade in upgrades()}
SWITCHES, NEVER, ROLLING = "5.1.0-under-5.1.0", "5.1.1-under-5.1.0", "rolling-5.5.0-to-5.5.1"


def entry(name: str = SWITCHES, came: Came = "up", **more: Any) -> Entry:
    job = Job(name=name, profile="P-SAFE", environment="local")
    digest = digest_of(BY_NAME[name].schedule("P-SAFE"))
    return Entry(job=job, digest=digest, came=came, **more)


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
        ("keeps all", entry(replaced=6, asked=6), False),
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
        "as documented in 2 of 3: the next send was acknowledged after 0.2 s, 0 of 1,234 lost, "
        "serves at the end (2 times); never up"
    )
    rolling = entry(ROLLING, replaced=6, asked=7, lost=3, acknowledged=9, found=("S6/lost",))
    assert cell(BY_NAME[ROLLING], [rolling]) == (
        "1 run: 6 of 7 nodes replaced, 3 of 9 lost, does not serve at the end; found: S6/lost"
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
    assert text.count("| not run") == 2 * len(BY_NAME) - 1, "under P-DEFAULT, and of all others"
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


def test_our_nodes_alone_are_as_documented(tmp_path: Path) -> None:
    name = "reference-under-reference"
    found = measure(Job(name=name, profile="P-SAFE", environment="simulated"), tmp_path)
    upgrade: Upgrade = BY_NAME[name]
    assert found.shows(upgrade.expected), found
    assert found.acknowledged > 500
    assert found.serves
