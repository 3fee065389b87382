"""How a route is shown to those who ask for it: an acting master, a zone. Pure; tables stay as they
are.

Source: RocketMQ ``RouteInfoManager.pickupTopicRouteData``, ``ZoneRouteRPCHook``.
"""

from collections.abc import Mapping

import msgspec

from maxq.reference.names import GROUP_TOPIC_PREFIX
from maxq.reference.wire.route import MASTER_ID, PERM_WRITE, BrokerData, TopicRouteData


def with_acting_masters(topic: str, route: TopicRouteData) -> TopicRouteData:
    """Show the smallest id of a masterless group as id 0, where its queues are read only.

    A group that may still be written to is left as it is: its clients would send to a slave.
    """
    if topic.startswith(GROUP_TOPIC_PREFIX):
        return route
    writable = {q.broker_name for q in route.queue_datas if q.perm & PERM_WRITE}
    shown = tuple(
        data if data.broker_name in writable else _acting(data) for data in route.broker_datas
    )
    return msgspec.structs.replace(route, broker_datas=shown)


def _acting(data: BrokerData) -> BrokerData:
    if not data.enable_acting_master or not data.broker_addrs or MASTER_ID in data.broker_addrs:
        return data
    smallest = min(data.broker_addrs)
    others = {i: a for i, a in data.broker_addrs.items() if i != smallest}
    addresses = {MASTER_ID: data.broker_addrs[smallest], **others}
    return msgspec.structs.replace(data, broker_addrs=addresses)


def in_zone(route: TopicRouteData, ext: Mapping[str, str] | None) -> TopicRouteData:
    """Leave out groups of other zones for a client that asks for its own; a group without a master
    is shown to everybody."""
    zone = (ext or {}).get("__ZONE_NAME", "")
    if (ext or {}).get("__ZONE_MODE", "").lower() != "true" or not zone.strip():
        return route
    shown = tuple(
        data
        for data in route.broker_datas
        if MASTER_ID not in data.broker_addrs or (data.zone_name or "").lower() == zone.lower()
    )
    names = {data.broker_name for data in shown}
    queues = tuple(q for q in route.queue_datas if q.broker_name in names)
    return msgspec.structs.replace(route, broker_datas=shown, queue_datas=queues)
