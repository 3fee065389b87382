"""Queues: first in, first out, and bags."""

from collections.abc import Iterable, Iterator

from maxq.checkers.linearizability.calls import OPEN, Call, Calls, Row
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.exact import matched, queues
from maxq.checkers.linearizability.model import Client, Drawn, Model, State
from maxq.checkers.linearizability.ties import Ties
from maxq.checkers.models.shapes import frozen, keyed, something
from maxq.histories.op import Op

QUEUED = {
    "enq": "enqueue", "push": "enqueue", "offer": "enqueue",
    "deq": "dequeue", "pop": "dequeue", "take": "dequeue",
}  # fmt: skip
EMPTY_ERRORS = ("empty", "exhausted")  # of a dequeue that found nothing, and says so


class FifoQueue(Model):
    """A queue that gives what was put in first.

    Operations: `enqueue` v; `dequeue` (its completion has the value, and nothing where the queue
    was empty). A dequeue that failed took nothing.
    """

    name = "fifo-queue"
    about = "linearizable queue, first in first out, that may be found empty"
    reads = (queues.EMPTY,)
    blind = (queues.PUT,)
    synonyms = QUEUED
    by_key = True
    asks = ("enqueue",)
    initial: State = ()

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        key, value = keyed(begun)
        if begun.f == "enqueue":
            yield Row(key, queues.PUT, something(begun, value))
        elif begun.f == "dequeue":
            answered = ended is not None and ended.type == "ok"
            value = ended.value if answered and ended is not None else None
            empty = answered and value is None
            yield Row(key, queues.EMPTY if empty else queues.TAKE, result=frozen(value))

    def step(self, state: State, call: Call) -> Iterator[State]:
        inside: tuple[State, ...] = state  # type: ignore[assignment]
        if call.kind == queues.PUT:
            yield (*inside, call.argument)
        elif call.kind == queues.EMPTY:
            if not inside:
                yield state
        elif inside and (call.outcome == OPEN or inside[0] == call.result):
            yield inside[1:]

    def ask(self, state: State, client: Client) -> Drawn:
        inside: tuple[State, ...] = state  # type: ignore[assignment]
        if client.below(2):
            value = client.value()
            return Drawn("enqueue", value, value)
        return Drawn("dequeue", None, self.next(inside, client))

    @staticmethod
    def next(inside: tuple[State, ...], client: Client) -> State:
        """What is taken of what is inside."""
        return inside[0] if inside else None

    def ties(self, calls: Calls) -> Ties:
        return matched.ties(calls)

    def fast(self, calls: Calls) -> Decided | None:
        return queues.decide(calls)


class Queue(FifoQueue):
    """A bag: what was put in is taken once, in any order."""

    name = "queue"
    about = "linearizable bag: each value that was put in is taken at most once, in any order"

    def step(self, state: State, call: Call) -> Iterator[State]:
        inside: tuple[State, ...] = state  # type: ignore[assignment]
        if call.kind == queues.PUT:
            yield tuple(sorted((*inside, call.argument), key=repr))
        elif call.kind == queues.EMPTY:
            if not inside:
                yield state
        else:
            for at, value in enumerate(inside):
                if call.outcome == OPEN or value == call.result:
                    yield inside[:at] + inside[at + 1 :]

    @staticmethod
    def next(inside: tuple[State, ...], client: Client) -> State:
        """Any of them."""
        return inside[client.below(len(inside))] if inside else None

    def fast(self, calls: Calls) -> Decided | None:
        return queues.decide(calls, ordered=False)
