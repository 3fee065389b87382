"""What the tests of a broker container share: files, name servers, the traffic of a client."""

import asyncio
from typing import Any

import pytest
from reference_world import (
    BROKER_CONF,
    NAMESRV,
    NAMESRV_CONF,
    Cluster,
    Process,
    send_header,
)

from maxq.reference.member_group import members_of
from maxq.reference.namesrv.server import Namesrv
from maxq.reference.rpc import Connection, NotSent, Pool
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext

IP = "198.18.0.48"
PORTS = {"x": 10911, "y": 10921, "z": 10931}  # by broker name
CONTAINER, FAST = f"{IP}:10811", f"{IP}:10809"


def address(name: str) -> str:
    return f"{IP}:{PORTS[name]}"


def ports_of(name: str) -> tuple[int, int, int]:
    return PORTS[name] - 2, PORTS[name], PORTS[name] + 1


def settings(name: str, **more: str) -> dict[str, str]:
    """A master's, in a file of its own."""
    own = {"brokerName": name, "brokerId": "0", "listenPort": str(PORTS[name])}
    return {**BROKER_CONF, **own, "namesrvAddr": "", "storePathRootDir": f"/data/{name}", **more}


def path_of(name: str) -> str:
    return f"/etc/{name}.conf"


def furnish(cluster: Cluster) -> None:
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    for name in PORTS:
        cluster.write("b1", path_of(name), settings(name))


def up(cluster: Cluster, *names: str, **more: str) -> Process:
    """A container with these brokers."""
    paths = {"brokerConfigPaths": ":".join(map(path_of, names))}
    return cluster.up("b1", "container", {"namesrvAddr": NAMESRV, **paths, **more})


def listed(cluster: Cluster, namesrv: str = NAMESRV) -> set[str]:
    """The brokers that a name server lists as masters, by name."""

    async def main(pool: Pool) -> set[str]:
        found = {name: await members_of(pool, namesrv, "c", name) for name in PORTS}
        return {name for name in PORTS if found[name].get(0) == address(name)}

    return cluster.client(main)


def both_listed(cluster: Cluster, *names: str) -> None:
    cluster.until(lambda: listed(cluster) == set(names))


def add(cluster: Cluster, path: str, at: str = CONTAINER) -> Frame:
    return cluster.ask(at, RequestCode.ADD_BROKER, headers.AddBrokerRequest(config_path=path))


def remove(cluster: Cluster, name: str, at: str = CONTAINER, broker_id: int = 0) -> Frame:
    header = headers.RemoveBrokerRequest(
        broker_cluster_name="c", broker_name=name, broker_id=broker_id
    )
    return cluster.ask(at, RequestCode.REMOVE_BROKER, header)


def said(answer: Frame) -> tuple[int, str]:
    return answer.code, answer.remark or ""


def refused(cluster: Cluster, *ports: int) -> bool:
    """Whether nobody listens at any of these ports."""

    async def main(pool: Pool) -> bool:
        found = []
        for port in ports:
            try:
                await pool.get(f"{IP}:{port}")
            except NotSent:
                found.append(port)
        return found == [*ports]

    return cluster.client(main)


class Traffic:
    """A client that sends to a broker all the time, and keeps what it was answered. The other
    broker's name is in no message of it."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.codes: list[int | str] = []
        self._name = name
        loop, _ = cluster.world.process(cluster.machines["client"])
        self._task = loop.create_task(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            pool, header = Pool(group), to_ext(send_header(topic="T", queue_id=0))
            while True:
                body = f"{self._name} {len(self.codes)}".encode()
                frame = Frame(code=RequestCode.SEND_MESSAGE, ext=header, body=body)
                try:
                    answer = await pool.call(address(self._name), frame, timeout_s=3)
                    self.codes.append(answer.code)
                except (OSError, TimeoutError) as error:
                    self.codes.append(repr(error))
                await asyncio.sleep(0.05)

    def all_went_well(self, count: int = 20) -> bool:
        return len(self.codes) >= count and set(self.codes) == {ResponseCode.SUCCESS}


class Mute:
    """A name server, on machine b2, that once told to answers no registration of broker x."""

    def __init__(self, cluster: Cluster, patch: pytest.MonkeyPatch) -> None:
        self.address = f"{cluster.machines['b2'].address}:9876"
        self.on = False
        self._cluster = cluster
        register = Namesrv._register

        def registering(me: Namesrv, request: Frame, connection: Connection) -> Any:
            header = from_ext(headers.RegisterBrokerRequest, request.ext)
            if self.on and header.broker_name == "x":
                return asyncio.get_running_loop().create_future()
            return register(me, request, connection)

        patch.setattr(Namesrv, "_register", registering)
        cluster.up("b2", "namesrv", NAMESRV_CONF)

    def lost(self) -> int:
        """How often it has dropped a broker because of a connection."""
        return self._cluster.logged("b2", "namesrv.broker.lost")
