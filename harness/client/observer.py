"""Questions of observers to single nodes: 1006, 1007, 106, 105 and 901, which change nothing.

A question that is not answered well is `fail`: it took nothing. One attempt each; only where a
connection of an earlier question turns out to be dead, the question is put on a new one. Units:
seconds.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeVar

from maxq.harness.client.places import delays, place
from maxq.harness.contracts.error_classes import error_of, error_words
from maxq.harness.contracts.outcome import Fail
from maxq.histories.observed import (
    MASTER_ROLE,
    WRITE,
    AddressedSet,
    ControllerView,
    EpochView,
    ReplicaView,
    RouteView,
    SetView,
)
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import ConnectionLost, Dial, Pool
from maxq.reference.wire.bodies import EpochEntryCache, InSyncStateSet, ReplicaIdentity
from maxq.reference.wire.body import Body
from maxq.reference.wire.codes import RequestCode, ResponseCode, response_name
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.lenient_json import dumps
from maxq.reference.wire.node_headers import MemberGroupRequest, TopicRequest
from maxq.reference.wire.route import (
    MASTER_ID,
    ClusterInfo,
    KVTable,
    MemberGroupBody,
    TopicRouteData,
)

TIMEOUT_S = 1.0
NO_ROUTE = response_name(ResponseCode.TOPIC_NOT_EXIST)
T = TypeVar("T", bound=Body)


class _Replica(ReplicaIdentity):
    """One replica, whose address 5.1.0 reports under this name."""

    address: str | None = None


class _Replicas(Body):
    """A `ReplicasInfo` of such replicas."""

    in_sync_replicas: tuple[_Replica, ...] = ()
    master_address: str | None = None
    master_broker_id: int | None = None
    master_epoch: int = 0
    not_in_sync_replicas: tuple[_Replica, ...] = ()
    sync_state_set_epoch: int = 0


class _SyncStateData(Body):
    """Answer to 1006, of whichever release: 5.0.0 has a table of another name."""

    in_sync_state_table: dict[str, InSyncStateSet] = {}
    replicas_info_table: dict[str, _Replicas] = {}


class Observer:
    """One observer's connections.

    Args:
        dial: how nodes are reached; from the observers' address.
        group: the run's tasks.
    """

    def __init__(self, dial: Dial, group: asyncio.TaskGroup) -> None:
        self._pool = Pool(group, dial=dial)

    def close(self) -> None:
        self._pool.close()

    async def controller(
        self, node: str, address: str, sets: Sequence[str]
    ) -> ControllerView | Fail:
        """What a controller holds of these sets; one that does not lead refuses."""
        reported = await self._ask(
            _SyncStateData,
            address,
            Frame(code=RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, ext={}, body=dumps(list(sets))),
        )
        if isinstance(reported, Fail):
            return reported
        addressed = {
            name: _addressed(known) for name, known in reported.in_sync_state_table.items()
        }
        views = {}
        for name, info in reported.replicas_info_table.items():
            if any(r.address for r in info.in_sync_replicas):
                addressed[name] = _by_address(info)
            else:
                views[name] = _set_view(info)
        return ControllerView(node=node, sets=views, by_address=addressed)

    async def member(
        self, node: str, broker_set: str, address: str, *, first: bool
    ) -> ReplicaView | Fail:
        """What a broker without controllers says of itself: it has no id and no epochs. `first`:
        it is its set's first replica."""
        info = await self._ask(
            KVTable, address, Frame(code=RequestCode.GET_BROKER_RUNTIME_INFO, ext={})
        )
        if isinstance(info, Fail):
            return info
        end = info.table.get("commitLogMaxOffset", "")
        said = place(info.table, first=first)
        return ReplicaView(
            node=node,
            set=broker_set,
            address=address,
            id=None,
            leads=said.leads,
            epochs=(),
            end=int(end) if end.isdecimal() else 0,
            confirmed=None,
            acting=said.acting,
            isolated=said.isolated,
            copying=said.copying,
            delays=delays(info.table),
        )

    async def replica(
        self, node: str, broker_set: str, address: str, broker_id: int | None
    ) -> ReplicaView | Fail:
        """What a broker says of itself; `broker_id` is what its identity file says."""
        reported = await self._ask(
            EpochEntryCache, address, Frame(code=RequestCode.GET_BROKER_EPOCH_CACHE, ext={})
        )
        if isinstance(reported, Fail):
            return reported
        # An answer of its own, and so of another instant than the rest; RocketMQ has none.
        info = await self._ask(
            KVTable, address, Frame(code=RequestCode.GET_BROKER_RUNTIME_INFO, ext={})
        )
        confirmed = "" if isinstance(info, Fail) else info.table.get("maxq.confirmOffset", "")
        entries = reported.epoch_list
        ends = [*(e.start_offset for e in entries[1:]), reported.max_offset]
        return ReplicaView(
            node=node,
            set=broker_set,
            address=address,
            id=broker_id,
            leads=reported.broker_id == MASTER_ID,
            epochs=tuple(
                EpochView(epoch=e.epoch, start=e.start_offset, end=end)
                for e, end in zip(entries, ends, strict=False)
            ),
            end=reported.max_offset,
            confirmed=int(confirmed) if confirmed.isdecimal() else None,
        )

    async def route(self, node: str, address: str, topics: Sequence[str] = ()) -> RouteView | Fail:
        """Which brokers a name server lists to clients, and what they may do with these topics."""
        reported = await self._ask(
            ClusterInfo, address, Frame(code=RequestCode.GET_BROKER_CLUSTER_INFO, ext={})
        )
        if isinstance(reported, Fail):
            return reported
        sets = {
            name: _by_role(data.broker_addrs)
            for name, data in sorted(reported.broker_addr_table.items())
        }
        if not topics:
            return RouteView(node=node, sets=sets)
        routes = await self._routes(address, topics)
        perms = {t: {q.broker_name: q.perm for q in r.queue_datas} for t, r in routes.items()}
        shown = _shown(routes, sets)
        cluster = {name: data.cluster for name, data in reported.broker_addr_table.items()}
        odd = _odd(sets, perms, shown)
        return RouteView(
            node=node,
            sets=sets,
            perms=perms,
            shown=shown,
            groups=await self._groups(address, {name: cluster.get(name) or "" for name in odd}),
            acting=_acting(reported, routes),
        )

    async def _routes(self, address: str, topics: Sequence[str]) -> dict[str, TopicRouteData]:
        """Routes of topics, up to the first topic without an answer: who does not answer once is
        not asked on, as others wait for this observer. Of a topic without a route it is empty."""
        routes: dict[str, TopicRouteData] = {}
        for topic in topics:
            ext = to_ext(TopicRequest(topic=topic))
            route = await self._ask(
                TopicRouteData, address, Frame(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=ext)
            )
            if not isinstance(route, Fail):
                routes[topic] = route
            elif NO_ROUTE in route.error:
                routes[topic] = TopicRouteData()
            else:
                break
        return routes

    async def _groups(self, address: str, sets: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Raw groups of broker sets, by their names and clusters, up to the first without an
        answer; an old name server has none."""
        groups: dict[str, dict[str, str]] = {}
        for name, cluster in sorted(sets.items()):
            ext = to_ext(MemberGroupRequest(cluster_name=cluster, broker_name=name))
            request = Frame(code=RequestCode.GET_BROKER_MEMBER_GROUP, ext=ext)
            said = await self._ask(MemberGroupBody, address, request)
            if isinstance(said, Fail):
                break
            group = said.broker_member_group
            groups[name] = {} if group is None else _by_role(group.broker_addrs)
        return groups

    async def _ask(self, kind: type[T], address: str, request: Frame) -> T | Fail:
        try:
            answer = await self._answer(address, request)
            if answer.code != ResponseCode.SUCCESS:
                return Fail(error_of(answer.code, answer.remark))
            return kind.from_json(answer.body)
        except (OSError, RemoteProtocolError) as error:
            return Fail(error_words(error))

    async def _answer(self, address: str, request: Frame) -> Frame:
        try:
            return await self._pool.call(address, request, timeout_s=TIMEOUT_S)
        except ConnectionLost:
            # A machine that lost its power has left its connections half open: whoever speaks on
            # one learns that from the first word. It says nothing of the node as it is now.
            return await self._pool.call(address, request, timeout_s=TIMEOUT_S)


def _by_role(addresses: Mapping[int, str]) -> dict[str, str]:
    return {str(i): address for i, address in sorted(addresses.items())}


def _shown(
    routes: Mapping[str, TopicRouteData], sets: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, dict[str, str]]]:
    """Where routes show other addresses of a broker set than its table has."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for topic, route in routes.items():
        for data in route.broker_datas:
            addresses = _by_role(data.broker_addrs)
            if addresses != sets.get(data.broker_name):
                found.setdefault(topic, {})[data.broker_name] = addresses
    return found


def _odd(
    sets: Mapping[str, Mapping[str, str]],
    perms: Mapping[str, Mapping[str, int]],
    shown: Mapping[str, Mapping[str, object]],
) -> set[str]:
    """The broker sets about which more is asked: those that are not as in quiet times."""
    masterless = {name for name, listed in sets.items() if MASTER_ROLE not in listed}
    closed = {name for of in perms.values() for name, perm in of.items() if not perm & WRITE}
    return masterless | closed | {name for of in shown.values() for name in of}


def _acting(info: ClusterInfo, routes: Mapping[str, TopicRouteData]) -> tuple[str, ...]:
    """The broker sets that know acting masters, by a table and by every route."""
    told = [*info.broker_addr_table.values(), *(d for r in routes.values() for d in r.broker_datas)]
    denied = {data.broker_name for data in told if not data.enable_acting_master}
    return tuple(sorted({data.broker_name for data in told} - denied))


def _addressed(known: InSyncStateSet) -> AddressedSet:
    return AddressedSet(
        master_address=known.master_address or "",
        master_epoch=known.master_epoch,
        sync_state_set=tuple(sorted(m.address for m in known.in_sync_members)),
        sync_state_set_epoch=known.sync_state_set_epoch,
    )


def _by_address(info: _Replicas) -> AddressedSet:
    return AddressedSet(
        master_address=info.master_address or "",
        master_epoch=info.master_epoch,
        sync_state_set=tuple(sorted(r.address or "" for r in info.in_sync_replicas)),
        sync_state_set_epoch=info.sync_state_set_epoch,
    )


def _set_view(info: _Replicas) -> SetView:
    everybody = (*info.in_sync_replicas, *info.not_in_sync_replicas)
    return SetView(
        master=info.master_broker_id,
        master_address=info.master_address or "",
        master_epoch=info.master_epoch,
        sync_state_set=tuple(sorted(r.broker_id for r in info.in_sync_replicas)),
        sync_state_set_epoch=info.sync_state_set_epoch,
        replicas={str(r.broker_id): r.broker_address or "" for r in everybody},
    )
