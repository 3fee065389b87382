"""What consumers ask of a broker: the messages of a queue (11, 361), now or when there are some."""

import asyncio
from collections.abc import Awaitable

from maxq.reference.broker.client_calls.clients import Clients
from maxq.reference.broker.client_calls.made_topics import MadeTopics
from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.messages import pull
from maxq.reference.broker.messages.refusal import Refusal
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.names import DLQ_PREFIX, RETRY_PREFIX, group_name_fault
from maxq.reference.records import QueueOffset, some
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.settings import Settings
from maxq.reference.wire import headers
from maxq.reference.wire.bodies import SubscriptionGroupConfig
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext
from maxq.reference.wire.route import MASTER_ID, PERM_READ

Answer = Reply | Awaitable[Reply]


class Pulls:
    """Handlers of pulls.

    Args:
        settings: the broker's; some change while it runs.
        store: the messages.
        tables: topics, groups, offsets.
        membership: role and replicas.
        topics: makes topics of groups.
        clients: what each group subscribes to.
    """

    def __init__(
        self,
        settings: Settings[BrokerConfig],
        store: Store,
        tables: Tables,
        membership: Membership,
        topics: MadeTopics,
        clients: Clients,
        *,
        contained: bool = False,
    ) -> None:
        self._contained = contained
        self._settings = settings
        self._store = store
        self._tables = tables
        self._membership = membership
        self._topics = topics
        self._clients = clients
        self._held_count = 0

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.PULL_MESSAGE: self._pull,
            RequestCode.LITE_PULL_MESSAGE: self._pull,
        }

    @property
    def _config(self) -> BrokerConfig:
        return self._settings.now  # some of them change while the broker runs

    def _pull(self, request: Frame, connection: Connection) -> Answer:
        h = from_ext(headers.PullRequest, request.ext)
        role = self._role_fault_of_pull()
        new = h.consumer_group not in self._tables.groups and self._may_create(h.consumer_group)
        if role is None and (new or self._is_forgotten(h)):
            return self._pull_first(request, connection, h)
        refusal = role or pull.fault(
            h,
            group=self._tables.groups.get(h.consumer_group),
            topic=self._tables.topics.get(h.topic),
            known=self._clients.subscription(h.consumer_group, h.topic),
        )
        if refusal is not None:
            return request.answer(refusal.code, refusal.remark)
        wanted = h.subscription
        if not h.sys_flag & pull.SUBSCRIPTION:
            known = self._clients.subscription(h.consumer_group, h.topic)
            wanted = some(known, "checked just above").sub_string
        if pull.wanted_codes(wanted) == frozenset():
            why = "parse the consumer's subscription failed"
            return request.answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, why)
        if h.sys_flag & pull.COMMIT_OFFSET and self._membership.role == "master":
            self._tables.commit_offset(h.topic, h.consumer_group, h.queue_id, h.commit_offset)
        self._tables.on_pull(h.topic, h.consumer_group, h.queue_id, h.queue_offset)
        found = self._find(h, wanted)
        nothing = found.code == ResponseCode.PULL_NOT_FOUND
        if nothing and h.sys_flag & pull.SUSPEND and self._held_count < pull.HELD_MAX:
            self._held_count += 1
            return self._hold(request, h, wanted)
        return self._found(request, h, found)

    def _role_fault_of_pull(self) -> Refusal | None:
        """Why consumers may not read from this broker now."""
        unreadable = self._membership.role == "slave" or (
            self._membership.role == "fenced" and self._config.broker_role == "SLAVE"
        )
        if unreadable and not self._config.slave_read_enable:
            why = "[REJECTREQUEST]system busy, start flow control for a while"
            return Refusal(code=ResponseCode.SYSTEM_BUSY, remark=why)
        if not self._config.broker_permission & PERM_READ:
            why = f"the broker[{self._membership.address}] pulling message is forbidden"
            return Refusal(code=ResponseCode.NO_PERMISSION, remark=why)
        return None

    def _may_create(self, group: str) -> bool:
        return self._config.auto_create_subscription_group and group_name_fault(group) is None

    def _is_forgotten(self, h: headers.PullRequest) -> bool:
        """Whether this is a group's own topic that a former master has made, and did not live to
        tell: its messages are in the log, dead letters among them."""
        known = h.topic in self._tables.topics
        own = h.topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        return own and not known and self._store.written(h.topic, h.queue_id) > 0

    async def _pull_first(
        self, request: Frame, connection: Connection, h: headers.PullRequest
    ) -> Reply:
        if h.consumer_group not in self._tables.groups and self._may_create(h.consumer_group):
            await self._tables.put_group(SubscriptionGroupConfig(group_name=h.consumer_group))
        if self._is_forgotten(h):
            await self._topics.known(h.topic, queues=h.queue_id + 1)
        answer = self._pull(request, connection)
        return answer if isinstance(answer, Frame | None) else await answer

    def _find(self, h: headers.PullRequest, wanted: str | None) -> pull.Found:
        return pull.find(
            h.queue_offset,
            self._store.bounds(h.topic, h.queue_id),
            self._store.units(h.topic, h.queue_id, QueueOffset(h.queue_offset)),
            count_max=h.max_msg_nums,
            codes=pull.wanted_codes(wanted),
        )

    async def _hold(self, request: Frame, h: headers.PullRequest, wanted: str | None) -> Reply:
        """Long polling: answer when a wanted message comes, or when the client's time is up."""
        limit = h.suspend_timeout_millis
        if not self._config.long_polling_enable:
            limit = self._config.short_polling_time_mills
        found, turns = self._find(h, wanted), self._membership.turns
        try:
            async with asyncio.timeout(min(max(limit, 0), pull.HOLD_MS_MAX) / 1000):
                # Who begins to serve the queues, or ends it, sends who waits to look elsewhere.
                while self._is_all_seen(h, found) and self._membership.turns == turns:
                    await self._store.wait(h.topic, h.queue_id)
                    found = self._find(h, wanted)
        except TimeoutError:
            pass  # nothing came, and that is the answer
        finally:
            self._held_count -= 1
        return self._found(request, h, found)

    def _is_all_seen(self, h: headers.PullRequest, found: pull.Found) -> bool:
        """Whether the queue holds nothing more, but maybe messages that the filter dropped."""
        if found.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            return found.next_offset == self._store.bounds(h.topic, h.queue_id)[1]
        return found.code == ResponseCode.PULL_NOT_FOUND

    def _suggested(self, h: headers.PullRequest, found: pull.Found) -> int:
        group, me = self._tables.groups.get(h.consumer_group), self._membership
        if group is None or self._contained or not self._config.slave_read_enable:
            return MASTER_ID
        return pull.suggested(
            found,
            group,
            log_end=self._store.end,
            ratio=self._config.access_message_in_memory_max_ratio,
            beside_master=me.role == "slave" and not me.acts,
        )

    def _found(self, request: Frame, h: headers.PullRequest, found: pull.Found) -> Reply:
        first, end = self._store.bounds(h.topic, h.queue_id)
        code, next_offset = found.code, found.next_offset
        if code != ResponseCode.SUCCESS and not self._membership.knows_the_end:
            # Who is not master never says that nothing is there: the master may know more. Nor
            # does a master that does not know yet what of its log was confirmed before its term.
            code, next_offset = ResponseCode.PULL_RETRY_IMMEDIATELY, QueueOffset(h.queue_offset)
        if code == ResponseCode.PULL_OFFSET_MOVED and self._membership.role == "slave":
            # Beyond its end: of what its master had, this slave may lack something.
            code, next_offset = ResponseCode.PULL_RETRY_IMMEDIATELY, QueueOffset(h.queue_offset)
        answer = headers.PullResponse(
            suggest_which_broker_id=self._suggested(h, found),
            next_begin_offset=next_offset,
            min_offset=first,
            max_offset=end,
        )
        body = b"".join(self._store.record(unit) for unit in found.units)
        self._store.metrics.on_pull(len(found.units))
        return request.answer(code, found.remark, ext=to_ext(answer), body=body or None)
