"""Fault partition: some machines take no packets from some others.

`start-partition` cuts as its value says, a kind from the list below; who that strikes is decided
when it does. In silence, or, each third time, with resets. It completes when for each machine that
drops packets a probe from each source met nothing and the rule has caught packets; `stop-partition`
heals all. Clients are left alone unless a kind asks. What one kind cannot strike now, for want of a
master or a leader, is struck by halves instead; the completion names the kind that was done.

The value of a completion maps each destination to ``{"holds", "from": {source: packets}, "kind",
"reset", "role"}``.
"""

from collections.abc import Mapping, Sequence
from random import Random

from harness.client.outcome import Fail, Ok, Outcome
from harness.cluster import ClusterView, Grudge, Part, Proof
from harness.environments.api import CLIENT, Capability, Role
from harness.targets.api import Node
from histories.op import Op
from nemeses.bag import Bag
from nemeses.fault import Fault
from nemeses.grudges import apart, bridge, deaf, halves, isolated, majorities_ring, mute
from nemeses.nodes import told
from nemeses.palette import band

CUT_NS = 5_000_000_000  # beyond the 3 s after which a silent broker counts as dead
ROUNDS = 8  # how often each kind is in a schedule before that repeats
START, STOP = "start-partition", "stop-partition"
RESETS = (False, False, True)

HALVES = "halves"
ISOLATED: dict[str, Part] = {
    "isolate-master": "master",
    "isolate-sync-state-set-slave": "sync-state-set-slave",
    "isolate-controller-leader": "controller-leader",
}
ONE_WAY = ("master-hears-nobody", "nobody-hears-master")
LINKS: dict[str, tuple[Part, Part]] = {
    "link-broker-controller": ("master", "controller-leader"),
    "link-broker-namesrv": ("broker", "namesrv"),
    "link-broker-broker": ("master", "slave"),
}
RING, BRIDGE, CLIENTS = "majorities-ring", "bridge", "link-client-master"
KINDS = (*ISOLATED, HALVES, RING, BRIDGE, *ONE_WAY, *LINKS)

Aimed = tuple[Grudge, dict[str, Part]]  # the cut, and which parts the struck nodes play


def kinds_for(nodes: Sequence[Node], *, clients: bool = False) -> list[str]:
    """The kinds that a cluster of these nodes can be struck with."""
    counts = {role: sum(n.role is role and not n.spare for n in nodes) for role in Role}
    replicated = any(n.broker_set == m.broker_set for n in nodes for m in nodes
                     if n.broker_set and n is not m)  # fmt: skip
    wanted: dict[str, bool] = {
        **dict.fromkeys(KINDS, True),
        "isolate-sync-state-set-slave": replicated,
        "link-broker-broker": replicated,
        "isolate-controller-leader": counts[Role.CONTROLLER] > 1,
        BRIDGE: sum(counts.values()) > 3,
        CLIENTS: clients,
    }
    return [kind for kind, possible in wanted.items() if possible]


class Partition:
    """Cuts and heals.

    Args:
        cluster: whose machines.
        rng: the fault's own stream.
    """

    def __init__(self, cluster: ClusterView, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._nodes = {n.name: n for n in cluster.nodes if not n.spare}
        self._resets = Bag(rng, RESETS)

    async def open(self) -> None:
        """Nothing to prepare."""

    async def invoke(self, op: Op) -> Outcome:
        if op.f == STOP:
            healed = await self._cluster.heal()
            seen = self._told(healed, {})
            return Ok(seen or {"nobody": {"holds": True, "reason": "nothing was cut"}})
        return await self._strike(str(op.value))

    async def _strike(self, kind: str) -> Outcome:
        if kind not in (*KINDS, CLIENTS):
            return Fail(["no-such-partition", kind])
        aimed = await self._aim(kind)
        if aimed is None:
            kind, aimed = HALVES, (halves(list(self._nodes), self._rng), {})
        grudge, parts = aimed
        reset = self._resets.next()
        proofs = await self._cluster.cut(grudge, reset=reset)
        return Ok(self._told(proofs, parts, kind=kind, reset=reset))

    def _told(
        self, proofs: Mapping[str, Proof], parts: Mapping[str, Part], **more: object
    ) -> dict[str, object]:
        return {
            to: told(proof, role=parts.get(to, self._nodes[to].role.value), **more)
            for to, proof in proofs.items()
        }

    async def _aim(self, kind: str) -> Aimed | None:
        """What a kind means now; None if it means nothing."""
        everybody = list(self._nodes)
        if kind == HALVES:
            return halves(everybody, self._rng), {}
        if kind == RING:
            return majorities_ring(everybody, self._rng), {}
        if kind == BRIDGE:
            return bridge(everybody, self._rng), {}
        if kind in LINKS:
            return await self._link(*LINKS[kind])
        part = ISOLATED.get(kind, "master")
        victim = await self._one(part)
        if victim is None:
            return None
        grudge: Grudge = isolated(victim, everybody)
        match kind:
            case "master-hears-nobody":
                grudge = deaf(victim, everybody)
            case "nobody-hears-master":
                grudge = mute(victim, everybody)
            case "link-client-master":
                grudge = {victim: frozenset({CLIENT})}
        return grudge, {victim: part}

    async def _link(self, one: Part, other: Part) -> Aimed | None:
        near = await self._one(one)
        if near is None:
            return None
        same_set = self._nodes[near].broker_set if other == "slave" else ""
        far = await self._one(other, same_set)
        return None if far is None else (apart([near], [far]), {near: one, far: other})

    async def _one(self, part: Part, broker_set: str = "") -> str | None:
        """Somebody who plays a part, of a broker set if one is named."""
        names = await self._cluster.playing(part)
        fit = [n for n in names if not broker_set or self._nodes[n].broker_set == broker_set]
        return self._rng.choice(fit) if fit else None

    async def close(self) -> None:
        """Nothing is held."""


def partition_fault(
    cluster: ClusterView, rng: Random, *, clients: bool = False, cut_ns: int = CUT_NS
) -> Fault:
    """Cut in one way and heal, in all ways in turn.

    Args:
        cluster: whose machines.
        rng: the fault's own stream.
        clients: whether clients are cut off from masters as well.
        cut_ns: how long a cut stays.
    """
    kinds = kinds_for(cluster.nodes, clients=clients)
    bag = Bag(rng, kinds)
    drawn = [bag.next() for _ in range(ROUNDS * len(kinds))]
    return Fault(
        name="partition",
        needs=frozenset({Capability.CUT}),
        rounds=tuple(({"f": START, "value": kind},) for kind in drawn),
        hold_ns=cut_ns,
        end={"f": STOP, "value": None},
        nemesis=Partition(cluster, rng),
        color=band(START),
    )
