"""The nemesis of a run: does each act of its schedule, to the nodes that it concerns by then.

An act's operation has its id as value, and `who` and `args` beside it
(`maxq.harness.schedule.format`); its completion maps each node to what was done there, with the
proof. What the acts are, and what each takes in `args`, say the kinds (`maxq.nemeses.kinds`).

Where several are struck they are struck in one instant. Where no node can be struck the completion
says so of ``nobody``.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from maxq.harness.contracts.cluster import Cluster, Part
from maxq.harness.contracts.outcome import Fail, Ok, Outcome
from maxq.harness.schedule.format import EVERYBODY, Who
from maxq.histories.fault_facts import NOBODY
from maxq.histories.op import Op
from maxq.nemeses.catalogue import LAST_REJOINED, LAST_VICTIM, acts
from maxq.nemeses.kind import ActKind
from maxq.nemeses.stage import Stage

# Who is struck where no node plays a part, as in the middle of an election.
INSTEAD: dict[Part, Part] = {
    "master": "broker",
    "slave": "broker",
    "sync-state-set-slave": "broker",
    "controller-leader": "controller",
    "acting-master": "broker",
    "smallest-slave": "broker",
}
SHARES: dict[str, Callable[[Sequence[str]], Sequence[str]]] = {
    "all": lambda struck: struck,
    "first": lambda struck: struck[:1],
    "rest": lambda struck: struck[1:],
}


class Scripted:
    """Does what a schedule says.

    Args:
        cluster: whose nodes.
        key: of its draws; each is keyed by the act that it is for.
        keys: (topic, broker set, queue id) of each key of the run's queues, in order.
    """

    def __init__(
        self, cluster: Cluster, key: str, keys: Sequence[tuple[str, str, int]] = ()
    ) -> None:
        self._stage = Stage(cluster, key, keys)
        self._acts = acts()
        self._last: dict[str, list[str]] = {LAST_VICTIM: [], LAST_REJOINED: []}

    async def open(self) -> None:
        """Nothing to prepare."""

    async def invoke(self, op: Op) -> Outcome:
        asked = op.ext or {}
        name, args = str(op.value), dict(asked.get("args") or {})
        who = msgspec.convert(asked.get("who") or {}, Who)
        act = self._acts.get(op.f)
        if act is None:
            return Fail(["no-such-act", op.f])
        await self._stage.look()
        parts = await self._whom(act, name, who, act.fit(self._stage, args))
        self._stage.struck[name] = list(parts)
        if not act.alone:
            parts = self._with_beside(parts)
        done = await act.do(self._stage, name, list(parts), {**args, "of": who.of})
        self._remember(act, list(parts))
        if args.get("stays"):
            self._stage.settled |= parts.keys()
        if not done:
            return Ok({NOBODY: {"holds": True, "reason": f"nobody to {op.f}"}})
        return Ok({n: {**what, "role": self._role(n, what, parts)} for n, what in done.items()})

    def _role(self, node: str, what: Mapping[str, object], parts: Mapping[str, str]) -> object:
        """As what a node was struck."""
        return what.get("role") or parts.get(node) or self._stage.role(node)

    def _with_beside(self, parts: Mapping[str, str]) -> dict[str, str]:
        """The same, and who shares their processes: these are struck as what they are."""
        every = dict.fromkeys(other for node in parts for other in self._stage.beside(node))
        return {node: parts.get(node) or self._stage.role(node) for node in every}

    async def _whom(
        self, act: ActKind, name: str, who: Who, fit: Callable[[str], bool]
    ) -> dict[str, str]:
        """Nodes that an act concerns, and as what; in order."""
        stage = self._stage
        nodes, role = stage.nodes, stage.role
        if who.nodes:
            named = [
                n for name in who.nodes for n in ([name] if name in nodes else stage.beside(name))
            ]
            return {n: role(n) for n in named if n in nodes and fit(n)}
        if who.of:
            struck = SHARES[who.share](self._stage.struck.get(who.of, []))
            return {n: role(n) for n in struck if fit(n)}
        if who.part in self._last:
            return {n: who.part for n in self._last[who.part] if fit(n)}
        if who.part:
            return await self._playing(name, who, fit)
        if act.back:
            return {n: role(n) for n in nodes if fit(n)}
        return {}

    async def _playing(self, name: str, who: Who, fit: Callable[[str], bool]) -> dict[str, str]:
        part: Part = msgspec.convert(who.part, Part)
        for asked in dict.fromkeys((part, INSTEAD.get(part, part))):
            fitting = [n for n in await self._stage.cluster.playing(asked) if fit(n)]
            if fitting:
                count = len(fitting) if who.count == EVERYBODY else min(who.count, len(fitting))
                chosen = self._stage.draws(name).sample(fitting, count)
                return dict.fromkeys((n for n in fitting if n in chosen), asked)
        return {}

    def _remember(self, act: ActKind, nodes: list[str]) -> None:
        if nodes and (act.back or act.rejoins):
            self._last[LAST_REJOINED] = nodes
        elif nodes and not act.order:
            self._last[LAST_VICTIM] = nodes

    async def close(self) -> None:
        """Nothing is held."""
