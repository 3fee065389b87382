"""Histories that are single files: read by their suffix, judged without a run's folder.

How such a run was set up is unknown, so `CONTEXT` is assumed, and shown: a target of which
nothing is known, a profile that promises that nothing is lost.
"""

import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from maxq.checkers.availability.answers import Answers
from maxq.checkers.availability.recovery import Recovery, recoveries
from maxq.checkers.core.api import Checker, Context
from maxq.checkers.core.stats import Stats
from maxq.checkers.counterexample.of_anomaly import Counterexample
from maxq.checkers.judgement import summary
from maxq.checkers.judgement.digest import Row, digest
from maxq.checkers.judgement.runner import Results
from maxq.checkers.power.power import Power
from maxq.harness.run.explained import Explained
from maxq.harness.run.judging import counterexamples_of, judges_of
from maxq.harness.schedule.fixes import ToTry
from maxq.histories.history import History
from maxq.histories.jepsen import encode_edn
from maxq.histories.jsonl import ReadReport, read_jsonl
from maxq.histories.lines.foreign import HEAD, READERS, WANTED, format_of, seen
from maxq.histories.lines.packed import history_of
from maxq.histories.lines.truncated import READABLE
from maxq.histories.op import Held, HistoryError, Op, Progress
from maxq.histories.store import CONFIG, StoredRun, is_table, open_run
from maxq.histories.text import encode_op

Packing = Literal["gzip", "zstd"]
PACKED: dict[Packing, bytes] = {
    "gzip": b"\x1f\x8b",
    "zstd": b"\x28\xb5\x2f\xfd",
}  # how such files begin
JEPSENS = "history.edn"  # in a store folder of Jepsen's
CONTEXT = Context(target="unknown")


def _parquet(ops: Sequence[Op], run_id: str) -> bytes:
    from maxq.histories.parquet import encode_parquet  # Arrow takes its time to be imported

    return encode_parquet(ops, run_id=run_id)


FORMATS: dict[str, Callable[[Sequence[Op], str], bytes]] = {
    "edn": lambda ops, run_id: encode_edn(ops),
    "jsonl": lambda ops, run_id: encode_jsonl(ops),
    "parquet": _parquet,
}


class JudgedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file's history and its verdict."""

    stored: StoredRun
    results: Results
    recoveries: Sequence[Recovery]
    repeat: str
    absent: Sequence[str] = ()
    commit: str = "unknown"
    context: Context = CONTEXT
    fail_on: str = ""
    explained: tuple[Explained, ...] = ()  # a file cannot be repeated
    tried: tuple[str, ...] = ()  # nor one whose settings nobody knows
    to_try: ToTry | None = None
    power: tuple[Power, ...] = ()  # a file has no settings that say what is promised
    report: Path | None = None  # a file has no folder for one
    unreported: Exception | None = None
    counterexamples: tuple[Counterexample, ...] = ()
    known: tuple[str, ...] = ()  # nothing says of which release a file is

    def with_counterexamples(self, checkers: Sequence[Checker]) -> "JudgedFile":
        """The same, with what suffices of an invalid history."""
        history = self.stored.history
        found = counterexamples_of(history, self.results, checkers, self.context)
        return msgspec.structs.replace(self, counterexamples=found)

    @property
    def rows(self) -> Sequence[Row]:
        """Its findings in plain words, the gravest first."""
        return digest(self.stored.history, self.results)

    @property
    def failed_on(self) -> dict[str, int]:
        """The measured anomalies that `fail_on` names; there are none, as all is promised."""
        return summary.fails_on(self.results, self.fail_on)

    @property
    def exit_code(self) -> int:
        """Of the verdict."""
        return self.results.exit_code


def context_of(report: ReadReport) -> Context:
    """What the checkers know of a file that was found so."""
    return msgspec.structs.replace(CONTEXT, damage=report.damage)


def _unsaid(read: int) -> None:
    """Nobody waits for it."""


def open_file(
    path: Path, *, kind: str = "", allow_truncated: bool = False, progress: Progress = _unsaid,
    held: Held = tuple,
) -> StoredRun:  # fmt: skip
    """Read a history.

    Args:
        path: the file.
        kind: its format, one of `maxq.histories.lines.foreign.FORMATS`; by default its suffix says
            which of `FORMATS` it is.
        allow_truncated: of a damaged journal, take what precedes the damage.
        progress: is given how many bytes more of a foreign file have been read.
        held: how the operations of a foreign file are kept.

    Raises:
        HistoryError: it is none, or its suffix is unknown.
    """
    report = None
    ops: Sequence[Op]
    kind = kind or (path.suffix[1:] if path.suffix[1:] in FORMATS else "")
    if allow_truncated and kind in READABLE:
        ops, damage = READABLE[kind](path)
        report = ReadReport(count=len(ops), complete=not damage, damage=damage)
    elif kind in READERS:
        ops = READERS[kind](path, progress, held)
    elif kind == "jsonl":
        ops, report = read_jsonl(path, allow_truncated=allow_truncated)
    elif kind == "parquet" or is_table(path):
        from maxq.histories.lines.whole_table import read_table

        ops, report = read_table(path, allow_truncated=allow_truncated)
    else:
        raise HistoryError(unknown_suffix(path))
    report = report or ReadReport(count=len(ops), complete=True)
    return StoredRun(path=path, config={}, history=history_of(ops), report=report, results=None)


def stored_history(
    path: Path, *, kind: str = "", allow_truncated: bool = False, progress: Progress = _unsaid,
    held: Held = tuple,
) -> StoredRun:  # fmt: skip
    """Read the history of a run's folder, or of a file of any format.

    Args:
        path: the folder or the file.
        kind: the file's format; by default it is found from the first bytes.
        allow_truncated: of a damaged journal, take what precedes the damage.
        progress: is given how many bytes more of a foreign file have been read.
        held: how the operations of a foreign file are kept.

    Raises:
        HistoryError: it is none.
    """
    if is_table(path):
        return open_file(path, allow_truncated=allow_truncated)
    if path.is_dir() and ((path / CONFIG).exists() or not (path / JEPSENS).is_file()):
        return open_run(path, allow_truncated=allow_truncated)
    path = path / JEPSENS if path.is_dir() else path
    with unpacked(path) as plain:
        head = _head(plain)
        kind = kind or format_of(head)
        if not kind:
            raise HistoryError(f"{path.name} is no history: {seen(head)}; {WANTED}")
        found = open_file(
            plain, kind=kind, allow_truncated=allow_truncated, progress=progress, held=held
        )
    return msgspec.structs.replace(found, path=path)


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """A file for the length of a block; of one that gzip or zstd has packed what is in it.

    Raises:
        HistoryError: it is cut off or damaged.
    """
    head = b"" if path.is_dir() else _head(path)
    how = next((how for how, magic in PACKED.items() if head.startswith(magic)), None)
    if how is None:
        yield path
        return
    import pyarrow as pa  # takes its time to be imported

    with tempfile.TemporaryDirectory(prefix="maxq-history-") as folder:
        plain = Path(folder) / (path.stem if path.suffix in (".gz", ".zst") else path.name)
        try:
            with pa.input_stream(str(path), compression=how) as packed, plain.open("wb") as file:
                shutil.copyfileobj(packed, file)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise HistoryError(f"{path.name}: {error}") from None
        yield plain


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD)


def unknown_suffix(path: Path) -> str:
    """What is said of a file that is no history."""
    return f"{path.name}: unknown suffix; known: {', '.join(f'.{name}' for name in FORMATS)}"


def unread(path: Path, report: ReadReport) -> StoredRun:
    """A file whose rows are read by who judges it."""
    return StoredRun(path=path, config={}, history=History(()), report=report, results=None)


def checkers_for(workloads: Sequence[str]) -> list[Checker]:
    """Who judges a file. Faults are not asked for proof: other recorders note none."""
    chosen = [c for name in workloads for c in judges_of(name)]
    return [*dict.fromkeys(chosen), Answers(), Stats()]


def judged_file(
    stored: StoredRun,
    results: Results,
    workloads: Sequence[str],
    measured: Sequence[Recovery] | None = None,
) -> JudgedFile:
    """Put a verdict on a file together; `measured` are its recoveries, where they are known."""
    words = " ".join(f"--workload {name}" for name in workloads)
    return JudgedFile(
        stored=stored,
        context=context_of(stored.report),
        results=results,
        recoveries=recoveries(stored.history) if measured is None else measured,
        repeat=f"maxq check {shlex.quote(str(stored.path))} {words}",
    )


def encode_jsonl(ops: Sequence[Op]) -> bytes:
    """A journal that ended properly. Its indices are dense: of a sparse history they change."""
    lines = [
        encode_op(msgspec.structs.replace(op, index=index) if op.index != index else op)
        for index, op in enumerate(ops)
    ]
    lines.append(msgspec.json.encode({"end": True, "count": len(ops)}))
    return b"".join(line + b"\n" for line in lines)
