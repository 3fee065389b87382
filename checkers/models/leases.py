"""Locks that end by themselves, and tokens that tell their holders apart."""

from collections.abc import Iterable, Iterator

from maxq.checkers.linearizability.calls import OPEN, Call, Calls, Row
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.exact import leases, tokens
from maxq.checkers.linearizability.model import Client, Drawn, Model, State
from maxq.checkers.linearizability.ties import Ties, alone
from maxq.checkers.models.rule import Rule
from maxq.checkers.models.shapes import frozen, keyed
from maxq.histories.op import HistoryError, Op


class Lease(Rule):
    """A lock that its holder may rely on for so long after it asked for it.

    Operations: `acquire`, `renew`, `release`, as of a mutex, with times of one clock. `ttl-ms`
    beside the value of the first two says how long a grant lasts, `margin-ms` (0) by how much less
    a client relies on it, since clocks differ.
    """

    name = "lease"
    about = "no two clients rely on one lease at a time; `ttl-ms` beside an acquire is how long"

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        if begun.f not in (leases.ACQUIRE, leases.RENEW, leases.RELEASE):
            return
        key, name = keyed(begun)
        times = [begun.time, *([ended.time] if ended is not None else [])]
        if min(times) < 0:
            raise HistoryError(f"op {begun.index}: {begun.f} wants a time")
        lasts = None if begun.f == leases.RELEASE else _ms(begun, "ttl-ms") - _ms(
            begun, "margin-ms", 0
        )  # fmt: skip
        yield Row(frozen(name) if key is None else key, begun.f, begun.time,
                  times[1] if len(times) > 1 else None, lasts)  # fmt: skip

    def fast(self, calls: Calls) -> Decided:
        return leases.decide(calls)

    def ties(self, calls: Calls) -> Ties:
        """A grant stays with what ends it."""
        grants = leases.grants_of(calls)
        ends = dict(zip(grants.at.tolist(), grants.ended_by.tolist(), strict=True))
        return alone(calls.size, lambda at: [n for n in (ends.get(at, -1),) if n >= 0])


class Fencing(Model):
    """A lock that gives each holder a greater token, and a resource that keeps the old ones out.

    Operations: `acquire` (its completion has the token), `release`, of the process that holds it,
    and `write` token, which fails if a greater one was there before. A grant lasts until its
    process releases it; one with `ttl-ms` beside the value ends by itself, at any time.
    """

    name = "fencing"
    about = "tokens of a lock rise with its grants, and no write with an old one is accepted"
    initial: State = (None, None, None)  # the last token, who holds it, the last token written

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        key, value = keyed(begun)
        done = ended is not None and ended.type == "ok"
        if begun.f == tokens.ACQUIRE:
            given = _token(begun, keyed(ended)[1]) if done and ended is not None else None
            lasts = (begun.ext or {}).get("ttl-ms")
            yield Row(key, tokens.ACQUIRE, begun.process, given, None if lasts is None else 1)
        elif begun.f == tokens.RELEASE:
            yield Row(key, tokens.RELEASE, begun.process)
        elif begun.f == tokens.WRITE:
            yield Row(key, tokens.WRITE, _token(begun, value))

    def step(self, state: State, call: Call) -> Iterator[State]:
        before: tuple[int | None, int | None, int | None] = state  # type: ignore[assignment]
        last, holder, written = before
        if call.kind == tokens.WRITE:
            if written is None or call.argument >= written:
                yield last, holder, call.argument
        elif call.kind == tokens.RELEASE:  # of one that does not hold it: nothing
            yield last, None if holder == call.argument else holder, written
        elif holder is None and (call.outcome == OPEN or last is None or call.result > last):
            token = last if call.outcome == OPEN else call.result
            yield token, call.argument if call.other is None else None, written

    def ask(self, state: State, client: Client) -> Drawn:
        before: tuple[int | None, int | None, int | None] = state  # type: ignore[assignment]
        last, holder, _ = before
        if holder != client.process:
            given = (last or 0) + 1
            return Drawn(tokens.ACQUIRE, None, given, fails=holder is not None, sure=True)
        return Drawn(tokens.WRITE, last, last) if client.below(3) else Drawn(tokens.RELEASE)

    def ties(self, calls: Calls) -> Ties:
        """An acquire stays with the releases of its process that follow it."""
        gives = calls.of(tokens.RELEASE)

        def needs(at: int) -> Iterable[int]:
            same = gives & (calls.process == calls.process[at]) & (calls.begun > calls.begun[at])
            first = int(same.argmax())
            return [first] if calls.of(tokens.ACQUIRE)[at] and same[first] else ()

        return alone(calls.size, needs)

    def fast(self, calls: Calls) -> Decided | None:
        return tokens.decide(calls)


def _ms(op: Op, name: str, default: int | None = None) -> int:
    value = (op.ext or {}).get(name, default)
    if type(value) is not bool and isinstance(value, int | float) and 0 <= value < 1e9:
        return round(value * leases.MS)
    raise HistoryError(f"op {op.index}: {op.f} wants `{name}`, and not {value!r:.100}")


def _token(op: Op, value: object) -> int:
    if type(value) is not int or abs(value) >= 1 << 62:
        raise HistoryError(f"op {op.index}: {op.f} wants a token, not {value!r:.100}")
    return value
