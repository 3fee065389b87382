"""Clients that come, stay and go (34, 35, 38), and the groups that hear of it."""

from maxq.reference.broker.client_calls.clients import Clients
from maxq.reference.broker.client_calls.made_topics import MadeTopics
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.names import RETRY_PREFIX, group_name_fault
from maxq.reference.node import now_ns
from maxq.reference.rpc import Connection, Handler, NotSent, Reply
from maxq.reference.settings import Settings
from maxq.reference.wire import headers
from maxq.reference.wire.bodies import ConsumerList, HeartbeatBody, SubscriptionGroupConfig
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext


class Heartbeats:
    """Handlers of clients' heartbeats.

    Args:
        settings: the broker's; some change while it runs.
        tables: groups.
        topics: makes topics of groups.
        clients: who is there.
    """

    def __init__(
        self,
        settings: Settings[BrokerConfig],
        tables: Tables,
        topics: MadeTopics,
        clients: Clients,
    ) -> None:
        self._settings = settings
        self._tables = tables
        self._topics = topics
        self._clients = clients
        self._watched: dict[Connection, None] = {}

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._consumer_list,
        }

    async def _heartbeat(self, request: Frame, connection: Connection) -> Reply:
        body = HeartbeatBody.from_json(request.body)
        for consumer in body.consumer_data_set:
            fault = group_name_fault(consumer.group_name or "")
            if fault is not None:
                return request.answer(ResponseCode.INVALID_PARAMETER, fault)
        if connection.closed:
            return None  # its end has been seen already, and would not be seen again
        changed = self._clients.on_heartbeat(
            now_ns(),
            connection,
            body,
            language=request.language or "OTHER",
            version=request.version,
        )
        if connection not in self._watched:
            self._watched[connection] = None
            connection.on_close(self._lost)
        for consumer in body.consumer_data_set:
            await self._know_group(consumer.group_name or "")
        self._notify(changed)
        reply = headers.HeartbeatResponse(
            is_support_heart_beat_v2=False, is_sub_change=bool(changed)
        )
        return request.answer(ResponseCode.SUCCESS, ext=to_ext(reply))

    async def _know_group(self, group: str) -> None:
        """A consumer group brings its retry topic along."""
        if group not in self._tables.groups and self._settings.now.auto_create_subscription_group:
            await self._tables.put_group(SubscriptionGroupConfig(group_name=group))
        known = self._tables.groups.get(group)
        queues = 1 if known is None else max(1, known.retry_queue_nums)
        await self._topics.known(RETRY_PREFIX + group, queues=queues)

    def _unregister(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.UnregisterClientRequest, request.ext)
        if h.consumer_group:
            self._notify(self._clients.on_leave(h.client_id, h.consumer_group))
        if h.producer_group:
            self._clients.on_producer_leave(h.client_id, h.producer_group)
        return request.answer(ResponseCode.SUCCESS)

    def _consumer_list(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(headers.ConsumerGroupRequest, request.ext)
        members = self._clients.members(h.consumer_group)
        if not members:
            why = f"no consumer for this group, {h.consumer_group}"
            return request.answer(ResponseCode.SYSTEM_ERROR, why)
        ids = ConsumerList(consumer_id_list=tuple(sorted(members)))
        return request.answer(ResponseCode.SUCCESS, body=ids.to_json())

    def expire(self) -> None:
        """Forget clients that fell silent."""
        self._notify(self._clients.expire(now_ns()))

    def _lost(self, connection: Connection) -> None:
        self._watched.pop(connection, None)
        self._notify(self._clients.on_close(connection))

    def _notify(self, groups: list[str]) -> None:
        """Notify the members of changed groups, so that they rebalance."""
        for group in groups:
            known = self._tables.groups.get(group)
            if known is not None and not known.notify_consumer_ids_changed_enable:
                continue
            ext = to_ext(headers.ConsumerGroupRequest(consumer_group=group))
            notice = Frame(code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext=ext)
            for member in self._clients.members(group).values():
                if isinstance(member.channel, Connection):
                    try:
                        member.channel.oneway(notice)
                    except NotSent:
                        continue  # its end will be seen, and notified, on its own
