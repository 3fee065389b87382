"""Locks: of one holder, of readers and writers, of several permits."""

from collections.abc import Iterable, Iterator

from maxq.checkers.linearizability.calls import Call, Calls, Row
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.exact import holds, permits
from maxq.checkers.linearizability.model import Client, Drawn, Model, State
from maxq.checkers.linearizability.ties import Ties
from maxq.checkers.models.shapes import frozen, keyed
from maxq.histories.op import HistoryError, Op


class Mutex(Model):
    """A lock that one process at a time holds, until it releases it.

    Operations: `acquire` and `release`, of the process that holds it; where they have a value it
    names the lock. One that failed changed nothing.
    """

    name = "mutex"
    about = "linearizable lock that one process at a time holds"
    synonyms = {"lock": holds.ACQUIRE, "unlock": holds.RELEASE}
    by_key = True
    harmless = ("renew",)
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

    def ask(self, state: State, client: Client) -> Drawn:
        if state == client.process:
            return Drawn(holds.RELEASE)
        return Drawn(holds.ACQUIRE, fails=state is not None, sure=True)

    def ties(self, calls: Calls) -> Ties:
        return holds.ties(calls)

    def fast(self, calls: Calls) -> Decided | None:
        return holds.decide(calls)


class RwLock(Mutex):
    """A lock that several readers hold together, or one writer alone.

    Operations: `acquire-read`, `acquire-write` and `release`, as of a mutex.
    """

    name = "rw-lock"
    about = "linearizable lock that readers hold together, or one writer alone"
    initial: State = (None, frozenset())  # the writer, and the readers

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        if begun.f in (permits.READ, permits.WRITE, holds.RELEASE):
            key, name = keyed(begun)
            yield Row(frozen(name) if key is None else key, begun.f, begun.process)

    def step(self, state: State, call: Call) -> Iterator[State]:
        held: tuple[int | None, frozenset[int]] = state  # type: ignore[assignment]
        writer, readers = held
        own = frozenset((call.argument,))
        if call.kind == holds.RELEASE:
            if writer == call.argument:
                yield None, readers
            elif call.argument in readers:
                yield None, readers - own
        elif writer is None and call.argument not in readers:
            if call.kind == permits.READ:
                yield None, readers | own
            elif not readers:
                yield call.argument, readers

    def ask(self, state: State, client: Client) -> Drawn:
        held: tuple[int | None, frozenset[int]] = state  # type: ignore[assignment]
        writer, readers = held
        if client.process == writer or client.process in readers:
            return Drawn(holds.RELEASE)
        if client.below(3):
            return Drawn(permits.READ, fails=writer is not None, sure=True)
        return Drawn(permits.WRITE, fails=writer is not None or bool(readers), sure=True)

    def fast(self, calls: Calls) -> Decided | None:
        return permits.rw_lock(calls)


class Semaphore(Mutex):
    """So many permits; a process may hold more than one.

    Operations: `acquire` and `release`, as of a mutex; `permits`, beside the value of an acquire,
    says how many there are.
    """

    name = "semaphore"
    about = "linearizable semaphore; `permits` beside an acquire's value is how many there are"
    initial: State = ()

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        number = (begun.ext or {}).get("permits")
        if begun.f == holds.ACQUIRE and (type(number) is not int or number < 1):
            raise HistoryError(f"op {begun.index}: acquire wants `permits`, 1 or more")
        for row in super().read(begun, ended):
            yield row._replace(other=number if row.kind == holds.ACQUIRE else None)

    def step(self, state: State, call: Call) -> Iterator[State]:
        there: tuple[int, ...] = state  # type: ignore[assignment]
        if call.kind == holds.ACQUIRE:
            if len(there) < call.other:
                yield tuple(sorted((*there, call.argument)))
        elif call.argument in there:
            at = there.index(call.argument)
            yield there[:at] + there[at + 1 :]

    def ask(self, state: State, client: Client) -> Drawn:
        there: tuple[int, ...] = state  # type: ignore[assignment]
        if client.process in there:
            return Drawn(holds.RELEASE)
        return Drawn(holds.ACQUIRE, fails=len(there) > 1, sure=True, ext={"permits": 2})

    def fast(self, calls: Calls) -> Decided | None:
        return permits.semaphore(calls)
