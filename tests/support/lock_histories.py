"""Small histories of locks: brokers that keep their leases, then edited a little, or not at all."""

from random import Random
from typing import Any

import msgspec

from maxq.histories.history import History
from maxq.histories.op import NEMESIS, Op

KEYS, THREADS = 3, 5
MS = 1_000_000
LEASE_MS, CLIENT_MS = 10_000, 5_000
LONGEST_MS = 2_000  # of a request


class _Lock:
    """One lock, as brokers that are right keep it; times in ms."""

    def __init__(self) -> None:
        self._owner: int | None = None
        self._until = 0

    def ask(self, process: int, now: int) -> bool:
        if self._owner not in (None, process) and now <= self._until:
            return False
        self._owner, self._until = process, now + LEASE_MS
        return True

    def release(self, process: int) -> None:
        if self._owner == process:
            self._owner = None


class _Client:
    """One thread: competes for a key, renews, gives it back or falls silent."""

    def __init__(self, thread: int) -> None:
        self.process = thread
        self.free = 0  # when it may ask again, ms
        self.held: int | None = None

    def next(self, rnd: Random) -> tuple[str, int]:
        if self.held is None:
            return "acquire", rnd.randrange(KEYS)
        key = self.held
        return rnd.choice(("renew", "renew", "release", "acquire")), key


def _events(rnd: Random, asked: int) -> list[tuple[int, Op]]:
    """Requests in order of their effects, so that each lock knows what came before; by time."""
    locks, clients = [_Lock() for _ in range(KEYS)], [_Client(t) for t in range(THREADS)]
    events: list[tuple[int, Op]] = []
    now = 0
    for _ in range(asked):
        client = min(clients, key=lambda c: c.free)
        now = max(now + 1, client.free)  # one effect after the other
        f, key = client.next(rnd)
        begun = max(client.free, now - rnd.randrange(LONGEST_MS // 4))
        answered = now + 1 + rnd.randrange(LONGEST_MS // 4)
        fate = rnd.random()
        granted = True
        if fate < 0.95:  # else it was lost on its way
            if f == "release":
                locks[key].release(client.process)
            else:
                granted = locks[key].ask(client.process, now)
        kind: Any = ("ok" if granted else "fail") if fate < 0.85 else "info"
        events.append((begun, Op("invoke", client.process, f, key)))
        if fate < 0.97:
            events.append((answered, Op(kind, client.process, f, key, ext={"broker": "x1:1"})))
        client.free = answered + rnd.randrange(1_500)
        client.held = key if kind == "ok" and f != "release" else None
        if kind == "info" or fate >= 0.97:
            client.process += 10
        if client.held is not None and rnd.random() < 0.15:  # silent: the lease runs out
            client.held = None
            client.free += rnd.randrange(LEASE_MS)
    return sorted(events, key=lambda event: event[0])


def lock_history(seed: int) -> History:
    """One of them: up to some two hundred operations, and no, one or two edits."""
    rnd = Random(seed)
    events = _events(rnd, rnd.randrange(2, 100))
    ops = [msgspec.structs.replace(op, time=at * MS) for at, op in events]
    for _ in range(rnd.choice((0, 1, 2, 3))):
        if ops:
            rnd.choice(_EDITS)(ops, rnd)
    if rnd.random() < 0.2:
        time = ops[-1].time if ops else 0
        ops += [
            Op("info", NEMESIS, "kill", v, time=time) for v in (None, {"b0-0": {"holds": True}})
        ]
    return History(msgspec.structs.replace(op, index=at) for at, op in enumerate(ops))


def any_answers(seed: int) -> History:
    """Any answers at any time, many at the same one: times are a few ns."""
    rnd = Random(seed)
    ops: list[Op] = []
    open_ones: dict[int, Op] = {}
    process = {thread: thread for thread in range(rnd.randrange(2, 5))}
    time = 0
    for _ in range(rnd.randrange(40)):
        time += rnd.choice((0, 0, 1, 2, 5))
        thread = rnd.choice(list(process))
        begun = open_ones.pop(thread, None)
        if begun is None:
            f, key = rnd.choice(("acquire", "renew", "release")), rnd.randrange(2)
            op = open_ones[thread] = Op("invoke", process[thread], f, key)
        else:
            kind: Any = rnd.choice(("ok", "ok", "ok", "fail", "info"))
            op = msgspec.structs.replace(begun, type=kind)
            process[thread] += 10 * (kind == "info")
        ops.append(msgspec.structs.replace(op, index=len(ops), time=time))
    return History(ops)


def _changed(ops: list[Op], rnd: Random, kinds: tuple[str, ...], **to: Any) -> None:
    """Change one completion of some kinds."""
    such = [at for at, op in enumerate(ops) if op.type in kinds]
    if such:
        at = rnd.choice(such)
        ops[at] = msgspec.structs.replace(ops[at], **to)


def _granted(ops: list[Op], rnd: Random) -> None:
    _changed(ops, rnd, ("fail", "info"), type="ok")


def _refused(ops: list[Op], rnd: Random) -> None:
    _changed(ops, rnd, ("ok",), type="fail")


def _other_key(ops: list[Op], rnd: Random) -> None:
    _changed(ops, rnd, ("invoke", "ok", "fail"), value=rnd.randrange(KEYS))


def _other_process(ops: list[Op], rnd: Random) -> None:
    _changed(ops, rnd, ("ok", "invoke"), process=rnd.randrange(THREADS))


def _no_value(ops: list[Op], rnd: Random) -> None:
    """A completion of which its invocation says the key, or a value that is no key."""
    _changed(ops, rnd, ("ok", "fail"), value=rnd.choice((None, None, None, -1, "0")))


def _earlier(ops: list[Op], rnd: Random) -> None:
    """From one operation on all comes earlier: a lease is cut short."""
    at = rnd.randrange(len(ops))
    by = rnd.randrange(6_000) * MS
    before = ops[at - 1].time if at else 0
    for n in range(at, len(ops)):
        ops[n] = msgspec.structs.replace(ops[n], time=max(before, ops[n].time - by))


def _dropped(ops: list[Op], rnd: Random) -> None:
    ops.pop(rnd.randrange(len(ops)))


def _untimed(ops: list[Op], rnd: Random) -> None:
    _changed(ops, rnd, ("invoke", "ok"), time=rnd.choice((-1, 0)))


_EDITS = (
    _granted, _granted, _granted, _earlier, _earlier, _earlier, _refused, _other_key,
    _other_process, _no_value, _dropped, _untimed,
)  # fmt: skip
