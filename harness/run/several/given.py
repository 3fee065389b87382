"""Several runs that a command is given by one name: of a campaign, of a store, or of a test."""

import filecmp
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from maxq.harness.contracts.terminal import echo
from maxq.histories.digests import digests_of
from maxq.histories.op import HistoryError
from maxq.histories.parquet import run_id_of, table_files
from maxq.histories.store import CONFIG, JOURNAL, RunStore, is_run, is_table, table_of

RUNS = "runs"  # of a campaign's folder: the store


class Given(NamedTuple):
    """A run: the id that its rows have, and its folder or file."""

    id: str
    path: Path


def runs_in(path: Path) -> Sequence[Path]:
    """The folders of all runs of a campaign, of a store, or of one test in a store; none where a
    path is no such folder."""
    if not path.is_dir() or is_run(path) or is_table(path):
        return ()
    path = path.resolve()
    stores = (RunStore(path / RUNS).runs(), RunStore(path).runs())
    return next(filter(None, stores), RunStore(path.parent).runs(path.name))


def given_by(paths: Sequence[Path]) -> list[Given]:
    """The runs that some paths stand for, in order; of equal copies of one the first.

    Raises:
        HistoryError: there is none, or two have one id and are not equal.
    """
    found: dict[str, Given] = {}
    for path in (own for each in paths for own in runs_in(each) or [each.resolve()]):
        run = Given(_id_of(path), path)
        if (other := found.setdefault(run.id, run)) is run or other.path == path:
            continue
        if not _equal(other.path, path):
            raise HistoryError(
                f"{other.path} and {path} are both called {run.id}, and differ: leave one out"
            )
        echo(f"{path} is a copy of {other.path}: taken once", err=True)
    if not found:
        raise HistoryError(f"there is no run in {', '.join(map(str, paths))}")
    return [*found.values()]


def _id_of(path: Path) -> str:
    if is_table(path):
        return run_id_of(path) or path.stem
    return f"{path.parent.name}/{path.name}" if path.is_dir() else path.stem


def _equal(one: Path, other: Path) -> bool:
    """Whether two runs have the same files, to the byte."""
    mine, theirs = _files_of(one), _files_of(other)
    return mine.keys() == theirs.keys() and all(
        filecmp.cmp(mine[name], theirs[name], shallow=False) for name in mine
    )


def _files_of(path: Path) -> dict[str, Path]:
    """What is read of a run, by its name in the run's folder."""
    if not is_run(path):
        return {"" if path.is_file() else each.name: each for each in table_files(path)}
    table = table_of(path)
    own = [path / CONFIG, path / JOURNAL, digests_of(path / JOURNAL)]
    own += table_files(table) if table is not None else []
    return {str(each.relative_to(path)): each for each in own if each.exists()}
