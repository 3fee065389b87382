"""Questions to the cluster: who plays which part, is everything back.

Asked from the observers' address, in RocketMQ's own requests. An answer is about a moment, and may
be stale; a node is recognised by its machine's address now, or by its machine's name where the
cluster is configured by names. Spares are no part of any answer. Units: seconds.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from maxq.harness.client.node_settings import otherwise, settings_of
from maxq.harness.client.places import place
from maxq.harness.client.probes import PROBE_TIMEOUT_S, ask_all, probing, runtime_info, until
from maxq.harness.contracts.cluster import Part, Proof
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import Node, Settings, asked_of
from maxq.harness.targets.settings_files import LAYOUT, OWN
from maxq.histories.observed import GRANTED, Grant, encoded
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Dial, Pool
from maxq.reference.wire.bodies import (
    BrokerReplicasInfo,
    HaRuntimeInfo,
    InSyncStateData,
    ReplicasInfo,
)
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext
from maxq.reference.wire.node_headers import (
    ApplyBrokerIdRequest,
    ElectMasterRequest,
    MasterResponse,
    MetadataResponse,
)
from maxq.reference.wire.route import MASTER_ID, ClusterInfo

ELECT_TIMEOUT_S = 20.0
BUSY_TRIES = 10  # of `PROBE_TIMEOUT_S` each
ANSWERS_MAX = 3  # of an order to elect, that are told


class SetupFailed(Exception):
    """The cluster did not come up; says which node, and where its log is."""


class Reached(Protocol):
    """How nodes are asked."""

    @property
    def observer_dial(self) -> Dial: ...


class Asked(Protocol):
    """Who is asked."""

    @property
    def all(self) -> Sequence[Node]: ...

    def node(self, name: str) -> Node: ...

    def address(self, node: str, role: Role | None = None) -> str: ...

    def running(self, node: str) -> bool:
        """Whether it should run."""
        ...

    async def ended_excused(self, node: str) -> bool:
        """Whether it has ended by itself, and may have."""
        ...

    async def identity(self, node: str) -> int | None:
        """A broker's id, as it keeps it."""
        ...

    async def pause(self, node: str) -> Proof: ...

    async def resume(self, node: str) -> Proof: ...


class Inquiry:
    """What the cluster says of itself.

    Args:
        environment: how it is asked.
        nodes: who is asked.
        cluster_name: what brokers call their cluster.
    """

    def __init__(self, environment: Reached, nodes: Asked, cluster_name: str) -> None:
        self._cluster_name = cluster_name
        self._environment = environment
        self._nodes = nodes
        self._members = [n for n in nodes.all if not n.spare]
        self.pairs = not any(Role.CONTROLLER in n.roles for n in nodes.all)

    def by_role(self, role: Role) -> list[Node]:
        return [n for n in self._members if role in n.roles]

    def addresses(self, role: Role) -> list[str]:
        return [self._nodes.address(n.name, role) for n in self.by_role(role)]

    def _called(self, address: str | None, role: Role) -> list[str]:
        """The node that has this address, or is named so, if there is one."""
        known = {}
        for node in self.by_role(role):
            known[f"{node.name}:{node.port_of(role)}"] = node.name
            known[self._nodes.address(node.name, role)] = node.name
        return [known[address]] if address in known else []

    # Parts.

    async def playing(self, part: Part) -> list[str]:
        match part:
            case "namesrv" | "controller" | "broker":
                found = [n.name for n in self.by_role(Role(part))]
            case "master":
                found = await self._masters()
            case "slave":
                masters = await self._masters()
                # Where no master is known nobody can be called a slave.
                led = {self._nodes.node(m).broker_set for m in masters}
                brokers = [n for n in self.by_role(Role.BROKER) if n.broker_set in led]
                found = [n.name for n in brokers if n.name not in masters]
            case "sync-state-set-slave" | "controller" | "controller-leader" if self.pairs:
                found = []
            case "sync-state-set-slave":
                found = await self._in_sync_slaves()
            case "controller-leader":
                found = await self._controller_leaders()
            case "acting-master":
                found = await self._acting()
            case "smallest-slave":
                found = self._smallest_slaves()
        return [name for name in found if self._nodes.running(name)]

    async def _masters(self) -> list[str]:
        """The master of each set: in a pair its master for good, if that runs, else, as everywhere,
        whom a name server calls so."""
        called = await self._called_masters()
        if not self.pairs:
            return called
        for_good = {n.broker_set: n.name for n in self.running_brokers() if not n.replica}
        others = [name for name in called if self._nodes.node(name).broker_set not in for_good]
        return sorted([*for_good.values(), *others])

    async def _called_masters(self) -> list[str]:
        """Nodes that a name server calls the master of their set."""
        request = Frame(code=RequestCode.GET_BROKER_CLUSTER_INFO, ext={})
        for answer in await self._asked(Role.NAMESRV, request):
            table = ClusterInfo.from_json(answer.body).broker_addr_table
            masters = [data.broker_addrs.get(MASTER_ID) for data in table.values()]
            return sorted(name for m in masters for name in self._called(m, Role.BROKER))
        return []

    async def _acting(self) -> list[str]:
        """Slaves that act for their masters, as they say."""
        found = []
        async with probing(self._environment.observer_dial) as pool:
            for node in self.running_brokers():
                with suppress(OSError, RemoteProtocolError):
                    table = await runtime_info(pool, self._nodes.address(node.name))
                    acts = place(table, first=not node.replica).acting is True
                    found += [node.name] if acts else []
        return found

    def _smallest_slaves(self) -> list[str]:
        """Of each set the slave with the smallest id that runs, where roles are for good."""
        first: dict[str, str] = {}
        for node in self.running_brokers():
            if self.pairs and node.replica:
                first.setdefault(node.broker_set, node.name)
        return sorted(first.values())

    async def _in_sync_slaves(self) -> list[str]:
        """Members of a SyncStateSet, as the leading controller says, that are not master."""
        for table in await self._sync_state():
            members = [
                replica.broker_address
                for info in table.values()
                for replica in info.in_sync_replicas
                if replica.broker_address != info.master_address
            ]
            return sorted(name for m in members for name in self._called(m, Role.BROKER))
        return []

    async def _sync_state(self) -> list[dict[str, ReplicasInfo]]:
        """What leading controllers say of each broker set; one at most, but for a moment."""
        sets = sorted({n.broker_set for n in self.by_role(Role.BROKER)})
        code, body = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, msgspec.json.encode(sets)
        answers = await self._asked(Role.CONTROLLER, Frame(code=code, ext={}, body=body))
        return [
            BrokerReplicasInfo.from_json(a.body).replicas_info_table
            or InSyncStateData.from_json(a.body).later()
            for a in answers
        ]

    async def _controller_leaders(self) -> list[str]:
        """The controller that others call the leader, or itself."""
        request = Frame(code=RequestCode.CONTROLLER_GET_METADATA_INFO, ext={})
        for answer in await self._asked(Role.CONTROLLER, request):
            leader = from_ext(MetadataResponse, answer.ext).controller_leader_address
            if leader:
                return self._called(leader, Role.CONTROLLER)
        return []

    async def _asked(self, role: Role, request: Frame) -> list[Frame]:
        return await ask_all(self._environment.observer_dial, self.addresses(role), request)

    # Is everything back?

    async def recovered(self) -> bool:
        """Whether all agree on the masters: the leading controller names one of each set, every
        name server the same one, and of the brokers that should run it alone leads. A broker that
        has refused a store that was tampered with, and has ended, is not asked.

        Less is not enough: a master that was cut off when another was elected believes in itself
        for a while after the heal. A name server that has just restarted believes it as well, and
        readers are told that the log ends where it ends there.
        """
        async with probing(self._environment.observer_dial) as pool:
            try:
                elected = await self._elected()
                return bool(elected) and await self._agree(pool, elected)
            except (OSError, RemoteProtocolError):
                return False

    async def _elected(self) -> dict[str, str]:
        """Master of each set by the leading controller; empty if one has none, or nobody leads.
        Without controllers it is the first replica, for good."""
        if self.pairs:
            brokers = self.by_role(Role.BROKER)
            return {n.broker_set: self._nodes.address(n.name) for n in brokers if not n.replica}
        sets = {n.broker_set for n in self.by_role(Role.BROKER)}
        for table in await self._sync_state():
            masters = {name: info.master_address or "" for name, info in table.items()}
            return masters if masters.keys() == sets and all(masters.values()) else {}
        return {}

    async def _agree(self, pool: Pool, elected: dict[str, str]) -> bool:
        request = Frame(code=RequestCode.GET_BROKER_CLUSTER_INFO, ext={})
        for namesrv in self.addresses(Role.NAMESRV):
            answer = await pool.call(namesrv, request, timeout_s=PROBE_TIMEOUT_S)
            table = ClusterInfo.from_json(answer.body).broker_addr_table
            known = {name: data.broker_addrs.get(MASTER_ID) for name, data in table.items()}
            if any(known.get(name) != master for name, master in elected.items()):
                return False
        for node in self.by_role(Role.BROKER):
            address = self._nodes.address(node.name)
            leads = elected[node.broker_set] == address
            if not leads and await self._nodes.ended_excused(node.name):
                continue
            if self._nodes.running(node.name) and await leads_now(pool, address) != leads:
                return False
        return True

    async def registered(self) -> bool:
        """Whether every name server knows a master of every set. That is all that can be asked for
        where there are no controllers."""
        request = Frame(code=RequestCode.GET_BROKER_CLUSTER_INFO, ext={})
        answers = await self._asked(Role.NAMESRV, request)
        sets = {n.broker_set for n in self.by_role(Role.BROKER)}
        tables = [ClusterInfo.from_json(answer.body).broker_addr_table for answer in answers]
        known = [{name for name, of in t.items() if MASTER_ID in of.broker_addrs} for t in tables]
        return len(known) == len(self.by_role(Role.NAMESRV)) and all(sets <= k for k in known)

    async def elect(self, node: str) -> Proof:
        """Have the leading controller elect a broker, and wait until all agree that it leads."""
        broker_set = self._nodes.node(node).broker_set
        broker_id = await self._nodes.identity(node)
        request = self._order(broker_set, broker_id)
        answers: list[int | str] = []
        granted: dict[str, Any] = {}

        async def leads() -> bool:
            if (await self._elected()).get(broker_set) == self._nodes.address(node):
                return await self.recovered()
            answer = await self._ordered(request)
            answers.append(answer if isinstance(answer, str) else answer.code)
            granted.update(_granted(broker_set, answer))
            return False

        holds = broker_id is not None and await until(leads, ELECT_TIMEOUT_S)
        detail = {"id": broker_id, "answers": answers[-ANSWERS_MAX:]}
        return Proof(holds, detail | ({GRANTED: granted} if granted else {}))

    async def order_election(self, node: str) -> Proof:
        """Order the same once, and wait for nothing but the answer."""
        broker_id = await self._nodes.identity(node)
        request = self._order(self._nodes.node(node).broker_set, broker_id)
        answer = await self._ordered(request)
        # An order that no leader took is no failure of the order.
        code = answer if isinstance(answer, str) else answer.code
        return Proof(True, {"id": broker_id, "answer": code})

    def _order(self, broker_set: str, broker_id: int | None) -> Frame:
        header = ElectMasterRequest(
            cluster_name=self._cluster_name,
            broker_name=broker_set,
            broker_id=-1 if broker_id is None else broker_id,
            designate_elect=True,
        )
        return Frame(code=RequestCode.CONTROLLER_ELECT_MASTER, ext=to_ext(header))

    async def _ordered(self, request: Frame) -> Frame | str:
        """The answer of the controller that leads, or why there is none."""
        for leader in await self._controller_leaders():
            async with probing(self._environment.observer_dial) as pool:
                try:
                    address = self._nodes.address(leader, Role.CONTROLLER)
                    return await pool.call(address, request, timeout_s=PROBE_TIMEOUT_S)
                except (OSError, RemoteProtocolError) as error:
                    return type(error).__name__
        return "no controller leads"

    async def apply_ids(self, name: str, *, count: int) -> Proof:
        """Have the leading controller give out the first id of so many sets."""
        answers: Counter[str] = Counter()
        async with probing(self._environment.observer_dial) as pool:
            for leader in await self._controller_leaders():
                for number in range(count):
                    header = ApplyBrokerIdRequest(
                        cluster_name=self._cluster_name,
                        broker_name=f"{name}-{number}",
                        applied_broker_id=1,
                        register_check_code=f"{name};{number}",
                    )
                    code = RequestCode.CONTROLLER_APPLY_BROKER_ID
                    request = Frame(code=code, ext=to_ext(header))
                    try:
                        address = self._nodes.address(leader, Role.CONTROLLER)
                        answer = await pool.call(address, request, timeout_s=PROBE_TIMEOUT_S)
                        answers[str(answer.code)] += 1
                    except (OSError, RemoteProtocolError) as error:
                        answers[type(error).__name__] += 1
        granted = answers[str(int(ResponseCode.SUCCESS))]
        return Proof(granted == count, {"answers": dict(sorted(answers.items()))})

    async def change_leader(self) -> Proof:
        """Pause the controller that leads until another one does."""
        led = await self.playing("controller-leader")
        next_: list[str] = []

        async def changed() -> bool:
            next_[:] = await self.playing("controller-leader")
            return bool(next_) and next_ != led

        if not led:
            return Proof(False, {"from": None, "to": None})
        held = [await self._nodes.pause(led[0])]
        holds = await until(changed, ELECT_TIMEOUT_S)
        held.append(await self._nodes.resume(led[0]))
        seen = {"from": led[0], "to": next_[0] if holds else None}
        return Proof(holds and all(proof.holds for proof in held), seen)

    async def level(self) -> bool:
        """Whether all replicas of every set are there, have logs of the same length, and are in
        the SyncStateSet."""
        return await self._same_ends() and await self.whole()

    async def _same_ends(self) -> bool:
        """Whether all replicas of every set are there and have logs of the same length."""
        ends: dict[str, set[str]] = {}
        async with probing(self._environment.observer_dial) as pool:
            try:
                for node in self.by_role(Role.BROKER):
                    table = await runtime_info(pool, self._nodes.address(node.name))
                    ends.setdefault(node.broker_set, set()).add(table["commitLogMaxOffset"])
            except (OSError, RemoteProtocolError, KeyError):
                return False
        return all(len(found) == 1 for found in ends.values())

    async def whole(self) -> bool:
        """Whether every replica of every set is in its SyncStateSet, but for learners; without
        controllers, whether every slave copies its master's log, and has its tables."""
        if self.pairs:
            return await self._copied_by_all()
        brokers = self.by_role(Role.BROKER)
        count = Counter(n.broker_set for n in brokers if not n.learner)
        # An unclean election makes a learner a member.
        learners = {self._nodes.address(n.name) for n in brokers if n.learner}
        for known in await self._sync_state():
            return all(
                name in known
                and sum(r.broker_address not in learners for r in known[name].in_sync_replicas)
                >= replicas
                for name, replicas in count.items()
            )
        return False

    async def _copied_by_all(self) -> bool:
        """Whether each master counts as many slaves in sync as its set has."""
        count = Counter(n.broker_set for n in self.by_role(Role.BROKER))
        async with probing(self._environment.observer_dial) as pool:
            try:
                for name, address in (await self._elected()).items():
                    request = Frame(code=RequestCode.GET_BROKER_HA_STATUS, ext={})
                    answer = await pool.call(address, request, timeout_s=PROBE_TIMEOUT_S)
                    if HaRuntimeInfo.from_json(answer.body).in_sync_slave_nums < count[name] - 1:
                        return False
            except (OSError, RemoteProtocolError):
                return False
        return True

    def running_brokers(self) -> list[Node]:
        """Brokers that should run; those of a cluster that is not whole yet are not started."""
        return [n for n in self.by_role(Role.BROKER) if self._nodes.running(n.name)]

    async def mutants(self) -> dict[str, str]:
        """The seeded bug that each broker that runs says it has; empty for none."""
        found = {}
        async with probing(self._environment.observer_dial) as pool:
            for broker in self.running_brokers():
                address = self._nodes.address(broker.name)
                found[broker.name] = (await _info_of_busy(pool, address)).get("maxq.mutant", "")
        return found

    async def otherwise(self, settings: Settings) -> dict[str, dict[str, str]]:
        """Which settings that were asked for nodes that run say they have otherwise, by node; those
        that say nothing have none."""
        found: dict[str, dict[str, str]] = {}
        async with probing(self._environment.observer_dial) as pool:
            for node in self._members:
                for role in node.roles if self._nodes.running(node.name) else ():
                    own = OWN[role].keys() | LAYOUT[role]
                    asked = asked_of(node, role, settings)
                    wanted = {key: value for key, value in asked.items() if key not in own}
                    if not wanted:
                        continue
                    address = self._nodes.address(node.name, role)
                    told = await settings_of(pool, address, role) or {}
                    if other := otherwise(wanted, told):
                        found[node.name] = {**found.get(node.name, {}), **other}
        return found


async def _info_of_busy(pool: Pool, address: str) -> dict[str, str]:
    """What a broker reports of itself, which may need more than one try where all have just
    started. Raises OSError, RemoteProtocolError."""
    for _ in range(BUSY_TRIES - 1):
        with suppress(OSError):
            return await runtime_info(pool, address)
    return await runtime_info(pool, address)


def _granted(broker_set: str, answer: Frame | str) -> dict[str, Any]:
    """The state that an election made, as the value of a proof; empty where it was refused."""
    if isinstance(answer, str) or answer.code != ResponseCode.SUCCESS:
        return {}
    made = from_ext(MasterResponse, answer.ext)
    if made.master_broker_id is None or made.master_epoch is None:
        return {}
    if made.sync_state_set_epoch is None:
        return {}
    return encoded(
        Grant(
            set=broker_set,
            master=made.master_broker_id,
            master_epoch=made.master_epoch,
            sync_state_set_epoch=made.sync_state_set_epoch,
        )
    )


async def leads_now(pool: Pool, address: str) -> bool:
    """Whether a broker that serves believes itself the master; a fenced one does not serve."""
    active = (await runtime_info(pool, address)).get("brokerActive", "true") == "true"
    request = Frame(code=RequestCode.GET_BROKER_HA_STATUS, ext={})
    answer = await pool.call(address, request, timeout_s=PROBE_TIMEOUT_S)
    return active and HaRuntimeInfo.from_json(answer.body).master
