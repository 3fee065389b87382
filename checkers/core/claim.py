"""What a claim is: one promise of which a checker decides whether a run kept it."""

import msgspec

from maxq.checkers.core.claim_sources import DECISIONS
from maxq.checkers.core.promises import (
    ALL_ACK,
    CLEAN,
    NO_DEGRADING,
    NO_POOL,
    SYNC_MASTER,
    TWO_COPIES,
    WHOLE,
    Need,
)

PAIRS = "docs/spec/acting-master.md 8.3"  # the source of claims about pairs
# What makes a set of controllers keep what it acknowledges; a master alone in its SyncStateSet
# acknowledges what only a transient store pool holds.
KEPT = (ALL_ACK, CLEAN, WHOLE, NO_POOL)
COPIED = (SYNC_MASTER, TWO_COPIES, NO_DEGRADING)  # what makes a pair copy before it acknowledges


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One promise.

    Settings that fulfil `needs`, and in a run that lost power `after_power` too, make it; elsewhere
    it is measured. Of brokers without controllers they must fulfil `in_pairs` instead of `needs`;
    None: the claim means nothing there. One `of_stores` is measured as well where a broker ran on a
    copy of another one's store, the last member of a SyncStateSet lost its own, or unclean election
    made an empty broker master (``maxq.checkers.evidence.stores.lost_stores``); one `of_replicas`
    where a broker that refused its store got no other one; one `of_controllers` where the stores of
    most controllers were removed at once, so that ids and epochs begin anew. `grounds` are the
    kinds of answers (``maxq.histories.grounds``) without which it cannot count as kept. A claim
    that needs `undisturbed` time is not judged in a history with an unknown act
    (``maxq.checkers.evidence.quiescence``). One that is `timed` counts time, or rests on an answer
    that comes in time: a harness that was late itself cannot judge it, but for those of its
    anomalies that are `facts` whatever the time. `checker` is the name of the checker that decides
    it, `mutants` the names of modules of ``reference/mutants``.
    """

    id: str
    promise: str
    source: str
    needs: tuple[Need, ...] = ()
    after_power: tuple[Need, ...] = ()
    in_pairs: tuple[Need, ...] | None = None
    of_stores: bool = False
    of_replicas: bool = False
    of_controllers: bool = False
    grounds: tuple[str, ...]
    undisturbed: bool = False
    timed: bool = False
    facts: tuple[str, ...] = ()
    checker: str
    mutants: tuple[str, ...] = ()

    @property
    def decides(self) -> str:
        """Which source decides where RocketMQ and we differ, and what RocketMQ does; empty: nowhere
        do they."""
        return str(DECISIONS.get(self.id, ""))
