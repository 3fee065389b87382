"""What settings lose: the same cluster and load under one fault after the other, as a table.

Each fault has a run of its own, so that what was lost and how long nothing was taken is its doing.
Runs are kept in a journal by the command that repeats them, so that what was cut off goes on and a
change of settings begins anew.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from maxq.checkers.core.api import Valid
from maxq.checkers.judgement.lost import Lost
from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import EnvironmentLost, EnvironmentUnavailable
from maxq.harness.experiments.engine import JOURNAL, run_missing
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.run import plugins
from maxq.harness.run import provenance as source
from maxq.harness.run.process.signals import Stop
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule.options import Options

HEAD = ("fault", "strikes", "lost of acknowledged", "shown, then gone", "unavailable for at most",
        "broken promises")  # fmt: skip
NO_STRIKE = "not measured (no strike)"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one fault. `repeat` is the command that repeats its run, `source` the digest of
    the harness. `unavailable_ms` is how long at most, after a strike, no send was ok; None where
    none was any more, or nothing was struck. `broken` are the claims that were promised and are
    broken. A run that did not come up says why in `error`."""

    fault: str
    repeat: str
    source: str
    valid: Valid = "unknown"
    strikes: int = 0
    messages: Lost = Lost()
    unavailable_ms: float | None = None
    broken: tuple[str, ...] = ()
    run: str = ""
    error: str = ""


def row_of(fault: str, judged: Judged) -> Row:
    """What a run says of its fault."""
    after = [r.after_ns for r in judged.recoveries]
    known = [ns for ns in after if ns is not None]
    return Row(
        fault=fault,
        repeat=judged.options.command(),
        source=_source(),
        valid=judged.results.valid,
        strikes=len(after),
        messages=judged.results.lost,
        unavailable_ms=max(known) / 1e6 if known and len(known) == len(after) else None,
        broken=judged.results.of("broken"),
        run=str(judged.stored.path),
    )


def _source() -> str:
    return source.digest() + plugins.digest()


class Losses:
    """The runs of a table, done and to be done.

    Args:
        folder: of the journal and of the runs.
        options: how each is set up; its faults are the rows.
        base_image: of the docker engine.
    """

    def __init__(self, folder: Path, options: Options, *, base_image: str = "") -> None:
        self.faults = options.nemesis
        self._folder = folder
        self._options = options
        self._base_image = base_image
        folder.mkdir(parents=True, exist_ok=True)
        self._all = resumed(folder / JOURNAL, Row)

    def rows(self) -> list[Row]:
        """What is done of what was asked for, by this source, in the order of the faults."""
        wanted = {self._of(fault).command(): fault for fault in self.faults}
        mine = {r.repeat: r for r in self._all if r.repeat in wanted and r.source == _source()}
        return [mine[command] for command in wanted if command in mine]

    def missing(self) -> list[str]:
        """The faults whose run is not done."""
        done = {row.fault for row in self.rows() if not row.error}
        return [fault for fault in self.faults if fault not in done]

    def run(self, say: Callable[[str], None]) -> None:
        """Make the runs that are missing; each that does not come up is tried once."""
        failed: set[str] = set()

        def next_fault(_: Collection[str]) -> str | None:
            return next((f for f in self.missing() if f not in failed), None)

        for fault, row in run_missing(next_fault, self._measured, self._folder, inline=True):
            if row.error:
                failed.add(fault)
            self._all.append(row)
            append(self._folder / JOURNAL, row)
            say(f"{fault}: {row.error or said(row)}  {row.run}".rstrip())

    def _of(self, fault: str) -> Options:
        return msgspec.structs.replace(self._options, nemesis=(fault,))

    def _measured(self, fault: str) -> Row:
        options = self._of(fault)
        context = RunContext(base_image=self._base_image, stop=Stop(at_once=True))
        try:
            judged = run_test(options, self._folder / "runs", quiet=True, context=context)
        except (SetupFailed, EnvironmentLost, EnvironmentUnavailable) as error:
            text = f"{type(error).__name__}: {error}"[:300]
            return Row(fault=fault, repeat=options.command(), source=_source(), error=text)
        return row_of(fault, judged)


def said(row: Row) -> str:
    """A row in a line."""
    gone = f"shown, then gone: {row.messages.shown_then_gone}"
    return f"{row.messages.said}; {gone}; unavailable for at most: {_unavailable(row)}"


def _unavailable(row: Row) -> str:
    if not row.strikes:
        return NO_STRIKE
    if row.unavailable_ms is None:
        return "the rest of the run"
    return f"{row.unavailable_ms / 1000:.1f} s"


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows, as Markdown that reads as a table on a terminal too."""
    cells = [HEAD]
    for row in rows:
        if row.error:
            cells.append((row.fault, "-", "the run did not come up", "-", "-", "-"))
            continue
        said = row.messages
        broken = ", ".join(row.broken) or ("none" if row.valid is True else "not all judged")
        cells.append((row.fault, str(row.strikes), said.of, said.shown_then_gone,
                      _unavailable(row), broken))  # fmt: skip
    widths = [max(len(line[at]) for line in cells) for at in range(len(HEAD))]
    for number, line in enumerate(cells):
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        yield f"| {' | '.join(padded)} |"
        if not number:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"
