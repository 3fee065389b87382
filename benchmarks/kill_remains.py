"""What of a run is on this machine: processes, namespaces, containers, networks, disks, folders.

Looked for by other means than those that remove it (`maxq.harness.environments.leaks`): by the
kernel's own lists, by what the engine's command line lists, by the run's folder and by a mark in
the environment that its processes inherit. What is known only as long as the run lives, such as the
numbers of its namespaces, is noted while it does. Reads processes of other users, so needs root to
see all of theirs.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from maxq.harness.environments.engine.leaks import PID
from maxq.harness.environments.process_life import started

MARK = "MAXQ_KILLS"  # in the environment of a run's processes
SPACES = ("net", "mnt", "pid", "user", "ipc", "uts")
BRIDGE, BRIDGE_ID = "br-", 12  # the engine's bridge of a network: so many characters of its id
COMMAND_TIMEOUT_S = 30
TABLE = re.compile(r"^table \w+ (maxq\w*)$", re.M)


class Container(msgspec.Struct, frozen=True):
    """A container of a run: its name, and its process 1 as this machine numbers it (0: none)."""

    name: str
    pid: int


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """A run that lives, or lived: its folder, which holds its store and its temporary files, its
    harness, whether it has containers; and what there was of it, and until when (clock ticks from
    boot): processes by id and start, namespaces, mounts that keep them, bridges."""

    folder: Path
    harness: int
    in_engine: bool
    until: int = 0
    processes: frozenset[tuple[int, int]] = frozenset()
    spaces: frozenset[str] = frozenset()
    keepers: frozenset[tuple[str, str]] = frozenset()
    bridges: frozenset[str] = frozenset()


def note(run: Noted) -> Noted:
    """What there is of a run now."""
    inside = containers(run.harness) if run.in_engine else ()
    roots = {run.harness, *(c.pid for c in inside if c.pid)}  # 0, of one that has ended, is all
    pids = below(roots) | _marked(run.folder)
    ours = frozenset(_spaces_of(os.getpid()))
    networks = _networks(run.harness) if run.in_engine else {}
    spaces = frozenset(space for p in pids for space in _spaces_of(p)) - ours
    return msgspec.structs.replace(
        run,
        until=int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")),
        processes=frozenset((p, at) for p in pids if (at := started(p)) is not None),
        spaces=spaces,
        keepers=frozenset((space, where) for space, where in _keepers() if space in spaces),
        bridges=frozenset(BRIDGE + number[:BRIDGE_ID] for number in networks),
    )


def left(run: Noted) -> list[str]:
    """What is still there of a run, in words; empty if nothing is."""
    return [
        *_processes(run), *_namespaces(run), *_engine(run), *_rules(run.bridges),
        *_disks(run.folder), *_folders(run.folder),
    ]  # fmt: skip


def bridges_of_no_network() -> list[str]:
    """Bridges of the engine's whose network it does not know."""
    links = [p.name for p in Path("/sys/class/net").glob(f"{BRIDGE}*")]
    known = {BRIDGE + n[:BRIDGE_ID] for n in _asked("docker", "network", "ls", "-q", "--no-trunc")}
    return sorted(f"bridge {name} of no network" for name in links if name not in known)


def containers(harness: int) -> list[Container]:
    """The containers of a harness, also those that have ended."""
    ids = _asked("docker", "ps", "-aq", "--no-trunc", "--filter", f"label={PID}={harness}")
    shown = _asked("docker", "inspect", "--format", "{{.Name}} {{.State.Pid}}", *ids) if ids else ()
    words = [line.split() for line in shown]  # one that goes meanwhile leaves an empty line
    return [Container(w[0].strip("/"), int(w[1])) for w in words if len(w) == 2]


def below(roots: Iterable[int]) -> set[int]:
    """These processes, and all that descend from them."""
    children: dict[int, list[int]] = {}
    for pid in _all():
        children.setdefault(parent(pid), []).append(pid)
    found, waiting = set[int](), list(roots)
    while waiting:
        pid = waiting.pop()
        found.add(pid)
        waiting += children.get(pid, [])
    return found


def parent(pid: int) -> int:
    """The parent of a process; 0 if it has gone."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0


def command_of(pid: int) -> str:
    """The command line of a process, with blanks between its words; empty if it has gone."""
    return _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace")


def pss_mib(pid: int) -> float:
    """What a process holds, and its share of what it holds with others; 0 of one that is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def _processes(run: Noted) -> Iterator[str]:
    lasting = {pid for pid, at in run.processes if started(pid) == at}
    for pid in sorted(lasting | _marked(run.folder)):
        if started(pid) is not None:
            yield f"process {pid} ({command_of(pid)[:60].strip()})"


def _marked(folder: Path) -> set[int]:
    """Processes that carry a run's mark, or its folder in their command line."""
    mark, inside = f"{MARK}={folder}".encode(), f"{folder}/".encode()
    return {
        pid
        for pid in _all()
        if mark in _read(pid, "environ").split(b"\0") or inside in _read(pid, "cmdline")
    }


def _namespaces(run: Noted) -> list[str]:
    """Namespaces that a process is in, or that a mount keeps. The kernel gives their numbers again,
    so one counts only if who holds it was there when it was noted."""
    held = {space for space, where in run.keepers & set(_keepers())}
    for pid in _all():
        spaces = run.spaces.intersection(_spaces_of(pid))
        at = started(pid) if spaces else None
        if at is not None and at <= run.until:
            held |= spaces
    return [f"namespace {space}" for space in sorted(held)]


def _keepers() -> Iterator[tuple[str, str]]:
    """Namespaces that mounts keep, and where."""
    for line in _mounts():
        fields = line.split()
        if fields[3].partition(":")[0] in SPACES:
            yield fields[3], fields[4]


def _engine(run: Noted) -> Iterator[str]:
    if run.in_engine:
        yield from (f"container {c.name}" for c in containers(run.harness))
        yield from (f"network {name}" for name in _networks(run.harness).values())
    for bridge in sorted(run.bridges):
        if Path("/sys/class/net", bridge).exists():
            yield f"bridge {bridge}"


def _networks(harness: int) -> dict[str, str]:
    listed = _asked("docker", "network", "ls", "--no-trunc", "--filter", f"label={PID}={harness}",
                    "--format", "{{.ID}} {{.Name}}")  # fmt: skip
    return dict(line.split() for line in listed)


def _rules(bridges: Iterable[str]) -> Iterator[str]:
    """Packet rules outside of all namespaces: tables of ours, and the engine's for a bridge."""
    yield from (
        f"nft table {name}" for name in TABLE.findall("\n".join(_asked("nft", "list", "tables")))
    )
    rules = _asked("iptables-save") if bridges else ()
    for bridge in sorted(bridges):
        if any(bridge in rule.split() for rule in rules):
            yield f"packet rules of {bridge}"


def _disks(folder: Path) -> Iterator[str]:
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        if _text(file).startswith(f"{folder}/"):
            yield f"loop device {file.parts[3]}"
    for line in _mounts():
        if f"{folder}/" in line:
            yield f"mount {line.split()[4]}"


def _folders(folder: Path) -> Iterator[str]:
    """Temporary files, and what a run has in its store only while it lives."""
    yield from (f"temporary {p.name}" for p in (folder / "tmp").glob("*"))
    yield from (f"folder {p.relative_to(folder)}" for p in (folder / "store").rglob(".maxq*"))


def _mounts() -> list[str]:
    return _text(Path("/proc/self/mountinfo")).splitlines()


def _all() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _spaces_of(pid: int) -> list[str]:
    found = []
    for kind in SPACES:
        try:
            found.append(os.readlink(f"/proc/{pid}/ns/{kind}"))
        except OSError:  # gone, or another user's
            continue
    return found


def _read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _asked(*command: str) -> Sequence[str]:
    """The lines that a program prints; none where it is not there.

    Raises:
        RuntimeError: it failed, so that nothing is known.
    """
    if shutil.which(command[0]) is None:
        return ()
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S)
    if done.returncode != 0 and "No such" not in done.stderr:  # it has gone since it was listed
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.splitlines()
