"""A cluster for nemeses to strike: remembers what was done, and proves it unless told not to."""

import asyncio
from collections.abc import Mapping, Sequence, Set
from typing import Any, TypeVar

from maxq.harness.contracts.cluster import Grudge, NothingThere, Part, Proof
from maxq.harness.contracts.environment import Misread, Role
from maxq.harness.contracts.outcome import Client, Ok, Outcome
from maxq.harness.contracts.target import Node, Topology, plan
from maxq.harness.contracts.ways import Ports
from maxq.histories.op import NEMESIS, Op

SETS = Topology(broker_sets=3)
TRIO = Topology(broker_sets=1, replicas=3, controllers=3, spares=1)


T = TypeVar("T")


class FakeCluster:
    """Each first replica is a master, `c0` leads, all are in sync; nobody plays what is in
    `nobody`."""

    dial: Any = None
    observer_dial: Any = None

    def offers(self, contract: type[T]) -> T:
        """Everything, itself."""
        whole: Any = self
        return whole  # type: ignore[no-any-return]

    # What faults never ask.
    controllers: Any = None
    resolve: Any = None
    identity: Any = None
    stored: Any = None
    level: Any = None

    def __init__(self, topology: Topology = SETS) -> None:
        self.nodes: Sequence[Node] = plan(topology)
        self.dead: set[str] = set()
        self.held: set[str] = set()
        self.nobody: set[Part] = set()
        self.unproven: set[str] = set()  # verbs whose proofs do not hold
        self.stubborn = False  # whoever is to stop is killed in the end
        self.done: list[tuple[str, str]] = []  # verb, node
        self.grudge: Grudge = {}
        self.named: dict[str, Grudge] = {}
        self.moves: dict[str, int] = {}
        self.ended: dict[str, int] = {}  # by themselves, with their codes
        self.sick: dict[str, set[str]] = {}
        self.slow: set[str] = set()
        self.absent: set[str] = set()  # files that no store has
        self.away: set[str] = set()  # removed from their containers
        self.damaged: set[str] = set()  # stores that their nodes refuse

    def by_role(self, role: Role) -> Sequence[Node]:
        return [n for n in self.nodes if n.role is role and not n.spare]

    async def playing(self, part: Part) -> Sequence[str]:
        brokers = [n.name for n in self.by_role(Role.BROKER)]
        masters = [b for b in brokers if b.endswith("-0")]
        slaves = [b for b in brokers if b not in masters]
        found = {
            "master": masters,
            "slave": slaves,
            "sync-state-set-slave": slaves,
            "controller-leader": ["c0"],
        }.get(part) or ([] if part == "slave" else self._of(part))
        return [] if part in self.nobody else [n for n in found if self.running(n)]

    def _of(self, part: Part) -> list[str]:
        known = [role for role in Role if role.value == part]
        return [n.name for role in known for n in self.by_role(role)]

    def address(self, node: str, role: Role | None = None) -> str:
        return node

    def namesrvs(self) -> Sequence[str]:
        return []

    def running(self, node: str) -> bool:
        return node not in self.dead

    def paused(self, node: str) -> bool:
        return node in self.held

    async def crashed(self) -> Mapping[str, int]:
        return dict(self.ended)

    def excused(self, node: str) -> bool:
        return node in self.sick or node in self.damaged

    def ailments(self, node: str) -> Set[str]:
        return self.sick.get(node, set())

    def _proof(self, verb: str, node: str, **seen: object) -> Proof:
        self.done.append((verb, node))
        return Proof(verb not in self.unproven, seen)

    def struck(self, verb: str) -> list[str]:
        return [node for done, node in self.done if done == verb]

    def removed(self, node: str) -> bool:
        return node in self.away

    async def remove(self, node: str) -> Proof:
        self.away.add(node)
        self.dead.add(node)
        return self._proof("remove", node, answer=0)

    async def add(self, node: str) -> Proof:
        self.away.discard(node)
        self.dead.discard(node)
        return self._proof("add", node, answer=0)

    async def fail_store(self, node: str) -> Proof:
        self.away.add(node)
        self.dead.add(node)
        return self._proof("fail_store", node, ports={})

    async def kill(self, node: str) -> Proof:
        self.dead.add(node)
        self.held.discard(node)
        return self._proof("kill", node, pid=5, code=-9, port="refused")

    async def stop(self, node: str) -> Proof:
        self.dead.add(node)
        self.held.discard(node)
        forced = {"forced": True, "reason": "it did not stop"} if self.stubborn else {}
        return self._proof("stop", node, pid=5, code=0, port="refused", **forced)

    async def power_loss(self, node: str) -> Proof:
        self.dead.add(node)
        self.held.discard(node)
        return self._proof("power_loss", node, code=-9, lost_bytes=7, lost_names=1)

    async def start(self, node: str) -> Proof:
        self.dead.discard(node)
        self.ended.pop(node, None)
        if node in self.damaged:
            self.ended[node] = 1
        return self._proof("start", node, pid=6, code=None, port="open")

    async def start_as(self, node: str, release: str) -> Proof:
        await self.start(node)
        return self._proof(f"start_as {release}", node)

    async def replace_release(self, node: str, release: str) -> Proof:
        await self.stop(node)
        return await self.start_as(node, release)

    async def change_settings(self, node: str, settings: Mapping[str, str]) -> Proof:
        await self.stop(node)
        await self.start(node)
        return self._proof("change_settings", node, settings=dict(settings))

    async def pause(self, node: str) -> Proof:
        self.held.add(node)
        return self._proof("pause", node, stopped=True)

    async def resume(self, node: str) -> Proof:
        self.held.discard(node)
        return self._proof("resume", node, stopped=False)

    async def change_address(self, node: str, *, restart: bool) -> Proof:
        self.moves[node] = self.moves.get(node, 0) + 1
        return self._proof("change_address", node, restart=restart)

    async def restore_address(self, node: str, *, restart: bool) -> Proof:
        self.moves[node] = 0
        return self._proof("restore_address", node, restart=restart)

    async def cut(
        self,
        grudge: Grudge,
        *,
        reset: bool = False,
        name: str = "",
        patience_s: float = 1.0,
    ) -> Mapping[str, Proof]:
        self.grudge = grudge
        self.named[name] = grudge
        return {
            to: self._proof("cut", to, **{"from": dict.fromkeys(sorted(who), 1)})
            for to, who in grudge.items()
        }

    async def heal(self, *, name: str | None = None) -> Mapping[str, Proof]:
        names = list(self.named) if name is None else [name]
        healed = [to for each in names for to in self.named.pop(each)]
        self.grudge = {}
        return {to: self._proof("heal", to) for to in healed}

    async def bump_clock(self, node: str, *, offset_ms: int, drift_ppm: int) -> Proof:
        self.sick.setdefault(node, set()).add("clock")
        return self._proof("bump_clock", node, off_ms=offset_ms, ppm=drift_ppm)

    async def reset_clock(self, node: str) -> Proof:
        self.sick[node].discard("clock")
        return self._proof("reset_clock", node)

    async def break_disk(
        self,
        node: str,
        *,
        full: bool = False,
        sync_ms: int | None = None,
        frozen: bool = False,
        misread: Misread | None = None,
    ) -> Proof:
        kind = "full-disk" if full else "frozen-disk" if frozen else "slow-disk"
        kind = "misreading-disk" if misread else kind
        self.sick.setdefault(node, set()).add(kind)
        return self._proof("break_disk", node, kind=kind, sync_ms=sync_ms)

    async def heal_disk(self, node: str) -> Proof:
        self.sick[node] -= {"full-disk", "frozen-disk", "slow-disk", "misreading-disk"}
        return self._proof("heal_disk", node)

    def filled(self, node: str) -> bool:
        return "filled" in self.ailments(node)

    async def fill_disk(self, node: str) -> Proof:
        self.sick.setdefault(node, set()).add("filled")
        return self._proof("fill_disk", node)

    async def free_disk(self, node: str) -> Proof:
        self.sick[node].discard("filled")
        return self._proof("free_disk", node)

    def delaying(self, node: str) -> bool:
        return node in self.slow

    async def delay(self, node: str, **how: Any) -> Proof:
        self.slow.add(node)
        return self._proof("delay", node, **how)

    async def stop_delay(self, node: str) -> Proof:
        self.slow.discard(node)
        return self._proof("stop_delay", node)

    def losing(self, node: str) -> bool:
        return "loss" in self.ailments(node)

    async def lose(
        self, node: str, *, percent: int, peers: Sequence[str], ways: str, ports: str = "all"
    ) -> Proof:
        self.sick.setdefault(node, set()).add("loss")
        return self._proof("lose", node, percent=percent, peers=list(peers), ways=ways, ports=ports)

    async def stop_losing(self, node: str) -> Proof:
        self.sick[node].discard("loss")
        return self._proof("stop_losing", node)

    async def reset_connections(
        self, node: str, peers: Sequence[str], ports: Ports = "all"
    ) -> dict[str, Proof]:
        others = [peer for peer in peers if peer != node and ports != "raft"]
        if not others:
            return {}
        mine = self._proof("reset", node, **{"from": dict.fromkeys(others, 1), "left": {}})
        back = {"from": {node: 1}, "left": {}}
        return {node: mine, **{peer: Proof(True, dict(back)) for peer in others}}

    async def wipe_write(self, node: str, namesrvs: Sequence[str]) -> dict[str, Proof]:
        return self._ordered("wipe_write", node, namesrvs, 4)

    async def add_write(self, node: str, namesrvs: Sequence[str]) -> dict[str, Proof]:
        return self._ordered("add_write", node, namesrvs, 6)

    def _ordered(
        self, verb: str, node: str, namesrvs: Sequence[str], perm: int
    ) -> dict[str, Proof]:
        of = next(n.broker_set for n in self.nodes if n.name == node)
        seen = {"set": of, "perms": {n: {"t": perm} for n in namesrvs}}
        proof = self._proof(verb, node, **seen)
        return {n.name: proof for n in self.nodes if n.broker_set == of}

    async def elect(self, node: str) -> Proof:
        return self._proof("elect", node)

    async def apply_ids(self, name: str, *, count: int) -> Proof:
        return self._proof("apply_ids", name)

    async def change_leader(self) -> Proof:
        return self._proof("change_leader", "")

    async def order_election(self, node: str) -> Proof:
        return self._proof("order_election", node)

    async def wipe(self, node: str) -> Proof:
        self.damaged.discard(node)
        self.ended.pop(node, None)
        self.dead.add(node)
        return self._proof("wipe", node)

    async def copy_store(self, node: str, source: str) -> Proof:
        self.damaged.add(node)
        return self._proof("copy_store", node, source=source)

    async def cut_file(self, node: str, path: str, length: float) -> Proof:
        self.damaged.add(node)
        return self._proof("cut_file", node, path=path)

    async def flip_bit(self, node: str, path: str, bit: float) -> Proof:
        if path in self.absent:
            raise NothingThere(path)
        self.damaged.add(node)
        return self._proof("flip_bit", node, path=path)

    async def age_log(self, node: str, keys: Sequence[tuple[str, str, int]]) -> Proof:
        if node in self.absent:
            raise NothingThere(node)
        return self._proof("age_log", node, keys=len(keys))

    async def remove_files(self, node: str, paths: Sequence[str]) -> Proof:
        if self.absent.intersection(paths):
            raise NothingThere(node)
        return self._proof("remove_files", node, paths=list(paths))


def invoke(nemesis: Client, *ops: tuple[str, object] | str) -> list[Outcome]:
    """Perform operations, each a name or a name and a value."""

    async def main() -> list[Outcome]:
        pairs = [(op, "one") if isinstance(op, str) else op for op in ops]
        return [await nemesis.invoke(Op("info", NEMESIS, f, value)) for f, value in pairs]

    return asyncio.run(main())


def values(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """What each operation did, by node."""
    found = []
    for outcome in outcomes:
        assert isinstance(outcome, Ok)
        found.append(outcome.value)
    return found
