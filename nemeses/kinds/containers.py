"""Brokers that leave containers which run on, and are added again (RIP-31).

remove-broker  the container ends a broker (903) and goes on: the broker's ports refuse
fail-store     no sync of a broker's store succeeds; it ends by itself, and its ports refuse
add-broker     the container starts it again on its store (902)

The brokers beside it serve on. A container that starts has all brokers of its file, so a `start`
after a kill brings back who had been removed. Source: docs/spec/acting-master.md 2.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from maxq.harness.contracts.cluster import HostingBrokers, NothingThere, Part
from maxq.harness.contracts.environment import Capability
from maxq.histories.fault_facts import ADD_BROKER, FAIL_STORE, REMOVE_BROKER
from maxq.nemeses.kind import ActKind, Args, Drawing, Fit, Kind, Step, on_each
from maxq.nemeses.kinds.machine import DISK_AILS
from maxq.nemeses.kinds.process import DOWN_S, held, one_of
from maxq.nemeses.stage import Stage, Told, told

STRUCK: tuple[Part, ...] = ("master", "slave")


def _inside(stage: Stage, args: Args) -> Fit:
    """Who is in a container; on a disk that takes nothing it could not end in good order."""

    def fits(node: str) -> bool:
        awake = stage.up(node) and stage.writable(node) and not stage.paused(node)
        return awake and bool(stage.nodes[node].container)

    return fits


def _outside(stage: Stage, args: Args) -> Fit:
    """Who was removed from a container that answers."""

    def fits(node: str) -> bool:
        return stage.removed(node) and stage.writable(node) and not stage.paused(node)

    return fits


def _sound(stage: Stage, args: Args) -> Fit:
    """Who is in a container on a disk that no other fault concerns."""
    inside = _inside(stage, args)
    return lambda node: inside(node) and not DISK_AILS & stage.ailments(node)


def _rounds(strike: str) -> Callable[[Drawing], Iterator[Sequence[Step]]]:
    def rounds(drawing: Drawing) -> Iterator[Sequence[Step]]:
        parts, holds = drawing.bag(STRUCK), drawing.holds(DOWN_S)
        while True:
            yield held(Step(strike, who=one_of(parts)), ADD_BROKER, holds.next())

    return rounds


async def _fail(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    """One that writes nothing meanwhile does not notice, and is none of those struck."""
    cluster, done = stage.cluster.offers(HostingBrokers), {}
    for node in nodes:
        with contextlib.suppress(NothingThere):
            done[node] = told(await cluster.fail_store(node))
    return done


_ADD = ActKind(
    f=ADD_BROKER, needs=frozenset(), fit=_outside, back=True, alone=True,
    do=on_each(HostingBrokers, lambda cluster, args: cluster.add, alone=True),
)  # fmt: skip
REMOVAL = Kind(
    name=REMOVE_BROKER,
    about="a container ends one of its brokers, goes on, and starts it again (RIP-31)",
    acts=(
        ActKind(
            f=REMOVE_BROKER, needs=frozenset(), fit=_inside, alone=True,
            do=on_each(HostingBrokers, lambda cluster, args: cluster.remove, alone=True),
        ),
        _ADD,
    ),
    rounds=_rounds(REMOVE_BROKER),
    asked_only=True,
)  # fmt: skip
FAILURE = Kind(
    name=FAIL_STORE,
    about="the disk fails one broker of a container, which ends by itself and is added again",
    acts=(
        ActKind(
            f=FAIL_STORE, needs=frozenset({Capability.DISK}), fit=_sound, alone=True, do=_fail,
        ),
        _ADD,
    ),
    rounds=_rounds(FAIL_STORE),
    asked_only=True,
)  # fmt: skip
