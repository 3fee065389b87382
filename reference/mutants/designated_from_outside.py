"""A controller that obeys an operator who names a master from outside the SyncStateSet.

It only looks whether the broker is registered and alive. What the members had acknowledged and the
new master lacks is truncated from all of them. Breaks S7, then S6.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maxq.reference.controller import election
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "election"
CLAIM = "S7"
SOURCE = (
    "RocketMQ DefaultElectPolicy: a preferred replica wins before the SyncStateSet is looked at"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Designate any living broker."""
    honest = election.choose

    def choose(**asked: Any) -> int | None:
        chosen = honest(**asked)
        if not asked["designate"]:
            return chosen
        ran(__name__)
        wanted: int | None = asked["preferred"]
        living = {c.broker_id for c in asked["alive"]}
        if chosen is None and wanted in living and wanted in asked["registered"]:
            diverged(__name__)
            return wanted
        return chosen

    with replaced(election, "choose", choose):
        yield
