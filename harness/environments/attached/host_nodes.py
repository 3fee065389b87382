"""A node on a host of somebody else: which process it has, how it begins, how it is held down.

Of a unit systemd knows how. Of another node commands say it, for a shell of the user who logs in.
Rules for those who edit it: this module runs on hosts of others, which may have Python 3.9, so it
imports nothing but the standard library and what goes there with it. Units: seconds.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from maxq.harness.environments.machines.machine_agent import Here, run
from maxq.harness.environments.process_life import started

COMMAND_TIMEOUT_S = 5.0
LISTENS = re.compile(r"pid=([0-9]+)")
BEHIND = '( eval "$1" ) >/dev/null 2>&1 & echo $!'
Process = tuple[int, int]  # its number, and when it began (`started`)
SHELL = ("/bin/sh", "-l", "-c")  # as when the user logs in: with PATH and JAVA_HOME


class HostNode(NamedTuple):
    """A node as the file of its cluster describes it; `port` is where it listens."""

    name: str
    port: int
    unit: str = ""
    start: str = ""
    stop: str = ""
    pid: str = ""

    def known(self) -> None:
        """See that the host knows how to start it.

        Raises:
            OSError: systemd has no such unit.
        """
        if self.unit:
            run("systemctl", "cat", self.unit, inside=Here())

    def process(self) -> int:
        """Its process: what `pid` says, else whoever listens at its port; 0 if there is none.

        Raises:
            OSError: nobody can say.
        """
        if not self.pid:
            found = LISTENS.search(run(
                "ss", "--no-header", "--numeric", "--tcp", "--listening", "--processes",
                "sport", "=", f":{self.port}", inside=Here(),
            ))  # fmt: skip
            return int(found[1]) if found else 0
        said = self._file() if is_path(self.pid) else self._answer()
        word = said.split()[:1]
        pid = int(word[0]) if word and word[0].isdecimal() else 0
        return pid if started(pid) is not None else 0

    def _file(self) -> str:
        try:
            return Path(self.pid).read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def _answer(self) -> str:
        try:
            done = subprocess.run(
                [*SHELL, self.pid], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=COMMAND_TIMEOUT_S, **as_who_logs_in(),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise OSError(
                f"pid: `{self.pid}` takes longer than {COMMAND_TIMEOUT_S:.0f} s"
            ) from None
        return str(done.stdout)

    def begin(self) -> None:
        """Have it started; does not wait."""
        if self.unit:
            run("systemctl", "start", "--no-block", self.unit, inside=Here())
        else:
            _leave(self.start)

    @property
    def has_stop(self) -> bool:
        """Whether there is a way to have it stopped."""
        return bool(self.unit or self.stop)

    def hold_down(self) -> Process | None:
        """Have it stopped, or kept from starting again by whoever would; the process that sees to
        it. systemd does what it is asked for in order."""
        if self.unit:
            run("systemctl", "stop", "--no-block", self.unit, inside=Here())
        return _leave(self.stop) if self.stop else None


def is_path(text: str) -> bool:
    """Whether `pid` names a file, and is no command."""
    return text.startswith("/") and not text.strip().count(" ")


def _leave(command: str) -> Process | None:
    """Run a command that may stay, as who logs in, in a session of its own; nobody's child."""
    null = subprocess.DEVNULL
    done = subprocess.run(
        [*SHELL, BEHIND, "sh", command], stdin=null, stdout=subprocess.PIPE, stderr=null,
        check=False, start_new_session=True, **as_who_logs_in(),
    )  # fmt: skip
    pid = int(done.stdout.split()[-1])  # behind what a profile may print
    since = started(pid)
    return None if since is None else (pid, since)


def as_who_logs_in() -> dict[str, Any]:
    """What runs a program as the user who logs in, where this one is another by sudo."""
    try:
        who = pwd.getpwuid(int(os.environ.get("SUDO_UID", os.getuid())))
    except KeyError:
        return {}
    home = who.pw_dir if Path(who.pw_dir).is_dir() else "/"
    env = {"PATH": os.environ["PATH"], "HOME": home, "USER": who.pw_name, "LOGNAME": who.pw_name}
    found: dict[str, Any] = {"cwd": home, "env": env}
    if who.pw_uid != os.getuid():
        groups = os.getgrouplist(who.pw_name, who.pw_gid)
        found |= {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": groups}
    return found
