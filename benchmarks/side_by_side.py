"""Our models beside Porcupine, on the same histories: ``python -m benchmarks.side_by_side``.

Of each kind a history of 100 calls is made, then of 1,000 and so on, until one of the two does not
end; our judge and Porcupine get the same file, one after the other, each in a process of its own
with 60 s and 8 GiB. Compared is the judging, of what is in memory
already: of ours the columns, of Porcupine its operations. Seconds are of the process's own time, of
Porcupine of the clock where that is less, and of a short check the best of five. Memory is the
process's peak, with what it needs to read the file.

`decided` says by what: an exact test, or a search. The goal is for exact tests: a hundredth of
Porcupine's time, from 10,000 calls on and wherever Porcupine ends. Exit code 1 where that is
missed, where two verdicts differ, or where a legal history is called invalid. Needs Go; Porcupine
comes from the Go module proxy.
"""

import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
import numpy as np

from benchmarks.made_histories import Asked, fifo_queue, kv, register, write_journal
from maxq.checkers.linearizability.judge import decide
from maxq.checkers.models.catalogue import models
from maxq.checkers.models.judged import taken_of
from maxq.harness.cli.given.budget import Budget
from maxq.harness.run.rejudge import open_file

PROGRAM = Path(__file__).parent / "porcupine"
LIMIT_S, LIMIT_BYTES = 60, 8 << 30
SHORTEST_S, TRIES_MAX = 0.2, 5
FASTER = 100.0  # than Porcupine, by an exact test
FASTER_FROM = 10_000  # calls; before that a call of numpy takes longer than the whole search
FAST_TEST = "fast test"
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)


class Side(msgspec.Struct):
    """What one of them said: its verdict (empty: it did not end), by which means it was found,
    seconds for reading and for judging, and the peak of its memory."""

    verdict: str
    by: str = ""
    read_s: float = 0.0
    judged_s: float = math.nan
    peak_mib: int = 0


class Case(NamedTuple):
    """A kind of history: the model, how its calls are made, and up to which size."""

    model: str
    made: Callable[[np.random.Generator, int], Any]
    most: int = SIZES[-1]


CASES: Mapping[str, Case] = {
    "register": Case("register", lambda r, n: register(r, n, 0)),
    "fifo-queue": Case("fifo-queue", fifo_queue),
    "kv, appends": Case("kv", lambda r, n: kv(r, n, 0.0), 100_000),
    "kv, puts and appends": Case("kv", lambda r, n: kv(r, n, 0.3), 100_000),
    "register, 5 values": Case("register", lambda r, n: register(r, n, 5), 100_000),
}
CONCURRENCIES, INFOS = (5, 10, 30), (0.0, 0.05)


def judged(model: str, path: Path) -> Side:
    """Judge once in this process, as `maxq check --model` does."""
    began = time.process_time()
    kind = models()[model]
    keys = list(taken_of(kind, open_file(path).history).calls.values())
    read_s = time.process_time() - began
    best, first, tries = math.inf, time.monotonic(), 0
    while not tries or (tries < TRIES_MAX and time.monotonic() - first < SHORTEST_S):
        over = Budget(LIMIT_S, LIMIT_BYTES).begun()
        began = time.process_time()
        found = [decide(kind, calls, over) for calls in keys]
        best, tries = min(best, time.process_time() - began), tries + 1
    every = {one.valid for one in found}
    valid = False if False in every else "" if "unknown" in every else True
    by = sorted({one.by for one in found})
    return Side(str(valid), "+".join(by), read_s, best if valid != "" else math.nan, _peak_mib())


def _peak_mib() -> int:
    """Of this process since it runs this program: what a parent had counts in `getrusage`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) // 1024


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))


def _run(words: list[str]) -> Any:
    """What a program printed; None: it did not end within its time and memory."""
    try:
        done = subprocess.run(
            words, capture_output=True, timeout=4 * LIMIT_S, preexec_fn=_limited, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        error = done.stderr.decode(errors="replace")
        if "memory" not in error and "MemoryError" not in error:
            raise click.ClickException(f"{words[0]}: {error[-500:]}")
        return None
    return json.loads(done.stdout)


def ours(model: str, path: Path) -> Side:
    """Our verdict, found in a process of its own."""
    found = _run([sys.executable, "-m", "benchmarks.side_by_side", "--one", model, str(path)])
    return Side("", "over 8 GiB") if found is None else msgspec.convert(found, Side)


def porcupine(program: Path, model: str, path: Path) -> Side:
    """Porcupine's verdict."""
    found = _run([str(program), model, str(path), str(LIMIT_S)])
    if found is None:
        return Side("", "over 8 GiB")
    verdict = {"Ok": "True", "Illegal": "False"}.get(found["verdict"], "")
    seconds = min(found["wall_s"], found["own_s"]) if verdict else math.nan
    return Side(verdict, "" if verdict else f"over {LIMIT_S} s", found["read_s"], seconds,
                found["peak_mib"])  # fmt: skip


class Compared(NamedTuple):
    """A row of the table."""

    name: str
    concurrency: int
    info: float
    size: int
    ours: Side
    theirs: Side

    @property
    def ended(self) -> bool:
        """Whether both did."""
        return bool(self.ours.verdict and self.theirs.verdict)

    @property
    def faster(self) -> float:
        """How many times faster ours was; not a number where one of them did not end."""
        return self.theirs.judged_s / self.ours.judged_s

    @property
    def missed(self) -> str:
        """What is wrong with it; empty: nothing."""
        said = {side.verdict for side in (self.ours, self.theirs)} - {""}
        if said - {"True"}:
            return "a legal history was called invalid"
        slow = self.ours.by == FAST_TEST and self.size >= FASTER_FROM and self.faster < FASTER
        return f"less than {FASTER:g} times faster" if slow else ""

    def line(self) -> str:
        """It as Markdown."""
        cells = [self.name, f"{self.concurrency}", f"{self.info:.0%}", f"{self.size:,}"]
        cells += [*_cells(self.ours), self.ours.by]
        cells += _cells(self.theirs)
        cells += ["" if math.isnan(self.faster) else f"{self.faster:,.3g}"]
        return f"| {' | '.join(cells)} |{f' <-- {self.missed}' if self.missed else ''}"


def _cells(side: Side) -> list[str]:
    seconds = f"over {LIMIT_S} s" if not side.verdict else f"{side.judged_s:.3g}"
    if side.by == "over 8 GiB":
        seconds = side.by
    return [seconds, f"{side.peak_mib:,}" if side.peak_mib else ""]


HEADER = (
    "| history | at a time | info | calls | ours s | MiB | decided | Porcupine s | MiB | faster |"
)
RULE = "|---|---:|---:|---:|---:|---:|---|---:|---:|---:|"


LAST_HEADER = (
    "| history | at a time | info | calls | ours s | MiB | decided | Porcupine s | MiB | faster "
    "| does not end |"
)
LAST_RULE = "|---|---:|---:|---:|---:|---:|---|---:|---:|---:|---|"


def last_lines(rows: Sequence[Compared]) -> Iterator[str]:
    """Of each kind, as Markdown: the greatest history that both judged, and who did not judge the
    next one."""
    for _, group in groupby(rows, lambda row: (row.name, row.concurrency, row.info)):
        every = list(group)
        last = [row for row in every if row.ended][-1]
        ends = ""
        if not every[-1].ended:
            sides = (("ours", every[-1].ours), ("Porcupine", every[-1].theirs))
            ends = f"{every[-1].size:,}: " + ", ".join(
                f"{who} ({_cells(side)[0]})" for who, side in sides if not side.verdict
            )
        yield f"{last.line().partition(' <--')[0]} {ends} |"


def compared(name: str, concurrency: int, info: float, program: Path, most: int) -> list[Compared]:
    """All sizes of one kind, the smallest first, until one of the two does not end."""
    case = CASES[name]
    rows: list[Compared] = []
    for size in SIZES:
        if size > min(most, case.most) or (rows and not rows[-1].ended):
            break
        with tempfile.TemporaryDirectory(prefix="maxq-side-") as folder:
            path = Path(folder) / "history.jsonl"
            calls: list[Asked] = list(case.made(np.random.default_rng(1), size))
            write_journal(path, calls, concurrency, info)
            del calls
            row = Compared(name, concurrency, info, size, ours(case.model, path),
                           porcupine(program, case.model, path))  # fmt: skip
        rows.append(row)
        click.echo(row.line())
    return rows


def built(folder: Path) -> Path:
    """Porcupine, compiled."""
    program = folder / "porcupine"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=PROGRAM, check=True)
    return program


@click.command()
@click.option("--one", type=(str, Path), default=None, hidden=True)
@click.option("--only", default="", help="kinds that begin so: " + ", ".join(CASES))
@click.option("--most", default=SIZES[-1], show_default=True, help="the greatest size")
def main(one: tuple[str, Path] | None, only: str, most: int) -> None:
    """Measure both and print a table."""
    if one is not None:
        click.echo(json.dumps(msgspec.to_builtins(judged(*one))))
        return
    click.echo(HEADER + "\n" + RULE)
    with tempfile.TemporaryDirectory(prefix="maxq-porcupine-") as folder:
        program = built(Path(folder))
        rows = [
            row
            for name in CASES if name.startswith(only)
            for info in INFOS
            for concurrency in CONCURRENCIES
            for row in compared(name, concurrency, info, program, most)
        ]  # fmt: skip
    click.echo("\n".join(["", LAST_HEADER, LAST_RULE, *last_lines(rows), ""]))
    for row in rows:
        if row.missed:
            click.echo(f"missed: {row.name}, {row.size:,} calls: {row.missed}")
    sys.exit(1 if any(row.missed for row in rows) else 0)


if __name__ == "__main__":
    main()
