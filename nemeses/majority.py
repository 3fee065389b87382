"""Cuts that leave a cluster able to elect: a majority of the controllers, a replica of each set.

A cut that parts every controller from the others stops elections, and with them nearly everything
that a run could judge: nothing fails over, no SyncStateSet changes, and few messages are
acknowledged before the heal. With three controllers, a name server and three brokers each ring of
majorities does that, and one in seven cuts in halves. So most cuts that a run draws are drawn again
until they leave a majority. Pure.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from random import Random

import msgspec

from maxq.harness.contracts.cluster import Grudge
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import Node

DRAWS_MAX = 20  # of one shape, before another one is taken

Shape = Callable[[Sequence[str], Random], Grudge]


class Layout(msgspec.Struct, frozen=True):
    """The nodes of which a cut must leave some: most `controllers`, a replica of each of `sets`."""

    controllers: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]

    @property
    def most(self) -> int:
        """How many controllers are a majority; of none, none."""
        return len(self.controllers) // 2 + 1 if self.controllers else 0

    def within(self, names: Iterable[str]) -> "Layout":
        """The same with these replicas only; a set of which none is named keeps all of its own."""
        known = frozenset(names)
        fewer = (tuple(r for r in replicas if r in known) for replicas in self.sets)
        kept = (some or all_ for some, all_ in zip(fewer, self.sets, strict=True))
        return Layout(self.controllers, tuple(kept))


def layout_of(nodes: Iterable[Node]) -> Layout:
    """The controllers and broker sets of a cluster, without spares."""
    own = [n for n in nodes if not n.spare]
    sets: dict[str, list[str]] = {}
    for node in own:
        if node.role is Role.BROKER:
            sets.setdefault(node.broker_set, []).append(node.name)
    controllers = tuple(n.name for n in own if Role.CONTROLLER in n.roles)
    return Layout(controllers, tuple(map(tuple, sets.values())))


def connected(grudge: Grudge, a: str, b: str) -> bool:
    """Whether two nodes hear each other."""
    nobody: frozenset[str] = frozenset()
    return a not in grudge.get(b, nobody) and b not in grudge.get(a, nobody)


def majority_left(grudge: Grudge, layout: Layout) -> frozenset[str]:
    """A majority of the controllers, each connected to each other, and of each broker set a replica
    that is connected to all of them; empty if a cut leaves none."""
    for some in combinations(layout.controllers, layout.most):
        if all(connected(grudge, a, b) for a, b in combinations(some, 2)):
            near = [_near(grudge, some, replicas) for replicas in layout.sets]
            if None not in near:
                return frozenset((*some, *(r for r in near if r is not None)))
    return frozenset()


def _near(grudge: Grudge, controllers: Sequence[str], replicas: Sequence[str]) -> str | None:
    fit = (r for r in replicas if all(connected(grudge, r, c) for c in controllers))
    return next(fit, None)


def some_majority(layout: Layout, rng: Random) -> frozenset[str]:
    """A random majority of the controllers, and a random replica of each broker set."""
    controllers = rng.sample(layout.controllers, layout.most)
    return frozenset((*controllers, *(rng.choice(replicas) for replicas in layout.sets)))


def drawn(
    shape: Shape, everybody: Sequence[str], rng: Random, layouts: Sequence[Layout]
) -> Grudge | None:
    """Draw a cut of a shape that leaves a majority, as the first of some layouts has it, or else as
    a later one; None if none of so many draws does."""
    draws = [shape(everybody, rng) for _ in range(DRAWS_MAX)]
    for layout in layouts:
        for grudge in draws:
            if majority_left(grudge, layout):
                return grudge
    return None


def spared(grudge: Grudge, group: frozenset[str]) -> Grudge:
    """The same cut, but for the links within a group."""
    left = {to: sources - group if to in group else sources for to, sources in grudge.items()}
    return {to: sources for to, sources in left.items() if sources}
