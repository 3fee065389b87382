"""Many runs put into one dataset (`maxq.histories.datasets`), each as it would be judged now."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from maxq.harness.run.piecewise import Source, recorded_source, source_of, table_instead
from maxq.harness.run.process.room import is_full
from maxq.harness.run.several.given import Given
from maxq.harness.run.stored_run import held
from maxq.histories.columns.halves import with_halves
from maxq.histories.datasets import manifest
from maxq.histories.datasets.manifest import RunRows, Verdict
from maxq.histories.datasets.writing import Writer, dataset_in
from maxq.histories.op import HistoryError, without_cycles
from maxq.histories.parquet import read_batches
from maxq.histories.store import CONFIG, RESULTS, is_run, is_table
from maxq.histories.tables import EVENTS
from maxq.histories.text import NOT_JSON


def compact(runs: Sequence[Given], out: Path, done: Callable[[int], None]) -> list[RunRows]:
    """Write some runs into a dataset; how it says of each what became of it.

    Args:
        runs: each with an id of its own.
        out: the folder, which is not there yet.
        done: hears after each run how many are done.

    Raises:
        HistoryError: a run is damaged or still goes on, or the folder is another one.
        OSError: the disk is full. Nothing is left of the dataset.
    """
    sources = tuple(manifest.Source(run.id, str(run.path)) for run in runs)
    out.mkdir(parents=True, exist_ok=True)
    try:
        with (
            _alone(out),
            dataset_in(out, sources) as (writer, found),
            without_cycles(),
        ):
            for number, run in enumerate(runs, start=1):
                with _named(run):
                    found.append(_written(run, writer))
                done(number)
    except OSError as error:
        if not is_full(error) or error.filename:  # who names a place has said what is full
            raise
        why = "the disk is full: nothing is kept; free some of it and begin again"
        raise OSError(error.errno, why, str(out)) from error
    return found


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """No other process writes this dataset meanwhile."""
    with held(out) as free:
        if not free:
            raise HistoryError(f"another `maxq compact` writes {out}")
        yield


@contextmanager
def _named(run: Given) -> Iterator[None]:
    """What is wrong with a run is said with its name, and how to go on."""
    try:
        yield
    except HistoryError as error:
        raise HistoryError(f"{run.path}: {error}; leave this run out, or repair it") from None


def _written(run: Given, writer: Writer) -> RunRows:
    with ExitStack() as stack:
        if run.path.is_dir() and not stack.enter_context(held(run.path)):
            raise HistoryError("the run still goes on")
        source = stack.enter_context(_source_of(run.path))
        stretches = writer.run(run.id, _events(source, run.path))
        return RunRows(
            id=run.id,
            source=str(run.path),
            config=_raw(run.path / CONFIG),
            report=source.report,
            verdict=_verdict(run.path / RESULTS),
            stretches=stretches,
        )


@contextmanager
def _source_of(path: Path) -> Iterator[Source]:
    """A run's history: by its table where that says what the journal does, as a judge reads it."""
    if not path.is_dir() or is_table(path):
        with source_of(path, allow_truncated=False) as source:
            yield source
    elif (by_table := table_instead(path)) is not None:
        yield by_table
    else:
        with recorded_source(path, allow_truncated=False) as source:
            yield source


def _events(source: Source, path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a history, with all columns of an events table."""
    if source.table is None:
        for batch, other in with_halves(partial(source.batches, None)):
            yield _with_other(batch, other)
        return
    try:
        yield from read_batches(source.table)
    except HistoryError as error:
        if not is_run(path):
            raise
        table = source.table[0].path
        name = table.name if table.parent == path else table.parent.name
        said = f"{error}; take {name} away, and its journal is read, which is whole"
        raise HistoryError(said) from None


def _with_other(batch: pa.RecordBatch, other: Any) -> pa.RecordBatch:
    more: dict[str, Any] = {"run_id": pa.repeat("", len(batch)), "pair": np.asarray(other)}
    columns = [more[name] if name in more else batch[name] for name in EVENTS.names]
    arrays = [pa.array(column) if isinstance(column, np.ndarray) else column for column in columns]
    return pa.RecordBatch.from_arrays(arrays, names=EVENTS.names)


def _raw(path: Path) -> msgspec.Raw:
    """A file's JSON as it is; null where there is none.

    Raises:
        HistoryError: it is no JSON.
    """
    data = path.read_bytes() if path.is_file() else b"null"
    try:
        msgspec.json.decode(data, type=dict[str, Any] | None)
    except NOT_JSON as error:
        raise HistoryError(f"{path.name}: {error}") from None
    return msgspec.Raw(data)


class _Results(msgspec.Struct):
    """Of results.json what is kept."""

    valid: bool | str = "unknown"
    verdict: str = ""


def _verdict(path: Path) -> Verdict | None:
    """What a run's folder says of it; None where it does not, or not so that it can be read."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Results)
    except (FileNotFoundError, NotADirectoryError, *NOT_JSON):
        return None
    return Verdict(found.valid, found.verdict)
