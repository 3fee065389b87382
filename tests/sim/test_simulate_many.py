"""Many seeds: `maxq simulate` tells each once, goes on where it was, and keeps what is wrong."""

import json
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from waiting import eventually

from maxq.harness.cli.main import run_cli
from maxq.harness.experiments import simulate as simulation
from maxq.harness.experiments.engine import JOURNAL
from maxq.harness.experiments.simulate import (
    UNEQUAL,
    Campaign,
    SeedResult,
    Summary,
    run_seed,
    seeds_of,
)
from maxq.harness.experiments.worker_pool import SCRATCH, Occupied, scratch
from maxq.harness.run.replay import script_of
from maxq.harness.sampling.draw import draw
from maxq.harness.sampling.factors import FACTORS, row_of
from maxq.harness.schedule.format import SCHEDULE

ONE_JOB = ("--jobs", "1", "--length")
BUG, FAILING = "ack_before_write", 2  # a seed that shows it within this length
SHORT_MS = 8_000


def children_of(pid: int) -> list[int]:
    result = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(word) for word in result.split()]


def alive(pid: int) -> bool:
    """Whether a process runs; what has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def journal_of(folder: Path) -> list[SeedResult]:
    lines = (folder / JOURNAL).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=SeedResult) for line in lines]


def test_seeds_are_told_and_the_same_command_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("simulate", "--seeds", "0..1", *ONE_JOB, "6s", "--store", str(tmp_path))
    assert run_cli([*words]) == 0
    first = capsys.readouterr().out
    assert "verdicts: 2 valid" in first
    [s6] = [line.split() for line in first.splitlines() if line.endswith("(S6)")]
    assert s6[:6] == ["2", "2", "0", "0", "0", "0"]  # both draw settings that promise it
    assert "pairs of values met: " in first
    assert "virtual s in" in first
    folder = tmp_path / "simulated" / "reference"
    before = (folder / JOURNAL).read_bytes()
    assert [t.seed for t in journal_of(folder)] == [0, 1]
    assert [p.name for p in folder.iterdir()] == [JOURNAL], "nothing else is kept of what is right"

    assert run_cli([*words]) == 0
    assert capsys.readouterr().out == first
    assert (folder / JOURNAL).read_bytes() == before, "nothing was simulated anew"

    # A crash cut the last line off: that seed is run again, and all is as it was.
    (folder / JOURNAL).write_bytes(before[:-30])
    assert run_cli([*words]) == 0
    assert [t.digest for t in journal_of(folder)] == [
        msgspec.json.decode(line, type=SeedResult).digest for line in before.splitlines()
    ]
    (folder / JOURNAL).write_bytes(before.splitlines(keepends=True)[0])
    assert run_cli([*words, "--fresh"]) == 0
    assert [t.seed for t in journal_of(folder)] == [0, 1]


def test_nothing_stays_of_a_campaign_that_was_killed(tmp_path: Path) -> None:
    """Its workers end with it, though they wait for work; the next one clears what they wrote."""
    words = ("simulate", "--jobs", "2", "--length", "20s", "--store", str(tmp_path), "--seeds")
    command = [sys.executable, "-m", "maxq.harness.cli.main", *words, "0..99"]
    folder = tmp_path / "simulated" / "reference"
    killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert eventually(lambda: len(list((folder / SCRATCH).glob("*"))) >= 2, 60)
        workers = children_of(killed.pid)
        assert len(workers) >= 2
    finally:
        killed.kill()
        killed.wait()
    assert eventually(lambda: not any(map(alive, workers)), 15), "they outlived who had asked"
    assert list((folder / SCRATCH).glob("*")), "as they were left"

    assert run_cli([*words, "0", "--jobs", "1"]) == 0
    assert not (folder / SCRATCH).exists()


def test_two_commands_do_not_share_a_folder(tmp_path: Path) -> None:
    with scratch(tmp_path), pytest.raises(Occupied), scratch(tmp_path):
        pytest.fail("both have it")


def test_a_seed_that_runs_twice_is_compared_by_every_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("simulate", "--seeds", "0..1", *ONE_JOB, "8s", "--store", str(tmp_path))
    assert run_cli([*words]) == 0
    plain = journal_of(tmp_path / "simulated" / "reference")
    assert [(t.verified, t.steps) for t in plain] == [(False, "")] * 2
    assert run_cli([*words, "--verify", "100%"]) == 0, "seeds that were not compared are not done"
    result = journal_of(tmp_path / "simulated" / "reference")[2:]
    assert [t.seed for t in result] == [0, 1]
    assert all(t.verified for t in result)
    assert len({t.steps for t in result}) == 2
    assert [t.digest for t in result] == [t.digest for t in plain], "to look on changes nothing"
    assert UNEQUAL not in capsys.readouterr().out


@pytest.mark.parametrize("differs", ["digest", "steps"])
def test_two_unequal_runs_of_a_seed_are_a_finding(tmp_path: Path, differs: str) -> None:
    count = iter("ab")

    def work(seed: int, *, steps: bool = False) -> SeedResult:
        assert steps
        result = SeedResult(seed=seed, valid=True, digest="d", steps="s")
        return msgspec.structs.replace(result, **{differs: next(count)})

    campaign = Campaign(tmp_path, jobs=1, verify=100)
    campaign._work = work  # type: ignore[assignment]
    [result] = campaign.run([7])
    assert (result.found, result.verified) == ({UNEQUAL: 1}, False)
    assert list(campaign.run([7])) == [result], "and is not done again"
    assert campaign.resumed == 1


def test_seeds_of_another_length_are_other_runs(tmp_path: Path) -> None:
    run: list[int] = []

    def worked(campaign: Campaign, length_ms: int) -> Campaign:
        def work(seed: int) -> SeedResult:
            run.append(seed)
            return SeedResult(seed=seed, valid=True, length_ms=length_ms)

        campaign._work = work  # type: ignore[assignment]
        return campaign

    for length_ms, seeds in ((0, [1, 2]), (0, [2, 3]), (5000, [1, 2]), (5000, [1])):
        campaign = worked(Campaign(tmp_path, jobs=1, length_ms=length_ms), length_ms)
        assert sorted(result.seed for result in campaign.run(seeds)) == seeds
    assert run == [1, 2, 3, 1, 2]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """Two seeds of a mutant, of which one is caught: the store, the exit code, what was told."""
    store = tmp_path_factory.mktemp("broken")
    words = ["simulate", "--seeds", f"{FAILING - 1}..{FAILING}", *ONE_JOB, "8s", "--mutant", BUG]
    with redirect_stdout(StringIO()) as out:
        code = run_cli([*words, "--store", str(store)])
    return store, code, out.getvalue()


def test_a_broken_promise_is_kept_with_its_folder_and_grouped(
    broken: tuple[Path, int, str],
) -> None:
    store, code, out = broken
    assert code == 1
    assert "verdicts: 1 INVALID, 1 valid" in out
    rows = [line for line in out.splitlines() if line.startswith("    1  ")]
    assert f"    1  oracle/acknowledged-beyond-end: seeds {FAILING - 1}" in rows
    [wrong_row] = [row for row in rows if row.endswith(f"seeds {FAILING}")]
    assert "(S9/missing-in-replica)" in wrong_row, "in words, the code behind"
    folder = store / "simulated" / BUG
    seen, wrong = journal_of(folder)
    assert (seen.valid, seen.found) == (True, {}), "no history shows it, but the oracle saw it"
    assert Path(seen.run).name == f"seed-{FAILING - 1}-{BUG}"
    assert (wrong.valid, wrong.reached) == (False, "diverged")
    assert wrong.found["S6/lost-tail"] > 0
    assert wrong.claims["S6"] == "broken"
    kept = Path(wrong.run)
    assert kept == folder / f"seed-{FAILING}-{BUG}"
    assert (kept / "history.jsonl").exists()
    assert {p.name for p in folder.iterdir()} == {JOURNAL, kept.name, Path(seen.run).name}
    drawn = draw(FAILING, row_of(FAILING), length_ms=SHORT_MS)
    script, options = script_of(kept)
    assert script.calls == drawn.calls
    assert [a.id for a in script.acts] == [a.id for a in drawn.acts]
    assert options is not None
    assert options.mutant == BUG


def test_what_is_kept_repeats_exactly_with_its_bug(
    broken: tuple[Path, int, str], tmp_path: Path
) -> None:
    kept = broken[0] / "simulated" / BUG / f"seed-{FAILING}-{BUG}"
    assert run_cli(["replay", str(kept), "--store", str(tmp_path)]) == 1
    again = (tmp_path / "latest").resolve()
    assert (again / "history.jsonl").read_bytes() == (kept / "history.jsonl").read_bytes()
    assert (again / SCHEDULE).exists()


def test_one_seeds_failure_does_not_end_the_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_judge(*given: object) -> None:
        raise RuntimeError("no verdict " * 900)

    monkeypatch.setattr(simulation, "judge", broken_judge)
    result = run_seed(2, keep=tmp_path, length_ms=1000)
    assert result.valid == "failed"
    assert result.found == {"failed/RuntimeError": 1}
    assert result.error.startswith("RuntimeError: no verdict")
    assert len(result.error) == simulation.TRACEBACK_MAX
    assert result.run == str(tmp_path / "seed-2")
    assert (tmp_path / "seed-2" / SCHEDULE).exists(), "it can be done again"


def test_the_summary_groups_what_is_alike() -> None:
    summary = Summary()
    lost = {"S6/lost-tail": 3}
    for seed in range(12):
        summary.add(SeedResult(seed=seed, valid=False, found=lost, virtual_s=10, cpu_s=2))
    held = {"S6": "kept", "S9": "kept"}
    summary.add(SeedResult(seed=50, valid=True, claims=held, acknowledged=1234, factors=row_of(0)))
    left = {"S6": "not judged", "S9": "kept"}
    summary.add(SeedResult(seed=51, valid="unknown", oracle={"two-masters": 2}, claims=left))
    summary.add(
        SeedResult(seed=52, valid="failed", found={"failed/KeyError": 1}, error="KeyError: 'x'")
    )
    lines = list(summary.lines())
    said = (
        "an acknowledged message was lost (S6/lost-tail): seeds 0, 1, 2, 3, 4, 5, 6, 7 and 4 more"
    )
    assert lines[0] == f"   12  {said}"
    assert sorted(lines[1:3]) == [
        "    1  failed/KeyError: seeds 52", "    1  oracle/two-masters: seeds 51",
    ]  # fmt: skip
    assert lines[3] == "verdicts: 12 INVALID, 1 failed, 1 unknown, 1 valid"
    assert "not covered" in lines[4]
    assert [line.split(maxsplit=6) for line in lines[5:7]] == [
        ["1", "1", "0", "0", "0", "1", "no acknowledged message lost (S6)"],
        ["2", "2", "0", "0", "0", "0", "members of the SyncStateSet hold every message (S9)"],
    ]
    assert lines[7] == "service again after the last fault: in 0 of 15 seeds"
    names = len(FACTORS)
    assert lines[8].startswith(f"pairs of values met: {names * (names - 1) // 2} of ")
    assert lines[9] == "120 virtual s in 24 CPU s (5.0 a CPU s), 1,234 messages acknowledged"


def test_the_summary_as_plain_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("simulate", "--seeds", "0..1", *ONE_JOB, "6s", "--store", str(tmp_path), "--json")
    assert run_cli([*words]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdicts"] == {"valid": 2}
    assert told["occasions"]["runs"] == 2
    assert (told["found"], told["doubts"]) == ({}, {})
    assert told["virtual_s"] > told["cpu_s"] > 0


def test_a_rate_is_of_what_was_done_now(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("maxq.harness.experiments.simulate.time.monotonic", lambda: now[0])
    summary = Summary()
    for seed in range(30):
        summary.add(SeedResult(seed=seed, valid=True))
    now[0] = 30.0
    assert summary.progress(resumed=20) == ("30 valid", "", "20 a minute")


def test_an_empty_summary_divides_by_nothing() -> None:
    assert list(Summary().lines())[-1].startswith("0 virtual s in 0 CPU s (0.0 a CPU s)")


@pytest.mark.parametrize(
    ("text", "seeds"), [("7", [7]), ("0..3", [0, 1, 2, 3]), ("5..5", [5]), ("007", [7])]
)
def test_seeds_as_the_command_line_names_them(text: str, seeds: list[int]) -> None:
    assert list(seeds_of(text)) == seeds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no seeds; write 7, or 0..999"), ("many", "names no seeds"),
        ("0..", "names no seeds"), ("..9", "names no seeds"), ("-1..9", "names no seeds"),
        ("0...9", "names no seeds"), ("1.5", "names no seeds"),
        ("9..3", "the last seed is before the first"),
    ],
)  # fmt: skip
def test_seeds_that_are_none(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=said):
        seeds_of(text)
    assert run_cli(["simulate", f"--seeds={text}"]) == 254
    assert said in capsys.readouterr().err


def test_seeds_of_pairs_are_drawn_and_kept_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("simulate", "--mode", "pair", "--seeds", "2..3", *ONE_JOB, "10s")
    assert run_cli([*words, "--store", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "verdicts: 2 valid" in said
    assert not any(line.startswith("S9 ") for line in said.splitlines())
    assert (tmp_path / "simulated" / "reference-pairs" / JOURNAL).exists()


def test_brokers_of_a_seed_can_be_in_containers() -> None:
    result = run_seed(3, length_ms=8_000, also=("containers",), pairs=True, layout="crossed-2")

    assert result.valid is not False
    assert not result.error
    assert not result.oracle
    assert result.layout == "crossed-2"
    assert result.claims["B1"] in ("kept", "not judged", "no occasion")
