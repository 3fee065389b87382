"""Small histories of a model, right and nearly right, and every order of them tried."""

from collections.abc import Callable, Hashable
from random import Random

from maxq.checkers.linearizability.calls import (
    FAILED,
    OK,
    OPEN,
    Call,
    Calls,
    Row,
    calls_of,
)
from maxq.checkers.linearizability.model import Model

REFUSED = "refused"  # the result of a call that failed
Ask = Callable[[Random, Hashable], tuple[Row, Hashable]]  # a call and the state after it


def exhaustive(model: Model, calls: Calls) -> bool:
    """Whether some order of calls is legal, by trying them all."""
    every = [calls.call(at) for at in range(calls.size)]
    every = [c for c in every if c.outcome != FAILED or model.observes_failure(c)]
    must = frozenset(n for n, c in enumerate(every) if c.outcome != OPEN)
    dead: set[tuple[frozenset[int], Hashable]] = set()

    def legal(done: frozenset[int], state: Hashable) -> bool:
        if must <= done:
            return True
        if (done, state) in dead:
            return False
        for n, call in enumerate(every):
            first = n not in done and all(m in done or every[m].ended >= call.begun for m in must)
            if first and any(legal(done | {n}, new) for new in model.step(state, call)):
                return True
        dead.add((done, state))
        return False

    return legal(frozenset(), model.initial)


def drawn(ask: Ask, model: Model, random: Random, *, info: float, wrong: float,
          length: int = 9, fails: float = 0.0) -> Calls:  # fmt: skip
    """A history of a few threads that ask one object: each call takes effect at an instant of its
    own. Of a share no answer came, whether it took effect or not; of a share the answer is another
    one's; a share fails. What failed, or was not answered, some try again."""
    position, left = 0, length
    open_: list[tuple[int, Row | None]] = []  # the begin, and the call once it took effect
    done: list[tuple[Row, int, int, int]] = []
    state: Hashable = model.initial
    again: list[Row] = []
    while left or open_:
        if left and len(open_) < 4 and (not open_ or random.random() < 0.5):
            open_.append((position, None))
            left -= 1
        else:
            at = random.randrange(len(open_))
            begun, row = open_.pop(at)
            if row is None:
                before = state
                row, state = ask(random, state)
                if random.random() < wrong:
                    row, _ = ask(random, model.initial)
                if fails and again and random.random() < 0.5:
                    row = again.pop()
                    state = next(iter(model.step(before, _plain(row))), before)
                if random.random() < fails and row.kind not in model.reads:
                    state, again = before, [*again, *_changes(row)]
                    row = row._replace(result=REFUSED)
                open_.append((begun, row))
                continue
            lost = random.random() < info
            again += _changes(row) if fails and lost else []
            done.append(_answered(row, begun, position, lost=lost))
        position += 1
    return calls_of(done)


def _changes(row: Row) -> list[Row]:
    """The call to try again, if its answer is the same in all states."""
    return [row] if row.argument is not None and row.result is None else []


def _plain(row: Row) -> Call:
    return Call(row.kind, row.argument, row.result, row.other, 0, 0, OK, 0)


def _answered(row: Row, begun: int, position: int, *, lost: bool) -> tuple[Row, int, int, int]:
    if row.result == REFUSED:
        return row._replace(result=None), begun, position, FAILED
    if lost:
        return row._replace(result=None), begun, -1, OPEN
    return row, begun, position, OK


def said(calls: Calls) -> list[Call]:
    """All calls, for the message of a test."""
    return [calls.call(at) for at in range(calls.size)]
