"""A history of which the logs of its replicas settle what was not answered."""

from maxq.checkers.core.api import Context
from maxq.checkers.core.keyed import results_of
from maxq.checkers.evidence.stores.settling import with_resolved
from maxq.checkers.replication.replicas import Replicas
from maxq.histories.history import History


def settled(history: History) -> History:
    """The same, with ``resolved`` beside each completion without an answer of which the logs show
    what became of it.

    Raises:
        HistoryError: a value has another shape (W9).
    """
    check = Replicas()
    results = results_of(check, history, check.prepare(history, Context()))
    return with_resolved(history, dict(mark for one in results.values() for mark in one.settled))
