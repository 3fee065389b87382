"""A controller that leads until it hears of a newer term, and reads from its own state.

Cut off from the others it goes on answering, from before the elections that they hold without it.
Breaks S3, S4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.raft.core import Core, Effect, Read, ReadReady

FAMILY = "raft"
CLAIM = "S3"
SOURCE = "RocketMQ with isProcessReadEvent=false; etcd 0.4 and Consul read so (Jepsen, 2014)"


@contextmanager
def mutant() -> Iterator[None]:
    """Ask no peer before an answer, and never step down for want of answers."""
    honest, honest_timeout = Core._on_read, Core._on_timeout

    def _on_read(self: Core, event: Read) -> list[Effect]:
        ran(__name__)
        if not self.ready:
            return honest(self, event)
        return [ReadReady(ticket=event.ticket, index=self.commit)]

    def _on_timeout(self: Core, now_ns: int) -> list[Effect]:
        silent = [f for f in self.followers.values()
                  if now_ns - f.heard_ns >= 2 * self.timing.election_ns]  # fmt: skip
        if self.role != "leader" or now_ns < self.deadline_ns or not silent:
            return honest_timeout(self, now_ns)
        diverged(__name__)
        self.deadline_ns = now_ns + self.timing.heartbeat_ns
        return self._broadcast()

    with replaced(Core, "_on_read", _on_read), replaced(Core, "_on_timeout", _on_timeout):
        yield
