"""A name server that takes from a registered master only the topics that it does not know yet.

The broker set's permission to write was taken with its master; the master is back, and clients
still find nobody to send to. Breaks N8.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv.routes import Registration, Routes

FAMILY = "routes"
CLAIM = "N8"
SOURCE = "RocketMQ takes all topics of an id that had no address (docs/spec/acting-master.md 1.3)"


@contextmanager
def mutant() -> Iterator[None]:
    """Replace nothing."""
    honest = Routes._take_topics

    def _take_topics(self: Routes, r: Registration, *, replace: bool) -> None:
        ran(__name__)
        before = self.queues.topics_of([r.broker_name])
        if replace and set(before) & r.topics.keys():
            diverged(__name__)
        honest(self, r, replace=False)

    with replaced(Routes, "_take_topics", _take_topics):
        yield
