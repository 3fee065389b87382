"""Fault partition: some machines take no packets from some others.

`start-partition` cuts as its value says, a kind from the list below; who that strikes is decided
when it does. In silence, or, each third time, with resets. It completes when for each machine that
drops packets a probe from each source met nothing and the rule has caught packets; `stop-partition`
heals all. Clients are left alone unless a kind asks. What one kind cannot strike now, for want of a
master or a leader, is struck by halves instead; the completion names the kind that was done.

Three cuts of four leave a majority of the controllers connected, and to it a replica of each broker
set, of the SyncStateSet where there is one (`nemeses.majority`): halves and bridges are drawn again
until they do, a ring spares the links of a drawn majority where no draw does so by itself, and a
kind that isolates a node which is needed is replaced by halves. The fourth cut may be anything, as
may every cut of the fault `partition-any`, which loses the majority as often as its draws do.

The value of a completion maps each destination to ``{"holds", "from": {source: packets}, "kind",
"reset", "majority", "role"}``; `majority` is whether the cut leaves one.
"""

from collections.abc import Mapping, Sequence
from random import Random

from harness.contracts.cluster import ClusterView, Grudge, Part, Proof
from harness.contracts.environment import CLIENT, Capability, Role
from harness.contracts.outcome import Fail, Ok, Outcome
from harness.contracts.target import Node
from histories.op import Op
from nemeses.bag import Bag
from nemeses.fault import Fault
from nemeses.grudges import apart, bridge, deaf, halves, isolated, majorities_ring, mute
from nemeses.majority import (
    Layout,
    Shape,
    drawn,
    layout_of,
    majority_left,
    some_majority,
    spared,
)
from nemeses.nodes import told

CUT_NS = 5_000_000_000  # beyond the 3 s after which a silent broker counts as dead
ROUNDS = 8  # how often each kind is in a schedule before that repeats
START, STOP = "start-partition", "stop-partition"
RESETS = (False, False, True)
KEEPS = (True, True, True, False)  # whether a cut must leave a majority
ANY = (False,)

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
SHAPES: dict[str, Shape] = {HALVES: halves, RING: majorities_ring, BRIDGE: bridge}

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
        keeps: whether each cut must leave a majority, in any order.
    """

    def __init__(self, cluster: ClusterView, rng: Random, keeps: Sequence[bool] = KEEPS) -> None:
        self._cluster = cluster
        self._rng = rng
        self._nodes = {n.name: n for n in cluster.nodes if not n.spare}
        self._layout = layout_of(cluster.nodes)
        self._resets = Bag(rng, RESETS)
        self._keeps = Bag(rng, keeps)

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
        layouts = await self._layouts() if self._keeps.next() else []
        aimed = await self._aim(kind, layouts)
        if aimed is None:
            kind, aimed = HALVES, (self._shaped(HALVES, layouts) or {}, {})
        grudge, parts = aimed
        reset = self._resets.next()
        proofs = await self._cluster.cut(grudge, reset=reset)
        majority = bool(majority_left(grudge, self._layout))
        return Ok(self._told(proofs, parts, kind=kind, reset=reset, majority=majority))

    def _told(
        self, proofs: Mapping[str, Proof], parts: Mapping[str, Part], **more: object
    ) -> dict[str, object]:
        return {
            to: told(proof, role=parts.get(to, self._nodes[to].role.value), **more)
            for to, proof in proofs.items()
        }

    async def _layouts(self) -> list[Layout]:
        """What a cut must leave, the best first: members of the SyncStateSet, whatever replicas."""
        playing = self._cluster.playing
        members = [*await playing("master"), *await playing("sync-state-set-slave")]
        return [self._layout.within(members), self._layout]

    async def _aim(self, kind: str, layouts: Sequence[Layout]) -> Aimed | None:
        """What a kind means now; None if it means nothing, or leaves none of the layouts."""
        if kind in SHAPES:
            grudge = self._shaped(kind, layouts)
            return None if grudge is None else (grudge, {})
        aimed = await (self._link(*LINKS[kind]) if kind in LINKS else self._against(kind))
        if aimed is None or not layouts or any(majority_left(aimed[0], x) for x in layouts):
            return aimed
        return None

    def _shaped(self, kind: str, layouts: Sequence[Layout]) -> Grudge | None:
        """A cut that goes by no part, whoever the nodes are."""
        everybody, rng = list(self._nodes), self._rng
        if not layouts:
            return SHAPES[kind](everybody, rng)
        grudge = drawn(SHAPES[kind], everybody, rng, layouts)
        if grudge is not None or kind == BRIDGE:
            return grudge
        group = some_majority(layouts[0], rng)
        if kind == RING:
            return spared(majorities_ring(everybody, rng), group)
        return apart(group, [n for n in everybody if n not in group])

    async def _against(self, kind: str) -> Aimed | None:
        """A cut around one node."""
        everybody, part = list(self._nodes), ISOLATED.get(kind, "master")
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
    cluster: ClusterView,
    rng: Random,
    *,
    clients: bool = False,
    keeps: Sequence[bool] = KEEPS,
    cut_ns: int = CUT_NS,
) -> Fault:
    """Cut in one way and heal, in all ways in turn.

    Args:
        cluster: whose machines.
        rng: the fault's own stream.
        clients: whether clients are cut off from masters as well.
        keeps: whether each cut must leave a majority, in any order: `KEEPS`, or `ANY` for no rule.
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
        nemesis=Partition(cluster, rng, keeps),
    )
