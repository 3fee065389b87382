"""Small histories of transactions, and what trying every order says of them."""

import itertools
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from maxq.histories.history import History
from maxq.histories.lines.sessions import SESSIONS
from maxq.histories.op import Op

Part = list[Any]


class Txn(NamedTuple):
    """One transaction: who ran it, from when to when, what came of it and what it did. Reads of
    those that are not ok are not known."""

    process: int
    begun: int
    ended: int
    outcome: str
    parts: list[Part]


def history_of(txns: Sequence[Txn], *, sessions: bool = False) -> History:
    """The history in which they began and ended so; those that are open have no completion. Of
    `sessions` only the order of each process is known."""
    ext = {SESSIONS: True} if sessions else None
    events = [(txn.begun, "invoke", txn) for txn in txns]
    events += [(txn.ended, txn.outcome, txn) for txn in txns if txn.outcome != "info"]
    ops = []
    for at, kind, txn in sorted(events, key=lambda event: event[0]):
        parts = txn.parts
        if kind != "ok":
            parts = [[f, k, None if f == "r" else v] for f, k, v in parts]
        ops.append(Op(kind, txn.process, "txn", parts, index=at, ext=ext))  # type: ignore[arg-type]
    return History(ops)


def drawn(random: Random, *, lists: bool, info: float, size: int, again: bool = False) -> list[Txn]:
    """A history: each transaction acts at once between its begin and its end, on what is there or
    on what was there when it began; then, of every other one, a read is made wrong. Values are
    written once, or `again` and again."""
    at = itertools.count()
    state: dict[str, Any] = {}
    values = map(random.choice, itertools.repeat(range(1, 5))) if again else itertools.count(1)
    open_: dict[int, tuple[int, list[Part], dict[str, Any], str]] = {}
    acted: set[int] = set()
    txns: list[Txn] = []
    process = itertools.count(3)
    names = [0, 1, 2]
    stale = random.random() < 0.5
    while len(txns) < size:
        who = random.choice(names)
        if who not in open_:
            asked = [_asked(random, lists=lists) for _ in range(random.randint(1, 3))]
            outcome = (
                "info" if random.random() < info else "fail" if random.random() < 0.1 else "ok"
            )
            open_[who] = (next(at), asked, dict(state), outcome)
        elif who not in acted:
            begun, parts, old, outcome = open_[who]
            seen = dict(old if stale and random.random() < 0.5 else state)
            done = random.random() < {"ok": 1, "info": 0.6, "fail": 0.05}[outcome]
            _act(parts, seen, state, values, lists=lists, done=done)
            acted.add(who)
        else:
            begun, parts, _, outcome = open_.pop(who)
            acted.discard(who)
            txns.append(Txn(who, begun, next(at), outcome, parts))
            if outcome == "info":
                names[names.index(who)] = next(process)
    if random.random() < 0.5:
        spoil(random, txns, lists=lists)
    return txns


def _asked(random: Random, *, lists: bool) -> Part:
    write = random.random() < 0.5
    return ["append" if lists else "w"] * write + ["r"] * (not write) + [random.choice("xy"), None]


def _act(
    parts: list[Part], seen: dict[str, Any], state: dict[str, Any], values: Iterator[int], *,
    lists: bool, done: bool,
) -> None:  # fmt: skip
    for part in parts:
        key = part[1]
        if part[0] == "r":
            part[2] = list(seen.get(key, ())) if lists else seen.get(key)
            continue
        part[2] = next(values)
        for each in (seen, state) if done else (seen,):
            each[key] = (*each.get(key, ()), part[2]) if lists else part[2]


def spoil(random: Random, txns: list[Txn], *, lists: bool) -> None:
    """Make one read wrong."""
    reads = [part for txn in txns for part in txn.parts if part[0] == "r"]
    written = [part[2] for txn in txns for part in txn.parts if part[0] != "r"]
    if not reads or not written:
        return
    part = random.choice(reads)
    if not lists:
        part[2] = random.choice([*written, None])
    elif part[2] and random.random() < 0.6:
        part[2] = part[2][: random.randrange(len(part[2]))]
    elif len(part[2]) > 1 and random.random() < 0.6:
        random.shuffle(part[2])
    else:
        part[2] = [*part[2], random.choice(written)]


def chosen(txns: Sequence[Txn]) -> Iterator[list[Txn]]:
    """Every choice of which open ones took effect; failed ones did not."""
    sure = [txn for txn in txns if txn.outcome == "ok"]
    maybe = [txn for txn in txns if txn.outcome == "info"]
    for count in range(len(maybe) + 1):
        for some in itertools.combinations(maybe, count):
            yield sorted([*sure, *some], key=lambda txn: txn.begun)


def serializable(txns: Sequence[Txn], *, lists: bool, order: str) -> bool:
    """Whether some order explains all reads. `order` says what it must respect: "" nothing,
    "process" the order of each process, "realtime" that of ends before begins."""
    return any(_serial(some, {}, frozenset(range(len(some))), lists=lists, order=order)
               for some in chosen(txns))  # fmt: skip


def _before(one: Txn, two: Txn, order: str) -> bool:
    if order == "process":
        return one.process == two.process and one.begun < two.begun
    return order == "realtime" and one.outcome == "ok" and one.ended < two.begun


def _serial(
    txns: list[Txn], state: dict[str, Any], left: frozenset[int], *, lists: bool, order: str
) -> bool:
    if not left:
        return True
    for at in left:
        txn = txns[at]
        if any(_before(txns[other], txn, order) for other in left if other != at):
            continue
        after = applied(txn, state, lists=lists)
        if after is not None and _serial(txns, after, left - {at}, lists=lists, order=order):
            return True
    return False


def applied(txn: Txn, state: dict[str, Any], *, lists: bool) -> dict[str, Any] | None:
    """What is there after a transaction; None: it read something else than what was there."""
    have = dict(state)
    for f, key, value in txn.parts:
        if f != "r":
            have[key] = (*have.get(key, ()), value) if lists else value
        elif txn.outcome == "ok":
            there = list(have.get(key, ())) if lists else have.get(key)
            if there != (value or there if lists and value is None else value):
                return None
    return have


def snapshots(txns: Sequence[Txn], *, lists: bool, order: str) -> bool:
    """Whether snapshot isolation allows it: each reads what was committed when it started, and no
    two of which one starts before the other commits, and the other way round, write one key."""
    return any(_snapshot(some, (), frozenset(range(len(some))), {}, {}, lists=lists, order=order)
               for some in chosen(txns))  # fmt: skip


def _snapshot(
    txns: list[Txn], committed: tuple[int, ...], waiting: frozenset[int],
    started: dict[int, dict[str, Any]], state: dict[str, Any], *, lists: bool, order: str,
) -> bool:  # fmt: skip
    if not waiting and not started:
        return True
    for at in waiting:
        txn = txns[at]
        early = [n for n in range(len(txns)) if n not in committed and _before(txns[n], txn, order)]
        if early or applied(txn, state, lists=lists) is None:
            continue
        if _snapshot(txns, committed, waiting - {at}, {**started, at: state}, state,
                     lists=lists, order=order):  # fmt: skip
            return True
    for at, old in started.items():
        writes = {key for f, key, _ in txns[at].parts if f != "r"}
        if any(old.get(key) != state.get(key) for key in writes):
            continue
        after = dict(state)
        done = applied(txns[at], old, lists=lists) or {}
        after.update({key: done[key] for key in writes})
        rest = {n: s for n, s in started.items() if n != at}
        if _snapshot(txns, (*committed, at), waiting, rest, after, lists=lists, order=order):
            return True
    return False


def committed(txns: Sequence[Txn], *, lists: bool) -> bool:
    """Whether Adya's read committed allows it: reads show the last writes of transactions that took
    effect, and no circle of transactions read each other, or wrote over each other. Of registers
    versions may have been written in any order; of lists in that of the reads. All of them took
    effect (`chosen`)."""
    writer = {(k, v): n for n, txn in enumerate(txns) for f, k, v in txn.parts if f != "r"}
    last = [{k: v for f, k, v in txn.parts if f != "r"} for txn in txns]
    edges: set[tuple[int, int]] = set()
    orders: dict[str, list[Any]] = {}
    for n, txn in enumerate(txns):
        for f, key, value in txn.parts if txn.outcome == "ok" else ():
            if f != "r" or not value:
                continue
            shown = list(value) if lists else [value]
            own = [v for g, k, v in txn.parts if g != "r" and k == key]
            others = [v for v in shown if v not in own]
            if not all((key, v) in writer for v in shown) or len(set(shown)) < len(shown):
                return False
            if others and last[writer[key, others[-1]]][key] != others[-1]:
                return False
            edges |= {(writer[key, v], n) for v in others[-1:]}
            both = sorted((shown, orders.get(key, [])), key=len)
            if lists and both[1][: len(both[0])] != both[0]:
                return False
            orders[key] = both[1]
    for key, order in orders.items() if lists else ():
        rest = [v for (k, v), _ in writer.items() if k == key and v not in order]
        pairs = [*itertools.pairwise(order), *((order[-1], v) for v in rest)]
        edges |= {
            (writer[key, a], writer[key, b]) for a, b in pairs if writer[key, a] != writer[key, b]
        }
        for txn in txns:
            mine = [v for f, k, v in txn.parts if f != "r" and k == key]
            seen = [v for v in order if v in mine]
            if seen != mine[: len(seen)]:
                return False
    closed = _closed(edges, len(txns))
    return not any((n, n) in closed for n in range(len(txns)))


def readings(txns: Sequence[Txn], *, lists: bool) -> Iterator[list[Txn]]:
    """A history in which values are written again, under each choice of who wrote what was read:
    each value is another one then. Of a list the nth of equal elements is one writer's."""
    made: dict[tuple[str, Any], list[tuple[int, int]]] = {}
    for n, txn in enumerate(txns):
        for m, (f, key, value) in enumerate(txn.parts):
            if f != "r":
                made.setdefault((key, value), []).append((n, m))
    reads = [(n, m, key, value) for n, txn in enumerate(txns) if txn.outcome == "ok"
             for m, (f, key, value) in enumerate(txn.parts) if f == "r" and value]  # fmt: skip
    slots: dict[Any, None] = (
        dict.fromkeys((k, one) for _, _, k, value in reads for one in value if (k, one) in made)
        if lists else
        dict.fromkeys((n, m) for n, m, key, value in reads if (key, value) in made)
    )  # fmt: skip
    of = {(n, m): (key, value) for n, m, key, value in reads}
    ways: list[Any] = [
        itertools.permutations(made[s]) if lists else [(w,) for w in made[of[s]]] for s in slots
    ]
    for way in itertools.product(*ways):
        taken = dict(zip(slots, way, strict=True))
        found = [txn._replace(parts=[[f, k, (n, m) if f != "r" else v]
                                     for m, (f, k, v) in enumerate(txn.parts)])
                 for n, txn in enumerate(txns)]  # fmt: skip
        for n, m, key, value in reads:
            if not lists:
                found[n].parts[m][2] = taken.get((n, m), (value,))[0]
                continue
            found[n].parts[m][2] = [
                _nth(taken.get((key, one), (one,)), list(value[:at]).count(one))
                for at, one in enumerate(value)
            ]
        yield found


def _nth(way: Sequence[Any], nth: int) -> Any:
    return way[min(nth, len(way) - 1)]


def by_axioms(txns: Sequence[Txn], level: str) -> bool:
    """Whether registers keep a weak level, by its definition: some order of all transactions holds
    sessions and reads, and for every two writers of a key of which one was read and the other is
    visible, the other comes first. All of them took effect (`chosen`)."""
    there = list(txns)
    writer: dict[tuple[str, Any], int] = {
        (k, v): n for n, txn in enumerate(there) for f, k, v in txn.parts if f == "w"
    }
    last = [{k: v for f, k, v in txn.parts if f == "w"} for txn in there]
    so = {(a, b) for a, b in itertools.permutations(range(len(there)), 2)
          if there[a].process == there[b].process and there[a].begun < there[b].begun}  # fmt: skip
    reads: list[tuple[int, int, str, int]] = []  # who, its how many-th, key, from whom
    for n, txn in enumerate(there):
        own: dict[str, Any] = {}
        seen: dict[str, Any] = {}
        for at, (f, key, value) in enumerate(txn.parts):
            if f == "w":
                own[key] = value
            elif txn.outcome != "ok":
                continue
            elif key in own:
                if value != own[key]:
                    return False
            else:
                source = -1 if value is None else writer.get((key, value))
                if (
                    source is None
                    or source == n
                    or (value is not None and last[source][key] != value)
                ):
                    return False
                if level != "read-committed" and seen.setdefault(key, value) != value:
                    return False
                reads.append((n, at, key, source))
    wr = {(source, n) for n, _, _, source in reads if source >= 0}
    base = so | wr
    if level == "causal":
        base = _closed(base, len(there))
    needed = set(so | wr)
    for n, at, key, source in reads:
        for other in range(len(there)):
            if other in (source, n) or key not in last[other]:
                continue
            if level == "read-committed":
                visible = any(m == n and before < at and s == other for m, before, _, s in reads)
            else:
                visible = (other, n) in base
            if visible:
                needed.add((other, source))
    if any(source == -1 for _, source in needed):
        return False
    closed = _closed(needed, len(there))
    return not any((n, n) in closed for n in range(len(there)))


def _closed(pairs: set[tuple[int, int]], count: int) -> set[tuple[int, int]]:
    found = set(pairs)
    for middle, one, two in itertools.product(range(count), repeat=3):
        if (one, middle) in found and (middle, two) in found:
            found.add((one, two))
    return found


def in_a_row(random: Random, *, lists: bool, size: int) -> list[Txn]:
    """Transactions as they act one after the other, in that order."""
    state: dict[str, Any] = {}
    values = itertools.count(1)
    found = []
    for n in range(size):
        parts = [[*_asked(random, lists=lists)[:1], random.choice("wxyz"), None]
                 for _ in range(random.randint(1, 3))]  # fmt: skip
        _act(parts, dict(state), state, values, lists=lists, done=True)
        found.append(Txn(n, 2 * n, 2 * n + 1, "ok", parts))
    return found
