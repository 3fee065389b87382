"""Anomalies of the log, planted into a round of `queue`.

Some change what is drawn, before every message has its offset (`BEFORE`); the others change what
is answered (`AFTER`). Each keeps its distance from what is planted already, so that none hides or
explains another. A planter returns what it did, or None where the round has no place for it.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from maxq.workloads.generated.asked.marks import Mark
from maxq.workloads.generated.asked.request import At
from maxq.workloads.generated.clients.places import ordered
from maxq.workloads.generated.clients.queue import POLL, SEND, TXN, Draft, Ghost, Queues, Shot
from maxq.workloads.generated.columns.rows import FAIL, INFO, OK, OPEN, Ints

APART = 2  # offsets that planted anomalies keep from one another
SHOWN_NS = 400_000  # that a planted client's operation takes


class Ends:
    """What the last observations leave out: the re-read offsets of a key, the store of a replica
    (by its number) messages, by key and offset."""

    def __init__(self, keys: int) -> None:
        self.hidden: list[set[int]] = [set() for _ in range(keys)]
        self.lacking: dict[int, set[tuple[int, int]]] = {1: set(), 2: set()}


def settled(p: "Planter", d: Draft, mark: Mark) -> Mark:
    """A mark with the offset and the value of its message."""
    if mark.of is None:
        return mark
    if mark.of < 0:
        value = d.ghost_values[-mark.of - 1]
        row = d.records[(d.records[:, 4] == -1) & (d.records[:, 3] == value)][0]
        offset = int(row[2])
    else:
        value, offset = int(d.value[mark.of]), int(d.offset[mark.of])
    p.take(d, mark.key, offset)
    return mark._replace(offset=offset, value=value)


class Planter:
    """Plants into one round after the other.

    Args:
        queues: whose rounds.
    """

    def __init__(self, queues: Queues) -> None:
        self.queues = queues
        self.ends = Ends(queues.keys)
        self._taken: list[set[int]] = [set() for _ in range(queues.keys)]
        self._used: set[tuple[int, int]] = set()  # round, operation

    # Choosing.

    def places(self, d: Draft, found: Ints, at: At, rng: np.random.Generator) -> Iterator[int]:
        """Candidates in order of preference."""
        unsure = d.inv[(d.type == INFO) | (d.type == OPEN)]
        for i in ordered(d.inv, found, unsure, at, d.cut, rng):
            if (d.number, i) not in self._used:
                yield i

    def free(self, key: int, *offsets: int) -> bool:
        """Whether nothing is planted near these messages."""
        near = {o + n for o in offsets for n in range(-APART, APART + 1)}
        return self._taken[key].isdisjoint(near)

    def take(self, d: Draft, key: int, *offsets: int, ops: tuple[int, ...] = ()) -> None:
        """Keep others away."""
        self._taken[key].update(offsets)
        self._used.update((d.number, i) for i in ops)

    # Finding.

    def sends(self, d: Draft) -> Ints:
        """Acknowledged sends of one message."""
        return np.flatnonzero((d.f == SEND) & (d.type == OK) & d.effect)

    def read_sends(self, d: Draft) -> Ints:
        """Those that an answered poll of this round shows."""
        sends = self.sends(d)
        shown = np.zeros(self.queues.keys, np.int64)
        polls = np.flatnonzero((d.f == POLL) & (d.type == OK))
        np.maximum.at(shown, d.key[polls], d.to[polls])
        read: Ints = sends[d.offset[sends] < shown[d.key[sends]]]
        return read

    def polls(self, d: Draft, least: int) -> Ints:
        """Answered polls that show at least so many messages."""
        found: Ints = np.flatnonzero((d.f == POLL) & (d.type == OK) & (d.to - d.from_ >= least))
        return found

    def earlier(self, d: Draft, poll: int) -> int | None:
        """The poll of the same process and key before it that showed something."""
        same = (d.f == POLL) & (d.type == OK) & (d.key == d.key[poll]) & (d.to > d.from_)
        same &= (d.thread == d.thread[poll]) & (d.generation == d.generation[poll])
        found = np.flatnonzero(same & (d.inv < d.inv[poll]))
        return int(found[-1]) if len(found) else None


Plant = Callable[[Planter, Draft, At, np.random.Generator], Mark | None]


# What is drawn.


def _phantom(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    for i in p.places(d, p.sends(d), at, rng):
        key = int(d.key[i])
        d.ghosts.append(Ghost(key, int(d.lin[i]) + 1, None))
        p.take(d, key, ops=(i,))
        return Mark(key, of=-len(d.ghosts))
    return None


def _duplicate(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    for i in p.places(d, p.sends(d), at, rng):
        key = int(d.key[i])
        d.ghosts.append(Ghost(key, int(d.lin[i]) + 1, i))
        p.take(d, key, ops=(i,))
        return Mark(key, (i,), of=i)
    return None


def _shot(p: Planter, d: Draft, at: At, rng: np.random.Generator, **what: object) -> int | None:
    """An operation of a client of its own beside a send; its number once settled."""
    for i in p.places(d, p.sends(d), at, rng):
        inv = int(d.inv[i]) + 1
        ret = inv + SHOWN_NS
        if d.cut >= 0 and inv <= d.cut <= ret:
            continue
        p.take(d, int(d.key[i]), ops=(i,))
        type_, effect = (INFO, False) if what.get("unsure") else (OK, True)
        d.shots.append(
            Shot(
                f=SEND if what.get("unsure") else TXN,
                key=int(d.key[i]),
                inv=inv,
                ret=ret,
                lin=inv + SHOWN_NS // 2,
                type=type_,
                effect=effect,
                reversed=bool(what.get("reverse")),
                polls=bool(what.get("polls")),
            )
        )
        return len(d.thread) + len(d.shots) - 1
    return None


def _precommitted(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    i = _shot(p, d, at, rng, polls=True)
    return None if i is None else Mark(d.shots[-1].key, (i,), of=i)


def _reversed(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    i = _shot(p, d, at, rng, reverse=True)
    return None if i is None else Mark(d.shots[-1].key, (i,), of=i)


def _nonmonotonic_send(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    firsts, seconds = _pairs(d)
    partner = dict(zip(firsts.tolist(), seconds.tolist(), strict=True))
    for i in p.places(d, firsts, at, rng):
        j = partner[i]
        if (d.number, j) in p._used:
            continue
        d.lin[i] = d.lin[j] + 1
        d.together.append((i, j))
        p.take(d, int(d.key[i]), ops=(i, j))
        return Mark(int(d.key[i]), (i, j), of=i)
    return None


def _pairs(d: Draft) -> tuple[Ints, Ints]:
    """Acknowledged sends of one process to one key, one right after the other."""
    writes = np.flatnonzero((d.f <= TXN) & (d.thread >= 0))
    both = np.concatenate((writes, writes[d.f[writes] == TXN]))
    key = np.concatenate((d.key[writes], d.key2[writes[d.f[writes] == TXN]]))
    order = np.lexsort((d.inv[both], key, d.thread[both]))
    op, key = both[order], key[order]
    good = (d.f == SEND) & (d.type == OK)
    next_ = (d.thread[op[1:]] == d.thread[op[:-1]]) & (key[1:] == key[:-1])
    next_ &= (d.generation[op[1:]] == d.generation[op[:-1]]) & good[op[1:]] & good[op[:-1]]
    return op[:-1][next_], op[1:][next_]


def _instead(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    """A send of unknown outcome at the round's begin, whose message a poll will show."""
    polls = p.polls(d, 0)
    for i in p.places(d, polls, "anywhere", rng):
        inv = d.start + 1 + len(d.shots)
        key = int(d.key[i])
        d.shots.append(Shot(SEND, key, inv, inv + 1_000, inv + 500, INFO, effect=False))
        return Mark(key, (len(d.thread) + len(d.shots) - 1,))
    return None


# What is answered.


def _lost_write(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    for i in p.places(d, p.sends(d), at, rng):
        key, offset = int(d.key[i]), int(d.offset[i])
        if p.free(key, offset) and not _edited(p, d, key, offset):
            p.queues.hidden[key].add(offset)
            p.take(d, key, offset, ops=(i,))
            return Mark(key, (i,), of=i)
    return None


def _edited(p: Planter, d: Draft, key: int, offset: int) -> bool:
    """Whether a poll whose messages are listed one by one shows a message."""
    return any(d.key[i] == key and o == offset for i, of in d.edits.items() for o, _ in of)


def _lost_tail(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    for i in p.places(d, p.read_sends(d), at, rng):
        key, offset = int(d.key[i]), int(d.offset[i])
        if p.free(key, offset):
            p.ends.hidden[key].add(offset)
            p.take(d, key, offset, ops=(i,))
            return Mark(key, (i,), of=i)
    return None


def _truncation(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    for i in p.places(d, p.read_sends(d), at, rng):
        key, offset = int(d.key[i]), int(d.offset[i])
        apart = any(a <= i < b for a, b in d.together)
        if not apart and p.free(key, offset):
            d.type[i] = INFO
            p.ends.hidden[key].add(offset)
            p.take(d, key, offset, ops=(i,))
            return Mark(key, (i,), of=i)
    return None


def _g1a(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    for i in p.places(d, p.sends(d), at, rng):
        key, offset = int(d.key[i]), int(d.offset[i])
        if p.free(key, offset):
            d.type[i] = FAIL
            p.take(d, key, offset, ops=(i,))
            return Mark(key, (i,), of=i)
    return None


def _missing(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    for i in p.places(d, p.sends(d), at, rng):
        key, offset = int(d.key[i]), int(d.offset[i])
        if p.free(key, offset):
            p.ends.lacking[int(rng.integers(1, 3))].add((key, offset))
            p.take(d, key, offset, ops=(i,))
            return Mark(key, (i,), of=i)
    return None


def _reads(
    p: Planter, d: Draft, at: At, rng: np.random.Generator, least: int, *, follows: bool = False
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Polls to change, each with what it shows; `follows`: after another one of the process."""
    for i in p.places(d, p.polls(d, least), at, rng):
        shown = p.queues.shown(d, i)
        offsets = [o for o, _ in shown]
        whole = len(shown) == d.to[i] - d.from_[i] and i not in d.edits
        if whole and p.free(int(d.key[i]), offsets[0] - 1, *offsets):
            if follows and p.earlier(d, i) is None:
                continue
            yield i, shown


def _change(p: Planter, d: Draft, i: int, shown: list[tuple[int, int]], at: int) -> Mark:
    key = int(d.key[i])
    offset, value = p.queues.shown(d, i)[at]
    p.take(d, key, *(o for o, _ in p.queues.shown(d, i)), ops=(i,))
    d.edits[i] = shown
    return Mark(key, (i,), offset, value)


def _poll_skip(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    for i, shown in _reads(p, d, at, rng, 2, follows=True):
        return _change(p, d, i, shown[1:], 0)
    return None


def _int_poll_skip(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    for i, shown in _reads(p, d, at, rng, 3):
        return _change(p, d, i, [shown[0], *shown[2:]], 1)
    return None


def _nonmonotonic_poll(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    for i, shown in _reads(p, d, at, rng, 1, follows=True):
        before = p.earlier(d, i)
        last = p.queues.shown(d, before)[-1:] if before is not None else []
        if last and p.free(int(d.key[i]), last[0][0]):
            p.take(d, int(d.key[i]), last[0][0])
            return _change(p, d, i, [*last, *shown], 0)
    return None


def _int_nonmonotonic_poll(p: Planter, d: Draft, at: At, rng: np.random.Generator) -> Mark | None:
    for i, shown in _reads(p, d, at, rng, 1):
        return _change(p, d, i, [*shown, shown[-1]], -1)
    return None


def show_instead(p: Planter, d: Draft, mark: Mark, at: At, rng: np.random.Generator
                 ) -> Mark | None:  # fmt: skip
    """Let a poll show the message of a mark's send in the place of an acknowledged one."""
    (sent,) = mark.ops
    acknowledged = {int(d.offset[i]) for i in p.sends(d) if d.key[i] == mark.key}
    for i, shown in _reads(p, d, at, rng, 1):
        if d.key[i] != mark.key or d.lin[i] <= d.ret[sent]:
            continue
        for n, (offset, _) in enumerate(shown):
            if offset in acknowledged:
                other = int(d.value[sent])
                changed = [*shown[:n], (offset, other), *shown[n + 1 :]]
                found = _change(p, d, i, changed, n)
                return found._replace(ops=(sent, i), value=other)
    return None


BEFORE: Mapping[str, Plant] = {
    "phantom": _phantom,
    "duplicate": _duplicate,
    "precommitted-read": _precommitted,
    "int-nonmonotonic-send": _reversed,
    "nonmonotonic-send": _nonmonotonic_send,
    "inconsistent-offsets": _instead,
}
AFTER: Mapping[str, Plant] = {
    "lost-write": _lost_write,
    "lost-tail": _lost_tail,
    "truncation": _truncation,
    "G1a": _g1a,
    "missing-in-replica": _missing,
    "poll-skip": _poll_skip,
    "int-poll-skip": _int_poll_skip,
    "nonmonotonic-poll": _nonmonotonic_poll,
    "int-nonmonotonic-poll": _int_nonmonotonic_poll,
}
