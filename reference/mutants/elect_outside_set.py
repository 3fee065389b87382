"""A controller that elects any living broker, where no member of the SyncStateSet lives.

The new master lacks what the members alone had acknowledged, and they truncate it when they come
back. Breaks S7, then S6.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maxq.reference.controller import election
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "election"
CLAIM = "S7"
SOURCE = "Kafka before 0.11: unclean.leader.election.enable was true by default (KIP-106)"


@contextmanager
def mutant() -> Iterator[None]:
    """Elections are unclean whatever the settings say."""
    honest = election.choose

    def choose(**asked: Any) -> int | None:
        ran(__name__)
        clean, chosen = honest(**asked), honest(**{**asked, "unclean": True})
        if chosen != clean:
            diverged(__name__)
        return chosen

    with replaced(election, "choose", choose):
        yield
