"""What settings lose: the same cluster and load under one fault after the other, as a table.

Each fault has a run of its own, so that what was lost and how long nothing was taken is its doing.
Where something was lost, it is made again with other settings (`maxq.harness.schedule.fixes`); so
is any one run, with all its faults (`of_run`). Runs are kept in a journal by the command that
repeats them, so that what was cut off goes on and a change of settings begins again.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from maxq.checkers.core.api import Stretch, Valid
from maxq.checkers.core.titles import titled
from maxq.checkers.judgement.lost import Lost
from maxq.checkers.judgement.stretches import long_ones
from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import EnvironmentLost, EnvironmentUnavailable
from maxq.harness.environments.choose import SIMULATED
from maxq.harness.experiments.engine import JOURNAL, run_missing
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.run import plugins
from maxq.harness.run import provenance as source
from maxq.harness.run.process.signals import Stop
from maxq.harness.run.replay import with_seed
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule import fixes
from maxq.harness.schedule.format import SCHEDULE, Schedule, digest_of, read
from maxq.harness.schedule.options import POWER_FAULTS, Options
from maxq.harness.schedule.reductions import with_options
from maxq.nemeses.catalogue import kinds_of

HEAD = ("fault", "strikes", "lost of acknowledged", "shown, then gone", "unavailable for at most",
        "broken promises")  # fmt: skip
ERROR_MAX = 600  # characters of why a run did not come up
FOLDER = "losses"  # of a store
NO_STRIKE = "not measured (no strike)"


# Faults that last too long to be among all others of one run.
OF_THEIR_OWN = ("slaves-away-kill", "slaves-away-power")


def with_rows_of_their_own(options: Options) -> Options:
    """The same with more faults: on real machines none that takes power, as of all faults."""
    real = options.environment != SIMULATED
    more = [name for name in OF_THEIR_OWN if not (real and name in POWER_FAULTS)]
    return msgspec.structs.replace(options, nemesis=(*options.nemesis, *more))


class Job(NamedTuple):
    """A run: under one fault, with a change of settings, if any; the how manieth of these."""

    fault: str
    fix: fixes.Fix | None = None
    number: int = 0

    def __str__(self) -> str:
        return self.fault if self.fix is None else f"{self.fault} with {self.fix}"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one fault. `repeat` is the command that repeats its run, `source` the digest of
    the harness. `struck` counts the strikes by the part that their nodes played. `unavailable_ms`
    is how long at most no send to a broker set was ok, after a strike or later in the run; None
    where none was any more, or nothing was struck. `broken` are the claims that were promised and
    are broken. `answers` say what clients were answered in long times without success, `known` what
    is known of what was found. `silent_ms` is for how long at most no operation of a kind, as
    ``poll``, was ok. A run that did not come up says why in `error`."""

    fault: str
    repeat: str
    source: str
    valid: Valid = "unknown"
    strikes: int = 0
    struck: dict[str, int] = {}
    messages: Lost = Lost()
    unavailable_ms: float | None = None
    broken: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    silent_ms: dict[str, float] = {}
    run: str = ""
    error: str = ""


def row_of(fault: str, judged: Judged) -> Row:
    """What a run says of its fault."""
    after = [r.after_ns for r in judged.recoveries]
    known = [ns for ns in after if ns is not None]
    # What a fault does may begin long after its strike, as when a name server drops a master.
    long = [s.length_ns for s in judged.results.stretches if s.f == "send"]
    return Row(
        fault=fault,
        repeat=judged.options.command(),
        source=_source(),
        valid=judged.results.valid,
        strikes=len(after),
        struck=dict(sorted(Counter(r.part for r in judged.recoveries if r.part).items())),
        messages=judged.results.lost,
        unavailable_ms=max(known + long) / 1e6 if known and len(known) == len(after) else None,
        broken=judged.results.of("broken"),
        answers=tuple(long_ones(judged.results.stretches)),
        known=tuple(judged.known),
        silent_ms=silences(judged.results.stretches),
        run=str(judged.stored.path),
    )


def silences(stretches: Iterable[Stretch]) -> dict[str, float]:
    """For how long at most (ms) no operation of a kind was ok."""
    longest = sorted(stretches, key=lambda s: s.length_ns)
    return dict(sorted((s.f, s.length_ns / 1e6) for s in longest))


def _source() -> str:
    return source.digest() + plugins.digest()


class Losses:
    """The runs of a table, done and to be done.

    Args:
        folder: of the journal and of the runs.
        options: how each is set up; its faults are the rows.
        base_image: of the docker engine.
        tries: how often each change of settings is tried, where something was lost; 0: never.
    """

    def __init__(
        self, folder: Path, options: Options, *, base_image: str = "", tries: int = 0
    ) -> None:
        self._nemeses: dict[str, tuple[str, ...]] = {fault: (fault,) for fault in options.nemesis}
        self._script: Schedule | None = None
        self._tries = tries
        self._folder = folder
        self._options = options
        self._base_image = base_image
        folder.mkdir(parents=True, exist_ok=True)
        rows = resumed(folder / JOURNAL, Row)
        self._all = {row.repeat: row for row in rows if row.source == _source()}

    @classmethod
    def of_run(cls, judged: Judged, *, base_image: str = "", tries: int = 0) -> "Losses":
        """The table of one run that was made, beside whose folder the others are: a row."""
        found = cls(
            judged.stored.path.parents[1] / FOLDER, judged.options,
            base_image=base_image, tries=tries,
        )  # fmt: skip
        fault = ", ".join(judged.options.nemesis)
        found._nemeses = {fault: judged.options.nemesis}
        if judged.options.scripted:
            found._script = read(judged.stored.path / SCHEDULE)
        row = msgspec.structs.replace(row_of(fault, judged), repeat=found._key(Job(fault)))
        found._all[row.repeat] = row
        return found

    @property
    def faults(self) -> tuple[str, ...]:
        """What the rows are of."""
        return tuple(self._nemeses)

    def rows(self) -> list[Row]:
        """What is done of what was asked for, by this source, in the order of the faults."""
        found = (self._done(Job(fault)) for fault in self.faults)
        return [row for row in found if row is not None]

    def missing(self) -> list[str]:
        """The faults whose run is not done."""
        done = {row.fault for row in self.rows() if not row.error}
        return [fault for fault in self.faults if fault not in done]

    def trials(self, fault: str) -> list[fixes.Trial]:
        """What came of changes of settings under a fault, those that kept everything first."""
        found = [
            fixes.Trial(fix=str(fix), messages=tuple(row.messages for row in rows),
                        silent_ms=tuple(row.silent_ms for row in rows))
            for fix, rows in self._tried(fault).items()
        ]  # fmt: skip
        return sorted(found, key=lambda trial: not trial.kept)

    def to_try(self) -> Job | None:
        """The next change of settings that is to be tried, under a fault that lost something, or
        kept clients waiting."""
        for row in self.rows():
            alone = self._worth(row)
            if not alone or not self._tries:
                continue
            tried = self._tried(row.fault)
            kept = {fix: all(_kept(r) for r in rows) for fix, rows in tried.items()}
            fix = next((fix for fix in tried if self._is_short(row, tried[fix])), None)
            if fix is None and (row.messages.lost or row.messages.gone):
                fix = fixes.next_fix(alone, kept)
            elif fix is None:
                fix = next((fix for fix in alone if fix not in tried), None)
            if fix is not None:
                return Job(row.fault, fix, len(tried.get(fix, ())))
        return None

    def _worth(self, row: Row) -> list[fixes.Fix]:
        if row.error:
            return []
        return fixes.worth(self._of(Job(row.fault)), row.messages, row.silent_ms)

    def _is_short(self, row: Row, tried: Sequence[Row]) -> bool:
        """Whether a change is to be tried once more."""
        kept = all(map(_kept, tried))
        asked = fixes.times(self._tries, row.messages) if kept else self._tries
        return len(tried) < asked

    def advice(self) -> Iterator[str]:
        """What other settings would have kept, under each fault that lost something, or how much
        sooner clients would have been served, or why that is not known."""
        for row in self.rows():
            lost = bool(row.messages.lost or row.messages.gone)
            if trials := self.trials(row.fault):
                yield ""
                yield from fixes.said_of_trials(row.fault, trials, {} if lost else row.silent_ms)
            elif lost or self._worth(row):
                left = ", ".join(map(str, self._worth(row)))
                said = f"--try-fix 1 makes the run again with {left}, one at a time"
                yield f"\n{row.fault}: {said if left else fixes.ALL_SET}"

    def _tried(self, fault: str) -> dict[fixes.Fix, list[Row]]:
        """The runs with each change that was tried."""
        row = self._done(Job(fault))
        alone = [] if row is None else self._worth(row)
        found = {}
        for fix in (*alone, *fixes.pairs(alone)):
            jobs = (Job(fault, fix, n) for n in range(max(self._tries, fixes.CONFIRMED)))
            if rows := [row for job in jobs if (row := self._done(job)) is not None]:
                found[fix] = rows
        return found

    def _done(self, job: Job) -> Row | None:
        """A run that was made by this source, as far as it is in the journal."""
        return self._all.get(self._key(job))

    def _key(self, job: Job) -> str:
        """By what a run is known: the command that makes it, and the schedule that it has."""
        of = f"  # schedule {digest_of(self._script)}" if self._script else ""
        return self._of(job).command() + of

    def run(self, say: Callable[[str], None]) -> None:
        """Make the runs that are missing; each that does not come up is tried once."""
        failed: set[str] = set()

        def next_job(_: Collection[Job]) -> Job | None:
            fault = next((f for f in self.missing() if f not in failed), None)
            return self.to_try() if fault is None else Job(fault)

        for job, row in run_missing(next_job, self._measured, self._folder, inline=True):
            if row.error and job.fix is None:
                failed.add(job.fault)
            self._all[row.repeat] = row
            append(self._folder / JOURNAL, row)
            say(f"{job}: {row.error or said(row)}  {row.run}".rstrip())

    def _of(self, job: Job) -> Options:
        options = msgspec.structs.replace(self._options, nemesis=self._nemeses[job.fault])
        if job.fix is None:
            return options
        options = fixes.changed(options, job.fix)
        return msgspec.structs.replace(options, seed=options.seed + job.number)

    def _measured(self, job: Job) -> Row:
        options, fault = self._of(job), job.fault
        script = self._script and with_seed(
            with_options(self._script, keys=options.keys), options.seed
        )
        context = RunContext(base_image=self._base_image, stop=Stop(at_once=True), script=script)
        try:
            judged = run_test(options, self._folder / "runs", quiet=True, context=context)
        except (SetupFailed, EnvironmentLost, EnvironmentUnavailable) as error:
            text = f"{type(error).__name__}: {error}"[:ERROR_MAX]
            return Row(fault=fault, repeat=self._key(job), source=_source(), error=text)
        return msgspec.structs.replace(row_of(fault, judged), repeat=self._key(job))


def _kept(row: Row) -> bool:
    return fixes.Trial(fix="", messages=(row.messages,)).kept


def said(row: Row) -> str:
    """A row in a line."""
    gone = f"shown, then gone: {row.messages.shown_then_gone}"
    return f"{row.messages.said}; {gone}; unavailable for at most: {_unavailable(row)}"


def _struck(row: Row) -> Iterator[str]:
    """The parts of the nodes that were struck, with how often; nothing where that is unknown."""
    if row.struck:
        yield f"struck {', '.join(f'{part} {n}' for part, n in row.struck.items())}"


def _unavailable(row: Row) -> str:
    if not row.strikes:
        return NO_STRIKE
    if row.unavailable_ms is None:
        return "the rest of the run"
    return f"{row.unavailable_ms / 1000:.1f} s"


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows, as Markdown that reads as a table on a terminal too; then what was struck, what
    clients were answered in long times without success, and what is known of what was found."""
    cells = [HEAD]
    for row in rows:
        if row.error:
            cells.append((row.fault, "-", "the run did not come up", "-", "-", "-"))
            continue
        said = row.messages
        broken = titled(row.broken, 2) or ("none" if row.valid is True else "not all judged")
        cells.append((row.fault, f"{row.strikes}", said.of, said.shown_then_gone,
                      _unavailable(row), broken))  # fmt: skip
    widths = [max(len(line[at]) for line in cells) for at in range(len(HEAD))]
    for number, line in enumerate(cells):
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        yield f"| {' | '.join(padded)} |"
        if not number:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    more = [f"- {row.fault}: {text}" for row in rows
            for text in (*_about(row.fault), *_struck(row), *row.answers, *row.known)]  # fmt: skip
    yield from ("", *more) if more else ()
    for error, faults in _errors(rows).items():
        yield f"\n{', '.join(faults)}: {error}"


def _about(fault: str) -> Iterator[str]:
    """What a fault is whose name does not say it all."""
    if fault in OF_THEIR_OWN:
        yield from (kind.about for kind in kinds_of(fault))


def _errors(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Why runs did not come up, each reason once, with its faults."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.error:
            found.setdefault(row.error, []).append(row.fault)
    return found
