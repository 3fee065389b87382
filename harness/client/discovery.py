"""Finds the nodes of a cluster that runs already, by questions that change nothing.

Name servers say which brokers have registered (106), brokers what they are set to (26) and of which
release they are (28), and so where their controllers are; the leading one says which replicas
there are, and under which ids, also of those that are away (1005, 1006). Units: seconds.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from maxq.harness.client.node_settings import settings_of
from maxq.harness.client.observer import Observer
from maxq.harness.client.probes import PROBE_TIMEOUT_S, granted, probing, runtime_info
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.error_classes import plain
from maxq.harness.contracts.existing import BrokerMember, ClusterFileError, Existing, Member
from maxq.harness.contracts.outcome import Fail
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import ConnectionLost, Dial, Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext
from maxq.reference.wire.node_headers import MetadataResponse
from maxq.reference.wire.route import ClusterInfo

CONTROLLED, CONTROLLERS = "enableControllerMode", "controllerAddr"
ACL = f"refused with code {ResponseCode.NO_PERMISSION:d}"
RELEASE, OURS = "brokerVersionDesc", "maxq.role"
Settings = Mapping[str, str] | None  # of a node; None: it does not answer


class Found(NamedTuple):
    """A cluster, and a line on each node that was asked: its name, and what it answered."""

    cluster: Existing
    lines: tuple[tuple[str, str], ...]


class _Listed(NamedTuple):
    """What name servers say: brokers by set and id, and how each of them answered."""

    sets: dict[str, dict[int, str]]
    lines: list[tuple[str, str]]


async def discover(dial: Dial, namesrvs: Sequence[str], name: str = "") -> Found:
    """Ask name servers (``host:port``), and whoever they name.

    Args:
        dial: how nodes are reached.
        namesrvs: of the cluster.
        name: which cluster, where they know several.

    Raises:
        ClusterFileError: no name server answers, or which cluster is meant is open.
    """
    namesrvs = list(dict.fromkeys(namesrvs))
    async with probing(dial) as pool:
        cluster, listed = await _listed(pool, namesrvs, name)
        addresses = [a for ids in listed.sets.values() for a in ids.values()]
        settings = {at: await settings_of(pool, at, Role.BROKER) for at in addresses}
        controllers, lines = await _controllers(pool, settings)
        sets = listed.sets
        if controllers:
            sets = await _replicas(dial, controllers, sorted(sets))
        brokers = [*_brokers(sets)]
        said = [(b.name, await _said(pool, b.address)) for b in brokers]
    found = Existing(
        cluster=cluster,
        namesrv=_members("namesrv", namesrvs),
        controller=_members("controller", controllers),
        broker=tuple(brokers),
    )
    known = {m.address: m.name for m in (*found.namesrv, *found.controller)}
    every = [(known.get(at, at), what) for at, what in (*listed.lines, *lines)]
    return Found(found, (*every, *said))


async def _listed(pool: Pool, namesrvs: Sequence[str], name: str) -> tuple[str, _Listed]:
    """Which cluster it is, and its brokers."""
    tables: list[ClusterInfo] = []
    lines: list[tuple[str, str]] = []
    for at in namesrvs:
        try:
            answer = await _answer(pool, at, RequestCode.GET_BROKER_CLUSTER_INFO)
            tables.append(ClusterInfo.from_json(answer.body))
            lines.append((at, f"broker sets: {len(tables[-1].broker_addr_table)}"))
        except (OSError, RemoteProtocolError) as error:
            lines.append((at, _no_answer(error)))
    clusters = {data.cluster or "" for t in tables for data in t.broker_addr_table.values()}
    if not tables:
        raise ClusterFileError("no name server answers: " + "; ".join(f"{a} {w}" for a, w in lines))
    if not clusters:
        raise ClusterFileError("no broker has registered with these name servers")
    if name not in clusters and (name or len(clusters) > 1):
        raise ClusterFileError(
            f"these name servers know the clusters {', '.join(sorted(clusters))}: --name says which"
        )
    cluster = name or clusters.pop()
    sets: dict[str, dict[int, str]] = {}
    for table in tables:
        for broker_set, data in table.broker_addr_table.items():
            if (data.cluster or "") == cluster:
                sets.setdefault(broker_set, {}).update(data.broker_addrs)
    return cluster, _Listed(sets, lines)


async def _controllers(
    pool: Pool, settings: Mapping[str, Settings]
) -> tuple[list[str], list[tuple[str, str]]]:
    """The controllers that brokers are set to ask, and what each says of who leads."""
    asked = [
        at
        for of in settings.values()
        if of and of.get(CONTROLLED, "").lower() == "true"
        for at in of.get(CONTROLLERS, "").split(";")
        if at
    ]
    found = list(dict.fromkeys(asked))
    lines = []
    for at in found:
        try:
            answer = await _answer(pool, at, RequestCode.CONTROLLER_GET_METADATA_INFO)
            leader = from_ext(MetadataResponse, answer.ext).controller_leader_address
            lines.append((at, "leads" if leader == at else f"says that {leader or 'nobody'} leads"))
        except (OSError, RemoteProtocolError) as error:
            lines.append((at, _no_answer(error)))
    return found, lines


async def _replicas(
    dial: Dial, controllers: Sequence[str], sets: Sequence[str]
) -> dict[str, dict[int, str]]:
    """All replicas by set and id, as the controller that leads has them."""
    async with asyncio.TaskGroup() as group:
        observer = Observer(dial, group)
        views = [await observer.controller("", at, sets) for at in controllers]
        observer.close()
    for view in views:
        if not isinstance(view, Fail) and view.sets:
            return {name: {int(i): at for i, at in of.replicas.items()}
                    for name, of in view.sets.items()}  # fmt: skip
    said = ", ".join(controllers)
    raise ClusterFileError(f"no controller that leads answers, of {said}: who has which id is open")


async def _answer(pool: Pool, address: str, code: int) -> Frame:
    """A good answer. Raises OSError, RemoteProtocolError: there is none, or a refusal."""
    request = Frame(code=code, ext={})
    return granted(await pool.call(address, request, timeout_s=PROBE_TIMEOUT_S))


def _no_answer(error: Exception) -> str:
    """Why a node said nothing of use, and what it may ask for that Max-Q does not do."""
    if isinstance(error, ConnectionLost):
        return "no answer: it ended the connection; maybe it asks for TLS, which Max-Q lacks"
    if isinstance(error, TimeoutError):
        return f"no answer: none came in {PROBE_TIMEOUT_S:g} s; it hangs, or is no node of RocketMQ"
    acl = ACL in str(error)
    return f"no answer: {plain(str(error))}{'; Max-Q does not sign requests (ACL)' if acl else ''}"


async def _said(pool: Pool, address: str) -> str:
    """What a broker says it is."""
    try:
        info = await runtime_info(pool, address)
    except (OSError, RemoteProtocolError) as error:
        return f"{address}, {_no_answer(error)}"
    release = info.get(RELEASE, "a release that it does not name")
    return f"{address}, {'Max-Q' if OURS in info else release}"


def _members(kind: str, addresses: Sequence[str]) -> tuple[Member, ...]:
    return tuple(Member(name=f"{kind}-{number}", address=at) for number, at in enumerate(addresses))


def _brokers(sets: Mapping[str, Mapping[int, str]]) -> Iterator[BrokerMember]:
    for name, ids in sorted(sets.items()):
        for number, at in sorted(ids.items()):
            yield BrokerMember(name=f"{name}-{number}", address=at, set=name, id=number)
