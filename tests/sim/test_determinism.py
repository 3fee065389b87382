"""Equal seed, commit and options give equal bytes of history and equal steps.

Each way to run a seed that could make a difference gets a process of its own: other hash seeds,
other memory, runs before it, tasks before it, a run beside it. Nothing that is compared was written
by this process.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from maxq.harness.simulation.steps import first_difference

SEEDS = list(range(1, 4))
BEFORE = list(range(101, 120))  # so that a worker's next seed is its twentieth
PROGRAM = Path(__file__).parent / "recorded_run.py"
ROOT = PROGRAM.parent.parent.parent


def begin(
    folder: Path,
    seeds: Sequence[int],
    *,
    before: Sequence[int] = (),
    tasks: int = 0,
    **env: str,
) -> "subprocess.Popen[bytes]":
    """Start a process that records these seeds."""
    lists = [",".join(map(str, numbers)) for numbers in (seeds, before)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", **env}
    command = [sys.executable, str(PROGRAM), str(folder), *lists, str(tasks)]
    return subprocess.Popen(command, env=environ, stderr=subprocess.PIPE)


def finish(process: "subprocess.Popen[bytes]") -> None:
    _, said = process.communicate(timeout=110)
    assert process.returncode == 0, said.decode()


def assert_equal(seed: int, one: Path, other: Path) -> None:
    """Compare what two processes recorded of a seed."""
    mine, theirs = (json.loads((f / f"{seed}.json").read_text()) for f in (one, other))
    if mine != theirs:
        found = first_difference(one / f"{seed}.steps", other / f"{seed}.steps")
        pytest.fail(f"seed {seed}: {mine} and {theirs}\n{found or 'all steps are equal'}")
    assert mine["ops"] > 300


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each seed in a process of its own, one after the other."""
    folder = tmp_path_factory.mktemp("alone")
    for seed in SEEDS:
        finish(begin(folder, [seed]))
    return folder


def test_other_hash_seeds_in_two_processes_at_once(alone: Path, tmp_path: Path) -> None:
    folders = {"4242": tmp_path / "left", "7": tmp_path / "right"}
    for process in [begin(f, SEEDS[::-1], PYTHONHASHSEED=h) for h, f in folders.items()]:
        finish(process)
    for seed in SEEDS:
        for folder in folders.values():
            assert_equal(seed, alone, folder)


@pytest.mark.campaign
def test_the_twentieth_seed_of_a_worker(alone: Path, tmp_path: Path) -> None:
    finish(begin(tmp_path, SEEDS, before=BEFORE, PYTHONHASHSEED="1"))
    for seed in SEEDS:
        assert_equal(seed, alone, tmp_path)


def test_other_memory_and_a_thousand_tasks_before(alone: Path, tmp_path: Path) -> None:
    finish(begin(tmp_path, SEEDS, tasks=1000, PYTHONMALLOC="malloc"))
    for seed in SEEDS:
        assert_equal(seed, alone, tmp_path)


def test_other_seeds_are_other_runs(alone: Path) -> None:
    """A comparison that cannot fail would call everything equal."""
    digests = {json.loads((alone / f"{seed}.json").read_text())["digest"] for seed in SEEDS}
    assert len(digests) == len(SEEDS)
    found = first_difference(alone / "1.steps", alone / "2.steps")
    assert found is not None
    assert found.one != found.other
    assert f"step {found.number}" in str(found)
