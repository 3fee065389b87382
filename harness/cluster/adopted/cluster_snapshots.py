"""What nodes of a cluster say of themselves at a moment, and what of it is otherwise later.

Asked in RocketMQ's own requests, of name servers, controllers and brokers. What a node does not
answer is left out, and so is what changes by itself: offsets, sizes, times. Units: seconds.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from maxq.harness.client.node_settings import settings_of
from maxq.harness.client.places import place
from maxq.harness.client.probes import PROBE_TIMEOUT_S, ask_all, probing, runtime_info
from maxq.harness.contracts.cluster import Members
from maxq.harness.contracts.environment import Role
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Pool
from maxq.reference.wire.bodies import BrokerReplicasInfo, SubscriptionGroups
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext
from maxq.reference.wire.node_headers import MetadataResponse
from maxq.reference.wire.route import ClusterInfo, TopicConfigSerializeWrapper

NOTHING, ANSWERS = "nothing", "answers"
GIVEN = frozenset(("brokerId", "brokerRole"))  # settings that controllers give brokers
Snapshot = Mapping["Fact", str]


class Fact(NamedTuple):
    """What is asked: of a node or broker set, and what of it. One that is `moved` is what faults
    of nodes move in any cluster: who leads, who is in sync, who is listed."""

    who: str
    what: str
    moved: bool = False


async def snapshot(cluster: Members) -> dict[Fact, str]:
    """What all nodes say now."""
    found: dict[Fact, str] = {}
    async with probing(cluster.observer_dial) as pool:
        for node in cluster.nodes:
            at = cluster.address(node.name)
            settings = await settings_of(pool, at, node.role)
            if settings is None:
                continue
            found[Fact(node.name, ANSWERS)] = "yes"
            given = GIVEN if cluster.controllers() else frozenset()
            found |= {
                Fact(node.name, f"setting {key}", moved=key in given): text
                for key, text in settings.items()
            }
            if node.role is Role.NAMESRV:
                found |= await _listed(pool, node.name, at)
            elif node.role is Role.BROKER:
                found |= await _tables(pool, node.name, at)
                if not cluster.controllers():  # else these say who leads
                    found |= await _role(pool, node.name, at, first=not node.replica)
    return {**found, **await _led(cluster)}


async def _answer(pool: Pool, address: str, code: int) -> bytes | None:
    try:
        answer = await pool.call(address, Frame(code=code, ext={}), timeout_s=PROBE_TIMEOUT_S)
    except (OSError, RemoteProtocolError):
        return None
    return answer.body if answer.code == ResponseCode.SUCCESS else None


async def _listed(pool: Pool, name: str, address: str) -> Mapping[Fact, str]:
    body = await _answer(pool, address, RequestCode.GET_BROKER_CLUSTER_INFO)
    table = ClusterInfo.from_json(body).broker_addr_table if body else {}
    return {
        Fact(name, f"list of {broker_set}", moved=True): ", ".join(
            f"{number} at {at}" for number, at in sorted(data.broker_addrs.items())
        )
        for broker_set, data in table.items()
    }


async def _tables(pool: Pool, name: str, address: str) -> Mapping[Fact, str]:
    found: dict[Fact, str] = {}
    if body := await _answer(pool, address, RequestCode.GET_ALL_TOPIC_CONFIG):
        for topic, of in TopicConfigSerializeWrapper.from_json(body).topic_config_table.items():
            queues = f"{of.read_queue_nums} queues to read, {of.write_queue_nums} to write"
            found[Fact(name, f"topic {topic}")] = f"permission {of.perm}, {queues}"
    if body := await _answer(pool, address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG):
        for group in SubscriptionGroups.from_json(body).subscription_group_table:
            found[Fact(name, f"consumer group {group}")] = "there"
    return found


async def _role(pool: Pool, name: str, address: str, *, first: bool) -> Mapping[Fact, str]:
    try:
        here = place(await runtime_info(pool, address), first=first)
    except (OSError, RemoteProtocolError):
        return {}
    role = "master" if here.leads else "slave"
    return {Fact(name, "role", moved=True): role + (", acting" if here.acting else "")}


async def _led(cluster: Members) -> Mapping[Fact, str]:
    """What controllers say: who of them leads, and of each broker set who does and is in sync."""
    found: dict[Fact, str] = {}
    dial, controllers = cluster.observer_dial, cluster.controllers()
    question = Frame(code=RequestCode.CONTROLLER_GET_METADATA_INFO, ext={})
    for answer in (await ask_all(dial, controllers, question))[:1]:
        leader = from_ext(MetadataResponse, answer.ext).controller_leader_address
        found[Fact("controllers", "leader", moved=True)] = leader or "nobody"
    sets = sorted({node.broker_set for node in cluster.nodes if node.broker_set})
    body = ("[" + ",".join(f'"{name}"' for name in sets) + "]").encode()
    question = Frame(code=RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, ext={}, body=body)
    for answer in await ask_all(dial, controllers, question):
        for name, of in BrokerReplicasInfo.from_json(answer.body).replicas_info_table.items():
            found[Fact(name, "master", moved=True)] = of.master_address or "nobody"
            found[Fact(name, "epoch", moved=True)] = str(of.master_epoch)
            members = sorted(str(replica.broker_address) for replica in of.in_sync_replicas)
            found[Fact(name, "SyncStateSet", moved=True)] = ", ".join(members) or "nobody"
    return found


def differences(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """What is otherwise, a line each; first what no fault of a node explains."""
    silent = {who for who, what, _ in before.keys() - after.keys() if what == ANSWERS}
    yield from (f"{who}: does not answer any more" for who in sorted(silent))
    changed = [
        fact for fact in sorted({*before, *after})
        if before.get(fact) != after.get(fact) and fact.who not in silent
    ]  # fmt: skip
    for fact in sorted(changed, key=lambda fact: fact.moved):
        was, now = before.get(fact, NOTHING), after.get(fact, NOTHING)
        why = " (as faults of nodes do)" if fact.moved else ""
        yield f"{fact.who}: {fact.what}: was {was}, is {now}{why}"
