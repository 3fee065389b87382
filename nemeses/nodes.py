"""What all faults of nodes share: who is hit now, what is told, how all come back.

Several faults may run at once, and strike one after another: each asks who runs, and who is paused,
when it strikes, so a node that another fault has taken away is not struck twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from harness.contracts.cluster import ClusterView, Part, Proof
from harness.contracts.outcome import Fail, Ok, Outcome
from histories.op import Op
from nemeses.bag import Bag

# The value of a strike: one node of some part, or so many of the brokers or controllers.
ONE, MINORITY, MAJORITY, ALL = "one", "minority", "majority", "all"

# Who is hit where nobody plays a part, as in the middle of an election.
INSTEAD: dict[Part, Part] = {
    "master": "broker",
    "slave": "broker",
    "sync-state-set-slave": "broker",
    "controller-leader": "controller",
}

Strike = Callable[[str], Awaitable[Proof]]


class Choice:
    """Chooses victims by the parts that they play when the fault strikes.

    Args:
        cluster: whose nodes.
        rng: the fault's own stream.
        parts: what may be struck; one named twice is chosen twice as often.
        fit: what else a node must be; one that is paused is fit for some faults only.
    """

    def __init__(
        self,
        cluster: ClusterView,
        rng: Random,
        parts: Sequence[Part],
        fit: Callable[[str], bool] = lambda node: True,
    ) -> None:
        self.parts = tuple(dict.fromkeys(parts))
        self._cluster = cluster
        self._rng = rng
        self._fit = fit
        self._bag = Bag(rng, parts)
        self._instead = Bag(rng, [INSTEAD[p] for p in self.parts if p in INSTEAD])
        several: tuple[Part, ...] = ("controller", "broker")
        classes = {INSTEAD.get(part, part) for part in self.parts}
        broker: Sequence[Part] = ("broker",)
        self._several = Bag(rng, [p for p in several if p in classes] or broker)

    async def victims(self, group: object) -> tuple[Part, list[str]] | None:
        """Who is hit, and as what; None if nobody can be. Where a group has nobody left, somebody
        else is hit."""
        everybody = await self._playing("broker") if group == ALL else None
        if everybody is not None:
            return "broker", everybody
        if group in (MINORITY, MAJORITY):
            drawn = await self._several.draw(self._playing)
            if drawn is not None:
                return drawn[0], self._share(drawn[1], group)
        drawn = await self._bag.draw(self._playing) or await self._instead.draw(self._playing)
        return None if drawn is None else (drawn[0], [self._rng.choice(drawn[1])])

    async def _playing(self, part: Part) -> list[str] | None:
        return [n for n in await self._cluster.playing(part) if self._fit(n)] or None

    def _share(self, names: Sequence[str], group: object) -> list[str]:
        """Some of them, in their order."""
        half = len(names) // 2
        count = half + 1 if group == MAJORITY else max(1, (len(names) - 1) // 2)
        chosen = self._rng.sample(names, min(count, len(names)))
        return [name for name in names if name in chosen]


class NodeNemesis:
    """Strikes nodes that run, and brings back all that are away.

    Args:
        choice: whom it strikes.
        f: the name of the strike; every other operation is its end.
        strike: takes a node's name; gives the proof.
        end: brings back all nodes that this or another fault has taken away.
        together: several are struck at the same moment, not one after the other.
    """

    def __init__(
        self,
        choice: Choice,
        *,
        f: str,
        strike: Strike,
        end: Callable[[], Awaitable[Outcome]],
        together: bool = False,
    ) -> None:
        self._choice = choice
        self._f = f
        self._strike = strike
        self._end = end
        self._together = together

    async def open(self) -> None:
        """Nothing to prepare."""

    async def invoke(self, op: Op) -> Outcome:
        if op.f != self._f:
            return await self._end()
        chosen = await self._choice.victims(op.value)
        if chosen is None:
            return Fail([f"nobody-to-{self._f}", *self._choice.parts])
        part, victims = chosen
        if not self._together:
            return Ok({v: told(await self._strike(v), role=part) for v in victims})
        async with asyncio.TaskGroup() as group:
            tasks = {v: group.create_task(proof(self._strike, v)) for v in victims}
        return Ok({v: told(task.result(), role=part) for v, task in tasks.items()})

    async def close(self) -> None:
        """Nothing is held."""


async def proof(strike: Strike, node: str) -> Proof:
    """Strike; a task begins with a coroutine."""
    return await strike(node)


async def each(nodes: Sequence[str], do: Strike, otherwise: str) -> Outcome:
    """Do something to each node; what is told if there is none."""
    seen = {node: told(await do(node)) for node in nodes}
    return Ok(seen or {"nobody": {"holds": True, "reason": otherwise}})


async def restart(cluster: ClusterView, node: str) -> Proof:
    """Stop a node cleanly and start it at once."""
    stopped = await cluster.stop(node)
    started = await cluster.start(node)
    seen = {"stopped": stopped.seen, "started": started.seen, **stopped.forced}
    return Proof(stopped.holds and started.holds, seen)


async def start_dead(cluster: ClusterView) -> Outcome:
    """Start every node that is down, whatever took it down. Spares are left alone."""
    dead = [n.name for n in cluster.nodes if not n.spare and not cluster.running(n.name)]
    return await each(dead, cluster.start, "every node was running")


async def resume_paused(cluster: ClusterView) -> Outcome:
    """Let every paused node go on."""
    paused = [n.name for n in cluster.nodes if cluster.paused(n.name)]
    return await each(paused, cluster.resume, "no node was paused")


def told(proof: Proof, **more: object) -> dict[str, object]:
    """A proof as the completion of a fault holds it."""
    return {"holds": proof.holds, **more, **proof.seen}
