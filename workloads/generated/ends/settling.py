"""Observers look at a cluster at rest, another replica leads, and they look again."""

from collections.abc import Iterator, Sequence

from maxq.histories.observed import AWAIT_LEVEL
from maxq.histories.op import Op
from maxq.workloads.generated.asked.kinds import OFFSETS
from maxq.workloads.generated.asked.marks import Mark
from maxq.workloads.generated.columns.rows import Act
from maxq.workloads.generated.ends import stores
from maxq.workloads.generated.nodes.cluster import concluded, look, ordering
from maxq.workloads.generated.nodes.state_plants import SETTLED, Told, ghost
from maxq.workloads.generated.world import Piece, Task, World

STEP_NS, BETWEEN_NS, ORDER_NS = 300_000, 2_500_000_000, 60_000_000
LOOKS = 14  # before the recovery bound is surely over
LEVEL_NS, LONG_LEVEL_NS = 2_000_000_000, 25_000_000_000
ENDED_CODE = 1


class Looks:
    """Sweeps, and what is planted in them.

    Args:
        world: whose nodes are asked.
        tasks: what is to be planted at the end.
    """

    def __init__(self, world: World, tasks: Sequence[Task]) -> None:
        self.world = world
        self.tasks = tasks
        self.acts: list[Act] = []
        self.marks: dict[int, Mark] = {}

    def look(self, at: int, *, settled: bool = False, last: bool = False) -> int:
        """Ask every node; returns when all is answered."""
        sweep = self.world.cluster.sweep(at, self.world.queues.still)
        told = Told(self.world.cluster, sweep)
        for task in self.tasks:
            plant = SETTLED.get(task.kind) if settled else None
            plant = ghost if last and task.kind == "ghost-replica" else plant
            mark = plant(told) if plant is not None and task.number not in self.marks else None
            if mark is not None:
                self.mark(task, mark._replace(acts=tuple(a + len(self.acts) for a in mark.acts)))
        self.acts += sweep.acts
        return sweep.over + STEP_NS

    def mark(self, task: Task, mark: Mark) -> None:
        """Note what was planted."""
        self.marks[task.number] = mark


def settled(world: World, now: int, tasks: Sequence[Task]) -> Iterator[Piece]:
    """Look; let another replica lead; wait until all have the same; look again; read the stores."""
    cluster, queues = world.cluster, world.queues
    looks = Looks(world, tasks)
    committing = world.request.workload == OFFSETS
    if committing:
        looks.acts += world.offsets.last_commits(now)
        now += BETWEEN_NS
    for _ in range(LOOKS):
        now = looks.look(now) + BETWEEN_NS
    now = looks.look(now, settled=True)
    now = looks.look(now)
    for of_set in cluster.sets:
        node = of_set.successor()
        of_set.elect(node, queues.bytes[of_set.number])
        queues.begin_epoch(of_set.number)
        looks.acts.append(ordering(of_set, node, now, now + ORDER_NS))
        now += ORDER_NS + 1
    now = looks.look(now)
    if committing:
        looks.acts += world.offsets.last_fetches(now)
        now += BETWEEN_NS
    outside = [t for t in tasks if t.kind == "replica-not-in-set"]
    for of_set in cluster.sets:
        task = outside.pop(0) if outside else None
        slaves = [n for n in range(len(of_set.nodes)) if n not in {of_set.master, *of_set.learners}]
        of_set.grow(but=slaves[-1] if task is not None else -1)
        if task is not None:
            looks.mark(task, Mark(-1, set=of_set.name))
    level = not any(t.kind == "replica-not-in-set" for t in tasks)
    lasts = LEVEL_NS if level else LONG_LEVEL_NS
    begun = Op("invoke", world.first_observer, AWAIT_LEVEL, None, time=now)
    done = Op("ok", world.first_observer, AWAIT_LEVEL, {"level": level}, time=now + lasts)
    looks.acts.append(Act(begun, done))
    now = looks.look(now + lasts + 1, last=True)
    for task in tasks:
        if task.kind == "replica-not-in-set" and task.number in looks.marks:
            leader = (len(looks.acts) - 1,)
            looks.mark(task, looks.marks[task.number]._replace(acts=leader))
    yield world.noted(looks.acts, tasks, looks.marks)
    yield from stores.pieces(world, tasks, now)
    yield _last_look(world, tasks, stores.span_of(world, now))


def _last_look(world: World, tasks: Sequence[Task], now: int) -> Piece:
    """The look at all processes with which a run ends."""
    cluster = world.cluster
    free = [*cluster.controllers, *cluster.brokers]
    crashed: dict[str, int] = {}
    silent: list[str] = []
    marks: dict[int, Mark] = {}
    for task in tasks:
        if task.kind in ("node-ended", "node-does-not-answer") and free:
            node = free.pop()
            if task.kind == "node-ended":
                crashed[node] = ENDED_CODE
            else:
                silent.append(node)
            marks[task.number] = Mark(-1, acts=(0,), set=node.partition("-")[0])
    found = {"holds": not marks, "crashed": crashed, "silent": silent}
    nodes = 1 + len(cluster.controllers) + len(cluster.brokers)
    last = look("last-look", now, now + STEP_NS, nodes, **found)
    return world.noted([last, Act(concluded(now + STEP_NS + 1))], tasks, marks)
