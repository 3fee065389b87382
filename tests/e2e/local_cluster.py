"""Runs of the command line in namespaces, and what they leave behind.

Several may run at a time on this machine, so a run's processes are known by a mark in their
environment or by its folder in their command line, never by being the only ones.
"""

import json
import os
import subprocess
import sys
from fcntl import ioctl
from functools import partial
from pathlib import Path
from termios import TIOCSCTTY
from typing import Any

from small import SMALL_ARGS
from waiting import line_count

from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.environments.local import check

MARK = "MAXQ_TEST_MARK"


def missing() -> str:
    """What this machine lacks for namespaces; empty if nothing."""
    try:
        check()
    except EnvironmentUnavailable as error:
        return str(error)
    return ""


def start(
    folder: Path, *args: str, environ: dict[str, str] | None = None, terminal: int | None = None
) -> subprocess.Popen[str]:
    """Start ``maxq test`` in `folder`; what it prints can be read, unless it has a terminal: a
    session of its own with that one."""
    command = [
        sys.executable, "-m", "maxq.harness.cli.main",
        "test", "--environment", "local", *SMALL_ARGS, "--store", str(folder), *args,
    ]  # fmt: skip
    return subprocess.Popen(
        command,
        env={**os.environ, **(environ or {}), MARK: str(folder)},
        stdin=terminal,
        stdout=subprocess.PIPE if terminal is None else terminal,
        stderr=subprocess.PIPE if terminal is None else terminal,
        start_new_session=terminal is not None,
        preexec_fn=None if terminal is None else partial(ioctl, 0, TIOCSCTTY, 0),
        text=True,
    )


def run_json(folder: Path, *args: str) -> tuple[int, dict[str, Any]]:
    """Exit code and verdict of a whole run."""
    done = start(folder, "--json", *args)
    out, err = done.communicate(timeout=110)
    assert out, err
    return done.returncode, json.loads(out)


def check_json(run: Path) -> tuple[int, dict[str, Any], str]:
    """Exit code, verdict and messages of ``maxq check``."""
    command = [sys.executable, "-m", "maxq.harness.cli.main", "check", str(run), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def processes_of(folder: Path) -> dict[int, str]:
    """Processes of the runs in `folder`: their command lines by process id."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            marked = f"{MARK}={folder}".encode() in (entry / "environ").read_bytes().split(b"\0")
        except OSError:  # ended meanwhile
            continue
        if int(entry.name) != os.getpid() and (marked or f"{folder}/" in words):
            found[int(entry.name)] = words
    return found


def agents_of(folder: Path) -> list[int]:
    """The agent of a run: the inner process, and the `unshare` around it."""
    found = processes_of(folder)
    return [
        pid
        for pid, words in found.items()
        if "maxq.harness.environments.machines.netns_agent" in words
    ]


def journal_lines(folder: Path) -> int:
    """How many operations the newest run has recorded."""
    return line_count(folder / "latest" / "history.jsonl")
