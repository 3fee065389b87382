"""A deployed cluster: nodes on machines, their processes, and probes of both.

Implements `ClusterView` for every environment and target. Every wait here is for a condition and
has a bound; a probe comes from the observers' address and never through a client. Units: seconds.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from harness.cluster import Proof
from harness.environments.api import Environment, Machine, MachineSpec, Role
from harness.targets.api import Node, Settings, Target, plan
from reference.records import RemoteProtocolError
from reference.rpc import Dial, Pool
from reference.wire.codes import RequestCode, ResponseCode
from reference.wire.frame import Frame
from reference.wire.headers import to_ext
from reference.wire.node_headers import CreateTopicRequest, TopicRequest
from reference.wire.route import MASTER_ID, ClusterInfo, KVTable, TopicRouteData

NODE_LOG = "node.log"
START_TIMEOUT_S = 60.0  # a JVM on a busy machine; our own nodes need half a second
DEATH_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 8.0
PROBE_TIMEOUT_S = 2.0
POLL_S = 0.05


class SetupFailed(Exception):
    """The cluster did not come up; says which node, and where its log is."""


async def until(condition: Callable[[], Awaitable[bool]], timeout_s: float) -> bool:
    """Wait for a condition; whether it came true in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while not await condition():
        if loop.time() > deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


class Deployment:
    """The nodes of one run.

    Args:
        environment: where they run; up already when `start_all` is called.
        target: what they are.
        settings: how they are set up.
    """

    def __init__(self, environment: Environment, target: Target, settings: Settings) -> None:
        self._environment = environment
        self._target = target
        self._settings = settings
        self.nodes: Sequence[Node] = plan(settings.topology)
        self._by_name = {n.name: n for n in self.nodes}
        self._pids: dict[str, int] = {}
        self._wanted: dict[str, bool] = {n.name: False for n in self.nodes}

    # ClusterView.

    def by_role(self, role: Role) -> Sequence[Node]:
        return [n for n in self.nodes if n.role is role]

    def address(self, node: str) -> str:
        return f"{self._machine(node).address}:{self._by_name[node].port}"

    def namesrvs(self) -> Sequence[str]:
        return [self.address(n.name) for n in self.by_role(Role.NAMESRV)]

    @property
    def dial(self) -> Dial:
        return self._environment.dial

    def running(self, node: str) -> bool:
        return self._wanted[node]

    async def kill(self, node: str) -> Proof:
        self._wanted[node] = False
        machine, pid = self._machine(node), self._pids[node]
        await machine.signal(pid, signal.SIGKILL)

        async def gone() -> bool:
            return (await machine.status(pid)).code is not None

        ended = await until(gone, DEATH_TIMEOUT_S)
        code = (await machine.status(pid)).code
        open_port = await self._port_open(node)
        # Another exit code means that the process ended by itself: a crash, not our fault.
        holds = ended and code == -signal.SIGKILL and not open_port
        return Proof(holds, {"pid": pid, "code": code, "port": "open" if open_port else "refused"})

    async def start(self, node: str) -> Proof:
        machine = self._machine(node)
        if node not in self._pids or (await machine.status(self._pids[node])).code is not None:
            await self._spawn(node)
        self._wanted[node] = True
        pid = self._pids[node]

        async def settled() -> bool:
            return await self._port_open(node) or (await machine.status(pid)).code is not None

        await until(settled, START_TIMEOUT_S)
        code, port = (await machine.status(pid)).code, await self._port_open(node)
        seen = {"pid": pid, "code": code, "port": "open" if port else "refused"}
        return Proof(code is None and port, seen)

    # Life.

    async def up(self) -> None:
        """Make the machines and start every node, in order.

        Raises:
            SetupFailed: a node does not start, or no master appears.
            EnvironmentUnavailable: this host cannot.
        """
        await self._environment.up([MachineSpec(name=n.name) for n in self.nodes])
        addresses = {n.name: self._machine(n.name).address for n in self.nodes}
        for node in self.nodes:
            machine = self._machine(node.name)
            await self._target.install(machine)
            config = self._target.config(node, self._settings, addresses, machine.data_dir)
            await machine.put(self._config_path(node.name), config.encode())
        for role in (Role.NAMESRV, Role.CONTROLLER, Role.BROKER):
            nodes = self.by_role(role)
            for node in nodes:
                await self._spawn(node.name)
            for node in nodes:
                proof = await self.start(node.name)
                if not proof.holds:
                    raise SetupFailed(
                        f"{node.name} did not start: {proof.seen}; see its {NODE_LOG}: "
                        f"{await self._log_tail(node.name)}"
                    )
        if not await until(self.recovered, START_TIMEOUT_S):
            raise SetupFailed("no master of every broker set within the time; see the nodes' logs")

    async def _spawn(self, node: str) -> None:
        argv = self._target.argv(self._by_name[node], self._settings, self._config_path(node))
        status = await self._machine(node).spawn(argv, log=NODE_LOG)
        self._pids[node] = status.pid

    async def stop_all(self) -> None:
        """Stop every node cleanly, and kill what does not stop."""
        for node in reversed(self.nodes):
            if node.name in self._pids:
                self._wanted[node.name] = False
                await self._machine(node.name).signal(self._pids[node.name], signal.SIGTERM)

        async def all_ended() -> bool:
            return not await self._living()

        if not await until(all_ended, STOP_TIMEOUT_S):
            for name in await self._living():
                await self._machine(name).signal(self._pids[name], signal.SIGKILL)

    async def _living(self) -> list[str]:
        return [
            name
            for name, pid in self._pids.items()
            if (await self._machine(name).status(pid)).code is None
        ]

    async def crashed(self) -> dict[str, int]:
        """Nodes that should run and have ended by themselves, with their exit codes."""
        ended = {}
        for name, pid in self._pids.items():
            code = (await self._machine(name).status(pid)).code
            if self._wanted[name] and code is not None:
                ended[name] = code
        return ended

    # Questions to the cluster, from the observers' address.

    async def recovered(self) -> bool:
        """Whether every name server knows a master of every broker set that answers."""
        async with asyncio.TaskGroup() as group:
            pool = Pool(group, dial=self._environment.observer_dial)
            try:
                return await self._recovered(pool)
            except (OSError, RemoteProtocolError):
                return False
            finally:
                pool.close()

    async def _recovered(self, pool: Pool) -> bool:
        sets = {n.broker_set for n in self.by_role(Role.BROKER)}
        request = Frame(code=RequestCode.GET_BROKER_CLUSTER_INFO, ext={})
        for namesrv in self.namesrvs():
            answer = await pool.call(namesrv, request, timeout_s=PROBE_TIMEOUT_S)
            table = ClusterInfo.from_json(answer.body).broker_addr_table
            for name in sorted(sets):
                master = table[name].broker_addrs.get(MASTER_ID) if name in table else None
                if master is None or not await self._active(pool, master):
                    return False
        return True

    async def _active(self, pool: Pool, address: str) -> bool:
        table = await self._runtime_info(pool, address)
        return table.get("brokerActive", "true") == "true"

    async def _runtime_info(self, pool: Pool, address: str) -> dict[str, str]:
        request = Frame(code=RequestCode.GET_BROKER_RUNTIME_INFO, ext={})
        answer = await pool.call(address, request, timeout_s=PROBE_TIMEOUT_S)
        return KVTable.from_json(answer.body).table

    async def create_topics(self, topics: dict[str, int]) -> None:
        """Create topics on every broker, and wait until every name server routes to them.

        Raises:
            SetupFailed: a broker refuses, or routes do not appear.
        """
        async with asyncio.TaskGroup() as group:
            pool = Pool(group, dial=self._environment.observer_dial)
            try:
                for topic, queues in topics.items():
                    for broker in self.by_role(Role.BROKER):
                        await self._create_topic(pool, broker.name, topic, queues)
                    if not await until(lambda t=topic: self._routed(pool, t), START_TIMEOUT_S):  # type: ignore[misc]
                        raise SetupFailed(f"topic {topic} is not routed everywhere")
            finally:
                pool.close()

    async def _create_topic(self, pool: Pool, broker: str, topic: str, queues: int) -> None:
        header = CreateTopicRequest(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        request = Frame(code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=to_ext(header))
        answer = await pool.call(self.address(broker), request, timeout_s=30.0)
        if answer.code != ResponseCode.SUCCESS:
            raise SetupFailed(f"{broker} refuses topic {topic}: {answer.code} {answer.remark}")

    async def _routed(self, pool: Pool, topic: str) -> bool:
        sets = {n.broker_set for n in self.by_role(Role.BROKER)}
        request = Frame(
            code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=to_ext(TopicRequest(topic=topic))
        )
        for namesrv in self.namesrvs():
            answer = await pool.call(namesrv, request, timeout_s=PROBE_TIMEOUT_S)
            if answer.code != ResponseCode.SUCCESS:
                return False
            route = TopicRouteData.from_json(answer.body)
            if {q.broker_name for q in route.queue_datas} != sets:
                return False
        return True

    async def mutants(self) -> dict[str, str]:
        """The seeded bug that each broker says it has; empty for none."""
        found = {}
        async with asyncio.TaskGroup() as group:
            pool = Pool(group, dial=self._environment.observer_dial)
            for broker in self.by_role(Role.BROKER):
                table = await self._runtime_info(pool, self.address(broker.name))
                found[broker.name] = table.get("maxq.mutant", "")
            pool.close()
        return found

    # Helpers.

    def _machine(self, node: str) -> Machine:
        return self._environment.machine(node)

    def _config_path(self, node: str) -> str:
        return f"{self._machine(node).data_dir}/node.conf"

    async def _port_open(self, node: str) -> bool:
        host, _, port = self.address(node).rpartition(":")
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                transport, _ = await self._environment.observer_dial(
                    asyncio.Protocol, host, int(port)
                )
        except OSError:
            return False
        transport.close()
        return True

    async def _log_tail(self, node: str) -> str:
        machine = self._machine(node)
        text = await machine.get(f"{machine.data_dir}/{NODE_LOG}") or b""
        return text[-600:].decode(errors="replace").strip()

    async def collect(self) -> dict[str, dict[str, bytes]]:
        """Every node's log, configuration and store, by node and path."""
        found: dict[str, dict[str, bytes]] = {}
        for node in self.nodes:
            machine = self._machine(node.name)
            paths = [*await machine.files(machine.data_dir), NODE_LOG]
            files: dict[str, Any] = {p: await machine.get(f"{machine.data_dir}/{p}") for p in paths}
            found[node.name] = {p: data for p, data in files.items() if data is not None}
        return found
