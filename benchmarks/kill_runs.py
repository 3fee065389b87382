"""One kill: a short run is started, its victim killed at a drawn moment, and what is left seen.

A run has a folder of its own: `store`, `tmp` (its TMPDIR) and `output`, which is where its phase is
read from. Whoever is killed other than the harness, the run must end by itself, with a verdict or a
named error.
"""

import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path

import msgspec

from benchmarks import kill_moments
from benchmarks.kill_moments import (
    BEFORE,
    BOTH,
    DOCKER,
    HARNESS,
    LENGTH_S,
    OVER,
    PHASES,
    SETTING_UP,
    USER,
    Moment,
    Recorded,
)
from benchmarks.kill_remains import MARK, Noted, below, command_of, containers, left, note, parent
from maxq.harness.environments.process_life import started
from maxq.histories.op import NEMESIS

ROOT = Path(__file__).parents[1]
NOBODY = pwd.getpwuid(65534) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
LIMIT_S = 6
RUN = ("--workload", "queue", "--profile", "all", "--controllers", "1", "--replicas", "2",
       "--rate", "50", "--concurrency", "4", "--time-limit", f"{LIMIT_S}s",
       "--lull", "1s")  # fmt: skip
FAULTS, POWER = "kill,partition", "kill,partition,power"
KILLERS = (HARNESS, BOTH)  # with whom the run itself is killed
WATCHDOG = r"\S+ -m maxq\.harness\.environments\.engine\.leaks "  # its command line
PLACES = {phase: place for place, phase in enumerate((*PHASES, OVER))}
# A run that sets up removes what dead ones left in the engine; so none does while what is left is
# looked at and cleaned, or clean would have nothing to say.
SETTING_UP_IN_ENGINE = threading.Lock()
POLL_S, LOOK_S = 0.005, 0.5  # between two looks at a run, and at the whole machine
LEAVE_S = 15.0  # in which all of a run must be gone
END_S = 120.0  # in which a run ends by itself, and one reaches a phase
ATTEMPTS = 3  # at a moment that a run was past before it came
NAMED = re.compile(r"^(verdict: \w+|error: .*)", re.M)
OWN_FAILURE = "a failure of Max-Q itself"
NOTHING = "nothing was left behind"  # as `maxq clean` says it


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """A kill, and what came of it: in which phase and how long (s) into the run the victim was
    killed; how the run ended; what was left after 15 s, and after `maxq clean`, which said so."""

    moment: Moment
    phase: str
    at_s: float
    ended: str
    left: tuple[str, ...] = ()
    cleaned: str = ""
    stayed: tuple[str, ...] = ()

    @property
    def wrong(self) -> str:
        """What must not be; empty if all is well."""
        if self.stayed:
            return f"left after clean ({self.cleaned}): {', '.join(self.stayed)}"
        if NOTHING in self.cleaned:
            return f"clean said {NOTHING!r}, and there was: {', '.join(self.left)}"
        if self.phase == BEFORE:
            return f"it failed before the kill: {self.ended}"
        if self.moment.victim not in KILLERS and not NAMED.match(self.ended):
            return f"the run did not end by itself, by name: {self.ended}"
        return f"a traceback: {self.ended}" if OWN_FAILURE in self.ended else ""


class Missed(Exception):
    """The run was past the moment before the victim could be killed."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Where runs take place, and as whom: the words of the command, the user."""

    environment: str
    python: str
    user: str

    def popen(self, words: list[str], folder: Path, output: int) -> "subprocess.Popen[bytes]":
        """Start a command of Max-Q in a session of its own, marked by the folder."""
        other = self.user != pwd.getpwuid(os.geteuid()).pw_name
        known = sysconfig.get_paths()
        path = os.pathsep.join([str(ROOT), known["purelib"], known["platlib"]])
        mine = {MARK: str(folder), "TMPDIR": str(folder / "tmp"), "PYTHONPATH": path}
        return subprocess.Popen(
            [self.python, "-m", "maxq.harness.cli.main", *words],
            cwd=folder, env={**os.environ, **mine}, stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, user=self.user if other else None,
            extra_groups=[] if other else None, start_new_session=True,
        )  # fmt: skip


def world_of(name: str) -> World:
    """Where and as whom the runs of a world take place.

    Raises:
        LookupError: not here; says why.
    """
    mine = pwd.getpwuid(os.geteuid()).pw_name
    if name != USER:
        return World(environment=name, python=sys.executable, user=mine)
    real = shutil.which(f"python{sys.version_info.major}.{sys.version_info.minor}", path="/usr/bin")
    for python in filter(None, (sys.executable, real)):
        world = World(environment="local", python=python, user=NOBODY.pw_name)
        try:
            process = world.popen(["--version"], Path("/"), subprocess.DEVNULL)
        except OSError:  # this user cannot reach it
            continue
        if process.wait() == 0:
            return world
    raise LookupError(f"{NOBODY.pw_name} can run none of the interpreters on {ROOT}")


class Attempt:
    """A run, from its start to its end by whatever means.

    Args:
        world: where.
        moment: of the kill.
        folder: of the run, which is made.
    """

    def __init__(self, world: World, moment: Moment, folder: Path) -> None:
        self._moment, self._folder = moment, folder
        for each in (folder, folder / "tmp", folder / "store"):
            each.mkdir(parents=True)
            if os.geteuid() == 0:
                shutil.chown(each, world.user)
        self._output = folder / "output"
        self._ops: list[Recorded] = []
        self._read = 0  # bytes of the history
        faults = POWER if moment.disks else FAULTS
        words = ["test", "--env", world.environment, *RUN, "--nemesis", faults,
                 "--seed", str(moment.run_seed), "--store", str(folder / "store")]  # fmt: skip
        with self._output.open("wb") as output:
            self._began = time.monotonic()
            self._process = world.popen(words, folder, output.fileno())
        self._noted = Noted(folder=folder, harness=self._process.pid,
                            in_engine=world.environment == DOCKER)  # fmt: skip

    def until_it_is_up(self) -> None:
        """Wait until it has set up, or its victim is to be killed before."""
        if self._moment.phase == SETTING_UP:
            self._reach(SETTING_UP)
            return
        self._wait(lambda: self._place() > PLACES[SETTING_UP], END_S)

    def killed(self) -> Killed:
        """Kill the victim at its moment, and see the run to its end.

        Raises:
            Missed: the run was past it.
        """
        self._reach(self._moment.phase)
        length = LENGTH_S[self._moment.phase] * self._moment.share
        self._wait(lambda: False, length)  # the moment itself
        victim = self._victim()
        self._noted = note(self._noted)
        phase, at_s = self._phase(), time.monotonic() - self._began
        if phase == OVER or started(victim) is None:
            raise Missed
        os.kill(victim, signal.SIGKILL)
        if self._moment.victim == BOTH:
            self._process.kill()
        return Killed(moment=self._moment, phase=phase, at_s=round(at_s, 2), ended=self._end())

    def broken(self) -> str:
        """What a run printed that ended without a verdict; empty of any other."""
        text = self._output.read_text(errors="replace")
        ended = self._process.poll() is not None
        return " / ".join(text.splitlines())[-300:] if ended and "verdict:" not in text else ""

    def over(self) -> None:
        """End it, if it has not ended."""
        self._process.kill()
        self._process.wait()

    def looked(self, killed: Killed) -> Killed:
        """What is left 15 s after the end of the harness, and after `maxq clean` if anything is."""
        # What the engine was asked for just before may appear late.
        late = self._noted.in_engine
        _until(lambda: not late and not left(self._noted), LEAVE_S, LOOK_S)
        with SETTING_UP_IN_ENGINE:
            remains = left(self._noted)
            if not remains:
                return killed
            clean = [sys.executable, "-m", "maxq.harness.cli.main", "clean"]
            done = subprocess.run(clean, cwd=ROOT, capture_output=True, text=True, timeout=END_S)
        said = " / ".join((done.stdout + done.stderr).splitlines())
        return msgspec.structs.replace(
            killed,
            left=tuple(remains),
            cleaned=f"exit {done.returncode}: {said}",
            stayed=tuple(left(self._noted)),
        )

    def _place(self) -> int:
        return PLACES.get(self._phase(), -1)

    def _phase(self) -> str:
        journal = self._folder / "store" / "current" / "history.jsonl"
        if journal.exists():
            with journal.open("rb") as file:
                file.seek(self._read)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read += len(whole)
            ops = (msgspec.json.decode(line, type=Recorded) for line in whole.splitlines())
            self._ops += [op for op in ops if op.process == NEMESIS]
        text = self._output.read_text(errors="replace")
        return kill_moments.phase_of(text, self._ops, LIMIT_S * 1_000_000_000)

    def _reach(self, phase: str) -> None:
        """Wait until the run is in a phase.

        Raises:
            Missed: it is past it.
        """
        self._wait(lambda: self._place() >= PLACES[phase], END_S)
        if self._phase() != phase:
            raise Missed

    def _wait(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Wait for a condition, while the run lives.

        Raises:
            Missed: it has ended.
        """
        _until(lambda: condition() or self._process.poll() is not None, timeout_s)
        if self._process.poll() is not None:
            raise Missed

    def _victim(self) -> int:
        """The process to kill, as soon as there is one.

        Raises:
            Missed: there was none while the run lived.
        """
        self._wait(lambda: self._found() != 0, END_S)
        victim = self._found()
        if not victim:
            raise Missed
        return victim

    def _found(self) -> int:
        """The victim's process id; 0 while there is none."""
        victim, harness = self._moment.victim, self._process.pid
        if victim == HARNESS:
            return harness
        if victim in (kill_moments.CLIENT, kill_moments.MACHINE, kill_moments.SHIM):
            ending = "-client" if victim == kill_moments.CLIENT else "-b0-0"
            pid = next((c.pid for c in containers(harness) if c.name.endswith(ending)), 0)
            return _shim(pid) if victim == kill_moments.SHIM else pid
        wanted = {
            kill_moments.WATCHDOG: WATCHDOG,
            BOTH: WATCHDOG,
            kill_moments.AGENT: r"\S+ -m maxq\.harness\.environments\.machines\.netns_agent ",
            kill_moments.UNSHARE: r"unshare .* maxq\.harness\.environments\.machines\.netns_agent ",
        }[victim]
        found = (p for p in sorted(below([harness])) if re.match(wanted, command_of(p)))
        return next(found, 0)

    def _end(self) -> str:
        """How the run ended: its verdict or error, else what is known."""
        if self._moment.victim in KILLERS:
            self._process.wait()
            return "killed"
        _until(lambda: self._process.poll() is not None, END_S)
        if self._process.poll() is None:
            return f"it went on for {END_S:.0f} s"
        text = self._output.read_text(errors="replace")
        if OWN_FAILURE in text:
            return OWN_FAILURE
        named = NAMED.search(text)
        return named.group()[:200] if named else f"exit {self._process.returncode}, without a word"


def kill(world: World, moment: Moment, folder: Path) -> Killed | None:
    """Do one kill, in a folder that is removed if all is well; None if its moment cannot be met.

    Raises:
        RuntimeError: what is left cannot be looked at.
    """
    for number in range(ATTEMPTS):
        share = round(moment.share / (1 + 3 * number), 3)
        tried = _tried(world, msgspec.structs.replace(moment, share=share), folder / str(number))
        if tried is not None:
            if not tried.wrong:
                shutil.rmtree(folder)
            return tried
    return None


def _tried(world: World, moment: Moment, folder: Path) -> Killed | None:
    """One run and its kill; None if it was past the moment. Of one that failed by itself, before
    anybody was killed, what it said."""
    gate = SETTING_UP_IN_ENGINE if world.environment == DOCKER else nullcontext()
    with ExitStack() as at_end:
        with gate:
            attempt = Attempt(world, moment, folder)
            at_end.callback(attempt.over)
            try:
                attempt.until_it_is_up()
                early = attempt.killed() if moment.phase == SETTING_UP else None
            except Missed:
                early = None
        try:
            killed = early or attempt.killed()
        except Missed:
            text = attempt.broken()
            return Killed(moment=moment, phase=BEFORE, at_s=0.0, ended=text) if text else None
    return attempt.looked(killed)


def _shim(pid: int) -> int:
    """Who holds a container for the engine, by its process 1; 0: nobody, any more."""
    above = parent(pid) if pid else 0
    return above if "containerd-shim" in command_of(above) else 0


def _until(condition: Callable[[], bool], timeout_s: float, poll_s: float = POLL_S) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and not condition():
        time.sleep(poll_s)
