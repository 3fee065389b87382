"""A controller that takes a master for dead which it heard a moment ago.

Twenty-five seconds after it began to lead it looks once at heartbeats as if all were too old, and
elects another broker beside a master that runs: nobody can write until clients have found the new
one. Breaks S18.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.controller.liveness import Liveness
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "election"
CLAIM = "S18"
SOURCE = "hazard: a master is dead once its heartbeats are too old, and not before (2.6)"
AFTER_NS = 25_000_000_000


@contextmanager
def mutant() -> Iterator[None]:
    """Forget one heartbeat, once."""
    honest = Liveness.is_dead
    done: set[int] = set()

    def is_dead(
        self: Liveness, now_ns: int, broker_set: str, broker_id: int, timeout_ms: int
    ) -> bool:
        ran(__name__)
        dead = honest(self, now_ns, broker_set, broker_id, timeout_ms)
        if dead or id(self) in done or now_ns < self.since_ns + AFTER_NS:
            return dead
        diverged(__name__)
        done.add(id(self))
        self._seen.pop((broker_set, broker_id), None)
        self._claims.pop((broker_set, broker_id), None)
        return True

    with replaced(Liveness, "is_dead", is_dead):
        yield
