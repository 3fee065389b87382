"""Several stored runs, judged one after the other or some at a time in the same jobs of Spark.

They are those of a dataset, or the folders of a campaign or a store. Each is judged as it would be
alone (`maxq.harness.run.piecewise.judge_run`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from maxq.checkers.judgement.piecewise import dealt
from maxq.harness.run import piecewise, rejudge
from maxq.harness.run.judging import checkers_of, context_as_found
from maxq.harness.run.piecewise import Asked, Source, verdict_on
from maxq.harness.run.process.passes import Passes
from maxq.harness.run.rejudge import JudgedFile
from maxq.harness.run.several.given import Given
from maxq.harness.run.stored_run import Judged, held, options_of
from maxq.histories.datasets.manifest import (
    Manifest,
    RunRows,
    damaged_parts,
    part_path,
    read_manifest,
)
from maxq.histories.history import History
from maxq.histories.op import HistoryError
from maxq.histories.store import JOURNAL, StoredRun, open_part

Verdict = Judged | JudgedFile


class Open(NamedTuple):
    """A run while its history can be read: what is to be judged, and what becomes of that."""

    asked: Asked
    judged: Callable[[dealt.Judged], Verdict]


Keep = Callable[[Judged, bool], Judged]  # what is done with a verdict, of a run that has ended


class Stored(NamedTuple):
    """A run that can be opened; with `again` where its table turned out to be damaged. `events` is
    about how many it has, `before` the verdict that it had, `lost` why none of its history can be
    read."""

    id: str
    path: Path
    opened: Callable[[bool], AbstractContextManager[Open]]
    events: int
    before: object = None
    lost: str = ""


Together = Callable[[Sequence[Asked]], Sequence[dealt.Judged]]
EVENTS_MAX = 2_000_000  # of several runs that are judged together: the small part of each is held
EVENT_BYTES = 250  # of a journal, about


def judged_each(
    runs: Sequence[Stored], together: Together, at_a_time: int
) -> Iterator[tuple[Stored, Verdict | None]]:
    """Judge runs, so many at a time at most; those that are lost come to nothing.

    Raises:
        HistoryError: one cannot be read, or how it was set up is unknown.
    """
    groups = _groups([run for run in runs if not run.lost], at_a_time)
    found: dict[str, Verdict] = {}
    for run in runs:
        if not run.lost and run.id not in found:
            group = next(groups)
            found = dict(zip((each.id for each in group), _judged(group, together), strict=True))
        yield run, found.get(run.id)


def _groups(runs: Sequence[Stored], at_a_time: int) -> Iterator[list[Stored]]:
    group: list[Stored] = []
    for run in runs:
        events = run.events + sum(each.events for each in group)
        if group and (len(group) == at_a_time or events > EVENTS_MAX):
            yield group
            group = []
        group.append(run)
    if group:
        yield group


def _judged(group: Sequence[Stored], together: Together) -> list[Verdict]:
    try:
        return _at_once(group, together, again=False)
    except HistoryError:  # of which run it says nothing
        return [_alone(run, together) for run in group]


def _at_once(group: Sequence[Stored], together: Together, *, again: bool) -> list[Verdict]:
    with ExitStack() as stack:
        opened = [stack.enter_context(run.opened(again)) for run in group]
        found = together([each.asked for each in opened])
        return [each.judged(one) for each, one in zip(opened, found, strict=True)]


def _alone(run: Stored, together: Together) -> Verdict:
    try:
        return _at_once([run], together, again=True)[0]
    except HistoryError as error:
        raise HistoryError(f"{run.id}: {error}") from None


def runs_of_dataset(
    folder: Path, workloads: Sequence[str], passes: Passes, *, allow_truncated: bool
) -> list[Stored]:
    """The runs of a dataset, each part compared with its digest.

    Args:
        folder: of the dataset.
        workloads: what clients did in runs whose folders do not say.
        passes: hears how far it is.
        allow_truncated: whether runs of which rows are damaged may be lost.

    Raises:
        HistoryError: they may not; what clients did in one is unknown.
    """
    manifest = read_manifest(folder)
    damaged = damaged_parts(folder, manifest)
    if damaged and not allow_truncated:
        raise HistoryError(_unreadable(manifest, damaged))
    if workloads and all(run.config_read() is not None for run in manifest.runs):
        raise HistoryError("--workload is for files: each run here says what it was")
    found = []
    for run in manifest.runs:
        if run.config_read() is None and not workloads:
            raise HistoryError(f"{run.id} was a file, which has no config: give its --workload")
        opened = partial(_of_dataset, folder, manifest, run, workloads, passes)
        before = None if run.verdict is None else run.verdict.valid
        own = sorted(run.parts & damaged.keys())
        lost = "; ".join(f"{part_path(folder, n).name} {damaged[n]}" for n in own)
        count = run.report.count
        found.append(Stored(run.id, Path(run.source), opened, count, before, lost))
    return found


def _unreadable(manifest: Manifest, damaged: Mapping[int, str]) -> str:
    """What is damaged, with the runs that it holds, and how to go on."""
    said = []
    for number, why in damaged.items():
        runs = ", ".join(run.id for run in manifest.runs if number in run.parts)
        said.append(f"{part_path(Path(), number)}, which holds {runs}, {why}")
    cure = "`maxq compact` the runs again, or judge the others with --allow-truncated"
    return f"{'; '.join(said)}: {cure}"


@contextmanager
def _of_dataset(
    folder: Path, manifest: Manifest, run: RunRows, workloads: Sequence[str], passes: Passes,
    again: bool,
) -> Iterator[Open]:  # fmt: skip
    files = manifest.files(folder.absolute(), run)
    source = piecewise.source_in(files, run.report).with_progress(passes)
    config = run.config_read()
    stored = StoredRun(path=Path(run.source), config=config or {}, history=History(()),
                       report=run.report, results=None)  # fmt: skip
    yield Open(*_run(stored, source)) if config is not None else _file(stored, source, workloads)


def _run(stored: StoredRun, source: Source) -> tuple[Asked, Callable[[dealt.Judged], Judged]]:
    options = options_of(stored)
    asked = Asked(source, checkers_of(options), context_as_found(options, source.report))
    return asked, lambda found: verdict_on(stored, options, found).with_counterexamples()


def _file(stored: StoredRun, source: Source, workloads: Sequence[str]) -> Open:
    checkers = rejudge.checkers_for(workloads)

    def judged(found: dealt.Judged) -> JudgedFile:
        whole = msgspec.structs.replace(stored, history=found.history)
        verdict = rejudge.judged_file(whole, found.results, workloads, found.recoveries)
        return verdict.with_counterexamples(checkers)

    return Open(Asked(source, checkers, rejudge.context_of(source.report)), judged)


def runs_in_folders(
    given: Sequence[Given], passes: Passes, keep: Keep, *, allow_truncated: bool
) -> list[Stored]:
    """Runs by their folders.

    Args:
        given: which.
        passes: hears how far it is.
        keep: stores a verdict.
        allow_truncated: whether the readable part of a damaged history is enough.
    """
    found = []
    for run in given:
        opened = partial(_of_folder, run.path, passes, keep, allow_truncated)
        journal = run.path / JOURNAL
        events = journal.stat().st_size // EVENT_BYTES if journal.exists() else 0
        found.append(Stored(run.id, run.path, opened, events))
    return found


@contextmanager
def _of_folder(
    path: Path, passes: Passes, keep: Keep, allow_truncated: bool, again: bool
) -> Iterator[Open]:
    with ExitStack() as stack:
        ended = stack.enter_context(held(path))
        source = None if again else piecewise.table_instead(path)
        if source is None:
            by_journal = piecewise.recorded_source(path, allow_truncated=allow_truncated)
            source = stack.enter_context(by_journal)
        stored = open_part(path, History(()), source.report)
        asked, judged = _run(stored, source.with_progress(passes))
        yield Open(asked, lambda found: keep(judged(found), ended))
