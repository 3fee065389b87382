"""The oracle: sees the states of all nodes of a simulated run, and says when an invariant breaks.

A history checker infers from what clients saw; the oracle looks. After every step of a node's loop
it compares a few numbers of that node (the end of its log, its role, its commit index) with those
of the last step, and only what has changed is judged, against what is known of all other nodes. So
a breach is seen at the instant at which it happens, also where no client ever notices.

The nodes do not know of it. It is attached to the objects that run them; it draws nothing, waits
for nothing and changes nothing, so a run is the same, byte by byte, with and without it. Its
findings are a column of their own beside the verdicts of checkers, and change none of them.

What is judged, and where: `maxq.harness.simulation.oracle.controller` (Raft and the registry),
`maxq.harness.simulation.oracle.broker` (masters, logs, ids, what was promised to clients),
`maxq.harness.simulation.oracle.pairs` (the same without controllers),
`maxq.harness.simulation.oracle.locks` (ordered queues). One world is taken to hold one controller
group, and broker sets are distinguished by name.

Times are ns of virtual time. Claims: S1 to S9, A8, L1, L2. Source: docs/spec/controller-ha.md 6.3
and 6.5, docs/spec/acting-master.md 3.1.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath

import msgspec

from maxq.harness.contracts.environment import DISK
from maxq.harness.simulation.loop import SimLoop
from maxq.harness.simulation.oracle.broker import BrokerView
from maxq.harness.simulation.oracle.controller import ControllerView
from maxq.harness.simulation.oracle.facts import Facts
from maxq.harness.simulation.world import SimMachine, World
from maxq.reference.broker.server import Broker
from maxq.reference.config import BrokerConfig
from maxq.reference.container.inner import BrokerBootHook
from maxq.reference.container.server import Container
from maxq.reference.controller.server import Controller
from maxq.reference.node import Joined

ANOMALIES_MAX = 200  # of one run; more of them explain nothing
BROKE = "node-invariant"  # one of its own, that a node found broken
TRACE_LINES = 8  # of each node concerned


class OracleAnomaly(msgspec.Struct, frozen=True, kw_only=True):
    """A broken invariant: which, when (ns), where, what was seen, and what the nodes had logged."""

    invariant: str
    time_ns: int
    nodes: tuple[str, ...]
    detail: str
    trace: tuple[str, ...]


class Oracle:
    """Watches the nodes of a world.

    Args:
        world: where they live; its machines have the nodes' logs.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.anomalies: list[OracleAnomaly] = []
        self._reported: set[tuple[str, tuple[str, ...]]] = set()
        self.facts = Facts(self._report)
        self._beside: dict[str, set[str]] = {}  # by machine: brokers of a container there

    def attach(self, loop: SimLoop, machine: SimMachine, node: object) -> None:
        """Watch a node, from before its first step; name servers have nothing to be watched, but
        for a controller in one."""
        match node:
            case Joined():
                for part in node.nodes:
                    self.attach(loop, machine, part)
            case Container():
                views: list[BrokerView] = []
                loop.watch = partial(_look_at_all, views)
                inner = partial(self._inner, views, loop, machine)
                node.hooks.append(BrokerBootHook("oracle", inner))
            case Broker():
                loop.watch = self._view(loop, machine, machine.name, node).look
            case Controller():
                loop.watch = ControllerView(self.facts, machine.name, loop, node).look

    def _inner(
        self,
        views: list[BrokerView],
        loop: SimLoop,
        machine: SimMachine,
        broker: Broker,
        config: BrokerConfig,
    ) -> None:
        """Watch a broker of a container, whose name is that of its folder."""
        name = PurePosixPath(config.store_path_root_dir).parent.name
        self._beside.setdefault(machine.name, set()).add(name)
        views.append(self._view(loop, machine, name, broker))

    def _view(self, loop: SimLoop, machine: SimMachine, name: str, broker: Broker) -> BrokerView:
        now_ns = lambda: self._world.scheduler.now_ns  # noqa: E731 - a clock
        return BrokerView(self.facts, name, machine.disk.files, loop, broker, now_ns)

    def _on(self, machine: str) -> Collection[str]:
        return self._beside.get(machine, (machine,))

    def wiped(self, machine: str, path: str) -> None:
        """An operator removed a file or folder: the store there, and its id, are no more."""
        for name in self._on(machine):
            if name == machine or name in PurePosixPath(path).parts:
                self.facts.wiped(name, path)

    def tampered(self, machine: str, path: str) -> None:
        """An operator wrote a file of a store: the id that is read there was never won."""
        parts = PurePosixPath(path).parts
        within = {n for n in self._on(machine) if n in parts and DISK in parts[parts.index(n) :]}
        self.facts.foreign.update(within)

    def lost_power(self, machine: str) -> None:
        """A machine lost what it had not synced."""
        for name in self._on(machine):
            self.facts.lost_power(name)

    def broke(self, machine: str, why: str) -> None:
        """A node has found itself broken, and ended."""
        self._report(BROKE, [machine], why)

    def _machine_of(self, node: str) -> str:
        return next((m for m, names in self._beside.items() if node in names), node)

    def _report(self, invariant: str, nodes: Sequence[str], detail: str) -> None:
        """Keep a breach; of those of one kind and the same nodes only the first."""
        concerned = tuple(dict.fromkeys(nodes))
        key = invariant, tuple(sorted(concerned))
        if key in self._reported or len(self.anomalies) >= ANOMALIES_MAX:
            return
        self._reported.add(key)
        self.anomalies.append(
            OracleAnomaly(
                invariant=invariant,
                time_ns=self._world.scheduler.now_ns,
                nodes=concerned,
                detail=detail,
                trace=self._trace(concerned),
            )
        )

    def _trace(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """The last lines of these nodes' logs, in order of time."""
        lines = [
            (at, f"{at / 1e9:.6f} {name} {trace} {_fields(fields)}".rstrip())
            for name in dict.fromkeys(map(self._machine_of, nodes))
            for at, trace, fields in self._world.machines[name].log[-TRACE_LINES:]
        ]
        return tuple(text for _, text in sorted(lines, key=lambda line: line[0]))


def _look_at_all(views: Sequence[BrokerView]) -> None:
    for view in views:
        view.look()


def _fields(fields: Mapping[str, object]) -> str:
    return " ".join(f"{key}={value}" for key, value in fields.items())
