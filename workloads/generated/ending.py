"""How a history ends, as a run does: healed, probed, read to its end, observed, stores read."""

from collections.abc import Generator, Iterator
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np

from maxq.histories.observed import (
    ACQUIRE,
    AWAIT_LEVEL,
    DIGEST_BYTES,
    NOT_GRANTED,
    PROBE_READ,
    PROBE_STREAK,
    RELEASE,
    REPLICA_LOG,
)
from maxq.histories.op import Op
from maxq.workloads.generated.asked.kinds import LOCK, MESSAGES
from maxq.workloads.generated.clients.locks import SLOT_NS
from maxq.workloads.generated.clients.queue import POLL, Queues
from maxq.workloads.generated.clients.queue_texts import F
from maxq.workloads.generated.columns.rows import OK, Act, Batch, Ints, Ops, lay_out
from maxq.workloads.generated.nodes.cluster import (
    BrokerSet,
    Sweep,
    concluded,
    look,
    nobody,
    ordering,
)
from maxq.workloads.generated.world import Piece, World
from maxq.workloads.probe import FIRST
from maxq.workloads.queue import QUEUES, SEEK

STEP_NS = 300_000
POLL_MESSAGES = 32
POLLS = 512  # of a piece
SETTLED_NS = 25_000_000_000  # so that everything is later than the recovery bound


def pieces(world: World, now: int) -> Iterator[Piece]:
    """The rows of the end, from a time on."""
    now, acts = _healed(world, now)
    yield world.acts(acts)
    if world.request.workload in MESSAGES:
        now = yield from _final_reads(world, now)
    if world.request.workload == LOCK:
        now, acts = _handed_over(world, now)
        yield world.acts(acts)
    yield from _settled(world, now + SETTLED_NS)


def _healed(world: World, now: int) -> tuple[int, list[Act]]:
    """Heal, wait for the recovery, and probe every queue meanwhile."""
    nodes = 1 + len(world.cluster.controllers) + len(world.cluster.brokers)
    probes: list[Act] = []
    over = now + 2
    for key in range(world.queues.keys):
        at = now + 2 + key * 1_000
        for n in range(PROBE_STREAK):
            probes += _probe(world, key, FIRST + n, at)
            at += 4 * STEP_NS
        over = max(over, at)
    awaited = look("await-recovery", now + 2, over + STEP_NS, nodes, after_ms=8)
    return over + 2 * STEP_NS, [nobody("start", now), awaited, *probes]


def _probe(world: World, key: int, value: int, at: int) -> list[Act]:
    """A message that is sent and read back."""
    queues = world.queues
    of_set = world.cluster.sets[key // QUEUES]
    broker = of_set.addresses[of_set.master]
    process = queues.threads + key
    offset, byte = queues.append_one(key, value, world.spool)
    sent = {"probe": True}
    done = {"broker": broker, "byte": byte, "node": of_set.name, "probe": True}
    read = {"key": key, "value": value, "offset": offset}
    back = {"broker": broker, "node": of_set.name}
    return [
        Act(
            Op("invoke", process, "send", [["send", key, value]], time=at, ext=sent),
            Op(
                "ok", process, "send", [["send", key, [offset, value]]], time=at + STEP_NS, ext=done
            ),
        ),
        Act(
            Op("invoke", process, PROBE_READ, read, time=at + STEP_NS + 1),
            Op("ok", process, PROBE_READ, read, time=at + 2 * STEP_NS, ext=back),
        ),
    ]


# Reading everything again.


def _final_reads(world: World, now: int) -> Generator[Piece, None, int]:
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
            now = yield from _read_again(world, r, key, now, drained=key == share[-1])
    return now


def _read_again(
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
    listed = [] if held is None else held.tolist()
    base = listed[0][0] if listed else 0
    message = queues.message
    texts = ["" if o in hidden else message(o, v) for o, v in listed]
    values = []
    for n, low in enumerate(firsts):
        high = firsts[n + 1] if n + 1 < len(firsts) else base + len(listed)
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


# Handing every lock over.


def _handed_over(world: World, now: int) -> tuple[int, list[Act]]:
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


# Observing everything.


def _settled(world: World, now: int) -> Iterator[Piece]:
    """Look; let another replica lead; wait until all have the same; look again; read the stores."""
    cluster, queues = world.cluster, world.queues
    acts: list[Act] = []

    def looked(at: int) -> Sweep:
        sweep = cluster.sweep(at, queues.still)
        acts.extend(sweep.acts)
        return sweep

    now = looked(now).over + STEP_NS
    for of_set in cluster.sets:
        node = of_set.successor()
        of_set.elect(node, queues.bytes[of_set.number])
        queues.begin_epoch(of_set.number)
        acts.append(ordering(of_set, node, now, now + 60_000_000))
        now += 61_000_000
    now = looked(now).over + STEP_NS
    for of_set in cluster.sets:
        of_set.grow()
    process = world.first_observer
    level = {"level": True}
    acts.append(
        Act(
            Op("invoke", process, AWAIT_LEVEL, None, time=now),
            Op("ok", process, AWAIT_LEVEL, level, time=now + 2_000_000_000),
        )
    )
    now = looked(now + 2_000_000_001).over + STEP_NS
    yield world.acts(acts)
    for of_set in cluster.sets:
        for node in range(len(of_set.nodes)):
            for number in range(len(of_set.epochs)):
                yield world.counted(2, _log_of(world, of_set, node, number, now))
                now += STEP_NS
    nodes = 1 + len(cluster.controllers) + len(cluster.brokers)
    last = look("last-look", now, now + STEP_NS, nodes)
    yield world.acts([last, Act(concluded(now + STEP_NS + 1))])


def _log_of(world: World, of_set: BrokerSet, node: int, number: int, now: int) -> Any:
    """One epoch of a replica's store."""

    def batch() -> Batch:
        queues = world.queues
        name, process = of_set.nodes[node], world.first_observer
        epoch, start, end = epoch_bounds(queues, of_set, number)
        last = number + 1 == len(of_set.epochs)
        head = (
            f'{{"node":"{name}","set":"{of_set.name}","id":{node + 1},"epoch":{epoch},'
            f'"start":{start},"end":{end},"last":{"true" if last else "false"},"digests":['
        )
        digests = ",".join(f'"{d}"' for d in digests_of(of_set.name, epoch, start, end))
        records = ",".join(_records(world, of_set, number))
        value = f'{head}{digests}],"records":[{records}]}}'
        ops = Ops(
            np.array([now]),
            np.array([now + STEP_NS - 1]),
            np.array([OK]),
            np.array([process]),
            [REPLICA_LOG],
            [f'{{"node":"{name}","at":{number}}}'],
            [value],
            [""],
            [f'"more":{"false" if last else "true"}'],
            [""],
        )
        return lay_out(ops, []).batch

    return batch


def epoch_bounds(queues: Queues, of_set: BrokerSet, number: int) -> tuple[int, int, int]:
    """The number of an epoch, where it begins, and where it ends."""
    epoch, start = of_set.epochs[number]
    later = of_set.epochs[number + 1 :]
    return epoch, start, later[0][1] if later else queues.bytes[of_set.number]


def digests_of(name: str, epoch: int, start: int, end: int) -> list[str]:
    """Of each block of an epoch; equal on all replicas."""
    blocks = -(-(end - start) // DIGEST_BYTES)
    return [sha256(f"{name}/{epoch}/{start}/{b}".encode()).hexdigest() for b in range(blocks)]


def _records(world: World, of_set: BrokerSet, number: int) -> Iterator[str]:
    queues = world.queues
    counts = [*queues.epoch_counts[of_set.number], queues.counts[of_set.number]]
    if world.spool is None:
        return
    for rows in world.spool.rows(of_set.number, counts[number], counts[number + 1]):
        if queues.texts:
            for k, o, v in rows.tolist():
                yield f"[{k},{queues.message(o, v)[1:]}"
        else:
            yield from (f"[{k},{o},{v}]" for k, o, v in rows.tolist())
