"""Grudges: who takes no packets from whom. Pure; everything a partition may look like.

A grudge maps a destination to the sources whose packets it drops, one way; a symmetric partition
names both. Shapes and names follow Jepsen's (jepsen/src/jepsen/nemesis.clj).
"""

from collections.abc import Iterable, Sequence
from random import Random

from maxq.harness.contracts.cluster import Grudge


def apart(*groups: Iterable[str]) -> Grudge:
    """Nobody of a group hears anybody of another."""
    sets = [frozenset(group) for group in groups]
    everybody = frozenset().union(*sets)
    return {node: everybody - own for own in sets for node in sorted(own) if everybody - own}


def isolated(node: str, everybody: Sequence[str]) -> Grudge:
    """One node on one side, all others on the other."""
    return apart([node], [n for n in everybody if n != node])


def halves(everybody: Sequence[str], rng: Random) -> Grudge:
    """Two random halves; the smaller one first."""
    names = rng.sample(everybody, len(everybody))
    return apart(names[: len(names) // 2], names[len(names) // 2 :])


def bridge(everybody: Sequence[str], rng: Random) -> Grudge:
    """Two halves that hear nothing of each other, and one node that both hear."""
    *rest, _ = rng.sample(everybody, len(everybody))
    return apart(rest[: len(rest) // 2], rest[len(rest) // 2 :])


def majorities_ring(everybody: Sequence[str], rng: Random) -> Grudge:
    """Each node hears a majority, and no two the same one: the nodes next to it in a ring."""
    names = rng.sample(everybody, len(everybody))
    size = len(names) // 2 + 1
    grudge = {}
    for at in range(len(names)):
        window = [names[(at + i) % len(names)] for i in range(size)]
        grudge[window[size // 2]] = frozenset(names) - set(window)
    return {node: sources for node, sources in sorted(grudge.items()) if sources}


def deaf(node: str, everybody: Sequence[str]) -> Grudge:
    """One node hears nobody; everybody hears it."""
    return {node: frozenset(everybody) - {node}}


def mute(node: str, everybody: Sequence[str]) -> Grudge:
    """Nobody hears one node; it hears everybody."""
    return {other: frozenset({node}) for other in everybody if other != node}
