"""The flows of containers that are crashed at every point (RIP-31).

Start from the list of a file; addition of a broker with a new store, and with the one that it had;
an addition that fails at the broker's third port; a removal; retention while the other container,
with a slave, is down; and, in three containers, an escape
from an acting slave to the master beside it. The victim is the container, with all its brokers.
Afterwards an operator adds what is missing, and both sets must be whole.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from maxq.harness.contracts.environment import Role
from maxq.harness.experiments.crash_points.arena import Arena
from maxq.harness.experiments.crash_points.container_arena import (
    ContainerArena,
    DegradingArena,
    LocalEscapeArena,
)
from maxq.harness.experiments.crash_points.escape_flows import local_flows
from maxq.harness.experiments.crash_points.flows import FILE, FILES, OLD_FILES_GO, Flow
from maxq.reference.broker.store.store import Store
from maxq.reference.wire.codes import ResponseCode

ASYNC = "-async"  # of a flow of brokers that do not sync before they answer
HERE, OTHER = "k0", "k1"  # the victim, and the one beside it
MASTER = "b0-0"  # the master that it has
BROKER = "b1-1"  # the slave that the victim has
HA = 1  # from a broker's port to its third one


def _whole(arena: Arena) -> ContainerArena:
    return cast(ContainerArena, arena)


def both_up(arena: Arena) -> None:
    """Both containers have all their brokers, in sync, and some messages."""
    arena.start(*arena.of(Role.NAMESRV), HERE, OTHER)
    arena.until(lambda: not _whole(arena).wanted() and arena.in_sync(2), "all are in sync")
    arena.until(lambda: all(arena.taken[s] >= 2 for s in arena.sets), "some messages")


def one_down(arena: Arena) -> str:
    """And one of them is down."""
    both_up(arena)
    arena.kill(HERE)
    arena.sleep(1.0)
    return HERE


def without_one(arena: Arena) -> str:
    """The file of one container lacks a slave, which was never added: its set takes nothing."""
    _whole(arena).unlisted.add(BROKER)
    arena.start(*arena.of(Role.NAMESRV), HERE, OTHER)
    arena.until(lambda: arena.taken[arena.sets[0]] >= 2, "some messages of the other set")
    return HERE


def removed_one(arena: Arena) -> str:
    """The same, but it was added, has some messages, and was removed."""
    without_one(arena)
    whole = _whole(arena)
    whole.add_all()
    arena.until(lambda: arena.in_sync(2) and arena.taken[arena.sets[1]] >= 2, "all are in sync")
    # A broker is there a moment before its addition is answered.
    arena.until(lambda: not whole.unanswered, "its addition is answered")
    whole.remove(BROKER)
    arena.until(lambda: whole.wanted() == [BROKER] and not whole.unanswered, "it is removed")
    return HERE


def port_taken(arena: Arena) -> str:
    """It was never added, and another program has its third port."""
    without_one(arena)
    _whole(arena).take_port(BROKER, HA)
    return HERE


def long_log(arena: Arena) -> str:
    """One container is down, while the other's master wrote several files."""
    both_up(arena)
    arena.kill(OTHER)
    arena.until(lambda: _master_store(arena).end > FILES * FILE, "some files")
    return HERE


def _master_store(arena: Arena) -> Store:
    return arena.brokers()[MASTER]._store


def _trimmed(arena: Arena) -> bool:
    """It has lost all that is old, and takes messages."""
    return _master_store(arena).start >= FILES * FILE and arena.fresh()


def _was_trimmed(arena: Arena, victim: str) -> bool:
    return arena.logged(MASTER, "broker.trimmed") > 0


def all_up(arena: Arena) -> str:
    """As `both_up`."""
    both_up(arena)
    return HERE


def _add(arena: Arena) -> None:
    _whole(arena).answers.clear()
    _whole(arena).add(BROKER)


def _remove(arena: Arena) -> None:
    _whole(arena).answers.clear()
    _whole(arena).remove(BROKER)


def _joined(arena: Arena) -> bool:
    return not _whole(arena).wanted() and arena.in_sync(2) and arena.fresh()


def _answered(arena: Arena) -> bool:
    return bool(_whole(arena).answers)


def _has_it(arena: Arena, victim: str) -> bool:
    return not _whole(arena).wanted()


def _was_refused(arena: Arena, victim: str) -> bool:
    whole = _whole(arena)
    return whole.wanted() == [BROKER] and whole.answers == [(BROKER, ResponseCode.SYSTEM_ERROR)]


def _lacks_it(arena: Arena, victim: str) -> bool:
    whole = _whole(arena)
    return whole.wanted() == [BROKER] and whole.answers == [(BROKER, ResponseCode.SUCCESS)]


def _mend(arena: Arena) -> None:
    whole = _whole(arena)
    whole.give_port()
    whole.add_all()


def _start_other(arena: Arena) -> None:
    arena.start(OTHER)


def _flow(
    name: str,
    prepare: Callable[[Arena], str],
    act: Callable[[Arena], None],
    done: Callable[[Arena], bool],
    proof: Callable[[Arena, str], bool],
    mend: Callable[[Arena], None] = _mend,
    **more: Any,
) -> Iterator[Flow]:
    """Of brokers that sync before they answer, and of those that do not."""
    more = {"controllers": 0, "brokers": 2, "arena": ContainerArena, **more}
    return _twice(Flow(f"container-{name}", prepare, act, done, proof, mend, **more))


def _twice(flow: Flow) -> Iterator[Flow]:
    yield flow
    yield replace(flow, name=flow.name + ASYNC, sync_flush=False)


CONTAINER_FLOWS: dict[str, Flow] = {
    flow.name: flow
    for both in (
        _flow("start", one_down, lambda arena: arena.start(HERE), _joined, _has_it),
        _flow("add-new", without_one, _add, _joined, _has_it),
        _flow("add-old", removed_one, _add, _joined, _has_it),
        _flow("add-refused", port_taken, _add, _answered, _was_refused),
        _flow("remove", all_up, _remove, _answered, _lacks_it),
        # Of brokers that sync alone: a master without a slave loses with its power what it had not.
        [
            next(
                _flow(
                    "retention",
                    long_log,
                    Arena.age,
                    _trimmed,
                    _was_trimmed,
                    _start_other,
                    arena=DegradingArena,
                    **OLD_FILES_GO,
                )
            )
        ],
        *(_twice(flow) for flow in local_flows(LocalEscapeArena)),
    )
    for flow in both
}
