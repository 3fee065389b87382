"""A deployed cluster: nodes on machines, their processes, and probes of both.

Implements `ClusterView` for every environment and target. Every wait here is for a condition and
has a bound; a probe comes from the observers' address and never through a client. Units: seconds.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Literal

from harness.cluster import Part, Proof
from harness.environments.api import Environment, Machine, MachineSpec, Role
from harness.targets.api import Node, Settings, Target, plan
from reference.records import RemoteProtocolError
from reference.rpc import Dial, Pool, split_address
from reference.wire.codes import RequestCode, ResponseCode
from reference.wire.frame import Frame
from reference.wire.headers import from_ext, to_ext
from reference.wire.node_headers import CreateTopicRequest, MetadataResponse, TopicRequest
from reference.wire.route import MASTER_ID, ClusterInfo, KVTable, TopicRouteData

NODE_LOG = "node.log"
START_TIMEOUT_S = 60.0  # a JVM on a busy machine; our own nodes need half a second
DEATH_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 8.0
PROBE_TIMEOUT_S = 2.0
TOPIC_TIMEOUT_S = 30.0
POLL_S = 0.05
LOG_TAIL_BYTES = 600

Port = Literal["open", "refused", "silent"]


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


@asynccontextmanager
async def probing(dial: Dial) -> AsyncIterator[Pool]:
    """A pool for the length of a block, whose errors leave it as they are, in no group."""
    failure: Exception | None = None
    async with asyncio.TaskGroup() as group:
        pool = Pool(group, dial=dial)
        try:
            yield pool
        except Exception as error:
            failure = error
        finally:
            pool.close()
    if failure is not None:
        raise failure


class Deployment:
    """The nodes of one run.

    Args:
        environment: where they run; `up` brings it up, whoever made it brings it down.
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

    async def playing(self, part: Part) -> Sequence[str]:
        match part:
            case "namesrv" | "controller" | "broker":
                found = [n.name for n in self.by_role(Role(part))]
            case "master":
                found = sorted(await self._masters())
            case "slave":
                masters = await self._masters()
                # Where no master is known nobody can be called a slave.
                led = {self._by_name[m].broker_set for m in masters}
                brokers = [n for n in self.by_role(Role.BROKER) if n.broker_set in led]
                found = [n.name for n in brokers if n.name not in masters]
            case "controller-leader":
                found = await self._controller_leaders()
        return [name for name in found if self.running(name)]

    async def _masters(self) -> set[str]:
        """Nodes that a name server calls the master of their set."""
        request = Frame(code=RequestCode.GET_BROKER_CLUSTER_INFO, ext={})
        for answer in await self._ask_any(self.namesrvs(), request):
            table = ClusterInfo.from_json(answer.body).broker_addr_table
            addresses = {data.broker_addrs.get(MASTER_ID) for data in table.values()}
            return {n.name for n in self.by_role(Role.BROKER) if self.address(n.name) in addresses}
        return set()

    async def _controller_leaders(self) -> list[str]:
        """The controller that others call the leader, or itself."""
        controllers = self.by_role(Role.CONTROLLER)
        request = Frame(code=RequestCode.CONTROLLER_GET_METADATA_INFO, ext={})
        for answer in await self._ask_any([self.address(n.name) for n in controllers], request):
            leader = from_ext(MetadataResponse, answer.ext).controller_leader_address
            if leader:
                return [n.name for n in controllers if self.address(n.name) == leader]
        return []

    async def _ask_any(self, addresses: Sequence[str], request: Frame) -> list[Frame]:
        """Good answers of those who answer, in order; for questions without a right moment."""
        answers = []
        async with asyncio.TaskGroup() as group:
            pool = Pool(group, dial=self._environment.observer_dial)
            for address in addresses:
                with suppress(OSError, RemoteProtocolError):
                    answer = await pool.call(address, request, timeout_s=PROBE_TIMEOUT_S)
                    if answer.code == ResponseCode.SUCCESS:
                        answers.append(answer)
            pool.close()
        return answers

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
        before = (await machine.status(pid)).code
        if before is not None:
            return Proof(False, {"pid": pid, "code": before, "reason": "it had ended by itself"})
        await machine.signal(pid, signal.SIGKILL)
        return await self._ended(node, pid)

    async def power_loss(self, node: str) -> Proof:
        self._wanted[node] = False
        machine, pid = self._machine(node), self._pids[node]
        before = (await machine.status(pid)).code
        if before is not None:
            return Proof(False, {"pid": pid, "code": before, "reason": "it had ended by itself"})
        lost = await machine.power_loss()
        proof = await self._ended(node, pid)
        return Proof(proof.holds, {**proof.seen, **lost})

    async def _ended(self, node: str, pid: int) -> Proof:
        """Prove the end of a process that was killed."""
        machine = self._machine(node)

        async def gone() -> bool:
            return (await machine.status(pid)).code is not None

        await until(gone, DEATH_TIMEOUT_S)
        code, port = (await machine.status(pid)).code, await self._port(node)
        # Another exit code means that the process ended by itself: a crash, not our fault.
        holds = code == -signal.SIGKILL and port == "refused"
        return Proof(holds, {"pid": pid, "code": code, "port": port})

    async def start(self, node: str) -> Proof:
        machine = self._machine(node)
        if node not in self._pids or (await machine.status(self._pids[node])).code is not None:
            await self._spawn(node)
        self._wanted[node] = True
        pid = self._pids[node]

        async def settled() -> bool:
            ended = (await machine.status(pid)).code is not None
            return ended or await self._port(node) == "open"

        await until(settled, START_TIMEOUT_S)
        code, port = (await machine.status(pid)).code, await self._port(node)
        return Proof(code is None and port == "open", {"pid": pid, "code": code, "port": port})

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
                    raise SetupFailed(await self._told(node.name, f"did not start: {proof.seen}"))
        if not await until(self.recovered, START_TIMEOUT_S):
            why = f"not every broker set has a master after {START_TIMEOUT_S:.0f} s"
            for node_name, code in (await self.crashed()).items():
                why += f"; {await self._told(node_name, f'ended with code {code}')}"
            raise SetupFailed(why)

    async def _spawn(self, node: str) -> None:
        argv = self._target.argv(self._by_name[node], self._settings, self._config_path(node))
        status = await self._machine(node).spawn(argv, log=NODE_LOG)
        self._pids[node] = status.pid

    async def stop_all(self) -> list[str]:
        """Stop every node cleanly; kills those that do not stop, and returns their names."""
        for node in reversed(self.nodes):
            if node.name in self._pids:
                self._wanted[node.name] = False
                await self._machine(node.name).signal(self._pids[node.name], signal.SIGTERM)

        async def all_ended() -> bool:
            return not await self._living()

        if await until(all_ended, STOP_TIMEOUT_S):
            return []
        stubborn = await self._living()
        for name in stubborn:
            await self._machine(name).signal(self._pids[name], signal.SIGKILL)
        await until(all_ended, DEATH_TIMEOUT_S)
        return stubborn

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
        async with probing(self._environment.observer_dial) as pool:
            try:
                return await self._recovered(pool)
            except (OSError, RemoteProtocolError):
                return False

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

    async def level(self) -> bool:
        """Whether all replicas of every set are there and have logs of the same length."""
        ends: dict[str, set[str]] = {}
        async with probing(self._environment.observer_dial) as pool:
            try:
                for node in self.by_role(Role.BROKER):
                    table = await self._runtime_info(pool, self.address(node.name))
                    ends.setdefault(node.broker_set, set()).add(table["commitLogMaxOffset"])
            except (OSError, RemoteProtocolError, KeyError):
                return False
        return all(len(found) == 1 for found in ends.values())

    async def _runtime_info(self, pool: Pool, address: str) -> dict[str, str]:
        request = Frame(code=RequestCode.GET_BROKER_RUNTIME_INFO, ext={})
        answer = await pool.call(address, request, timeout_s=PROBE_TIMEOUT_S)
        return KVTable.from_json(answer.body).table

    async def create_topics(self, topics: dict[str, int]) -> None:
        """Create topics on every broker, and wait until every name server routes to them.

        Raises:
            SetupFailed: a broker refuses, or routes do not appear.
        """
        async with probing(self._environment.observer_dial) as pool:
            for topic, queues in topics.items():
                for broker in self.by_role(Role.BROKER):
                    await self._create_topic(pool, broker.name, topic, queues)
                if not await until(partial(self._routed, pool, topic), START_TIMEOUT_S):
                    raise SetupFailed(
                        f"topic {topic} is not routed to every broker set after "
                        f"{START_TIMEOUT_S:.0f} s"
                    )

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
        try:
            answer = await pool.call(self.address(broker), request, timeout_s=TOPIC_TIMEOUT_S)
        except OSError as error:
            what = f"cannot make topic {topic}: {type(error).__name__} {error}"
            raise SetupFailed(await self._told(broker, what)) from None
        if answer.code != ResponseCode.SUCCESS:
            what = f"refuses topic {topic}: {answer.code} {answer.remark}"
            raise SetupFailed(await self._told(broker, what))

    async def _routed(self, pool: Pool, topic: str) -> bool:
        sets = {n.broker_set for n in self.by_role(Role.BROKER)}
        request = Frame(
            code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=to_ext(TopicRequest(topic=topic))
        )
        try:
            for namesrv in self.namesrvs():
                answer = await pool.call(namesrv, request, timeout_s=PROBE_TIMEOUT_S)
                if answer.code != ResponseCode.SUCCESS:
                    return False
                route = TopicRouteData.from_json(answer.body)
                if {q.broker_name for q in route.queue_datas} != sets:
                    return False
        except (OSError, RemoteProtocolError):
            return False
        return True

    async def mutants(self) -> dict[str, str]:
        """The seeded bug that each broker says it has; empty for none."""
        found = {}
        async with probing(self._environment.observer_dial) as pool:
            for broker in self.by_role(Role.BROKER):
                table = await self._runtime_info(pool, self.address(broker.name))
                found[broker.name] = table.get("maxq.mutant", "")
        return found

    # Helpers.

    def _machine(self, node: str) -> Machine:
        return self._environment.machine(node)

    def _config_path(self, node: str) -> str:
        return f"{self._machine(node).data_dir}/node.conf"

    async def _port(self, node: str) -> Port:
        host, port = split_address(self.address(node))
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                transport, _ = await self._environment.observer_dial(asyncio.Protocol, host, port)
        except ConnectionRefusedError:
            return "refused"
        except OSError:
            return "silent"
        transport.close()
        return "open"

    async def _told(self, node: str, what: str) -> str:
        """What is wrong with a node, and the end of its log."""
        machine = self._machine(node)
        log = await machine.get(f"{machine.data_dir}/{NODE_LOG}") or b""
        tail = log[-LOG_TAIL_BYTES:].decode(errors="replace").strip()
        return f"{node} {what}; its {NODE_LOG} ends: {tail or '(empty)'}"

    async def collect(self) -> AsyncIterator[tuple[str, str, bytes]]:
        """Every node's log, configuration and store, one file at a time: node, path, content."""
        for node in self.nodes:
            machine = self._machine(node.name)
            for path in dict.fromkeys([*await machine.files(machine.data_dir), NODE_LOG]):
                data = await machine.get(f"{machine.data_dir}/{path}")
                if data is not None:
                    yield node.name, path, data
