"""Key-value stores of texts: put, get, append."""

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator

import numpy as np

from maxq.checkers.linearizability.calls import OK, OPEN, Call, Calls, Row
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.exact import growing
from maxq.checkers.linearizability.model import Client, Drawn, Model, State
from maxq.checkers.linearizability.ties import Ties, alone
from maxq.checkers.models.shapes import keyed
from maxq.histories.op import HistoryError, Op

UNSEEN = ("a text that nobody read",)  # not a text, and so none of them
GET, PUT, APPEND = growing.GET, "put", growing.APPEND


class KeyValue(Model):
    """Texts by key, each a linearizable object of its own.

    Operations have a `key` beside their value: `get` (its completion has the text; one that was
    never written is empty), `put` text, `append` text.
    """

    name = "kv"
    about = "linearizable texts by key, with get, put and append"
    reads = (GET,)
    blind = (PUT, APPEND)
    by_key = True
    asks = (PUT, APPEND)
    initial: State = ""

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        key, text = keyed(begun)
        if begun.f == GET:
            answer = ended.value if ended is not None and ended.type == "ok" else None
            yield Row(key, GET, result=_text(begun, "" if answer is None else answer))
        elif begun.f in (PUT, APPEND):
            yield Row(key, begun.f, _text(begun, text))

    def step(self, state: State, call: Call) -> Iterator[State]:
        if call.kind == PUT:
            yield call.argument
        elif call.kind == APPEND:
            yield f"{state}{call.argument}"
        elif call.outcome == OPEN or call.result == state:
            yield state

    def ask(self, state: State, client: Client) -> Drawn:
        if client.below(2):
            return Drawn(GET, None, state)
        text = f"{client.value()} "
        return Drawn(APPEND if client.below(4) else PUT, text, text)

    def ties(self, calls: Calls) -> Ties:
        every = [calls.call(at) for at in range(calls.size)]
        made = [(at, call) for at, call in enumerate(every) if call.kind != GET]
        puts = [call for _, call in made if call.kind == PUT and call.outcome == OK]

        def needs(at: int) -> Iterable[int]:
            """A text shows the parts that it is made of, of which none was there before a put that
            was over before the text was asked for."""
            get = every[at]
            if get.kind != GET or get.result is None:
                return ()
            last = max((put.begun for put in puts if put.ended < get.begun), default=-1)
            there = [(n, c) for n, c in made if c.begun < get.ended and c.ended > last]
            return [n for n, c in there if c.argument in get.result]

        return alone(calls.size, needs)

    def within(self, calls: Calls) -> Model:
        return _Shown(calls)

    def fast(self, calls: Calls) -> Decided | None:
        return growing.decide(calls)


class _Shown(KeyValue):
    """The same, where a text with which none begins that is ever read is as good as any other: it
    stays one until it is put anew."""

    def __init__(self, calls: Calls) -> None:
        results = np.unique(calls.result[calls.of(GET) & (calls.outcome == OK)])
        self._shown = sorted(calls.values[code] for code in results.tolist())
        self._all = "\0".join(self._shown)

    def gives(self, call: Call) -> Hashable:
        """A part that is in no text that was read need not have been there; nobody wants it."""
        return None if call.argument in self._all else UNSEEN

    def step(self, state: State, call: Call) -> Iterator[State]:
        if state == UNSEEN and call.kind != PUT:
            if call.kind == APPEND or call.outcome == OPEN:
                yield state
            return
        for text in super().step(state, call):
            at = bisect_left(self._shown, text)
            seen = at < len(self._shown) and self._shown[at].startswith(text)
            yield text if seen else UNSEEN


def _text(op: Op, value: object) -> str:
    if not isinstance(value, str):
        raise HistoryError(f"op {op.index}: {op.f} wants a text, not {value!r:.100}")
    return value
