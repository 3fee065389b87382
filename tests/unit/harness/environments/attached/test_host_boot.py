"""The first program of ours on a host, run here: it keeps what is sent, by its digest."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from maxq.harness.environments.attached import host_boot
from maxq.harness.environments.attached.host_bundle import BOOT

AGENT = b"import sys; print('agent', sys.argv[1:])\n"
DIGEST = hashlib.sha256(AGENT).hexdigest()


def booted(home: Path, sent: bytes) -> list[str]:
    """What it prints, line by line; it becomes the agent without sudo."""
    command = [sys.executable, "-I", "-c", BOOT.read_text(), DIGEST]
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 7"}
    done = subprocess.run(command, input=sent, capture_output=True, env=env)
    return done.stdout.decode().splitlines()


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes the agent without sudo")
def test_an_agent_is_sent_once(tmp_path: Path) -> None:
    first, *said = booted(tmp_path, f"{len(AGENT)}\n".encode() + AGENT)
    assert json.loads(first)["stored"] is False
    assert said == ["", "agent ['7']"]
    first, *said = booted(tmp_path, b"0\n")
    assert json.loads(first)["stored"] is True
    assert said == ["", "agent ['7']"]


def test_another_file_of_that_name_is_not_run(tmp_path: Path) -> None:
    _, *said = booted(tmp_path, f"{len(AGENT)}\n".encode() + AGENT.upper())
    assert said == [f"~/.cache/maxq: {tmp_path}/.cache/maxq/agent-{DIGEST[:16]}.pyz is not what "
                    "was sent"]  # fmt: skip


def test_what_cannot_be_kept_is_said(tmp_path: Path) -> None:
    (tmp_path / ".cache").write_text("a file in the place of the folder")
    _, *said = booted(tmp_path, f"{len(AGENT)}\n".encode() + AGENT)
    assert said == ["~/.cache/maxq: Not a directory"]


def test_nothing_is_kept_where_nobody_goes_on(tmp_path: Path) -> None:
    found, *said = booted(tmp_path, b"end\n")
    assert said == []
    assert json.loads(found)["python"] == [*sys.version_info[:2]]
    assert not (tmp_path / ".cache").exists()


def test_a_host_without_sudo_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setenv("PATH", "/nowhere")
    assert host_boot.sudo_says() == "there is no sudo"
