"""The first program of ours on a host, run here: it says what is there, and becomes the agent."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from maxq.harness.environments.attached import host_boot
from maxq.harness.environments.attached.host_bundle import BOOT, LOAD

FRAMES = b"frames follow"
AGENT = "import os, sys, part; print(part.NAME, sys.argv[1], os.read(0, 99))\n"


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("__main__.py", AGENT)
        archive.writestr("part.py", "NAME = 'agent'\n")
    return out.getvalue()


def booted(home: Path, sent: bytes) -> list[str]:
    """What it prints, line by line; it becomes the agent without sudo."""
    command = [sys.executable, "-I", "-c", BOOT.read_text(), LOAD.read_text()]
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 7"}
    done = subprocess.run(command, input=sent, capture_output=True, env=env, cwd=home)
    return done.stdout.decode().splitlines()


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes the agent without sudo")
def test_it_becomes_the_agent_and_keeps_no_file(tmp_path: Path) -> None:
    agent = zipped()
    found, *said = booted(tmp_path, f"{len(agent)}\n".encode() + agent + FRAMES)
    assert json.loads(found)["interpreter"] == sys.executable
    assert said == [f"agent 7 {FRAMES!r}"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes the agent without sudo")
def test_an_agent_that_does_not_come_whole_does_not_run(tmp_path: Path) -> None:
    agent = zipped()
    _, *said = booted(tmp_path, f"{len(agent)}\n".encode() + agent[:-1])
    assert said == []


def test_nothing_runs_where_nobody_goes_on(tmp_path: Path) -> None:
    found, *said = booted(tmp_path, b"end\n")
    assert said == []
    assert json.loads(found)["python"] == [*sys.version_info[:2]]


def test_a_host_without_sudo_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setenv("PATH", "/nowhere")
    assert host_boot.sudo_says() == "there is no sudo"
