"""The flows of what escapes from an acting slave, at which slave or target crash at every point.

One delayed message, or two half messages: from shortly before the slave sends them until it has
its progress in its file, or until the target has settled them. As `pair_flows` each is done twice.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

from maxq.harness.experiments.crash_points.arena import Arena
from maxq.harness.experiments.crash_points.escape_arena import (
    ACTING,
    CHECK_S,
    COMMITTED,
    COPY,
    DELAY_S,
    DELAYED,
    MASTER,
    MOVED,
    ROLLED_BACK,
    TARGET,
    EscapeArena,
)
from maxq.harness.experiments.crash_points.flows import Flow, nothing

BEFORE_S = 0.15  # that the flow begins before anything is sent
HALVES = (COMMITTED, ROLLED_BACK)


def _sets(arena: Arena) -> EscapeArena:
    return cast(EscapeArena, arena)


# Preparations.


def acted_for(arena: EscapeArena, *waiting: bytes) -> None:
    """Messages wait at the first set, whose master is down; its slave acts."""
    arena.start(*dict.fromkeys(map(arena.process, arena.nodes)))
    arena.until(lambda: arena.in_sync(2) and min(arena.taken[s] for s in arena.sets) >= 2,
                "both sets take messages")  # fmt: skip
    arena.pause()
    arena.send_waiting(*waiting)
    arena.kill(arena.process(MASTER))
    arena.until(lambda: arena.acting() == [ACTING], "the slave acts")


def shortly_before_due(arena: Arena) -> None:
    """A delayed message is about to be due."""
    sets = _sets(arena)
    acted_for(sets, DELAYED)
    _wait_until(sets, sets.sent[DELAYED] + round((DELAY_S - BEFORE_S) * 1e9))


def shortly_before_round(arena: Arena) -> None:
    """The slave is about to look for half messages that are open."""
    sets = _sets(arena)
    acted_for(sets, *HALVES)
    _wait_until(sets, sets.world.scheduler.now_ns + round((CHECK_S - BEFORE_S) * 1e9))


def _wait_until(arena: EscapeArena, at_ns: int) -> None:
    scheduler = arena.world.scheduler
    arena.until(lambda: scheduler.now_ns >= at_ns, "the time comes", seconds=DELAY_S)


def _victim(prepare: Callable[[Arena], None], name: str) -> Callable[[Arena], str]:
    def prepared(arena: Arena) -> str:
        prepare(arena)
        return arena.process(name)

    return prepared


# The flows.


def _delay_is_written(arena: Arena) -> bool:
    return _sets(arena).delay_on_disk() == 1


def _halves_are_written(arena: Arena) -> bool:
    return _sets(arena).half_on_disk() == len(HALVES)


def _delayed_is_copied(arena: Arena) -> bool:
    return DELAYED in _sets(arena).readable(COPY) and _is_safe(arena, MOVED[0])


def _halves_are_settled(arena: Arena) -> bool:
    sets = _sets(arena)
    settled = COMMITTED in sets.readable(COPY) and not sets.still_open(TARGET)
    return settled and _is_safe(arena, MOVED[1])


def _is_safe(arena: Arena, moved: str) -> bool:
    """The slave has its answer, and the target has synced."""
    store = arena.brokers()[TARGET]._store
    return arena.logged(ACTING, moved) > 0 and store.durable == store.end


def _was_moved(trace: str, count: int, arena: Arena, victim: str) -> bool:
    return arena.logged(ACTING, trace) == count


def local_flows(arena: type[EscapeArena]) -> tuple[Flow, ...]:
    """The flows in which slave and target are one process, the victim."""
    return (
        Flow("container-escape-delayed", _victim(shortly_before_due, ACTING), nothing,
             _delayed_is_copied, partial(_was_moved, MOVED[0], 1), nothing,
             controllers=0, brokers=2, arena=arena),
        Flow("container-escape-half", _victim(shortly_before_round, ACTING), nothing,
             _halves_are_settled, partial(_was_moved, MOVED[1], len(HALVES)), nothing,
             controllers=0, brokers=2, arena=arena),
    )  # fmt: skip


def flows() -> tuple[Flow, ...]:
    """The flows of brokers that sync before they answer."""
    delayed, halves = shortly_before_due, shortly_before_round
    delayed_moved = partial(_was_moved, MOVED[0], 1)
    halves_moved = partial(_was_moved, MOVED[1], len(HALVES))
    return (
        Flow("pair-escape-delayed", _victim(delayed, ACTING), nothing, _delay_is_written,
             delayed_moved, nothing, brokers=2, arena=EscapeArena),
        Flow("pair-escape-delayed-target", _victim(delayed, TARGET), nothing, _delayed_is_copied,
             delayed_moved, nothing, brokers=2, arena=EscapeArena),
        Flow("pair-escape-half", _victim(halves, ACTING), nothing, _halves_are_written,
             halves_moved, nothing, brokers=2, arena=EscapeArena),
        Flow("pair-escape-half-target", _victim(halves, TARGET), nothing, _halves_are_settled,
             halves_moved, nothing, brokers=2, arena=EscapeArena),
    )  # fmt: skip
