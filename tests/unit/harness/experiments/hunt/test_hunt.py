"""The hunt's journal, what is to be run, and its tables."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from maxq.harness.cli.hunt import hunt as command
from maxq.harness.experiments import engine
from maxq.harness.experiments.engine import JOURNAL
from maxq.harness.experiments.hunt import hunt
from maxq.harness.experiments.hunt.decisions import DECISIONS
from maxq.harness.experiments.hunt.hunt import Entry, Hunt, Job, at_once, line
from maxq.harness.experiments.hunt.page import HOLE, markdown, place, sights
from maxq.harness.experiments.hunt.pair_decisions import PAIR_DECISIONS
from maxq.harness.experiments.hunt.run_matrix import CONTROLLERS, PAIRS
from maxq.harness.experiments.worker_pool import Inline
from maxq.harness.schedule.format import digest_of

SHORT_MS = 20_000
SHRINKS = "an election takes acknowledged messages away"


def entry(found: Hunt, number: int, **given: Any) -> Entry:
    row = given.pop("row", None) or CONTROLLERS.row_for(number, {}, found.capabilities)
    job = Job(number=number, release="5.5.0", environment="local", row=row, length_ms=SHORT_MS,
              beside=given.pop("beside", 1))  # fmt: skip
    script = CONTROLLERS.script_for(number, row, length_ms=SHORT_MS)
    more = {"met": row, "date": "2026-11-22", "run": f"runs/queue/{number}", **given}
    return Entry(job=job, digest=digest_of(script), target=job.target, profile=job.profile, **more)


def of(folder: Path, *entries: Entry, seeds: int = 0) -> Hunt:
    folder.mkdir(exist_ok=True)
    lines = b"".join(msgspec.json.encode(e) + b"\n" for e in entries)
    (folder / JOURNAL).write_bytes(lines)
    return Hunt(folder, release="5.5.0", environment="local", seeds=seeds, length_ms=SHORT_MS)


def test_what_is_done_is_not_missing(tmp_path: Path) -> None:
    none = of(tmp_path)
    size = CONTROLLERS.array_size
    assert none.missing() == list(range(size))
    drawn = CONTROLLERS.row_for(size, {("a", "b", "c", "d"): 1}, none.capabilities)
    done = [entry(none, 0), entry(none, 1, error="SetupFailed: no"), entry(none, size, row=drawn)]
    again = of(tmp_path, *done, seeds=2).missing()
    assert again == [*range(2, size), size + 1, 1], "what did not come up is tried again at the end"
    thrice = [done[1]] * hunt.FAILED_MAX
    assert 1 not in of(tmp_path, *thrice).missing(), "it does not come up"
    other = msgspec.structs.replace(done[0], digest="of another schedule")
    assert 0 in of(tmp_path, other).missing()


def test_jobs_are_the_next_ones_with_what_they_are_dealt(tmp_path: Path) -> None:
    found = of(tmp_path)
    first, second = found.next_job(2), found.next_job(2, at_work=[0])
    assert first is not None
    assert second is not None
    assert (first.number, second.number, first.beside) == (0, 1, 2)
    assert found.next_job(2, at_work=range(CONTROLLERS.array_size)) is None
    for job in (first, second):
        trial = CONTROLLERS.trial_of(job.number)
        assert job.profile == trial.profile
        assert job.target.endswith(":jraft") == (trial.value == "jraft")


def test_hunts_of_pairs_and_of_controllers_do_not_mix(tmp_path: Path) -> None:
    none = of(tmp_path)
    done = entry(none, 0)
    job = msgspec.structs.replace(done.job, mode="pair", row=PAIRS.row_for(0, {}, frozenset()))
    pair = msgspec.structs.replace(done, job=job)
    assert pair.job.target == "rocketmq:5.5.0"
    assert pair.job.profile in PAIRS.shares
    both = of(tmp_path, done, pair)
    assert both.entries() == [done]
    pairs = Hunt(tmp_path, release="5.5.0", environment="local", mode="pair")
    assert pairs.entries() == [pair]
    following = pairs.next_job(1)
    assert following is not None
    assert following.mode == "pair"
    assert place(pair).startswith("hunt-pairs/")
    text = markdown(pairs)
    assert text.startswith("# The hunt on RocketMQ 5.5.0 without controllers\n")
    for row in PAIR_DECISIONS:
        assert f"| {row.id} | {row.says}" in text


def test_two_at_once_until_one_was_late(tmp_path: Path) -> None:
    found = of(tmp_path)
    assert at_once([], 2) == 2
    assert at_once([entry(found, 0, late="woken late")], 2) == 2, "it was alone"
    assert at_once([entry(found, 0, late="woken late", beside=2), entry(found, 1)], 2) == 1


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[int, Entry]], None]:
    """Have runs come to what is given, without a worker or a cluster."""

    def give(to: dict[int, Entry]) -> None:
        monkeypatch.setattr(hunt, "measure", lambda job, folder: to[job.number])
        monkeypatch.setattr(engine, "workers", lambda *_, **__: nullcontext(Inline()))

    return give


def test_a_hunt_goes_on_where_it_was_and_ends_with_its_budget(
    tmp_path: Path, measured: Callable[[dict[int, Entry]], None]
) -> None:
    found = of(tmp_path)
    measured({n: entry(found, n) for n in range(CONTROLLERS.array_size)})
    said: list[str] = []
    assert not found.run(jobs=2, budget_ns=0, say=said.append)
    assert found.run(jobs=2, budget_ns=None, say=said.append)
    assert len(said) == CONTROLLERS.array_size
    again = Hunt(tmp_path, release="5.5.0", environment="local", length_ms=SHORT_MS)
    assert again.missing() == []


def test_a_hunt_of_which_nothing_comes_up_is_over(
    tmp_path: Path, measured: Callable[[dict[int, Entry]], None]
) -> None:
    found = of(tmp_path)
    measured({n: entry(found, n, error="SetupFailed: no") for n in range(CONTROLLERS.array_size)})
    said: list[str] = []
    assert not found.run(jobs=1, budget_ns=None, say=said.append)
    assert "in a row did not come up" in said[-1]
    assert len(found.entries()) == hunt.FAILED_IN_A_ROW


def test_stored_runs_are_judged_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = of(tmp_path)
    gone, failed = entry(none, 0), entry(none, 1, error="SetupFailed: no", run=str(tmp_path))
    found = of(tmp_path, gone, failed, entry(none, 2, run=str(tmp_path)))
    monkeypatch.setattr(hunt, "judge_stored", lambda path: path)
    better = {"S8/log-diverged": 1}
    monkeypatch.setattr(
        hunt, "judged_entry", lambda e, *_: msgspec.structs.replace(e, broken=better)
    )
    monkeypatch.setattr(hunt, "workers", lambda *_: ThreadPoolExecutor(2))
    found.look_again(2)
    assert [e.broken for e in found.entries()] == [{}, {}, better]
    stored = Hunt(tmp_path, release="5.5.0", environment="local", length_ms=SHORT_MS)
    assert stored.entries() == found.entries()


def whole(folder: Path) -> Hunt:
    none = of(folder)
    return of(
        folder,
        entry(none, 0, error="SetupFailed: no\nmore"),
        entry(none, 1, operations=90, acknowledged=50, verdict=True, seconds=360.0,
              decisions={"2.4 elect/5": 2, "2.4 elect/6": 0}),
        entry(none, 2, operations=10, acknowledged=7, verdict=False, seconds=360.0,
              broken={"S6/lost-tail": 3, "S8/log-diverged": 1},
              measured={"O1/consumer-offset-regressed": 1}, evidence=("deposed-master-shrinks",),
              labels={"S6/lost-tail": {SHRINKS: 2, "": 1}, "S8/log-diverged": {"": 1},
                      "O1/consumer-offset-regressed": {"consumer offsets are forgotten": 1}},
              decisions={"2.4 elect/5": 1}, late="woken late"),
        entry(none, 3, broken={"S6/lost-tail": 1}, verdict=False),
    )  # fmt: skip


def test_every_anomaly_has_a_class_and_the_unknown_come_first(tmp_path: Path) -> None:
    runs = [e for e in whole(tmp_path).entries() if not e.error]
    found = [(s.is_, s.signature, s.promised, n) for s, n in sights(runs).items()]
    assert found == [
        ("unclassified", "S6/lost-tail", True, [2, 3]),
        ("unclassified", "S8/log-diverged", True, [2]),
        ("new: docs/track-record.md", "S6/lost-tail", True, [2]),
        ("upstream #10284", "O1/consumer-offset-regressed", False, [2]),
    ]


def test_of_runs_without_labels_only_what_needs_no_logs_is_classified(tmp_path: Path) -> None:
    none = of(tmp_path)
    broken = {"S6/lost-tail": 1, "O1/consumer-offset-regressed": 1, "S7/master-outside-set": 1}
    bare = entry(none, 1, broken=broken, evidence=("deposed-master-shrinks",))
    bare = msgspec.structs.replace(bare, profile="P-UNCLEAN")
    found = {s.signature: s.is_ for s in sights([bare])}
    assert found == {
        "S6/lost-tail": "unclassified",
        "O1/consumer-offset-regressed": "unclassified",
        "S7/master-outside-set": "by design",
    }
    text = markdown(of(tmp_path, bare))
    assert "1 of the runs were recorded by a version that took lines" in text
    assert f"| deposed-master-shrinks | {SHRINKS} | 1 | 0, unknown in 1 | 1 |" in text


def test_the_tables(tmp_path: Path) -> None:
    text = markdown(whole(tmp_path))
    assert "3 runs in local, 2026-11-22 to 2026-11-22: 0.2 hours of clusters" in text
    assert "1 times SetupFailed: no\n" in text
    size = CONTROLLERS.array_size
    assert f"Not finished: {size - 3} of {size} runs are missing." in text
    assert "| all |  | 3 | 0.2 | 100 | 57 | 1 | 2 | 0 |" in text
    assert (
        "| S8/log-diverged |  | yes | 1 | 2 | `maxq replay hunt/runs/queue/2 --times 10` |" in text
    )
    assert (
        "| deposed-master-shrinks | an election takes acknowledged messages away | 1 | 1 | 2 |"
        in text
    )
    assert "3 runs are of the covering array's" in text
    seen = [row for row in text.splitlines() if row.startswith("| 2.4 elect/5 |")]
    assert len(seen) == 1
    assert seen[0].split(" | ")[2] == "3"
    assert (
        f"| 2.4 elect/6 | no candidate, and a controller asked: no master, a new epoch | {HOLE} |"
        in text
    )
    for row in DECISIONS:
        assert f"| {row.id} | {row.says}" in text


def test_a_line_tells_all_that_was_found(tmp_path: Path) -> None:
    said = [line(e) for e in whole(tmp_path).entries()]
    assert "SetupFailed: no" in said[0]
    assert "nothing broken" in said[1]
    assert (
        "S6/lost-tail, S8/log-diverged; measured: O1/consumer-offset-regressed (woken late)"
        in said[2]
    )


def test_the_command_prints_its_tables_and_runs_nothing(tmp_path: Path) -> None:
    words = ["--target", "5.5.0", "--table", "--length", "20s", "--store", str(tmp_path)]
    whole(tmp_path / "hunt")
    told = CliRunner().invoke(command, words, standalone_mode=False)
    assert told.exception is None
    assert told.return_value == 2, "there are runs to be made"
    assert told.output.rstrip() == (tmp_path / "hunt" / "hunt.md").read_text().rstrip()
    refused = CliRunner().invoke(command, ["--target", "rocketmq:5.5.0:jraft"])
    assert "half of the runs have jraft" in " ".join(refused.output.split())
    refused = CliRunner().invoke(command, ["--target", "rocketmq:5.5.0:jraft", "--mode", "pair"])
    assert "pairs have no controllers" in " ".join(refused.output.split())
