"""A broker that asks itself as well, over the network, and counts its own grant twice.

Cut off from the others it has two votes of three. Breaks L1, L2.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from maxq.reference.broker.locks import lock_quorum
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "locks"
CLAIM = "L1"
SOURCE = (
    "Redlock's assumption of independent nodes; RocketMQ finds itself in its polled group "
    "(docs/spec/acting-master.md 6.6)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Ask every member of the group."""
    honest = lock_quorum.others

    def others(group: Mapping[int, str], *, address: str, ids: Iterable[int]) -> tuple[str, ...]:
        ran(__name__)
        right = honest(group, address=address, ids=ids)
        found = tuple(a for _, a in sorted(group.items()))
        if found != right:
            diverged(__name__)
        return found

    def everybody(self: lock_quorum.Locks) -> tuple[str, ...]:
        return self._peers

    with (
        replaced(lock_quorum, "others", others),
        replaced(lock_quorum.Locks, "_others", everybody),
    ):
        yield
