"""What snapshots of several values must show: a bank whose sum stays, and writes in one order."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from maxq.checkers.linearizability.calls import FAILED, OK, OPEN, Call, Calls, Row
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.model import State
from maxq.checkers.models.rule import Rule, illegal, legal, unsure
from maxq.checkers.models.shapes import TXN, answered, frozen, is_txn, keyed
from maxq.histories.op import HistoryError, Op

READ, WRITE = "read", "write"


class Bank(Rule):
    """Money is moved between accounts, and none is made or lost.

    Operations: `read` (its completion has {account balance}), `transfer` {from to amount}. All
    reads show the same sum, and no balance below zero or nil. An account that a read leaves out has
    nothing.
    """

    name = "bank"
    about = "every read of all accounts has the same sum, and no balance is below zero"
    are = "reads that add up as"
    blind = ("transfer",)
    by_key = True
    initial: State = None  # the sum of all accounts, once they were read

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        key, value = keyed(begun)
        if begun.f == "transfer":
            yield Row(key, "transfer", frozen(value))
        elif begun.f == READ:
            shown = _balances(begun, ended.value) if ended and answered(ended) else None
            yield Row(key, READ, result=shown)

    def step(self, state: State, call: Call) -> Iterator[State]:
        if call.kind != READ or call.outcome == OPEN:
            yield state
        elif not _odd(call) and state in (None, _sum(call)):
            yield _sum(call)

    def fast(self, calls: Calls) -> Decided:
        first: Call | None = None
        for at in (calls.of(READ) & (calls.outcome == OK)).nonzero()[0].tolist():
            call = calls.call(at)
            if odd := _odd(call):
                account, balance = odd[0]
                name, what = (
                    ("nil-balance", "nil") if balance is None else ("negative-value", balance)
                )
                return illegal(name, f"{call.said()} shows {what} in account {account}", call)
            first = first or call
            if _sum(call) != _sum(first):
                return illegal("wrong-total", f"{first.said()} adds up to {_sum(first)}, "
                               f"{call.said()} to {_sum(call)}", first, call)  # fmt: skip
        return legal() if first else unsure("never-read", "no read of the accounts was answered")


def _balances(op: Op, value: object) -> frozenset[tuple[Any, Any]]:
    if not isinstance(value, dict) or not all(
        n is None or type(n) in (int, float) for n in value.values()
    ):
        raise HistoryError(f"op {op.index}: read wants balances by account, not {value!r:.100}")
    return frozenset((frozen(account), balance) for account, balance in value.items())


def _odd(call: Call) -> list[tuple[Any, Any]]:
    """The balances that no account may have."""
    return [pair for pair in call.result if pair[1] is None or pair[1] < 0]


def _sum(call: Call) -> Any:
    return sum(balance for _, balance in call.result)


class LongFork(Rule):
    """Two readers do not see two writes in different orders.

    Operations, whatever they are called: `txn` [["w" k v]], one write, and each key has one
    value; `txn` [["r" k nil] …] of several keys (the completion has the values, and nil where a key
    was not written). Reads of the same keys can be put in an order in which each shows all that the
    one before it shows.
    """

    name = "long-fork"
    about = "reads of the same keys see writes to them in one order (parallel snapshots do not)"
    are = "reads in one order as"
    blind = (WRITE,)
    initial: State = frozenset()  # the keys that were written, with their values

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        done = ended is not None and ended.type == "ok"
        parts = ended.value if done and ended is not None else begun.value
        if not is_txn(parts):
            if begun.f == TXN:
                raise HistoryError(f"op {begun.index}: txn wants [[f k v] ...], not {parts!r:.100}")
            return
        names = {str(p[0])[:1] for p in parts}
        pairs = frozen([[p[1], p[2]] for p in parts])
        if names == {"w"} and len(parts) == 1:
            yield Row(None, WRITE, *pairs)
        elif names == {"r"}:
            yield Row(None, READ, result=frozenset(pairs) if done else None)
        elif parts:
            raise HistoryError(f"op {begun.index}: txn wants one write, or reads: {parts!r:.100}")

    def step(self, state: State, call: Call) -> Iterator[State]:
        there: frozenset[Any] = state  # type: ignore[assignment]
        if call.kind == WRITE:
            yield there | {call.argument}
        else:
            have = dict(there)
            if call.outcome == OPEN or all(have.get(key) == value for key, value in call.result):
                yield state

    def fast(self, calls: Calls) -> Decided:
        every = [calls.call(at) for at in range(calls.size)]
        writes: dict[Any, list[Call]] = defaultdict(list)
        for call in every:
            if call.kind == WRITE:
                writes[call.argument[0]].append(call)
        groups: dict[frozenset[Any], list[Call]] = defaultdict(list)
        for call in every:
            if call.kind == READ and call.outcome == OK:
                if (found := _impossible(call, writes)) is not None:
                    return found
                groups[frozenset(key for key, _ in call.result)].append(call)
        for reads in groups.values():
            seen = sorted(((_seen(call), call) for call in reads), key=lambda pair: len(pair[0]))
            for (less, one), (more, two) in pairwise(seen):
                if not less <= more:
                    both = f"{one.said()} and {two.said()}"
                    why = f"{both} each lack a write that the other one shows"
                    return illegal("long-fork", why, one, two)
        return _whether_tested(groups)


def _seen(call: Call) -> frozenset[Any]:
    return frozenset(key for key, value in call.result if value is not None)


def _impossible(call: Call, writes: dict[Any, list[Call]]) -> Decided | None:
    """A read of what nobody wrote, or only a write that failed."""
    for key, value in call.result:
        makers = [w for w in writes[key] if w.argument[1] == value]
        if value is None or any(w.outcome != FAILED for w in makers):
            continue
        if makers:
            why = f"{call.said()} shows what only {makers[0].said()} wrote"
            return illegal("aborted-read", why, makers[0], call)
        return illegal("phantom", f"{call.said()} shows what nobody wrote", call)
    return None


def _whether_tested(
    groups: dict[frozenset[Any], list[Call]],
) -> Decided:
    """Nothing is known of keys that show two values, or are read with different others."""
    reads = [call for some in groups.values() for call in some]
    shows: dict[Any, dict[Any, Call]] = defaultdict(dict)
    for call in reads:
        for key, value in call.result:
            if value is not None:
                shows[key].setdefault(value, call)
    for key, values in shows.items():
        if len(values) > 1:
            both = list(values.values())[:2]
            return unsure("written-twice", f"key {key} was written twice: {both[0].said()} and "
                          f"{both[1].said()} show other values", *both)  # fmt: skip
    if not any(len(keys) > 1 for keys in groups):
        return unsure("never-read", "no read of several keys was answered")
    known: dict[Any, frozenset[Any]] = {}
    for keys in groups:
        for key in keys:
            if len(keys) > 1 and known.setdefault(key, keys) != keys:
                both = [next(c for c in reads if c in groups[k]) for k in (known[key], keys)]
                why = f"{both[0].said()} and {both[1].said()} read other keys beside {key}"
                return unsure("overlapping-groups", why, *both)
    return legal()
