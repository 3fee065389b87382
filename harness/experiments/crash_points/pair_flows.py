"""The flows of brokers without controllers that are crashed at every point.

First copy of an empty slave, at the slave and at its master; start of acting, when the master is
killed; end of acting, when it returns, at the slave and at the master. Each is done twice: by
brokers that sync before they answer, which all must be whole again, and by those that do not.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from maxq.harness.contracts.environment import Role
from maxq.harness.experiments.crash_points import escape_flows
from maxq.harness.experiments.crash_points.arena import Arena
from maxq.harness.experiments.crash_points.flows import Flow, nothing, start_all
from maxq.harness.experiments.crash_points.pair_arena import PairArena

MASTER, SMALLEST, LAST = "b0-0", "b0-1", "b0-2"
ASYNC = "-async"  # of a flow of brokers that do not sync before they answer
ACTED_S = 1.0
FILE, FILES = 4096, 2
SMALL_FILES = {"mappedFileSizeCommitLog": str(FILE), "mappedFileSizeConsumeQueue": "200"}


def _pair(arena: Arena) -> PairArena:
    return cast(PairArena, arena)


# Preparations.


def two_of_three(arena: Arena) -> None:
    """A master and a slave have some messages, in more files than one; a third broker is new."""
    arena.start(*arena.of(Role.NAMESRV), MASTER, SMALLEST)
    arena.until(lambda: arena.in_sync(2) and arena.brokers()[MASTER]._store.end > FILES * FILE,
                "two are in sync")  # fmt: skip


def all_in_sync(arena: Arena) -> None:
    """All brokers are in sync and have some messages."""
    arena.start(*arena.of(Role.NAMESRV), MASTER, SMALLEST, LAST)
    arena.until(lambda: arena.in_sync(3) and len(arena.acked) >= 3, "all are in sync")


def acted_for(arena: Arena) -> None:
    """The master is down, and the smallest slave acts for it."""
    all_in_sync(arena)
    arena.kill(MASTER)
    arena.until(lambda: _pair(arena).acting() == [SMALLEST], "the smallest slave acts")


def _victim(prepare: Callable[[Arena], None], name: str) -> Callable[[Arena], str]:
    def prepared(arena: Arena) -> str:
        prepare(arena)
        return name

    return prepared


# The flows.


def _start_last(arena: Arena) -> None:
    arena.start(LAST)


def _start_master(arena: Arena) -> None:
    arena.start(MASTER)


def _kill_master(arena: Arena) -> None:
    arena.kill(MASTER)


def _all_copy(arena: Arena) -> bool:
    return arena.in_sync(3) and arena.fresh()


def _acts(arena: Arena) -> bool:
    """The smallest slave acts, long enough to have said so to the name server, and to have asked
    it again."""
    log = arena.world.machines[SMALLEST].log
    since = max((at for at, trace, _ in log if trace == "broker.acting"), default=0)
    long_enough = arena.world.scheduler.now_ns - since >= ACTED_S * 1e9
    return _pair(arena).acting() == [SMALLEST] and long_enough


def _is_over(arena: Arena) -> bool:
    return not _pair(arena).acting() and arena.in_sync(3) and arena.fresh()


def _began_above_zero(arena: Arena, victim: str) -> bool:
    return arena.brokers()[LAST]._store.start > 0


def _has_acted(arena: Arena, victim: str) -> bool:
    log = arena.world.machines[SMALLEST].log
    return [f["on"] for _, trace, f in log if trace == "broker.acting"][-1:] == [True]


def _acts_no_more(arena: Arena, victim: str) -> bool:
    log = arena.world.machines[SMALLEST].log
    return [f["on"] for _, trace, f in log if trace == "broker.acting"][-2:] == [True, False]


def _both(flow: Flow) -> tuple[Flow, Flow]:
    """A flow of brokers that sync before they answer, and of those that do not."""
    alone = replace(flow, controllers=0)
    return alone, replace(alone, name=flow.name + ASYNC, sync_flush=False)


PAIR_FLOWS: dict[str, Flow] = {
    flow.name: flow
    for both in map(_both, (
        Flow("pair-first-copy", _victim(two_of_three, LAST), _start_last, _all_copy,
             _began_above_zero, nothing, keys=SMALL_FILES, arena=PairArena),
        Flow("pair-first-copy-master", _victim(two_of_three, MASTER), _start_last, _all_copy,
             _began_above_zero, nothing, keys=SMALL_FILES, arena=PairArena),
        Flow("pair-acting", _victim(all_in_sync, SMALLEST), _kill_master, _acts, _has_acted,
             start_all, arena=PairArena),
        Flow("pair-acting-over", _victim(acted_for, SMALLEST), _start_master, _is_over,
             _acts_no_more, nothing, arena=PairArena),
        Flow("pair-return", _victim(acted_for, MASTER), _start_master, _is_over,
             _acts_no_more, nothing, arena=PairArena),
        *escape_flows.flows(),
    ))
    for flow in both
}  # fmt: skip
