"""Stored runs by night: which runs belong together, and which of other nights are like them.

A night is a folder of a campaign or a store; or, where all runs are in one store, runs without a
long pause between them. Runs are alike that have the same settings, whatever their seed.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from maxq.harness.experiments.nights.verdict_table import started_at
from maxq.harness.experiments.overview.entries import Entry, entries, inner_stores
from maxq.harness.run.several.given import RUNS
from maxq.histories.store import RunStore

PAUSE = timedelta(hours=4)  # between two nights of one store
NEVER = datetime.min.replace(tzinfo=UTC)
Settings = tuple[tuple[str, str], ...]  # without the seed


class Night(NamedTuple):
    """Runs of one night, by their start."""

    name: str
    runs: tuple[Entry, ...]


def nights_of(folders: Sequence[Path]) -> list[Night]:
    """The nights of some folders, by their first start: each folder is one; a single one may also
    be a store, whose nights have pauses between them, or hold folders, of which each is one."""
    if len(folders) > 1:
        return _each(folders)
    [folder] = folders
    if own := _runs_of(folder, inner=False):
        return _by_pauses(own)
    found = _each([path for path in sorted(folder.iterdir()) if path.is_dir()])
    return found if len(found) > 1 else _by_pauses(_runs_of(folder))


def _each(folders: Sequence[Path]) -> list[Night]:
    found = [Night(path.name, tuple(runs)) for path in folders if (runs := _runs_of(path))]
    return sorted(found, key=lambda night: _start(night.runs[0]))


def _runs_of(folder: Path, *, inner: bool = True) -> list[Entry]:
    """The runs of a campaign's folder or a store, `inner`: and of the campaigns in it; each by the
    path of its folder."""
    stores = [folder / RUNS, folder, *(inner_stores(folder).values() if inner else ())]
    known = {store.resolve(): store for store in stores if store.is_dir()}
    found = [
        msgspec.structs.replace(run, name=str(store / run.name))
        for store in known.values() if RunStore(store).runs()
        for run in entries(store)
    ]  # fmt: skip
    return sorted(found, key=_start)


def _start(run: Entry) -> datetime:
    return started_at(run) or NEVER


def _by_pauses(runs: Sequence[Entry]) -> list[Night]:
    ends = [n for n, (one, other) in enumerate(pairwise(runs), start=1)
            if _start(other) - _start(one) > PAUSE]  # fmt: skip
    each = [runs[a:b] for a, b in pairwise((0, *ends, len(runs)))] if runs else []
    return [Night(f"{part[0].started[:16]} UTC", tuple(part)) for part in each]


def settings_of(run: Entry) -> Settings:
    """What runs that are alike have in common."""
    return tuple((name, value) for name, value in run.settings.items() if name != "seed")


def in_words(settings: Settings) -> str:
    """The same in a line: what was done, and where."""
    known = dict(settings)
    alone = Entry(name="", state="unknown", said="", settings=known)
    return "; ".join(filter(None, (alone.load, alone.where)))


def alike(nights: Sequence[Night]) -> Iterator[tuple[Settings, list[list[Entry]]]]:
    """All settings, each with its runs of each night. A seeded bug that only the newest night has
    is no setting: it is what changed in the software."""
    older = {settings_of(run) for night in nights[:-1] for run in night.runs}

    def key(run: Entry) -> Settings:
        own = settings_of(run)
        return own if own in older else tuple(pair for pair in own if pair[0] != "mutant")

    every: dict[Settings, list[list[Entry]]] = {}
    for number, night in enumerate(nights):
        for run in night.runs:
            every.setdefault(key(run), [[] for _ in nights])[number].append(run)
    yield from every.items()
