"""Wrong on purpose: seeded bugs that every checker must catch, loaded by name.

A mutant is a module with a context manager `mutant` that replaces one or few existing attributes of
a core class or policy for its length, and draws nothing. Its docstring is the bug's story; three
constants say where it belongs: `FAMILY`, `CLAIM` (the one that it breaks first) and `SOURCE` (where
the bug was real, or the hazard that it is, docs/spec/controller-ha.md 6.4). Nothing imports a
mutant. A node that runs one says so in its runtime info.

A run in which the wrong code did nothing proves nothing about a checker, so a mutant reports `ran`
when its code is executed and `diverged` when that came to something else than the right code would
have; Anyone who wants to know listens by `heard`. Where only one of the two can be known at the
place, a mutant reports `diverged` alone.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Literal, NamedTuple

PAIRS = ("acting", "escape", "pair", "pre-online", "routes")  # of brokers without controllers
CONTAINED = "container"  # of brokers that share a process
FAMILIES = (
    "registration",
    "election",
    "raft",
    "replication",
    "confirm",
    "sync-state-set",
    "locks",
    "namesrv",
    *PAIRS,
    CONTAINED,
)

Level = Literal["ran", "diverged"]
Listener = Callable[[str, Level], None]


class About(NamedTuple):
    """What a mutant says of itself."""

    name: str
    family: str
    claim: str
    source: str
    story: str


def names() -> list[str]:
    """All mutants."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__))


def title(name: str) -> str:
    """A mutant in a line: the first of its story.

    Raises:
        ValueError: there is none of this name.
    """
    return about(name).story.partition("\n")[0]


def about(name: str) -> About:
    """What a mutant is; nothing of it runs.

    Raises:
        ValueError: there is none of this name.
        AttributeError: it does not say.
    """
    module = _module(name)
    story = (module.__doc__ or "").strip()
    return About(name, module.FAMILY, module.CLAIM, module.SOURCE, story)


def load(name: str) -> AbstractContextManager[None]:
    """Load a mutant; it acts while entered.

    Raises:
        ValueError: there is none of this name.
    """
    loaded: AbstractContextManager[None] = _module(name).mutant()
    return loaded


def _module(name: str) -> ModuleType:
    if name not in names():
        raise ValueError(f"unknown mutant {name!r}; there are: {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}")


@contextmanager
def replaced(owner: type | ModuleType, attribute: str, value: object) -> Iterator[None]:
    """Replace an attribute that must exist. A module's function is replaced for those who look it
    up in that module.

    Raises:
        AttributeError: it does not: the code moved, and the mutant would change nothing.
    """
    before = getattr(owner, attribute)
    setattr(owner, attribute, value)
    try:
        yield
    finally:
        setattr(owner, attribute, before)


@contextmanager
def held_by_nothing(name: str) -> Iterator[None]:
    """Let retention delete what is not confirmed, and a member of the SyncStateSet throw its log
    away where its master's begins behind it; for mutants that choose what is deleted.

    Args:
        name: of the mutant, which has diverged once something unconfirmed is deleted.
    """
    from maxq.reference.broker.replication.ha_slave import HaSlave
    from maxq.reference.broker.store.store import Store
    from maxq.reference.records import PhyOffset
    from maxq.reference.wire.ha import Transfer

    trim = Store.trim

    async def unchecked(self: Store, start: PhyOffset) -> None:
        if start > self.confirm_offset:
            diverged(name)
        confirmed, self.confirm_offset = self.confirm_offset, max(self.confirm_offset, start)
        try:
            await trim(self, start)
        finally:
            self.confirm_offset = confirmed

    def member_too(self: HaSlave, frame: Transfer) -> bool:
        first = not self._joined and not self._awaits_first_sync()
        return first and frame.start > self.end > 0

    with replaced(Store, "trim", unchecked), replaced(HaSlave, "_must_begin_anew", member_too):
        yield


# Traces.


class _Ear:
    """Who listens, and what was reported already: each thing is reported once."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self.reported: set[tuple[str, Level]] = set()

    def note(self, module: str, level: Level) -> None:
        if self.listener is not None and (module, level) not in self.reported:
            self.reported.add((module, level))
            self.listener(module.rpartition(".")[2], level)


_ear = _Ear()


def ran(module: str) -> None:
    """A mutant's code was executed. `module` is its ``__name__``."""
    _ear.note(module, "ran")


def diverged(module: str) -> None:
    """It came to something else than the right code would have."""
    _ear.note(module, "diverged")


@contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Call `listener` with a mutant's name and level, the first time of each."""
    before = _ear.listener, _ear.reported
    _ear.listener, _ear.reported = listener, set()
    try:
        yield
    finally:
        _ear.listener, _ear.reported = before
