"""Partition: some machines take no packets from some others.

    start-partition   shape: one of `SHAPES`, `AROUND` and `LINKS`, drawn when it strikes; keeps:
                      the cut must leave a majority of the controllers connected, and to it a
                      replica of each broker set (`maxq.nemeses.majority`);
                      or, without a shape, from: whom the victims do not hear
                      (`maxq.nemeses.peers`; the default: all others); ways: ``both``,
                      ``in`` (only they do not hear), ``out`` (only they are not heard);
                      clients: ``with`` the victims, ``against`` them, or ``both`` (the default:
                      clients hear everybody);
                      or grudge: for each machine, whose packets it drops;
                      reset: answer packets by a reset
                      (`start-packet-loss` with `ports` cuts connections to such ports alone)
    stop-partition    of the act that it names, of all partitions otherwise

A cut completes when for each machine that drops packets a probe from each source met nothing and
the rule has caught packets. Clients are left alone unless an act asks. A shape that cannot strike
now, without a master or a leader, or that would leave no majority, is replaced by halves; the
completion names the ``shape`` that was cut, and whether it leaves a ``majority``.

Three of four drawn cuts keep a majority, by a member of the SyncStateSet where there is one: halves
and bridges are drawn again until they do, a ring spares the links of a drawn majority where no draw
does so by itself. The fourth may be anything, as may every cut of `partition-any`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import Any

from maxq.harness.contracts.cluster import Grudge, Part
from maxq.harness.contracts.environment import CLIENT, Capability, Role
from maxq.harness.contracts.target import Node
from maxq.nemeses.bag import Bag
from maxq.nemeses.grudges import apart, bridge, deaf, halves, isolated, majorities_ring, mute
from maxq.nemeses.kind import ActKind, Args, Drawing, Kind, Step
from maxq.nemeses.majority import (
    Layout,
    Shape,
    drawn,
    layout_of,
    majority_left,
    some_majority,
    spared,
)
from maxq.nemeses.peers import REST, peers_of
from maxq.nemeses.peers import complaint as peers_complaint
from maxq.nemeses.stage import Stage, Told, recorded, told

CUT_S = 5.0  # beyond the 3 s after which a silent broker counts as dead
NAME = "partition"
START, STOP = "start-partition", "stop-partition"
RESETS = (False, False, True)
KEEPS = (True, True, True, False)  # whether a cut must leave a majority
ANY = (False,)

HALVES, RING, BRIDGE, CLIENTS = "halves", "majorities-ring", "bridge", "link-client-master"
SHAPES: dict[str, Shape] = {HALVES: halves, RING: majorities_ring, BRIDGE: bridge}
AROUND: dict[str, Part] = {
    "isolate-master": "master",
    "isolate-sync-state-set-slave": "sync-state-set-slave",
    "isolate-controller-leader": "controller-leader",
    "master-hears-nobody": "master",
    "nobody-hears-master": "master",
    CLIENTS: "master",
}
LINKS: dict[str, tuple[Part, Part]] = {
    "link-broker-controller": ("master", "controller-leader"),
    "link-broker-namesrv": ("broker", "namesrv"),
    "link-broker-broker": ("master", "slave"),
}
CHOICES = {"ways": ("both", "in", "out"), "clients": ("both", "with", "against")}  # first: usual

Aimed = tuple[Grudge, dict[str, Part]]  # the cut, and which parts the struck nodes play


def shapes_for(nodes: Sequence[Node], *, clients: bool = False) -> list[str]:
    """The shapes that a cluster of these nodes can be cut in."""
    own = [n for n in nodes if not n.spare]
    controllers = sum(Role.CONTROLLER in n.roles for n in own)
    replicated = any(n.broker_set == m.broker_set for n in nodes for m in nodes
                     if n.broker_set and n is not m)  # fmt: skip
    wanted: dict[str, bool] = {
        **dict.fromkeys((*AROUND, *SHAPES, *LINKS), True),
        "isolate-sync-state-set-slave": replicated and controllers > 0,
        "link-broker-controller": controllers > 0,
        "link-broker-broker": replicated,
        "isolate-controller-leader": controllers > 1,
        BRIDGE: len(own) > 3,
        CLIENTS: clients,
    }
    return [shape for shape, possible in wanted.items() if possible]


# How it is drawn.


def _cuts(
    drawing: Drawing, *, clients: bool = False, keeps: Sequence[bool] = KEEPS
) -> Iterator[Sequence[Step]]:
    shapes = Bag(drawing.rng, shapes_for(drawing.nodes, clients=clients))
    resets, kept = Bag(drawing.rng, RESETS), Bag(drawing.rng, keeps)
    holds = drawing.holds(CUT_S)
    for _ in count():
        args: dict[str, Any] = {"shape": shapes.next()}
        args |= {name: True for name, bag in (("keeps", kept), ("reset", resets)) if bag.next()}
        yield Step(START, args=args), Step(STOP, holds.next(), of=0)


# How it is performed.


class Aim:
    """What a shape means now, for one act.

    Args:
        stage: where.
        act: whose draws.
        keeps: whether the cut must leave a majority.
    """

    def __init__(self, stage: Stage, act: str, *, keeps: bool) -> None:
        self._stage = stage
        self._rng = stage.draws(act)
        self._layout = layout_of(stage.cluster.nodes)
        self._keeps = keeps

    async def at(self, shape: str) -> tuple[str, Aimed]:
        """The cut, and the shape that it has: another one where this one cannot be."""
        layouts = await self._layouts() if self._keeps else []
        aimed = await self._aimed(shape, layouts)
        if aimed is None:
            return HALVES, (self._shaped(HALVES, layouts) or {}, {})
        return shape, aimed

    async def _layouts(self) -> list[Layout]:
        """What a cut must leave, the best first: members of the SyncStateSet, whatever replicas."""
        playing = self._stage.cluster.playing
        members = [*await playing("master"), *await playing("sync-state-set-slave")]
        return [self._layout.within(members), self._layout]

    async def _aimed(self, shape: str, layouts: Sequence[Layout]) -> Aimed | None:
        """None if the shape means nothing now, or leaves none of the layouts."""
        if shape in SHAPES:
            grudge = self._shaped(shape, layouts)
            return None if grudge is None else (grudge, {})
        aimed = await (self._link(*LINKS[shape]) if shape in LINKS else self._around(shape))
        if aimed is None or not layouts or any(majority_left(aimed[0], x) for x in layouts):
            return aimed
        return None

    def _shaped(self, shape: str, layouts: Sequence[Layout]) -> Grudge | None:
        """A cut that goes by no part, whoever the nodes are."""
        everybody, rng, spread = self._stage.apart, self._rng, self._stage.spread

        def cut(names: Sequence[str], rng: Random) -> Grudge:
            return spread(SHAPES[shape](names, rng))

        if not layouts:
            return cut(everybody, rng)
        grudge = drawn(cut, everybody, rng, layouts)
        if grudge is not None or shape == BRIDGE:
            return grudge
        group = frozenset(
            n for one in some_majority(layouts[0], rng) for n in self._stage.beside(one)
        )
        if shape == RING:
            return spared(spread(majorities_ring(everybody, rng)), group)
        return spread(apart(group, [n for n in self._stage.nodes if n not in group]))

    async def _around(self, shape: str) -> Aimed | None:
        """A cut around one node."""
        everybody, part = list(self._stage.nodes), AROUND[shape]
        victim = await self._one(part)
        if victim is None:
            return None
        grudge: Grudge = isolated(victim, everybody)
        match shape:
            case "master-hears-nobody":
                grudge = deaf(victim, everybody)
            case "nobody-hears-master":
                grudge = mute(victim, everybody)
            case "link-client-master":
                grudge = {victim: frozenset({CLIENT})}
        return self._stage.spread(grudge), {victim: part}

    async def _link(self, one: Part, other: Part) -> Aimed | None:
        near = await self._one(one)
        if near is None:
            return None
        same_set = self._stage.nodes[near].broker_set if other == "slave" else ""
        far = await self._one(other, same_set)
        if far is None:
            return None
        return self._stage.spread(apart([near], [far])), {near: one, far: other}

    async def _one(self, part: Part, broker_set: str = "") -> str | None:
        """A node that plays a part, of a broker set if one is named."""
        nodes = self._stage.nodes
        names = await self._stage.cluster.playing(part)
        fit = [n for n in names if not broker_set or nodes[n].broker_set == broker_set]
        return self._rng.choice(fit) if fit else None


async def _cut(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    more: dict[str, object] = {}
    parts: Mapping[str, Part] = {}
    if "shape" in args:
        aim = Aim(stage, act, keeps=bool(args.get("keeps")))
        more["shape"], (grudge, parts) = await aim.at(str(args["shape"]))
        more["majority"] = bool(majority_left(grudge, layout_of(stage.cluster.nodes)))
    else:
        grudge = await _grudge(stage, nodes, args)
    if not grudge:
        return {}
    proofs = await stage.cut(act, NAME, grudge, reset=bool(args.get("reset")))
    return {to: told(proof, **_role(to, parts), **more) for to, proof in proofs.items()}


def _role(node: str, parts: Mapping[str, Part]) -> dict[str, object]:
    return {"role": parts[node]} if node in parts else {}


async def _grudge(stage: Stage, victims: Sequence[str], args: Args) -> Grudge:
    if "grudge" in args:
        return recorded(args)
    others = [n for n in await peers_of(stage, args.get("from", REST)) if n not in victims]
    ways = args.get("ways", "both")
    found: dict[str, set[str]] = {}
    if ways in ("both", "in"):
        found |= {v: set(others) for v in victims}
    if ways in ("both", "out"):
        for other in others:
            found.setdefault(other, set()).update(victims)
    clients = {"with": others, "against": victims}.get(str(args.get("clients", "both")), ())
    for node in clients:
        found.setdefault(node, set()).add(CLIENT)
    return stage.spread({to: frozenset(sources) for to, sources in sorted(found.items())})


async def _heal(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    proofs = await stage.heal_cuts(NAME, str(args.get("of") or ""))
    return {node: told(proof) for node, proof in proofs.items()}


def _complaint(args: Args, nodes: Sequence[str]) -> str:
    for name, known in CHOICES.items():
        if args.get(name, known[0]) not in known:
            return f"{name} {args[name]!r} is none of {', '.join(known)}"
    shapes = (*SHAPES, *AROUND, *LINKS)
    if args.get("shape", HALVES) not in shapes:
        return f"no shape {args['shape']!r}; there are: {', '.join(sorted(shapes))}"
    return peers_complaint("cut", args.get("from", REST), nodes)


NEEDS = frozenset({Capability.CUT})
ACTS = (
    ActKind(f=START, needs=NEEDS, do=_cut, complaint=_complaint),
    ActKind(f=STOP, needs=NEEDS, do=_heal, rejoins=True),
)
PARTITION = Kind(
    name=NAME,
    acts=ACTS,
    rounds=_cuts,
    about="nodes are cut from each other in eleven shapes; most cuts leave a majority connected",
)
PARTITION_CLIENTS = Kind(
    name="partition-clients",
    acts=ACTS,
    rounds=partial(_cuts, clients=True),
    asked_only=True,
    about="partitions, among them cuts of clients from the master",
)
PARTITION_ANY = Kind(
    name="partition-any",
    acts=ACTS,
    rounds=partial(_cuts, keeps=ANY),
    asked_only=True,
    about="partitions that may leave no majority connected",
)
