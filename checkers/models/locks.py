"""Locks: one holder at a time."""

from collections.abc import Iterable, Iterator

from maxq.checkers.linearizability import holds
from maxq.checkers.linearizability.calls import Call, Calls, Row
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.model import Model, State
from maxq.checkers.linearizability.ties import Ties
from maxq.checkers.models.shapes import frozen, keyed
from maxq.histories.op import Op


class Mutex(Model):
    """A lock that one process at a time holds, until it releases it.

    Operations: `acquire` and `release`, of the process that holds it; where they have a value it
    names the lock. One that failed changed nothing.
    """

    name = "mutex"
    about = "linearizable lock that one process at a time holds"
    initial: State = None

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        if begun.f in (holds.ACQUIRE, holds.RELEASE):
            key, name = keyed(begun)
            yield Row(frozen(name) if key is None else key, begun.f, begun.process)

    def step(self, state: State, call: Call) -> Iterator[State]:
        if call.kind == holds.ACQUIRE:
            if state is None:
                yield call.argument
        elif state == call.argument:
            yield None

    def ties(self, calls: Calls) -> Ties:
        return holds.ties(calls)

    def fast(self, calls: Calls) -> Decided | None:
        return holds.decide(calls)
