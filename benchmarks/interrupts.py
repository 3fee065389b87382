"""Interrupts every long command at moments of its work, and lets it go on: is it over in 5 s?

    python -m benchmarks.interrupts                                 # all of them, about 45 min
    python -m benchmarks.interrupts simulate upgrade --seed 2       # some
    python -m benchmarks.interrupts -- maxq simulate --seeds 0..99  # any

Each command is started ten times on one store and interrupted at a moment drawn by the seed, one in
each tenth of the first 40 s: one signal, SIGINT and SIGTERM in turn, to its process alone. Within
`OVER_S` it must have ended, and no process, namespace, container or temporary folder of it be left;
it must exit with 128 and the signal's number and name the command that goes on. That is the next
start: it must keep what is stored, and do nothing twice. The last start is interrupted when it has
stored two more steps, or after 5 min.

Releases of Apache RocketMQ are played by our reference (`benchmarks.stand_in`): what is measured is
the command. Network namespaces are needed.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from benchmarks.kill_remains import MARK, Noted, below, left, note
from maxq.harness.run.process.workers import end_with_parent

OVER_S = 5.0
SPAN_S, FIRST_S = 40.0, 1.0  # moments are in it; none before Python has begun
LOOK_S, HUNG_S = 0.05, 60.0
MORE, MORE_S = 2, 300.0  # steps that the last start stores, and for how long it is waited for
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHELL = 128
ENDS = (0, 1, 2)  # exit codes of a command that is over by itself
ROOT = Path(__file__).parents[1]
MAXQ = (sys.executable, "-m", "maxq.harness.cli.main")
STAND_IN = (sys.executable, "-m", "benchmarks.stand_in")
CAMPAIGN = """
name = "interrupted"
[[cell]]
env = ["local", "simulated"]
time_limit = ["4s"]
nemesis = ["kill"]
workload = ["queue"]
seeds = 40
"""
FAILING = ("test", "--seed", "1", "--workload", "queue", "--mutant", "ack_without_replicas")
LOCAL = ("--env", "local")
# Of each: who runs it, its words, and by which field a line of its journal is one of its steps; of
# some the same step is made several times.
COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "simulate": (MAXQ, ("simulate", "--seeds", "0..999"), "seed"),
    "explore": (MAXQ, ("explore", "--seeds", "0..99", *LOCAL, "--length", "5s"), "seed"),
    "campaign": (MAXQ, ("campaign", "{folder}/campaign.toml"), "name"),
    "campaign mutants": (MAXQ, ("campaign", "mutants"), ""),
    "losses": (MAXQ, ("losses", *LOCAL, "--time-limit", "10s"), "fault"),
    "shrink, simulated": (MAXQ, ("shrink", "{folder}/failing/latest"), ""),
    "shrink, local": (MAXQ, ("shrink", "{folder}/failing/latest", *LOCAL, "--budget", "100"), ""),
    "upgrade": (
        MAXQ, ("upgrade", "reference-under-reference", "documented-reference-to-reference",
               "alone-reference-to-reference"), "job"
    ),
    "scenario": (STAND_IN, ("scenario", "paused_master_stays", "leader_and_master_die"), ""),
    "bisect": (
        STAND_IN, ("bisect", "one_sender_waits", "--good", "5.5.0", "--bad", "5.1.1"), ""
    ),
    "scorecard": (STAND_IN, ("scorecard", "--versions", "5.3.3,5.5.0", "--jobs", "2"), "job"),
    "hunt": (STAND_IN, ("hunt", "--target", "rocketmq:5.5.0", "--length", "5s"), "job"),
}  # fmt: skip


class Interrupt(NamedTuple):
    """One start: after how long it was interrupted (s) and by what, how long it then took until
    nothing was left (s), how it ended, whether it said how to go on, what stayed; how many lines
    its journals had before and afterwards, and whether all of those before were kept."""

    at: float
    number: signal.Signals
    took: float = 0.0
    code: int = 0
    said: bool = True
    stayed: tuple[str, ...] = ()
    before: int = 0
    after: int = 0
    kept: bool = True
    over_before: bool = False

    @property
    def good(self) -> bool:
        """Whether all is as it must be."""
        ended = self.took <= OVER_S and self.code == SHELL + self.number and not self.stayed
        return self.kept and (self.code in ENDS if self.over_before else ended and self.said)

    def line(self) -> str:
        """In a line."""
        if self.over_before:
            return f"{self.at:6.1f} s  it was over before, with exit code {self.code}"
        said = "says" if self.said else "DOES NOT SAY"
        kept = "" if self.kept else ", AND FORGOT SOME"
        stayed = f", LEFT: {', '.join(self.stayed)}" if self.stayed else ""
        return (
            f"{self.at:6.1f} s  {self.number.name:8} exit {self.code}, nothing left after "
            f"{self.took:4.1f} s, {said} how to go on; stored: {self.before}, then {self.after}"
            f"{kept}{stayed}"
        )


def moments(count: int, seed: int) -> Iterator[float]:
    """When a command is interrupted, in seconds from its start: one in each equal part."""
    draws, part = Random(f"interrupts/{seed}"), (SPAN_S - FIRST_S) / count
    for turn in range(count):
        yield FIRST_S + part * (turn + draws.random())


def journals(folder: Path) -> dict[Path, bytes]:
    """What long commands have stored to go on with."""
    names = ("journal.jsonl", "tried.jsonl", "performed.jsonl")
    return {path: path.read_bytes() for name in names for path in sorted(folder.rglob(name))}


def lines_of(stored: dict[Path, bytes]) -> list[bytes]:
    """The whole lines of journals."""
    return [line for data in stored.values() for line in data.splitlines(keepends=True)
            if line.endswith(b"\n")]  # fmt: skip


def interrupted(
    words: Sequence[str], folder: Path, at: float, number: signal.Signals, more: int = 0
) -> Interrupt:
    """Start a command, interrupt it after so long (s) or so many more steps, and watch it end."""
    before, begun = journals(folder), time.monotonic()
    count = len(lines_of(before))
    errors = folder / "stderr"
    mine = {MARK: str(folder), "TMPDIR": str(folder / "tmp"), "PYTHONPATH": str(ROOT)}
    with errors.open("w") as file:
        process = subprocess.Popen(
            words, cwd=folder, env={**os.environ, **mine}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=file, start_new_session=True,
            preexec_fn=end_with_parent,
        )  # fmt: skip
    while process.poll() is None and time.monotonic() < begun + at:
        time.sleep(LOOK_S)
        if more and len(lines_of(journals(folder))) >= count + more:
            break
    at, over_before = time.monotonic() - begun, process.poll() is not None
    took, stayed = (0.0, ()) if over_before else _cut_off(process, words, folder, number)
    said, now = errors.read_text(), journals(folder)
    if over_before and process.returncode not in ENDS:
        print(said, flush=True)
    return Interrupt(
        at, number, took, process.returncode, over_before or "go on:   " in said, stayed,
        count, len(lines_of(now)), _kept(before, now), over_before,
    )  # fmt: skip


def _cut_off(
    process: "subprocess.Popen[bytes]", words: Sequence[str], folder: Path, number: signal.Signals
) -> tuple[float, tuple[str, ...]]:
    """Interrupt a command: after how long (s) nothing of it was left, or what was."""
    seen = [note(Noted(folder=folder, harness=pid, in_engine=in_engine(words)))
            for pid in sorted(below({process.pid}))]  # fmt: skip
    begun = time.monotonic()
    process.send_signal(number)
    try:
        process.wait(HUNG_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    stayed = _gone(seen)
    return time.monotonic() - begun, stayed


def in_engine(words: Sequence[str]) -> bool:
    """Whether a command has containers."""
    return "docker" in words


def _gone(seen: Iterable[Noted]) -> tuple[str, ...]:
    """What of a command is still there when nothing must be, each once."""
    end = time.monotonic() + OVER_S
    while (stayed := {what for one in seen for what in left(one)}) and time.monotonic() < end:
        time.sleep(LOOK_S)
    return tuple(sorted(stayed))


def _kept(before: dict[Path, bytes], now: dict[Path, bytes]) -> bool:
    """Whether every whole line is where it was."""
    return all(
        now.get(path, b"").startswith(data[: data.rfind(b"\n") + 1])
        for path, data in before.items()
    )


def repeated(lines: Iterable[bytes], field: str) -> int:
    """How many steps were made once more, by a field that names them; failed ones may be."""
    decoded = [msgspec.json.decode(line) for line in lines] if field else []
    names = [str(line[field]) for line in decoded if not line.get("error")]
    return len(names) - len(set(names))


def prepare(folder: Path) -> None:
    """What the commands are given: a campaign's file, and a failing run."""
    (folder / "tmp").mkdir()
    (folder / "campaign.toml").write_text(CAMPAIGN)
    where = ("--env", "simulated", "--time-limit", "30s", "--store", str(folder / "failing"))
    subprocess.run([*MAXQ, *FAILING, *where], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tried(words: Sequence[str], folder: Path, count: int, seed: int) -> list[Interrupt]:
    """Interrupt a command at so many moments, or until it is over."""
    found: list[Interrupt] = []
    for turn, at in enumerate(moments(count, seed)):
        found.append(interrupted(words, folder, at, SIGNALS[turn % len(SIGNALS)]))
        print(found[-1].line(), flush=True)
        if found[-1].over_before:
            return found
    found.append(interrupted(words, folder, MORE_S, signal.SIGTERM, MORE))
    print(found[-1].line(), flush=True)
    return found


def row(name: str, found: Sequence[Interrupt], again: int) -> str:
    """A row of the table."""
    cut = [one for one in found if not one.over_before]
    longest = max((one.took for one in cut), default=0.0)
    codes = ", ".join(sorted({str(one.code) for one in cut}))
    said = sum(one.said for one in cut)
    stayed = len({what for one in cut for what in one.stayed})
    stored = found[-1].after - found[0].before
    return (f"| {name} | {len(cut)} | {longest:.1f} s | {stayed} | {codes} | {said} | {stored} "
            f"| {again} |")  # fmt: skip


HEAD = (
    "| command | interrupted | over and nothing left after at most | left after 5 s | exit codes "
    "| said how to go on | steps stored | of them made twice |\n"
    "|---|---:|---:|---:|---|---:|---:|---:|"
)


def main() -> int:
    """The command; 0 if every start was over in time, and went on."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moments", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("commands", nargs="*", metavar="NAME", help=", ".join(COMMANDS))
    asked, own = sys.argv[1:], []
    if "--" in asked:
        asked, own = asked[: asked.index("--")], asked[asked.index("--") + 1 :]
    given = parser.parse_args(asked)
    if strange := [name for name in given.commands if name not in COMMANDS]:
        parser.error(f"no command {strange[0]!r}; there are: {', '.join(COMMANDS)}")
    chosen = {name: COMMANDS[name] for name in given.commands or COMMANDS}
    if own:
        chosen = {" ".join(own): ((), tuple(own), "")}
    rows, good = [], True
    for name, (who, words, field) in chosen.items():
        with tempfile.TemporaryDirectory(prefix="maxq-interrupts-") as place:
            folder = Path(place)
            prepare(folder)
            print(name, flush=True)
            said = [*who, *(word.format(folder=folder) for word in words), "--store", f"{folder}/s"]
            found = tried(said, folder, given.moments, given.seed)
            again = repeated(lines_of(journals(folder / "s")), field)
            good &= all(one.good for one in found) and not again
            rows.append(row(name, found, again))
    print("", HEAD, *rows, "", sep="\n")
    print("each was over in time, and went on" if good else "NOT EACH WAS OVER IN TIME")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
