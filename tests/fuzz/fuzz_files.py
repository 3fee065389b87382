"""Damaged files for every reader: each must end in a verdict, or in an error of the project's own.

A file is one that a reader takes, damaged by up to four changes that are drawn from the run's seed
and the number of the file alone.
"""

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec
from history_recorder import Recorder

from maxq.checkers.judgement.runner import check_all
from maxq.checkers.models.catalogue import models
from maxq.checkers.models.judged import judge
from maxq.harness.experiments.campaign import (
    BUILT_IN,
    CampaignError,
    jobs_of,
    read_campaign,
)
from maxq.harness.experiments.campaign_cases import Done
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.run import piecewise, rejudge
from maxq.harness.run.replay import options_for
from maxq.harness.run.stored_run import config_of, judge_stored
from maxq.harness.schedule import format as schedules
from maxq.harness.schedule.options import Options
from maxq.histories.history import History
from maxq.histories.jsonl import JournalWriter
from maxq.histories.lines.foreign import HEAD, READERS, format_of
from maxq.histories.op import HistoryError, Op

MODEL_S = 1.0  # for a search
FILE_S = 5.0  # that one file may take, on a busy machine
# What files may add to the most memory that the process had: ten times the largest, and 200 MB.
MEMORY_MAX, TIMES_MAX = 200_000_000, 10
DIRECTED = Path(schedules.__file__).parent / "directed"
NAMED = (HistoryError, schedules.ScheduleError, CampaignError)
PIECES = (
    b"\xff", b"\xed\xa0\x80", b"\0", b"9" * 5000, b"9" * 100_000, b"-1", b"0", b"1e300", b"1e999",
    b"18446744073709551616", b"1000000000", b"50000000", b"NaN", b"##Inf", b"\\ud800", b"null",
    b"true", b"[" * 100_000, b'{"a":' * 5000, b"#{" * 5000, b"\x1b[2J", b'"$map"', b'"$set"',
    b'""', b'"' + b"x" * 1_000_000 + b'"', b"../../x", b"\n", b"\r\n", b" ", b"#_",
    *(bytes([c]) for c in b'"[]{}()#,:-='),
)  # fmt: skip


def recorded() -> Recorder:
    """A short history of the workload queue."""
    recorder = Recorder()
    recorder.assign(1, 0, seek=True)
    recorder.fault("kill", **{"b0-0": True})
    for offset in range(3):
        recorder.send(0, 10 + offset, offset, broker="x:1")
    recorder.poll(1, (0, 10), (2, 12), end={0: 3})
    return recorder


def changed(rng: Random, data: bytes) -> bytes:
    """A file with one change more."""
    at = rng.randrange(len(data) + 1)
    gone = rng.choice([0, 0, 1, 4, rng.randrange(40)])
    kind = rng.randrange(5)
    if kind == 0 and data:  # a flipped bit
        at %= len(data)
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 1:  # cut off, or a hole
        return data[:at] + data[at + rng.choice([len(data), gone]) :]
    if kind == 2:  # lines, or keys, that are there twice or in another place
        lines = data.splitlines(keepends=True) or [data]
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
        return b"".join(lines)
    if kind == 3:  # in place of a word
        starts = [n for n in range(len(data)) if data[n : n + 1].isalnum()] or [0]
        at = rng.choice(starts)
        end = next((n for n in range(at, len(data)) if not data[n : n + 1].isalnum()), len(data))
        return data[:at] + rng.choice(PIECES) + data[end:]
    return data[:at] + rng.choice([*PIECES, rng.randbytes(8)]) + data[at + gone :]


def _history(path: Path) -> None:
    """Both engines say the same: a verdict, or why there is none."""
    checkers = rejudge.checkers_for(["queue"])
    try:
        stored = rejudge.open_file(path)
    except HistoryError as error:
        refused = _by_columns(path)
        if str(refused) != str(error):
            raise AssertionError(f"columns: {refused!r:.200}, local: {error}") from None
        raise
    local = check_all(stored.history, checkers, rejudge.CONTEXT)
    found = _by_columns(path)
    assert found == local, f"columns: {found!r:.200}"
    for encode in rejudge.FORMATS.values():
        encode(stored.history.ops, "run")


def _by_columns(path: Path) -> object:
    try:
        with piecewise.source_of(path, allow_truncated=False) as source:
            checkers = rejudge.checkers_for(["queue"])
            return piecewise.by_columns(source, checkers, rejudge.CONTEXT).results
    except HistoryError as error:
        return error


def _modelled(path: Path) -> None:
    """By a model: a verdict, or why there is none."""
    kind = format_of(path.read_bytes()[:HEAD])
    if kind not in READERS:
        raise HistoryError("no format that is known")
    until = time.monotonic() + MODEL_S
    history = History(READERS[kind](path))
    for model in models().values():
        try:
            judge(model, history, lambda: time.monotonic() > until)
        except HistoryError:
            continue


FOREIGN = {
    "etcd.log": "\n".join(
        f"INFO  jepsen.util - {process}\t:{kind}\t:{f}\t{value}"
        for process, kind, f, value in (
            (0, "invoke", "write", 1),
            (0, "ok", "write", 1),
            (1, "invoke", "cas", "[1 2]"),
            (2, "invoke", "read", "nil"),
            (1, "info", "cas", ":timed-out"),
            (2, "ok", "read", 2),
        )
    ).encode(),
    "foreign.json": b'[{"type":"invoke","f":"write","value":1,"process":0,"index":0},\n'
    b'{"type":"ok","f":"write","value":1,"process":0,"index":1},\n'
    b'{"type":"invoke","f":"cas","value":[1,2],"process":1,"index":2},\n'
    b'{"type":"fail","f":"cas","value":[1,2],"process":1,"index":3}]',
    "foreign.edn": b"[{:process 0, :type :invoke, :f :write, :value 1}\n"
    b"{:process 0, :type :ok, :f :write, :value 1}\n"
    b"{:process 1, :type :invoke, :f :cas, :value [1 2]}\n"
    b"{:process 1, :type :ok, :f :cas, :value [1 2]}]",
    "lists.edn": b"{:process 0, :type :invoke, :f :txn, :value [[:append 1 1] [:r 2 nil]]}\n"
    b"{:process 1, :type :invoke, :f :txn, :value [[:append 2 1] [:r 1 nil]]}\n"
    b"{:process 0, :type :ok, :f :txn, :value [[:append 1 1] [:r 2 []]]}\n"
    b"{:process 1, :type :ok, :f :txn, :value [[:append 2 1] [:r 1 []]]}\n"
    b"{:process 2, :type :invoke, :f :txn, :value [[:r 1 nil] [:r 2 nil]]}\n"
    b"{:process 2, :type :ok, :f :txn, :value [[:r 1 [1]] [:r 2 [1]]]}\n",
    "awdit.txt": b"w 1 1\nw 2 1\n-----\nr 1 1\n=====\nr 2 1\nr 1 0\n-----\nw 1 2\n",
    "plume.txt": b"w(1,1,0,0)\nw(2,1,0,0)\nr(1,1,0,1)\nr(2,1,1,2)\nr(1,0,1,2)\nw(1,2,1,3)\n",
}


def _schedule(path: Path) -> None:
    script = schedules.read(path)
    options_for(script)
    script.counts()


def _campaign(path: Path) -> None:
    jobs_of(read_campaign(path))


def _journal(path: Path) -> None:
    whole = resumed(path, Done)
    assert resumed(path, Done) == whole, "what is left of it is read again"


def _run(path: Path) -> None:
    judge_stored(path.parent)


Reader = Callable[[Path], None]


class Files:
    """A valid file of each kind, below `folder`, and who reads it.

    Args:
        folder: an empty one; what is damaged is written there, too.
        histories: whether only histories are read: JSONL, Parquet and EDN.
    """

    def __init__(self, folder: Path, *, histories: bool = False) -> None:
        ops = recorded().ops
        self._folder = folder
        self.largest = 0  # bytes of a file that was read
        self._sources: list[tuple[str, bytes, Reader]] = [
            (f"history.{name}", encode(ops, "run"), _history)
            for name, encode in rejudge.FORMATS.items()
        ]
        self._sources += [(name, data, _modelled) for name, data in FOREIGN.items()]
        if histories:
            return
        self._sources.append(
            ("campaign.toml", (BUILT_IN / "acceptance.toml").read_bytes(), _campaign)
        )
        self._sources += [
            (f"{path.stem}.jsonl", path.read_bytes(), _schedule)
            for path in sorted(DIRECTED.glob("*.jsonl"))[::12]
        ]
        self._sources.append(("journal.jsonl", self._results(), _journal))
        self._sources += [(f"run/{name}", data, _run) for name, data in self._run(ops).items()]

    def _results(self) -> bytes:
        path = self._folder / "whole-journal.jsonl"
        for number in range(3):
            append(path, Done(name=f"{number}", passed=True, exit_code=0, seconds=1.5, said="x"))
        return path.read_bytes()

    def _run(self, ops: Iterable[Op]) -> dict[str, bytes]:
        run = self._folder / "run"
        run.mkdir()
        options = Options(environment="simulated", seed=1, workload=("queue",))
        with JournalWriter(run / "history.jsonl") as journal:
            for op in ops:
                journal.append(op)
        (run / "config.json").write_bytes(msgspec.json.encode(config_of(options)))
        return {path.name: path.read_bytes() for path in sorted(run.iterdir())}

    def whole(self) -> None:
        """Read every file as it is, so that others do not only see refusals.

        Raises:
            Exception: one is not read.
        """
        for name, data, read in self._sources:
            self._read(name, data, read)

    def damaged(self, seed: int, number: int) -> tuple[str, str]:
        """Damage a file and have it read: its name, and the class of the error that it ends in, or
        ``read``.

        Raises:
            Exception: the reader fails with what is none of the project's own errors.
        """
        rng = Random(f"{seed}/files/{number}")
        name, data, read = rng.choice(self._sources)
        for _ in range(rng.choice([1, 1, 2, 4])):
            data = changed(rng, data)
        try:
            self._read(name, data, read)
        except NAMED as error:
            return name, type(error).__name__
        return name, "read"

    def _read(self, name: str, data: bytes, read: Reader) -> None:
        path = self._folder / name
        kept = path.read_bytes() if path.parent != self._folder else None
        path.write_bytes(data)
        self.largest = max(self.largest, len(data))
        try:
            read(path)
        finally:
            if kept is not None:  # the other files of a run stay as they are
                path.write_bytes(kept)


@dataclass
class Findings:
    """What a run came to. `faults` is empty where all is well."""

    ends: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    more_bytes: int = 0  # than the process had before


def run(
    folder: Path, seed: int, numbers: Iterable[int], say: Callable[[str], None], *,
    histories: bool = False,
) -> Findings:  # fmt: skip
    """Have damaged files read: those of these numbers."""
    files, found = Files(folder, histories=histories), Findings()
    files.whole()
    before = _peak_bytes()
    for number in numbers:
        began = time.monotonic()
        try:
            name, end = files.damaged(seed, number)
        except Exception as error:
            found.faults.append(f"seed {seed} file {number}: {type(error).__name__}: {error}"[:500])
            continue
        took = time.monotonic() - began
        found.ends[f"{Path(name).suffix} {end}"] += 1
        found.slowest_s = max(found.slowest_s, took)
        if took > FILE_S:
            found.faults.append(f"seed {seed} file {number}: {name} took {took:.1f} s")
        say(f"{sum(found.ends.values())} files, {len(found.faults)} faults")
    found.more_bytes = _peak_bytes() - before
    allowed = MEMORY_MAX + TIMES_MAX * files.largest
    if found.more_bytes > allowed:
        found.faults.append(f"{found.more_bytes >> 20} MiB more, at most {allowed >> 20}")
    return found


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
