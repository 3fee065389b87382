"""Small fake nodes in a simulated world: they answer by a script and count what they are asked."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from maxq.harness.client.session import REFRESH_S, RouteBook, Session
from maxq.harness.simulation.world import World
from maxq.reference.rpc import Connection, Reply, loop_dial, serve
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.route import BrokerData, QueueData, TopicRouteData

T = TypeVar("T")
CLIENT, NAMESRV = "198.18.0.2", "198.18.0.16:9876"
BROKER_A, BROKER_B, NOBODY = "198.18.0.32:10911", "198.18.0.48:10911", "198.18.0.64:10911"
TOPIC, SET = "t", "b0"

Script = Callable[[Frame, "Fake"], Reply | Awaitable[Reply]]


class Fake:
    """A process that listens at an address. `script` may be replaced at any time."""

    def __init__(self, world: World, address: str, script: Script) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self.script = script
        self.requests: list[Frame] = []
        self.connections: list[Connection] = []
        self.loop, _ = world.process(world.add_machine(address, host))
        self.loop.create_task(self._serve(host, int(port)))

    def of_code(self, code: int) -> list[Frame]:
        return [r for r in self.requests if r.code == code]

    async def _serve(self, host: str, port: int) -> None:
        async with asyncio.TaskGroup() as group:
            await serve(host, port, self._handle, group=group)
            await asyncio.get_running_loop().create_future()

    def _handle(self, request: Frame, connection: Connection) -> Reply | Awaitable[Reply]:
        self.requests.append(request)
        if connection not in self.connections:
            self.connections.append(connection)
        return self.script(request, self)


def route_to(
    master: str | None,
    *,
    perm: int = 6,
    acting: bool = False,
    slaves: Mapping[int, str] = MappingProxyType({}),
) -> Script:
    """A name server that knows one master, or none, and slaves by their ids; the permission that
    clients have, and whether brokers know acting masters."""

    def script(request: Frame, fake: Fake) -> Reply:
        if request.code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return request.answer(3)
        addresses = {**slaves} if master is None else {0: master, **slaves}
        broker = BrokerData(broker_name=SET, broker_addrs=addresses, enable_acting_master=acting)
        queues = QueueData(broker_name=SET, perm=perm, read_queue_nums=2, write_queue_nums=2)
        route = TopicRouteData(broker_datas=(broker,), queue_datas=(queues,))
        return request.answer(0, body=route.to_json())

    return script


class Cluster:
    """A name server, two brokers and a client in one world."""

    def __init__(self, script: Script, *, master: str | None = BROKER_A) -> None:
        self.world = World(1)
        self.namesrv = Fake(self.world, NAMESRV, route_to(master))
        self.broker = Fake(self.world, BROKER_A, script)
        self.other = Fake(self.world, BROKER_B, script)

    def run(
        self,
        main: Callable[[Session, RouteBook], Coroutine[Any, Any, T]],
        every_s: float = REFRESH_S,
    ) -> T:
        """Run a client with a fresh session and routes that were read once."""

        async def client(_: object) -> T:
            async with asyncio.TaskGroup() as group:
                await asyncio.sleep(0.001)  # the fakes listen by then
                routes = RouteBook(lambda: [NAMESRV], loop_dial, group, every_s)
                routes.watch([TOPIC])
                await routes.refresh()
                keeping = group.create_task(routes.run())
                session = Session(routes, loop_dial, group)
                try:
                    return await main(session, routes)
                finally:
                    session.close()
                    routes.close()
                    keeping.cancel()

        try:
            return self.world.run(self.world.add_machine("client", CLIENT), client)
        finally:
            self.world.close()
