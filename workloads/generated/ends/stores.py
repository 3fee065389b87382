"""The store of every replica is read, an epoch an operation."""

from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256

import numpy as np

from maxq.histories.observed import DIGEST_BYTES, REPLICA_LOG
from maxq.workloads.generated.asked.marks import Mark
from maxq.workloads.generated.clients.queue import Queues
from maxq.workloads.generated.columns.rows import OK, Batch, Ops, lay_out
from maxq.workloads.generated.columns.spool import COLUMNS
from maxq.workloads.generated.nodes.cluster import MESSAGE_BYTES, BrokerSet
from maxq.workloads.generated.world import Piece, Task, World

STEP_NS = 300_000
CHANGED = (1, 2)  # replicas whose stores may be wrong, by number


class Wrong:
    """What is wrong in which store: blocks of an epoch (by number), or the begin of one."""

    def __init__(self) -> None:
        self.blocks: dict[tuple[int, int, int], Task] = {}  # set, node, epoch
        self.begins: dict[tuple[int, int], Task] = {}  # set, node
        self.rows: dict[tuple[int, int], int] = {}  # where the first epoch of such a one is read


def wrong_of(world: World, tasks: Sequence[Task]) -> Wrong:
    """Find a store for each task that there is one for; the others have no place."""
    wrong = Wrong()
    every = [
        (s.number, node, n)
        for n in range(len(world.cluster.sets[0].epochs))
        for s in world.cluster.sets
        for node in CHANGED
        if n < len(s.epochs)
    ]
    for task in tasks:
        if task.kind == "epochs-differ":
            spots = [k[:2] for k in every if k[2] == 0 and k[:2] not in wrong.begins]
            taken = {k[:2] for k in wrong.blocks}
            spot = next((k for k in spots if k not in taken), None)
            if spot is not None:
                wrong.begins[spot] = task
        elif task.kind == "log-diverged":
            free = [k for k in every if k not in wrong.blocks and k[:2] not in wrong.begins]
            if free:
                wrong.blocks[free[0] if task.at != "last" else free[-1]] = task
    return wrong


def pieces(world: World, tasks: Sequence[Task], now: int) -> Iterator[Piece]:
    """The rows, from a time on."""
    wrong = wrong_of(world, tasks)
    texts = Texts(world)
    for of_set in world.cluster.sets:
        for number in range(len(of_set.epochs)):
            for node in range(len(of_set.nodes)):
                spot, row = (of_set.number, node), world.outcome.rows + 1
                if number == 0:
                    wrong.rows[spot] = row
                block = wrong.blocks.get((*spot, number))
                if block is not None:
                    world.note_at(block, Mark(-1, set=of_set.name), (row,))
                begin = wrong.begins.get(spot)
                if begin is not None and number + 1 == len(of_set.epochs):
                    world.note_at(begin, Mark(-1, set=of_set.name), (wrong.rows[spot], row))
                moved = MESSAGE_BYTES * (begin is not None)
                batch = partial(
                    _log_of, texts, of_set, node, number, now, moved, changed=block is not None
                )
                yield world.counted(2, batch, follows=node > 0)
                now += STEP_NS


def span_of(world: World, now: int) -> int:
    """When the stores are read."""
    reads = sum(len(s.epochs) * len(s.nodes) for s in world.cluster.sets)
    return now + STEP_NS * reads


def _log_of(
    texts: "Texts",
    of_set: BrokerSet,
    node: int,
    number: int,
    now: int,
    moved: int,
    *,
    changed: bool,
) -> Batch:
    """One epoch of a replica's store; `changed`: its last block is another one; `moved`: by so many
    bytes the second epoch begins later."""
    world, name = texts.world, of_set.nodes[node]
    queues = world.queues
    epoch, start, end = epoch_bounds(queues, of_set, number)
    start, end = start + moved * (number == 1), end + moved * (number == 0)
    last = number + 1 == len(of_set.epochs)
    digests = digests_of(of_set.name, epoch, start, end)
    if changed:
        digests[-1] = digests[-1][::-1]
    listed = ",".join(f'"{d}"' for d in digests)
    value = (
        f'{{"node":"{name}","set":"{of_set.name}","id":{node + 1},"epoch":{epoch},'
        f'"start":{start},"end":{end},"last":{"true" if last else "false"},"digests":[{listed}],'
        f'"records":[{texts.records(of_set, node, number)}]}}'
    )
    ops = Ops(
        np.array([now]),
        np.array([now + STEP_NS - 1]),
        np.array([OK]),
        np.array([world.first_observer]),
        [REPLICA_LOG],
        [f'{{"node":"{name}","at":{number}}}'],
        [value],
        [""],
        [f'"more":{"false" if last else "true"}'],
        [""],
    )
    return lay_out(ops, []).batch


def epoch_bounds(queues: Queues, of_set: BrokerSet, number: int) -> tuple[int, int, int]:
    """The number of an epoch, where it begins, and where it ends."""
    epoch, start = of_set.epochs[number]
    later = of_set.epochs[number + 1 :]
    return epoch, start, later[0][1] if later else queues.bytes[of_set.number]


def digests_of(name: str, epoch: int, start: int, end: int) -> list[str]:
    """Of each block of an epoch; equal on all replicas."""
    blocks = -(-(end - start) // DIGEST_BYTES)
    return [sha256(f"{name}/{epoch}/{start}/{b}".encode()).hexdigest() for b in range(blocks)]


class Texts:
    """The messages of an epoch, which most replicas have alike.

    Args:
        world: whose epochs they are.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._of = (-1, -1)
        self._text = ""

    def records(self, of_set: BrokerSet, node: int, number: int) -> str:
        """What a replica has in an epoch."""
        lacking = self.world.planter.ends.lacking.get(node, set())
        if lacking:
            return ",".join(self._listed(of_set, number, lacking))
        if self._of != (of_set.number, number):
            self._text = ",".join(self._listed(of_set, number, set()))
            self._of = (of_set.number, number)
        return self._text

    def _listed(
        self, of_set: BrokerSet, number: int, lacking: set[tuple[int, int]]
    ) -> Iterator[str]:
        queues, spool = self.world.queues, self.world.spool
        counts = [*queues.epoch_counts[of_set.number], queues.counts[of_set.number]]
        if spool is None:
            return
        for rows in spool.rows(of_set.number, counts[number], counts[number + 1]):
            listed = zip(*(rows[:, n].tolist() for n in range(COLUMNS)), strict=True)
            if queues.texts or lacking:
                for k, o, v in listed:
                    if (k, o) not in lacking:
                        yield f"[{k},{queues.message(o, v)[1:]}"
            else:
                yield from [f"[{k},{o},{v}]" for k, o, v in listed]
