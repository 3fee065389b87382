"""A leading controller that answers the same question with the same answer for five seconds.

No controller's answers go back, and yet anyone who asks right after an election learns who was
master before it, although the new one leads already. Breaks S3b.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.controller.server import Controller
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.node import now_ns
from maxq.reference.records import some
from maxq.reference.rpc import Reply
from maxq.reference.wire.frame import Frame

FAMILY = "raft"
CLAIM = "S3b"
SOURCE = "the hazard of every cache before a linearizable read; Consul's default and stale reads"
KEPT_NS = 5_000_000_000


@contextmanager
def mutant() -> Iterator[None]:
    """Keep what was answered about SyncStateSets."""
    honest = Controller._sync_state_data
    kept: dict[tuple[int, bytes | None], tuple[int, bytes | None]] = {}

    async def _sync_state_data(self: Controller, request: Frame) -> Reply:
        ran(__name__)
        answer = some(await honest(self, request), "this question is always answered")
        now, question = now_ns(), (id(self), request.body)
        at, body = kept.get(question, (now - KEPT_NS, b""))
        if now - at >= KEPT_NS:
            kept[question] = now, answer.body
            return answer
        if body != answer.body:
            diverged(__name__)
        return request.answer(answer.code, body=body)

    with replaced(Controller, "_sync_state_data", _sync_state_data):
        yield
