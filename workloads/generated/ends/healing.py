"""The end from its begin on: healed, recovered, every queue probed; then all the rest."""

from collections.abc import Iterator, Sequence

from maxq.histories.fault_facts import TRIM
from maxq.histories.observed import PROBE_READ, PROBE_STREAK
from maxq.histories.op import Op
from maxq.workloads.generated.asked.kinds import LOCK, MESSAGES
from maxq.workloads.generated.asked.marks import Mark
from maxq.workloads.generated.columns.rows import Act
from maxq.workloads.generated.ends.rereading import handed_over, read_again
from maxq.workloads.generated.ends.settling import settled
from maxq.workloads.generated.nodes.cluster import MESSAGE_BYTES, act, look, nobody
from maxq.workloads.generated.world import Piece, Task, World
from maxq.workloads.probe import FIRST
from maxq.workloads.queue import QUEUES

STEP_NS = 300_000
REFUSED = ["SYSTEM_ERROR", "in-sync replicas not enough: 1 < 2"]
TRIES, TRY_NS = 6, 5_000_000_000  # of a queue that takes nothing: beyond the recovery bound
TRIMMED_MIN, EARLY = 12, 4  # messages of a queue; how many young ones are deleted


def pieces(world: World, now: int, tasks: Sequence[Task]) -> Iterator[Piece]:
    """The rows of the end, from a time on."""
    acts, marks, now = _trimmed(world, tasks, now)
    healed, more, now = _healed(world, tasks, now, len(acts))
    yield world.noted([*acts, *healed], tasks, marks | more)
    if world.request.workload in MESSAGES:
        now = yield from read_again(world, now)
    if world.request.workload == LOCK:
        now, acts = handed_over(world, now)
        yield world.acts(acts)
    yield from settled(world, now, tasks)


def _trimmed(
    world: World, tasks: Sequence[Task], now: int
) -> tuple[list[Act], dict[int, Mark], int]:
    """Let a log get old, and its queues begin behind messages that are young."""
    wanted = [t for t in tasks if t.kind == "deleted-early"]
    queues, acts, marks = world.queues, list[Act](), dict[int, Mark]()
    able = [k for k in range(queues.keys) if queues.ends[k] >= TRIMMED_MIN]
    chosen = dict(zip(able, wanted, strict=False))
    for number in sorted({k // QUEUES for k in chosen}):
        of_set = world.cluster.sets[number]
        keys = range(number * QUEUES, (number + 1) * QUEUES)
        young = [[k, int(queues.ends[k]) // 2] for k in keys]
        proof = {
            "holds": True,
            "aged-to": sum(offset for _, offset in young) * MESSAGE_BYTES,
            "young": young,
            "role": "master",
        }
        asked = {"who": {"part": "master"}}
        acts.append(
            act(TRIM, now, now + 1, f"trim{number}", {of_set.nodes[of_set.master]: proof}, **asked)
        )
        now += 2
        for key, first in young:
            world.begins[key] = first + EARLY * (key in chosen)
            if key in chosen:
                at = (len(acts) - 1,)
                marks[chosen[key].number] = Mark(key, offset=first, acts=at)
    return acts, marks, now


def _healed(
    world: World, tasks: Sequence[Task], now: int, before: int
) -> tuple[list[Act], dict[int, Mark], int]:
    """Heal, wait for the recovery, and probe every queue meanwhile."""
    nodes = 1 + len(world.cluster.controllers) + len(world.cluster.brokers)
    refusing = [t for t in tasks if t.kind == "not-writable"]
    marks: dict[int, Mark] = {}
    probes: list[Act] = []
    over = now + 2
    for key in range(world.queues.keys):
        at = now + 2 + key * 1_000
        if key % QUEUES == 0 and refusing:
            mine = tuple(before + 2 + len(probes) + n for n in range(TRIES))
            marks[refusing.pop(0).number] = Mark(key, acts=mine)
            probes += [_refused(world, key, FIRST + n, at + n * TRY_NS) for n in range(TRIES)]
            at += TRIES * TRY_NS
        else:
            for n in range(PROBE_STREAK):
                probes += _probe(world, key, FIRST + n, at)
                at += 4 * STEP_NS
        over = max(over, at)
    awaited = look("await-recovery", now + 2, over + STEP_NS, nodes, after_ms=8)
    return [nobody("start", now), awaited, *probes], marks, over + 2 * STEP_NS


def _refused(world: World, key: int, value: int, at: int) -> Act:
    """A message that is not taken."""
    process, sent = world.queues.threads + key, [["send", key, value]]
    ext = {"probe": True}
    begun = Op("invoke", process, "send", sent, time=at, ext=ext)
    return Act(begun, Op("fail", process, "send", sent, REFUSED, time=at + STEP_NS, ext=ext))


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
