"""Controllers for whom half of the group, rounded down, is enough.

Two parts of a group of three lead, commit and answer side by side; what the smaller one has decided
disappears when they meet again. Breaks S3, S4, S5.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.raft import core, quorum

FAMILY = "raft"
CLAIM = "S4"
SOURCE = "Elasticsearch before 7: minimum_master_nodes below a majority splits the cluster"


@contextmanager
def mutant() -> Iterator[None]:
    """Count one too few."""
    honest, honest_reached = quorum.is_majority, quorum.reached_by_majority

    def is_majority(of: Collection[str], peers: Collection[str]) -> bool:
        ran(__name__)
        enough = sum(1 for p in peers if p in of) >= max(1, len(peers) // 2)
        if enough and not honest(of, peers):
            diverged(__name__)
        return enough

    def reached_by_majority(positions: Iterable[int]) -> int:
        ranked = sorted(positions, reverse=True)
        reached = ranked[max(1, len(ranked) // 2) - 1] if ranked else 0
        if reached > honest_reached(ranked):
            diverged(__name__)
        return reached

    with (
        replaced(core, "is_majority", is_majority),
        replaced(core, "reached_by_majority", reached_by_majority),
    ):
        yield
