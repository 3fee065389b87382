"""The broker container: several brokers in one process (RIP-31), and the port that adds and removes
them.

It starts with the brokers that its file lists; one that fails then ends the container. Operators
add others by 902 and remove any by 903, one request at a time; a container that starts again has
those of its file. Who is added, and what of that fails, no neighbour notices.

25 is written to the container's file, as RocketMQ does, since membership is not: the file is what
the next start reads. Other roles keep a change until they stop (`maxq.reference.settings`).
Requests that are none of its four are refused with 3; RocketMQ's container does not answer them.

Source: RIP-31; RocketMQ ``BrokerContainer``, ``BrokerContainerProcessor``,
``BrokerContainerStartup``; docs/spec/acting-master.md 2. Units: seconds.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from maxq.reference import rpc
from maxq.reference.bounds import Bounds
from maxq.reference.broker.client_calls.send_back import TakeBack
from maxq.reference.broker.escape.escape import Target
from maxq.reference.broker.server import Broker
from maxq.reference.config import ContainerConfig, render_config
from maxq.reference.container.files import (
    FILE_BYTES_MAX,
    BrokerFile,
    BrokerFileError,
    listed_paths,
    read_broker,
)
from maxq.reference.container.inner import BrokerBootHook, Inner, StartFailed
from maxq.reference.container.registry import Identity, Member, NotAdmitted, Registry
from maxq.reference.host import Host, replace_file
from maxq.reference.node import describe, dispatcher
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.settings import Settings, UpdateRefused
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.files import decode_properties, encode_properties
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext
from maxq.reference.wire.route import DataVersion

ADD_S = 18.0  # until an addition that goes on is answered all the same; mqadmin waits for 20
LIVE_KEYS = frozenset({"namesrvAddr"})
BLACK_LIST = frozenset({"brokerConfigPaths", "configBlackList", "rocketmqHome"})


class Container:
    """A broker container.

    Args:
        config: its settings.
        host: the machine.
        file: the path of its settings; empty: it has none, and changes last until it stops.
        hooks: called at the start of each broker.
        mutant: the name of a seeded bug, for its brokers.

    Raises:
        ConfigError: a file that it lists cannot be used, or two of them not together.
    """

    def __init__(
        self,
        config: ContainerConfig,
        host: Host,
        *,
        file: str = "",
        hooks: Sequence[BrokerBootHook] = (),
        mutant: str = "",
    ) -> None:
        self._host = host
        self._file = file
        self.hooks = list(hooks)
        self._mutant = mutant
        self._settings = Settings(
            config, live=LIVE_KEYS, black_list=BLACK_LIST | {*config.config_black_list.split(";")}
        )
        self._registry = Registry(config.listen_port)
        self._brokers: dict[Identity, Inner] = {}
        self._version = DataVersion(counter=0, timestamp=host.wall_ms())
        self._turn = asyncio.Lock()  # one request at a time, and none before the start is over
        content = host.disk.read(file, FILE_BYTES_MAX) if file else b""
        self._listed = [
            read_broker(host.disk, path, config) for path in listed_paths(config, content, file)
        ]
        _refuse_clashes(self._listed, config)

    @property
    def brokers(self) -> tuple[Inner, ...]:
        """The brokers that it has now, in the order in which they came."""
        return tuple(self._brokers.values())

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until cancelled; then stop every broker.

        Raises:
            StartFailed: a broker of its file did not start.
            OSError: one of its ports is taken.
        """
        config = self._settings.now
        async with asyncio.TaskGroup() as group:
            self._group = group
            servers: list[rpc.Server] = []
            try:
                async with self._turn:
                    bounds: Bounds[Connection] = Bounds(self._host.log)
                    handle = dispatcher(self._handlers())
                    for port in (config.listen_port, config.listen_port - 2):
                        at = (config.bind_address, port)
                        servers.append(await rpc.serve(*at, handle, group=group, bounds=bounds))
                    for file in self._listed:
                        await self._begin(file).started()
                self._host.log("container.started", port=config.listen_port)
                ready()
                await asyncio.get_running_loop().create_future()
            finally:
                for server in servers:
                    server.close()
                await self._end_all()

    async def _end_all(self) -> None:
        for inner in self.brokers:
            inner.cancel()
        for inner in self.brokers:
            await inner.end()

    def _begin(self, file: BrokerFile) -> Inner:
        """Take a broker in, and start it. Raises NotAdmitted."""
        self._registry.admit(file.member)
        for warning in file.warnings:
            self._host.log("config.ignored", warning=warning)
        inner = Inner(
            file,
            self._host,
            hooks=self.hooks,
            mutant=self._mutant,
            neighbours=_Others(self._registry, self._brokers, file.member),
            on_end=self._on_end,
        )
        self._brokers[file.member.identity] = inner
        inner.begin(self._group)
        return inner

    def _on_end(self, inner: Inner) -> None:
        identity = inner.file.member.identity
        self._registry.remove(identity)
        del self._brokers[identity]
        self._host.log("container.broker.ended", broker=inner.name)

    # Requests.

    def _handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.ADD_BROKER: self._add,
            RequestCode.REMOVE_BROKER: self._remove,
            RequestCode.GET_BROKER_CONFIG: self._get_config,
            RequestCode.UPDATE_BROKER_CONFIG: self._update_config,
        }

    async def _add(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.AddBrokerRequest, request.ext)
        async with self._turn:
            try:
                inner = await self._added(h.config_path or "")
            except (BrokerFileError, NotAdmitted, StartFailed) as error:
                return request.answer(ResponseCode.SYSTEM_ERROR, error.remark)
        self._host.log("container.broker.added", broker=inner.name, by=connection.remote)
        return request.answer(ResponseCode.SUCCESS)

    async def _added(self, path: str) -> Inner:
        inner = self._begin(read_broker(self._host.disk, path, self._settings.now))
        try:
            async with asyncio.timeout(ADD_S):
                await inner.started()
                await inner.placed()
        except TimeoutError:
            why = f"{inner.name} has not registered within {ADD_S:g} s; it goes on"
            raise StartFailed(why, why) from None
        return inner

    async def _remove(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.RemoveBrokerRequest, request.ext)
        wanted = Identity(
            cluster=h.broker_cluster_name, broker_name=h.broker_name, broker_id=h.broker_id
        )
        async with self._turn:
            found = self._registry.find(wanted, self._id_now)
            if found is None:
                return request.answer(ResponseCode.BROKER_NOT_EXIST, "Broker not exist")
            inner = self._brokers[found]
            self._host.log("container.broker.removed", broker=inner.name, by=connection.remote)
            await inner.end()
        if inner.failure is not None:
            why = f"{inner.name} is removed, but: {describe(inner.failure)}"
            return request.answer(ResponseCode.SYSTEM_ERROR, why)
        return request.answer(ResponseCode.SUCCESS)

    def _id_now(self, identity: Identity) -> int:
        membership = self._brokers[identity].broker.membership
        return -1 if membership is None else membership.broker_id

    async def _get_config(self, request: Frame, connection: Connection) -> Reply:
        async with self._turn:
            header = headers.BrokerConfigResponse(version=self._version.to_json().decode())
            body = render_config(self._settings.now).encode()
            return request.answer(ResponseCode.SUCCESS, ext=to_ext(header), body=body)

    async def _update_config(self, request: Frame, connection: Connection) -> Reply:
        async with self._turn:
            before, content = self._settings.now, request.body or b""
            try:
                keys = self._settings.update(content)
                await self._write(content)
            except UpdateRefused as refused:
                return request.answer(refused.code, str(refused))
            except OSError as error:
                self._settings.now = before
                why = f"{self._file} cannot be written, so nothing was changed: {error.strerror}"
                return request.answer(ResponseCode.SYSTEM_ERROR, why)
            self._version = DataVersion(
                counter=self._version.counter + 1, timestamp=self._host.wall_ms()
            )
            if "namesrvAddr" in keys:
                for inner in self.brokers:
                    inner.broker.reach(self._settings.now.namesrv_addr)
            return request.answer(ResponseCode.SUCCESS)

    async def _write(self, changes: bytes) -> None:
        """Write changed settings into the container's file, whole or not at all; comments in it go,
        as RocketMQ's do. Raises OSError."""
        if self._file:
            disk = self._host.disk
            before = decode_properties(disk.read(self._file, FILE_BYTES_MAX))
            now = {e.key: e.value for e in (*before, *decode_properties(changes))}
            await replace_file(disk, self._file, encode_properties(now))


class _Others:
    """The brokers of a container, as one of them sees the others (`Neighbours`). Where RocketMQ
    takes any master, this asks for one of the same cluster and of another set that can do it."""

    def __init__(self, registry: Registry, brokers: Mapping[Identity, Inner], me: Member) -> None:
        self._registry = registry
        self._brokers = brokers
        self._me = me.identity

    def target(self, topic: str, queue_id: int) -> Target | None:
        found = self._peek(lambda broker: broker.target(topic, queue_id) is not None)
        return None if found is None else found.target(topic, queue_id)

    def taker(self) -> TakeBack | None:
        found = self._peek(lambda broker: broker.leads)
        return None if found is None else found.take_back

    def _peek(self, can: Callable[[Broker], bool]) -> Broker | None:
        def usable(member: Member) -> bool:
            other, me = member.identity, self._me
            theirs = other.cluster == me.cluster and other.broker_name != me.broker_name
            return theirs and can(self._brokers[other].broker)

        found = self._registry.peek_master(usable)
        return None if found is None else self._brokers[found.identity].broker


def _refuse_clashes(listed: Sequence[BrokerFile], config: ContainerConfig) -> None:
    """Refuse files that cannot be in one container together."""
    registry = Registry(config.listen_port)
    for file in listed:
        try:
            registry.admit(file.member)
        except NotAdmitted as error:
            raise BrokerFileError(f"{file.where(error.key)}: {error}") from None
