"""Every queue is read from its first offset to its end; every lock handed over."""

from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import numpy as np

from maxq.histories.observed import ACQUIRE, NOT_GRANTED, RELEASE
from maxq.histories.op import Op
from maxq.workloads.generated.clients.locks import SLOT_NS
from maxq.workloads.generated.clients.queue import POLL
from maxq.workloads.generated.clients.queue_texts import F
from maxq.workloads.generated.columns.rows import OK, Act, Batch, Ints, Ops, lay_out
from maxq.workloads.generated.world import Piece, World
from maxq.workloads.queue import QUEUES, SEEK

STEP_NS = 300_000
POLL_MESSAGES = 32
POLLS = 512  # of a piece


def read_again(world: World, now: int) -> Generator[Piece, None, int]:
    """Let every reader begin anew at the first offset; returns when all have read to the end."""
    queues = world.queues
    acts = []
    for r in range(queues.readers):
        share = list(range(r, queues.keys, queues.readers))
        process = queues.process_of(r)
        ext = {SEEK: True}
        begun = Op("invoke", process, "assign", share, time=now + r, ext=ext)
        acts.append(Act(begun, Op("ok", process, "assign", share, time=now + STEP_NS + r, ext=ext)))
    now += 2 * STEP_NS
    yield world.acts(acts)
    for r in range(queues.readers):
        share = list(range(r, queues.keys, queues.readers))
        for key in share:
            now = yield from _one_key(world, r, key, now, drained=key == share[-1])
    return now


def _one_key(
    world: World, reader: int, key: int, now: int, *, drained: bool
) -> Generator[Piece, None, int]:
    """Read one key from its first offset to its end."""
    queues = world.queues
    end = int(queues.ends[key])
    values = _values(world, key)
    start = world.begins.get(key, 0)
    span = POLL_MESSAGES * POLLS
    for low in range(start - start % POLL_MESSAGES, end, span):
        firsts = list(range(max(low, start), min(low + span, end), POLL_MESSAGES))
        held = next(values, None)
        polls = partial(_polls, world, reader, key, firsts, held, now)
        yield world.counted(2 * len(firsts), polls)
        now += len(firsts) * STEP_NS
    of_set = world.cluster.sets[key // QUEUES]
    ext: dict[str, Any] = {"broker": of_set.addresses[of_set.master]}
    ext |= {"drained": True} if drained else {}
    ext |= {"end": {key: end}, "node": of_set.name}
    process = queues.process_of(reader)
    begun = Op("invoke", process, "poll", [["poll"]], time=now)
    done = Op("ok", process, "poll", [["poll", {key: []}]], time=now + STEP_NS - 1, ext=ext)
    yield world.acts([Act(begun, done)])
    return now + STEP_NS


def _values(world: World, key: int) -> Iterator[Ints]:
    """A key's messages (offset, value), for each piece of polls."""
    if world.spool is None:
        return
    number, span = key // QUEUES, POLL_MESSAGES * POLLS
    start = world.begins.get(key, 0)
    low = start - start % POLL_MESSAGES
    held = np.empty((0, 2), np.int64)
    for rows in world.spool.rows(number, 0, world.queues.counts[number]):
        mine = rows[rows[:, 0] == key][:, 1:]
        held = np.concatenate((held, mine[mine[:, 0] >= start]))
        while len(held) and held[-1, 0] >= low + span:
            cut = int(np.searchsorted(held[:, 0], low + span))
            yield held[:cut]
            held, low = held[cut:], low + span
    yield held


def _polls(
    world: World, reader: int, key: int, firsts: list[int], held: Ints | None, now: int
) -> Batch:
    queues = world.queues
    hidden = queues.hidden[key] | world.planter.ends.hidden[key]
    of_set = world.cluster.sets[key // QUEUES]
    if held is None:
        held = np.empty((0, 2), np.int64)
    offsets, shown_values = held[:, 0].tolist(), held[:, 1].tolist()
    base = offsets[0] if offsets else 0
    listed = zip(offsets, shown_values, strict=True)
    if hidden or queues.texts:
        texts = ["" if o in hidden else queues.message(o, v) for o, v in listed]
    else:
        texts = [f"[{o},{v}]" for o, v in listed]
    values = []
    for n, low in enumerate(firsts):
        high = firsts[n + 1] if n + 1 < len(firsts) else base + len(texts)
        shown = ",".join(t for t in texts[low - base : high - base] if t)
        values.append(f'[["poll",{{"$map":[[{key},[{shown}]]]}}]]')
    n = len(firsts)
    inv = now + STEP_NS * np.arange(n, dtype=np.int64)
    ext = f'"broker":"{of_set.addresses[of_set.master]}","node":"{of_set.name}"'
    ops = Ops(
        inv,
        inv + STEP_NS - 1,
        np.full(n, OK, np.int64),
        np.full(n, queues.process_of(reader), np.int64),
        [F[POLL]] * n,
        ['[["poll"]]'] * n,
        values,
        [""] * n,
        [ext] * n,
        [""] * n,
    )
    return lay_out(ops, []).batch


def handed_over(world: World, now: int) -> tuple[int, list[Act]]:
    """Let two clients have each lock, one after the other."""
    locks, acts, over = world.locks, list[Act](), now
    for key in range(world.queues.keys):
        of_set = world.cluster.sets[key // QUEUES]
        ext = {"broker": of_set.addresses[of_set.master]}
        group = locks.group(key % locks.keys)
        one, two = (locks.process_of(int(t)) for t in group[:2])
        at = now + (key // locks.keys) * SLOT_NS
        for process, f, error in (
            (one, ACQUIRE, None),
            (two, ACQUIRE, NOT_GRANTED),
            (one, RELEASE, None),
            (two, ACQUIRE, None),
            (two, RELEASE, None),
        ):
            done = Op("fail" if error else "ok", process, f, key, error, time=at + STEP_NS, ext=ext)
            acts.append(Act(Op("invoke", process, f, key, time=at), done))
            at += STEP_NS + 1
        over = max(over, at)
    return over + STEP_NS, acts
