"""Run folders: where the evidence of each run is kept, saved in three steps.

    <root>/<test name>/<yyyyMMdd'T'HHmmss.SSSZ>/
      config.json        1. before anything starts: resolved options, commit, seed, topology
      history.jsonl      2. growing while the run goes on
      history.digests       of its blocks
      history.parquet    3. at the end: the same history for Spark; or history/*.parquet
      results.json          verdicts
      results.edn           the same for Jepsen's web page; last, by rename
      oracle.jsonl          of a simulated run: broken invariants, if the oracle saw any
      report.html           the same for people; left out where it cannot be written
      nodes/<name>/         logs and stores collected from each node
    <root>/<test name>/latest, <root>/latest -> the newest run
    <root>/current -> the run in progress

So a harness killed at any instant leaves a folder that `open_run` reads and `maxq check` judges. A
folder is complete only when ``results.edn`` exists. Whole files appear by rename, synced.

Rule for those who edit this: Jepsen's web page parses the name of *every* entry of a test's folder
as a time stamp, and one that is not breaks its index. So temporary files live inside run folders.

Source: docs/spec/history-format.md 10.
"""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from maxq.histories.edn import Keyword, to_edn
from maxq.histories.history import History
from maxq.histories.jsonl import JournalWriter, ReadReport, read_jsonl
from maxq.histories.op import HistoryError, Op
from maxq.histories.text import NOT_JSON

CONFIG = "config.json"
JOURNAL = "history.jsonl"
PARQUET = "history.parquet"
PARTS = "history"  # a folder of a run that holds its table in parts
RESULTS = "results.json"
RESULTS_EDN = "results.edn"
REPORT = "report.html"
ORACLE = "oracle.jsonl"
SAME_MS_RUNS_MAX = 1000

_STAMP = re.compile(r"\d{8}T\d{6}\.\d{3}Z")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_LINKS = frozenset(("latest", "current"))


class Run:
    """The folder of one run, while it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def run_id(self) -> str:
        """What the tables call this run: test name and time stamp."""
        return f"{self.path.parent.name}/{self.path.name}"

    def save_config(self, config: Mapping[str, Any]) -> None:
        """Save 1: how the run is set up. Before the first node starts."""
        write_json(self.path / CONFIG, config)

    def add_config(self, more: Mapping[str, Any]) -> None:
        """The same, with what was not known yet."""
        write_json(self.path / CONFIG, {**(_read_json(self.path / CONFIG) or {}), **more})

    def open_journal(self) -> JournalWriter:
        """Save 2: the history as it grows. Once a run."""
        return JournalWriter(self.path / JOURNAL)

    def save_results(self, ops: Sequence[Op], results: Mapping[str, Any]) -> None:
        """Save 3: the history as a table, then the verdicts, ``results.edn`` last.

        Args:
            ops: the history; the journal of this run, read back, is the best source.
            results: what JSON holds; its key `valid` (true, false, "unknown") becomes `:valid?`.
        """
        from maxq.histories.parquet import encode_parquet  # Arrow takes its time to be imported

        write_whole(self.path / PARQUET, encode_parquet(ops, run_id=self.run_id))
        self.save_verdict(results)

    def save_verdict(self, results: Mapping[str, Any]) -> None:
        """The verdicts alone, for a run judged again or one that has no whole history."""
        write_json(self.path / RESULTS, results)
        write_whole(self.path / RESULTS_EDN, (to_edn(_for_jepsen(results)) + "\n").encode())
        current = self.path.parent.parent / "current"
        with suppress(FileNotFoundError):  # another run in the same store ends at this moment
            if current.is_symlink() and current.readlink() == Path(*self.path.parts[-2:]):
                current.unlink()

    def node_dir(self, node: str) -> Path:
        """Where the logs and the stores of a node go; made on demand."""
        path = self.path / "nodes" / _checked(node, "node")
        path.mkdir(parents=True, exist_ok=True)
        return path


class RunStore:
    """All runs under one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, name: str, start_wall: datetime) -> Run:
        """Make the folder of a run and point the links at it.

        Args:
            name: of the test; one path segment.
            start_wall: wall clock at time 0, with its time zone. Of several runs in one
                millisecond the later ones get the next free one.
        """
        if _checked(name, "test") in _LINKS:
            raise ValueError(f"a test cannot be called {name!r}")
        home = self.root / name
        home.mkdir(parents=True, exist_ok=True)
        run = Run(_fresh_folder(home, start_wall))
        stamp = run.path.name
        _point(home / "latest", stamp, via=run.path)
        _point(self.root / "latest", f"{name}/{stamp}", via=run.path)
        _point(self.root / "current", f"{name}/{stamp}", via=run.path)
        _sync_folder(home)
        return run

    def runs(self, name: str | None = None) -> tuple[Path, ...]:
        """Every run's folder, oldest first; links are never followed."""
        homes = [self.root / name] if name is not None else _folders(self.root)
        found = [run for home in homes for run in _folders(home) if _STAMP.fullmatch(run.name)]
        return tuple(sorted(found, key=lambda run: (run.name, run.parent.name)))


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as found on disk, whole or not.

    `config` is empty and `results` is None where the run died before their save. `report` says how
    the journal was found.
    """

    path: Path
    config: dict[str, Any]
    history: History
    report: ReadReport
    results: dict[str, Any] | None

    @property
    def complete(self) -> bool:
        """The run ended properly and was judged."""
        return self.report.complete and (self.path / RESULTS_EDN).exists()


def is_run(path: Path) -> bool:
    """Whether a folder is one that a run has written."""
    return any((path / name).exists() for name in (CONFIG, JOURNAL))


def is_table(path: Path) -> bool:
    """Whether a path is that of an events table, and no run's folder, which may hold one."""
    if not path.is_dir():
        return path.suffix == ".parquet"
    return not is_run(path) and _has_parts(path)


def table_of(run: Path) -> Path | None:
    """The table in a run's folder, one file or a folder of parts; None: there is none."""
    if (run / PARQUET).exists():
        return run / PARQUET
    return run / PARTS if _has_parts(run / PARTS) else None


def _has_parts(folder: Path) -> bool:
    from maxq.histories.parquet import table_files  # Arrow takes its time to be imported

    return folder.is_dir() and bool(table_files(folder))


def whole_table(path: Path) -> Path | None:
    """The table that has all of a run's history: of one that ended properly and was judged, or has
    no journal; else None."""
    judged = (path / RESULTS_EDN).exists() or not (path / JOURNAL).exists()
    return table_of(path) if judged else None


def open_part(path: Path, history: History, report: ReadReport) -> StoredRun:
    """A run whose history is not read but given, in part, by who has read it elsewhere."""
    return StoredRun(
        path=path,
        config=_read_json(path / CONFIG) or {},
        history=history,
        report=report,
        results=_read_json(path / RESULTS),
    )


def open_run(path: Path, *, allow_truncated: bool = False) -> StoredRun:
    """Read a run, also one whose harness was killed, through a link or not.

    Raises:
        HistoryError: it is no run, or its history is damaged (see `read_jsonl`).
    """
    path = path.resolve()
    if (path / JOURNAL).exists():
        ops, report = read_jsonl(path / JOURNAL, allow_truncated=allow_truncated)
    elif (table := table_of(path)) is not None:
        # Arrow takes its time to be imported.
        from maxq.histories.lines.whole_table import read_table

        ops, report = read_table(table, allow_truncated=allow_truncated)
    else:
        ops, report = (), unrecorded(path)
    return open_part(path, History(ops), report)


def unrecorded(path: Path) -> ReadReport:
    """How the history of a run was found that died before its first operation.

    Raises:
        HistoryError: it is no run.
    """
    if not (path / CONFIG).exists():
        raise HistoryError(f"no history in {path.name}: neither {JOURNAL} nor a .parquet file")
    return ReadReport(count=0, complete=False)


def config_of_folder(path: Path) -> dict[str, Any]:
    """How a run was set up; empty where its folder does not say.

    Raises:
        HistoryError: the file is no JSON.
    """
    return _read_json(path / CONFIG) or {}


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that any crash leaves the old one or the new one."""
    temporary = beside(path)
    temporary.write_bytes(data)
    put_in_place(temporary, path)


def beside(path: Path) -> Path:
    """Where a file is written that is not whole yet."""
    return path.with_name(f".{path.name}.tmp")


def put_in_place(temporary: Path, path: Path) -> None:
    """Give a whole file its name, once it is on the disk."""
    fd = os.open(temporary, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    _sync_folder(path.parent)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object as indented JSON, whole."""
    write_whole(path, msgspec.json.format(msgspec.json.encode(dict(value)), indent=2) + b"\n")


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return None
    except NOT_JSON as e:
        raise HistoryError(f"{path.name}: {e}") from None


def _for_jepsen(value: Any) -> Any:
    """Rename `valid` to `valid?` at every level; an unknown verdict is a keyword there."""
    if isinstance(value, Mapping):
        return {_jepsen_key(k): _jepsen_value(k, v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_for_jepsen(v) for v in value]
    return value


def _jepsen_key(key: Any) -> Any:
    return "valid?" if key == "valid" else key


def _jepsen_value(key: Any, value: Any) -> Any:
    if key == "valid" and value == "unknown":
        return Keyword(value)
    return _for_jepsen(value)


def _checked(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"not a {what}'s name: {name!r}")
    return name


def _fresh_folder(home: Path, start_wall: datetime) -> Path:
    if start_wall.tzinfo is None:
        raise ValueError(f"wall clock without a time zone: {start_wall}")
    at = start_wall.astimezone(UTC)
    for _ in range(SAME_MS_RUNS_MAX):
        path = home / f"{at:%Y%m%dT%H%M%S}.{at.microsecond // 1000:03d}Z"
        try:
            path.mkdir()
        except FileExistsError:
            at += timedelta(milliseconds=1)
        else:
            return path
    raise FileExistsError(f"{SAME_MS_RUNS_MAX} runs from {start_wall} on, in {home.name}")


def _point(link: Path, target: str, *, via: Path) -> None:
    # Made in the run's own folder and renamed into place: see the rule at the top. The text of a
    # relative link counts from where it ends up.
    temporary = via / f".{link.name}.tmp"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    os.replace(temporary, link)


def _folders(path: Path) -> list[Path]:
    if not path.is_dir():
        return []
    return sorted(p for p in path.iterdir() if p.is_dir() and not p.is_symlink())


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
