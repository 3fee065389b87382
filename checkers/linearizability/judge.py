"""One key, decided: by the model's fast test where it can, else by search."""

from collections.abc import Callable

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, OPEN, Calls
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.model import Model
from maxq.checkers.linearizability.search import search
from maxq.checkers.linearizability.space import Over


def decide(model: Model, calls: Calls, over: Over) -> Decided:
    """Decide one key."""
    found = model.fast(calls)
    return by_search(model, calls, over) if found is None else found


def searched(model: Model, calls: Calls) -> Calls:
    """The calls that a search needs: without those that failed and show nothing, and without reads
    that have no answer."""
    nothing = calls.of(*model.reads) & (calls.outcome == OPEN)
    failed = np.flatnonzero(calls.outcome == FAILED)
    nothing[[at for at in failed.tolist() if not model.observes_failure(calls.call(at))]] = True
    return calls.take(~nothing)


def by_search(
    model: Model, calls: Calls, over: Over, by: Callable[[Model, Calls, Over], Decided] = search
) -> Decided:
    """Decide one key by a search alone."""
    left = searched(model, calls)
    return by(model.within(left), left, over)
