"""What a run in namespaces survives, and how it ends when it cannot: nothing is left behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from local_cluster import (
    agents_of,
    check_json,
    journal_lines,
    missing,
    processes_of,
    start,
)
from small import SMALL_ARGS
from waiting import eventually

MISSING = missing()
pytestmark = [pytest.mark.local, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
NOBODY = 65534
ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("which", ["outer", "inner"])
def test_a_killed_helper_ends_the_run_with_a_clear_error(tmp_path: Path, which: str) -> None:
    harness = start(tmp_path, "--time-limit", "60s")
    assert eventually(lambda: journal_lines(tmp_path) > 50, 60)
    agents = sorted(agents_of(tmp_path))
    assert len(agents) == 2
    os.kill(agents[0 if which == "outer" else -1], signal.SIGKILL)
    _, told = harness.communicate(timeout=20)
    assert harness.returncode == 255
    errors = [line for line in told.splitlines() if line.startswith("error:")]
    assert errors == ["error: the agent of the local environment ended, and the cluster with it"]
    assert "Traceback" not in told
    assert eventually(lambda: not processes_of(tmp_path), 5)
    code, _, said = check_json(tmp_path / "latest")
    assert code == 2
    assert "did not end properly" in said


@pytest.mark.parametrize("node", ["n0", "b1-0"])
def test_a_harness_killed_while_it_sets_up_leaves_nothing(tmp_path: Path, node: str) -> None:
    harness = start(tmp_path, "--time-limit", "60s")
    assert eventually(lambda: (tmp_path / "latest" / "nodes" / node).exists(), 30)
    harness.send_signal(signal.SIGKILL)
    harness.communicate()
    assert eventually(lambda: not processes_of(tmp_path), 5)


def test_two_runs_side_by_side_know_nothing_of_each_other(tmp_path: Path) -> None:
    """The same addresses in other namespaces; one of them in a folder with a space."""
    folders = [tmp_path / "a", tmp_path / "b c"]
    runs = [start(f, "--time-limit", "4s", "--rate", "50", "--seed", "3") for f in folders]
    for run, folder in zip(runs, folders, strict=True):
        out, told = run.communicate(timeout=110)
        assert run.returncode == 0, told
        assert "verdict: valid" in out
        assert not processes_of(folder)


def test_a_machine_without_the_tools_says_which_package_and_what_works_instead(
    tmp_path: Path,
) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    run = start(tmp_path / "runs", environ={"PATH": str(empty)})
    _, told = run.communicate(timeout=30)
    assert run.returncode == 255
    assert "unshare is missing (package util-linux)" in told
    assert "--environment simulated" in told
    command = [
        sys.executable, "-m", "maxq.harness.cli.main", "test", *SMALL_ARGS, "--time-limit", "1s",
        "--store", str(tmp_path / "auto"),
    ]  # fmt: skip
    done = subprocess.run(
        command,
        env={**os.environ, "PATH": str(empty), "DOCKER_HOST": f"unix://{tmp_path}/none"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "environment: simulated (chosen by auto: " in done.stderr
    assert "local: unshare is missing" in done.stderr


def ordinary_python() -> tuple[list[str], dict[str, str], str]:
    """How to run Python as an ordinary user here; or why that cannot be."""
    if os.geteuid() != 0:
        return [], {}, "we are an ordinary user; all other tests show it"
    if shutil.which("setpriv") is None:
        return [], {}, "setpriv is missing (package util-linux)"
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    packages = [str(ROOT), *(p for p in sys.path if p.endswith("site-packages"))]
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(packages),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for python in (sys.executable, "/usr/bin/python3"):
        # Inside of a user namespace too: there even fewer folders may be passed through.
        probe = [
            *user,
            "unshare",
            "--user",
            "--map-root-user",
            python,
            "-c",
            "import maxq.harness.cli.main",
        ]
        try:
            subprocess.run(probe, env=environ, check=True, capture_output=True, timeout=30, cwd="/")
        except (OSError, subprocess.SubprocessError):
            continue
        return [*user, python], environ, ""
    return [], {}, "no Python here that an ordinary user can start with our packages"


def test_an_ordinary_user_needs_no_privileges() -> None:
    command, environ, why = ordinary_python()
    if why:
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are root's alone
    os.chown(folder, NOBODY, NOBODY)
    try:
        argv = [
            "-m",
            "maxq.harness.cli.main",
            "test",
            "--environment",
            "local",
            "--time-limit",
            "3s",
        ]
        done = subprocess.run(
            [*command, *argv, *SMALL_ARGS, "--store", str(folder)],
            env=environ, cwd="/", capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        if "lets this user make no namespaces" in done.stderr:
            pytest.skip(done.stderr)
        assert done.returncode == 0, done.stderr
        assert (folder / "latest" / "results.json").stat().st_uid == NOBODY
        assert not processes_of(folder)
    finally:
        shutil.rmtree(folder)
