"""Runs in the simulator with an environment or target that misbehaves."""

from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from small import SMALL

from maxq.harness.cluster.deployment import Deployment
from maxq.harness.contracts.environment import CLIENT_ADDRESS, MachineSpec
from maxq.harness.environments.simulated import SimulatedEnvironment
from maxq.harness.run.execute import planned
from maxq.harness.run.lifecycle import perform
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, judge_stored
from maxq.harness.schedule.options import Options
from maxq.harness.simulation.world import SimHost, World
from maxq.harness.targets.reference import ReferenceTarget
from maxq.histories.op import Op
from maxq.histories.store import Run, RunStore

T = TypeVar("T")
SECOND_NS = 1_000_000_000


def options(**more: Any) -> Options:
    given = {"environment": "simulated", "seed": 1, "time_limit_ns": 3 * SECOND_NS}
    return Options(**{**SMALL, **given, **more})


class Watched(SimulatedEnvironment):
    """Remembers whether it was brought up and down."""

    def __init__(self, world: World, *, mutant: str = "") -> None:
        super().__init__(world, mutant=mutant)
        self.ups = 0
        self.downs = 0

    async def up(self, machines: Sequence[MachineSpec]) -> None:
        self.ups += 1
        await super().up(machines)

    async def down(self) -> None:
        self.downs += 1
        await super().down()

    def crash(self, node: str, code: int = 1) -> None:
        """End a node's newest process as a failure of its own would."""
        process = self.machine(node)._processes[-1]
        process.loop.kill()
        process.code = code


class Performed:
    """A run that was tried: its folder, its environment, what was said, how it failed."""

    def __init__(self, folder: Path, given: Options, make: Callable[[World], Watched],
                 target: ReferenceTarget) -> None:  # fmt: skip
        self.run: Run = RunStore(folder).create("queue", datetime.now(UTC))
        self.run.save_config({"options": {f: getattr(given, f) for f in given.__struct_fields__}})
        self.said: list[str] = []
        self.failure: Exception | None = None
        world = World(given.seed)
        self.environment = make(world)

        async def main(host: SimHost) -> None:
            await perform(
                given, self.environment, target, self.run,
                RunContext(progress=self, wall_ms=host.wall_ms, script=planned(given)),
            )  # fmt: skip

        try:
            world.run(world.add_machine("client", CLIENT_ADDRESS), main)
        except Exception as error:
            self.failure = error
        finally:
            world.close()

    def say(self, text: str) -> None:
        self.said.append(text)

    def update(self, now_ns: int, op: Op | None) -> None:
        """Nobody looks."""

    @property
    def judged(self) -> Judged:
        return judge_stored(self.run.path)


def performed(
    folder: Path,
    given: Options,
    *,
    make: Callable[[World], Watched] = Watched,
    target: ReferenceTarget | None = None,
) -> Performed:
    """Perform a run; never raises."""
    return Performed(folder, given, make, target or ReferenceTarget())


def with_cluster(
    main: Callable[[Deployment, Watched], Coroutine[Any, Any, T]],
    *,
    spares: int = 0,
    by_name: bool = False,
    **more: Any,
) -> T:
    """Bring up a cluster in a world and do something with it."""
    given = options(**more)
    settings = given.settings()
    topology = msgspec.structs.replace(settings.topology, spares=spares)
    settings = msgspec.structs.replace(settings, topology=topology, by_name=by_name)
    world = World(given.seed)

    async def body(host: SimHost) -> T:
        environment = Watched(world)
        cluster = Deployment(environment, ReferenceTarget(), settings)
        try:
            await cluster.up()
            return await main(cluster, environment)
        finally:
            await environment.down()

    try:
        return world.run(world.add_machine("client", CLIENT_ADDRESS), body)
    finally:
        world.close()
