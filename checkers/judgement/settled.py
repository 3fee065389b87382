"""A history of which the logs of its replicas settle what was not answered."""

from collections import Counter
from typing import NamedTuple

from maxq.checkers.core.api import Context
from maxq.checkers.core.keyed import results_of
from maxq.checkers.evidence.stores.settling import with_resolved
from maxq.checkers.replication.replicas import Replicas
from maxq.histories.history import History
from maxq.histories.observed import REPLICA_LOG
from maxq.histories.op import ABSENT, COMMITTED, RESOLVED


class Settled(NamedTuple):
    """How many sends had no answer, of how many of these the logs show that they took effect, and
    of how many that they did not."""

    unanswered: int
    committed: int
    absent: int

    @classmethod
    def of(cls, history: History) -> "Settled | None":
        """Of a settled history; None where nothing became known."""
        ops = [op for op in history.of_f("send") if op.is_client and op.type == "info"]
        found = Counter((op.ext or {}).get(RESOLVED) for op in ops)
        one = cls(len(ops), found[COMMITTED], found[ABSENT])
        return one if one.committed or one.absent else None

    def said(self) -> str:
        """It in words."""
        return (
            f"of {self.unanswered:,} sends without an answer the replicas' logs show that "
            f"{self.committed:,} took effect and {self.absent:,} did not"
        )


def settled(history: History) -> History:
    """The same, with ``resolved`` beside each completion without an answer of which the logs show
    what became of it.

    Raises:
        HistoryError: a value has another shape (W9).
    """
    if not history.of_f(REPLICA_LOG):
        return history
    check = Replicas()
    results = results_of(check, history, check.prepare(history, Context()))
    return with_resolved(history, dict(mark for one in results.values() for mark in one.settled))
