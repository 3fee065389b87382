"""Kills of runs: which moments are drawn, how a phase is read, and that left-overs are seen."""

import getpass
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from benchmarks import kill_moments as km
from benchmarks import kill_remains
from benchmarks.kill_moments import Moment, Recorded, moments, phase_of
from benchmarks.kill_remains import MARK, Container, Noted, left, note
from benchmarks.kill_runs import OWN_FAILURE, ROOT, Killed, World, kill
from benchmarks.kills import row, summary
from maxq.harness.environments.local import UNSHARE, no_network

LIMIT_NS = 6_000_000_000
WORLDS = (km.DOCKER, km.LOCAL, km.USER)
SETTING_UP = "b0-0 and more\nstarting 4 nodes in local\n"
RUNNING = SETTING_UP + "running queue with kill\n"
MOMENT = Moment(number=3, world=km.LOCAL, victim=km.AGENT, phase=km.FAULTS, share=0.5,
                disks=False, run_seed=1)  # fmt: skip


def drawn(count: int, *worlds: str) -> list[Moment]:
    return list(itertools.islice(moments(7, worlds, disks=True), count))


def test_moments_are_the_same_again_and_of_every_world_and_phase() -> None:
    found = drawn(63, *WORLDS)
    assert found == drawn(63, *WORLDS)
    assert {(m.world, m.phase) for m in found} == set(itertools.product(WORLDS, km.PHASES))


def test_only_who_is_there_is_killed() -> None:
    found = drawn(600, *WORLDS)
    for world in WORLDS:
        victims = {m.victim for m in found if m.world == world}
        assert victims == {km.HARNESS, *km.VICTIMS[world]}
    assert {m.victim for m in found if m.phase == km.JUDGING} == {km.HARNESS}
    assert {m.world for m in found if m.disks} == {km.DOCKER, km.LOCAL}, "disks need root"


def act(f: str, at_s: float) -> Recorded:
    return Recorded(process="nemesis", f=f, time=round(at_s * 1e9))


@pytest.mark.parametrize(
    ("printed", "ops", "phase"),
    [
        ("", (), km.BEFORE),
        (SETTING_UP, (), km.SETTING_UP),
        (RUNNING, (act("inspect", 2.0),), km.LOADING),
        (RUNNING, (act("inspect", 2.0), act("kill", 4.0), act("start", 6.0)), km.FAULTS),
        (RUNNING, (act("inspect", 2.0), act("kill", 4.0), act("start", 8.0)), km.HEALING),
        (RUNNING, (act("inspect", 2.0), act("await-recovery", 5.0)), km.HEALING),
        (RUNNING, (act("inspect", 2.0), act("elect-master", 12.0)), km.READING),
        (RUNNING + "stopping the nodes, collecting\n", (act("kill", 2.0),), km.COLLECTING),
        (RUNNING + "stopping the nodes\nchecking\n", (), km.JUDGING),
        (RUNNING + "checking\nverdict: valid\n", (), km.OVER),
        (SETTING_UP + "error: no bridge\n", (), km.OVER),
    ],
)
def test_a_phase_is_read_from_what_a_run_says(
    printed: str, ops: tuple[Recorded, ...], phase: str
) -> None:
    assert phase_of(printed, ops, LIMIT_NS) == phase


def killed(**more: object) -> Killed:
    known = {"moment": MOMENT, "phase": km.FAULTS, "at_s": 5.0, "ended": "error: lost"}
    return Killed(**{**known, **more})  # type: ignore[arg-type]


def test_what_stays_after_clean_is_wrong_and_so_is_an_end_without_a_name() -> None:
    assert not killed().wrong
    assert not killed(left=("network x",), cleaned="exit 0: removed network x").wrong
    lied = killed(left=("network x",), cleaned="exit 0: nothing was left behind")
    assert lied.wrong == "clean said 'nothing was left behind', and there was: network x"
    lied = msgspec.structs.replace(lied, stayed=("network x",))
    assert lied.wrong.startswith("left after clean (exit 0: nothing was left behind): network x")
    failed = killed(phase=km.BEFORE, ended="error: no bridge")
    assert failed.wrong == "it failed before the kill: error: no bridge"
    assert "did not end by itself" in killed(ended="it went on for 120 s").wrong
    assert "a traceback" in killed(ended=f"error: {OWN_FAILURE}").wrong
    assert row(lied).count("network x") == 2
    lines = "\n".join(summary([lied, killed()], 1))
    assert "2 kills; 1 moments not met" in lines
    assert "1 left something for more than 15 s, 1 of them also after clean" in lines
    assert "WRONG 3: left after clean" in lines


def test_a_run_that_fails_by_itself_is_wrong_and_no_missed_moment(tmp_path: Path) -> None:
    world = World(environment="nowhere", python=sys.executable, user=getpass.getuser())
    done = kill(world, MOMENT, tmp_path / "run")
    assert done is not None
    assert "it failed before the kill" in done.wrong
    assert "nowhere" in done.wrong


@pytest.mark.local
@pytest.mark.serial
@pytest.mark.skipif(bool(no_network()), reason="no namespaces can be made here")
def test_a_kill_of_any_phase_leaves_nothing(tmp_path: Path) -> None:
    """A short share of the benchmark, as it is run."""
    command = [sys.executable, "-m", "benchmarks.kills", "--kills", "3", "--jobs", "3",
               "--env", "local" if os.geteuid() == 0 else "local-user", "--seed", "5",
               "--phase", "setting up", "--phase", "loading", "--phase", "with faults",
               "--store", str(tmp_path), "--journal", str(tmp_path / "journal")]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 left something for more than 15 s" in done.stdout
    assert (tmp_path / "journal").read_bytes().count(b"\n") == 3


@pytest.fixture
def run(tmp_path: Path) -> Iterator[tuple[Noted, "subprocess.Popen[bytes]"]]:
    """A process that carries a run's mark, and the run."""
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE,
                               env={**os.environ, MARK: str(tmp_path)})  # fmt: skip
    yield Noted(folder=tmp_path, harness=process.pid, in_engine=False), process
    process.kill()
    process.communicate()


def test_a_process_is_seen_until_it_has_gone(
    run: tuple[Noted, "subprocess.Popen[bytes]"],
) -> None:
    noted, process = note(run[0]), run[1]
    assert [line.split()[:2] for line in left(noted)] == [["process", str(process.pid)]]
    process.communicate()
    assert left(noted) == []


def test_a_container_that_has_ended_has_no_processes(
    run: tuple[Noted, "subprocess.Popen[bytes]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine says 0 of it, which is above every process."""
    monkeypatch.setattr(kill_remains, "containers", lambda _: [Container("ended", 0)])
    monkeypatch.setattr(kill_remains, "_networks", lambda _: {})
    noted = note(msgspec.structs.replace(run[0], in_engine=True))
    assert [pid for pid, _ in noted.processes] == [run[1].pid]


def test_folders_of_a_run_are_seen(run: tuple[Noted, "subprocess.Popen[bytes]"]) -> None:
    noted, process = run
    process.communicate()
    (noted.folder / "tmp" / "x").touch()
    (noted.folder / "store" / "queue" / "1" / "nodes" / ".maxq-1").mkdir(parents=True)
    assert left(noted) == ["temporary x", "folder store/queue/1/nodes/.maxq-1"]


@pytest.mark.local
@pytest.mark.skipif(bool(no_network()), reason="no namespaces can be made here")
def test_a_namespace_is_seen_as_long_as_any_process_is_in_it(tmp_path: Path) -> None:
    """Whose mark and folder nobody knows any more."""
    inner = [*UNSHARE, sys.executable, "-c", "print(flush=True); input()"]
    process = subprocess.Popen(inner, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    noted = note(Noted(folder=tmp_path, harness=process.pid, in_engine=False))
    kinds = {space.partition(":")[0] for space in noted.spaces}
    assert {"net", "pid", "user", "mnt"} <= kinds
    unknown = msgspec.structs.replace(noted, harness=0, processes=frozenset())
    assert sorted(left(unknown)) == sorted(f"namespace {space}" for space in noted.spaces)
    again = msgspec.structs.replace(unknown, until=noted.until - 10_000)
    assert left(again) == [], "numbers that came again, of a process that was not there then"
    process.communicate()
    assert left(noted) == []
