"""A set without controllers: a slave's log is how its master's begins, and what is acknowledged is
on enough logs (claim A8).

The protocol compares nothing, so nobody but who sees both logs can say that they differ. After a
loss of power either may lack what was not synced, and a set that had one is not judged. Offsets are
bytes of the commit log, ends exclusive. Source: docs/spec/acting-master.md 3.1.
"""

from collections.abc import Callable
from typing import Protocol

from maxq.harness.simulation.oracle.facts import LOG_AGREEMENT, PROMISED_BEYOND, Facts, SetFacts
from maxq.harness.simulation.oracle.log import LogDigest
from maxq.reference.broker.membership.pairs import PairMembership
from maxq.reference.records import MasterEpoch, PhyOffset


class View(Protocol):
    """One process of a broker (`maxq.harness.simulation.oracle.broker`)."""

    name: str
    digest: LogDigest
    set: SetFacts
    facts: Facts

    @property
    def alive(self) -> bool:
        """Whether its process lives."""

    def look(self) -> None:
        """Judge what has changed since the last look."""


def agree(view: View) -> None:
    """Equal bytes as far as two logs of a set go."""
    for other in view.set.live() if not view.set.lossy else ():
        if other.name == view.name:
            continue
        end = min(view.digest.end, other.digest.end)
        differs = view.digest.differs_at(other.digest, end)
        if differs is not None:
            view.facts.report(
                LOG_AGREEMENT, [view.name, other.name],
                f"{view.set.name}: both logs reach {end}, and differ at {differs}",
            )  # fmt: skip


def watch_acknowledged(view: View, membership: PairMembership) -> None:
    """Look at every send that is answered with success."""
    honest = membership.when_acknowledged

    def when_acknowledged(
        end: PhyOffset, master_epoch: MasterEpoch, then: Callable[[str], None]
    ) -> None:
        needed = membership.copies_needed

        def finish(why: str) -> None:
            if not why and view.alive and not view.set.lossy:
                view.look()  # the same step may have written it
                _acknowledged(view, end, needed)
            then(why)

        honest(end, master_epoch, finish)

    membership.when_acknowledged = when_acknowledged  # type: ignore[method-assign]


def _acknowledged(view: View, end: int, needed: int) -> None:
    holders = sum(
        store.end >= end for store in view.facts.stores.values()
        if store.broker_set == view.set.name
    )  # fmt: skip
    if holders < needed:
        view.facts.report(
            PROMISED_BEYOND, [view.name],
            f"{view.set.name}: acknowledges {end}, which {holders} logs have, of {needed}",
        )  # fmt: skip
