"""Writes what suffices of an invalid history, to be judged alone."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from maxq.checkers.counterexample.of_anomaly import Counterexample
from maxq.histories.grounds import RUN
from maxq.histories.op import Op
from maxq.histories.store import JOURNAL, Run, StoredRun

ORIGINAL = "original-index"  # ext: the operation's index in the whole history


def write(
    stored: StoredRun, found: Sequence[Counterexample], folder: Path
) -> list[tuple[Counterexample, Path]]:
    """Write each counterexample into a folder of its own, as a run of the same set-up or, where
    there is none, as a journal; where it is, as ``maxq check`` takes it.

    Raises:
        FileExistsError: something is there already.
        OSError: the folder does not take it.
    """
    written = []
    for number, each in enumerate(found, start=1):
        run = Run(folder / f"{number}-{each.anomaly.name}")
        run.path.mkdir(parents=True)
        if stored.config:
            run.save_config(stored.config)
        with run.open_journal() as journal:
            for op in numbered(stored, each):
                journal.append(op)
        written.append((each, run.path if stored.config else run.path / JOURNAL))
    return written


def numbered(stored: StoredRun, found: Counterexample) -> list[Op]:
    """Its operations, and the run's own, numbered anew."""
    own = [op for op in stored.history if op.process == RUN]
    every = sorted([*own, *found.ops], key=lambda op: op.index)
    return [
        msgspec.structs.replace(op, index=at, ext={ORIGINAL: op.index, **(op.ext or {})})
        for at, op in enumerate(every)
    ]  # fmt: skip
