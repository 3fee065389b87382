"""The nemesis of a schedule: does each act as it is written, to whom it concerns at that moment.

An act's operation has its id as value, and `who` and `args` beside it (`harness.schedule.format`);
its completion maps each node to what was done there, with the proof, as every fault's. Names of
acts are those of the other faults; what each takes in `args`:

    kill, terminate, power-loss, pause, restart, start, resume
    wipe              of a node that is down: its store is removed
    start-partition   from: whom the victims do not hear: ``rest`` (all others, the default),
                      ``brokers``, ``controllers``, ``namesrvs``, a part, or names of nodes;
                      ways: ``both``, ``in`` (only they do not hear), ``out`` (only they are not
                      heard); reset: answer packets by a reset; clients: ``with`` the victims,
                      ``against`` them, or ``both`` (the default: clients hear everybody)
    stop-partition    of the acts that it names, of all otherwise
    change-ip         restart: stop before and start after; stays: for good, nobody moves it back
    restore-ip        restart
    bump-clock        offset_ms, drift_ppm (microseconds more each second)
    reset-clock
    start-disk-fault  full, frozen: true; sync_ms: how long a sync takes
    stop-disk-fault
    start-delay       ms: so much longer packets take from all other machines of nodes
    stop-delay
    elect-master      replica: the set's replica of this number shall lead, or ``other``: one that
                      does not; refusable: to be refused is no failure
    apply-ids         count: controllers are asked for so many broker ids, each of a set of its own
    order-election    of each victim, whether it can lead or not; nobody waits for what comes of it

A full or frozen disk may end its node: that is the fault's doing, so ``start`` starts it again, and
nobody else who has ended by himself; on such a disk nothing is started or stopped in good order.
Nobody's store is wiped: a disk that takes nothing damages nothing, and who does not start on it
when it is sound again has a bug.

Where several are struck they are struck in one instant; what that was in truth is told as
``spread_ms``. Where nobody is there to be struck the completion says so of ``nobody``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, get_args

import msgspec

from harness.contracts.cluster import ClusterView, Grudge, Part, Proof
from harness.contracts.environment import CLIENT, Capability, Role
from harness.contracts.outcome import Fail, Ok, Outcome
from harness.schedule.format import EVERYBODY, Act, Who
from histories.op import Op
from nemeses.nodes import INSTEAD, restart, told

NEEDS: dict[str, frozenset[Capability]] = {
    "kill": frozenset({Capability.KILL}),
    "terminate": frozenset({Capability.KILL}),
    "power-loss": frozenset({Capability.POWER_LOSS}),
    "pause": frozenset({Capability.PAUSE}),
    "resume": frozenset({Capability.PAUSE}),
    "restart": frozenset({Capability.KILL, Capability.RESTART}),
    "start": frozenset({Capability.RESTART}),
    "wipe": frozenset({Capability.KILL}),
    "start-partition": frozenset({Capability.CUT}),
    "stop-partition": frozenset({Capability.CUT}),
    "change-ip": frozenset({Capability.READDRESS}),
    "restore-ip": frozenset({Capability.READDRESS}),
    "bump-clock": frozenset({Capability.CLOCK}),
    "reset-clock": frozenset({Capability.CLOCK}),
    "start-disk-fault": frozenset({Capability.DISK}),
    "stop-disk-fault": frozenset({Capability.DISK}),
    "start-delay": frozenset({Capability.DELAY}),
    "stop-delay": frozenset({Capability.DELAY}),
    "elect-master": frozenset(),
    "order-election": frozenset(),
    "apply-ids": frozenset(),
}
ORDERS = frozenset(("elect-master", "order-election"))
LAST_VICTIM, LAST_REJOINED = "last-victim", "last-rejoined"
GROUPS = {"brokers": Role.BROKER, "controllers": Role.CONTROLLER, "namesrvs": Role.NAMESRV}
# What a heal is for (`ClusterView.ailments`).
AILMENTS = {
    "reset-clock": frozenset({"clock"}),
    "stop-disk-fault": frozenset({"slow-disk", "frozen-disk", "full-disk"}),
    "stop-delay": frozenset({"delay"}),
}
UNWRITABLE = frozenset({"frozen-disk", "full-disk"})
PARTS: tuple[str, ...] = (*get_args(Part), LAST_VICTIM, LAST_REJOINED)
REST, OTHER = "rest", "other"
CHOICES = {"ways": ("both", "in", "out"), "clients": ("both", "with", "against")}  # first: usual
PATIENCE_S = 0.15  # of a cut's probes: their own packets, once caught, are the proof


def complaint(act: Act, nodes: Collection[str]) -> str:
    """What of an act nobody could do, whatever the moment; empty if there is nothing.

    Args:
        act: what shall be done.
        nodes: the names of all nodes.
    """
    if act.f not in NEEDS:
        return f"no act {act.f!r}; there are: {', '.join(sorted(NEEDS))}"
    if act.who.part and act.who.part not in PARTS:
        return f"no part {act.who.part!r}; there are: {', '.join(sorted(PARTS))}"
    for name, known in CHOICES.items():
        if act.args.get(name, known[0]) not in known:
            return f"{name} {act.args[name]!r} is none of {', '.join(known)}"
    far = act.args.get("from", REST)
    if isinstance(far, list | tuple):
        strange = [n for n in far if n not in nodes]
        return f"cut from {strange[0]!r}, which is no node" if strange else ""
    known = (REST, *GROUPS, *get_args(Part))
    return "" if far in known else f"cut from {far!r}, which is none of {', '.join(known)}"


class Scripted:
    """Does what a schedule says.

    Args:
        cluster: whose nodes.
        key: of its draws; each is keyed by the act that it is for.
    """

    def __init__(self, cluster: ClusterView, key: str) -> None:
        self._cluster = cluster
        self._key = key
        self._nodes = {n.name: n for n in cluster.nodes if not n.spare}
        self._struck: dict[str, list[str]] = {}  # by act
        self._last: dict[str, list[str]] = {LAST_VICTIM: [], LAST_REJOINED: []}
        self._cuts: dict[str, None] = {}  # acts whose cuts are in force
        self._settled: set[str] = set()  # who has moved for good
        self._do: dict[str, Callable[[str, Sequence[str], dict[str, Any]], Awaitable[Told]]] = {
            "start-partition": self._cut,
            "stop-partition": self._heal,
            "elect-master": self._elect,
            "apply-ids": self._apply_ids,
        }

    async def open(self) -> None:
        """Nothing to prepare."""

    async def invoke(self, op: Op) -> Outcome:
        asked = op.ext or {}
        act, args = str(op.value), dict(asked.get("args") or {})
        who = msgspec.convert(asked.get("who") or {}, Who)
        if op.f not in NEEDS:
            return Fail(["no-such-act", op.f])
        fit = self._fit(op.f, args, await self._ended())
        parts = await self._whom(op.f, act, who, fit)
        self._struck[act] = list(parts)
        special = self._do.get(op.f)
        if special is not None:
            done = await special(act, list(parts), {**args, "of": who.of})
        else:
            done = await self._each(self._verb(op.f, args), list(parts))
        self._remember(op.f, list(parts))
        if args.get("stays"):
            self._settled |= parts.keys()
        if not done:
            return Ok({"nobody": {"holds": True, "reason": f"nobody to {op.f}"}})
        return Ok({n: {**what, "role": parts.get(n, self._role(n))} for n, what in done.items()})

    def _role(self, node: str) -> str:
        known = self._nodes.get(node)
        return known.role.value if known is not None else node

    # Whom it concerns.

    async def _whom(self, f: str, act: str, who: Who, fit: Callable[[str], bool]) -> dict[str, str]:
        """Nodes that an act concerns, and as what; in order."""
        if who.nodes:
            return {n: self._role(n) for n in who.nodes if n in self._nodes and fit(n)}
        if who.of:
            struck = self._struck.get(who.of, [])
            chosen = {"all": struck, "first": struck[:1], "rest": struck[1:]}[who.share]
            return {n: self._role(n) for n in chosen if fit(n)}
        if who.part in self._last:
            return {n: who.part for n in self._last[who.part] if fit(n)}
        if who.part:
            return await self._playing(act, who, fit)
        if f in BACK:
            return {n: self._role(n) for n in self._nodes if fit(n)}
        return {}

    async def _ended(self) -> frozenset[str]:
        """Who has ended by himself, and may: his disk was at fault."""
        return frozenset(n for n in await self._cluster.crashed() if self._cluster.excused(n))

    def _fit(self, f: str, args: dict[str, Any], ended: frozenset[str]) -> Callable[[str], bool]:
        """Whom an act can be done to now."""
        cluster = self._cluster

        def up(node: str) -> bool:
            return cluster.running(node) and node not in ended

        def writable(node: str) -> bool:
            return not UNWRITABLE & cluster.ailments(node)

        match f:
            case "start":
                return lambda n: not up(n) and writable(n)
            case "wipe":
                return lambda n: not up(n)
            case "resume":
                return cluster.paused
            case "pause":
                return lambda n: up(n) and not cluster.paused(n)
            case "restart":
                return lambda n: up(n) and not cluster.paused(n) and writable(n)
            case "terminate":
                return lambda n: up(n) and writable(n)
            case "kill" | "power-loss":
                return up
            case "restore-ip" if self._settled:
                return lambda n: n not in self._settled | ended
            case "change-ip" | "restore-ip":
                # A node that is down and should be is moved; of one that should run it is proven
                # that it answers.
                return lambda n: n not in ended and (writable(n) or not args.get("restart"))
            case "reset-clock" | "stop-disk-fault" | "stop-delay":
                return lambda n: bool(AILMENTS[f] & cluster.ailments(n))
        return lambda n: True

    async def _playing(self, act: str, who: Who, fit: Callable[[str], bool]) -> dict[str, str]:
        part: Part = msgspec.convert(who.part, Part)
        for asked in dict.fromkeys((part, INSTEAD.get(part, part))):
            fitting = [n for n in await self._cluster.playing(asked) if fit(n)]
            if fitting:
                count = len(fitting) if who.count == EVERYBODY else min(who.count, len(fitting))
                chosen = Random(f"{self._key}/{act}").sample(fitting, count)
                return dict.fromkeys((n for n in fitting if n in chosen), asked)
        return {}

    def _remember(self, f: str, nodes: list[str]) -> None:
        if nodes and (f in BACK or f == "stop-partition"):
            self._last[LAST_REJOINED] = nodes
        elif nodes and f not in ORDERS:
            self._last[LAST_VICTIM] = nodes

    # What is done.

    def _verb(self, f: str, args: dict[str, Any]) -> Callable[[str], Awaitable[Proof]]:
        cluster, anew = self._cluster, bool(args.get("restart"))
        verbs: dict[str, Callable[[str], Awaitable[Proof]]] = {
            "kill": cluster.kill,
            "terminate": cluster.stop,
            "power-loss": cluster.power_loss,
            "pause": cluster.pause,
            "resume": cluster.resume,
            "start": cluster.start,
            "restart": partial(restart, cluster),
            "wipe": cluster.wipe,
            "order-election": cluster.order_election,
            "change-ip": partial(cluster.change_ip, restart=anew),
            "restore-ip": partial(cluster.restore_ip, restart=anew),
            "bump-clock": partial(
                cluster.bump_clock,
                offset_ms=int(args.get("offset_ms", 0)),
                drift_ppm=int(args.get("drift_ppm", 0)),
            ),
            "reset-clock": cluster.reset_clock,
            "start-disk-fault": partial(
                cluster.break_disk,
                full=bool(args.get("full")),
                sync_ms=args.get("sync_ms"),
                frozen=bool(args.get("frozen")),
            ),
            "stop-disk-fault": cluster.heal_disk,
            "start-delay": partial(cluster.delay, ms=int(args.get("ms", 0))),
            "stop-delay": cluster.stop_delay,
        }
        return verbs[f]

    async def _each(self, verb: Callable[[str], Awaitable[Proof]], nodes: Sequence[str]) -> "Told":
        """Do it to all at once."""
        loop = asyncio.get_running_loop()
        began: list[float] = []

        async def one(node: str) -> Proof:
            began.append(loop.time())
            return await verb(node)

        async with asyncio.TaskGroup() as group:
            tasks = {node: group.create_task(one(node)) for node in nodes}
        spread = {"spread_ms": round((max(began) - min(began)) * 1000, 3)} if len(nodes) > 1 else {}
        return {node: told(task.result(), **spread) for node, task in tasks.items()}

    # Cuts.

    async def _cut(self, act: str, nodes: Sequence[str], args: dict[str, Any]) -> "Told":
        grudge = await self._grudge(nodes, args)
        if not grudge:
            return {}
        self._cuts[act] = None
        proofs = await self._cluster.cut(
            grudge, reset=bool(args.get("reset")), name=act, patience_s=PATIENCE_S
        )
        return {node: told(proof) for node, proof in proofs.items()}

    async def _grudge(self, victims: Sequence[str], args: dict[str, Any]) -> Grudge:
        if "grudge" in args:
            given: Mapping[str, Sequence[str]] = args["grudge"]
            return {to: frozenset(sources) for to, sources in given.items()}
        others = [n for n in await self._others(args.get("from", REST)) if n not in victims]
        ways = args.get("ways", "both")
        found: dict[str, set[str]] = {}
        if ways in ("both", "in"):
            found |= {v: set(others) for v in victims}
        if ways in ("both", "out"):
            for other in others:
                found.setdefault(other, set()).update(victims)
        apart = {"with": others, "against": victims}.get(str(args.get("clients", "both")), ())
        for node in apart:
            found.setdefault(node, set()).add(CLIENT)
        return {node: frozenset(sources) for node, sources in sorted(found.items()) if sources}

    async def _others(self, whom: object) -> list[str]:
        if isinstance(whom, list | tuple):
            return [n for n in whom if n in self._nodes]
        if whom == REST:
            return list(self._nodes)
        if whom in GROUPS:
            return [n.name for n in self._cluster.by_role(GROUPS[str(whom)])]
        return list(await self._cluster.playing(msgspec.convert(whom, Part)))

    async def _heal(self, act: str, nodes: Sequence[str], args: dict[str, Any]) -> "Told":
        of = str(args.get("of") or "")
        if of and of not in self._cuts:
            return {}
        names = [of] if of else list(self._cuts)
        proofs: dict[str, Proof] = {}
        for name in names:
            del self._cuts[name]
            proofs |= await self._cluster.heal(name=name)
        return {node: told(proof) for node, proof in proofs.items()}

    # Who leads.

    async def _elect(self, act: str, nodes: Sequence[str], args: dict[str, Any]) -> "Told":
        replica = args.get("replica", 0)
        sets: dict[str, list[str]] = {}
        for node in self._cluster.by_role(Role.BROKER):
            sets.setdefault(node.broker_set, []).append(node.name)
        if replica == OTHER:
            chosen = await self._others_in_sync(list(sets.values()))
        else:
            chosen = [names[int(replica) % len(names)] for names in sets.values()]
        done = await self._each(self._cluster.elect, chosen)
        if not args.get("refusable"):
            return done
        return {
            node: {**what, "elected": what["holds"], "holds": True} for node, what in done.items()
        }

    async def _others_in_sync(self, sets: Sequence[Sequence[str]]) -> list[str]:
        """Of each set, a replica that does not lead: one that can be elected now, where there is
        one."""
        led = await self._cluster.playing("master")
        in_sync = await self._cluster.playing("sync-state-set-slave")
        found = ([n for n in names if n not in led] for names in sets)
        return [min(names, key=lambda n: n not in in_sync) for names in found if names]

    # What is asked of controllers beside.

    async def _apply_ids(self, act: str, nodes: Sequence[str], args: dict[str, Any]) -> "Told":
        proof = await self._cluster.apply_ids(act, count=int(args.get("count", 1)))
        return {"controllers": told(proof)}

    async def close(self) -> None:
        """Nothing is held."""


# Acts that bring something back; where they name nobody they are for everybody.
BACK = frozenset(("start", "resume", "restore-ip", "reset-clock", "stop-disk-fault", "stop-delay"))
Told = Mapping[str, dict[str, object]]
