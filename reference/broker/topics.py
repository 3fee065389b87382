"""The topics, subscription groups and consumer offsets of one broker, kept as RocketMQ's files.

Tables change in memory and are written whole, aside and renamed. Topic changes are durable before
they are answered or used, so that no message is acknowledged whose topic a crash would forget;
consumer offsets are written every few seconds, as RocketMQ promises no more.
Units: offsets are message indices.
"""

import asyncio
import re
from typing import TypeVar

from reference.host import Host, read_file, replace_file
from reference.records import RemoteProtocolError
from reference.wire.bodies import ConsumerOffsets, SubscriptionGroupConfig, SubscriptionGroups
from reference.wire.body import Body
from reference.wire.route import (
    PERM_INHERIT,
    PERM_READ,
    PERM_WRITE,
    DataVersion,
    TopicConfig,
    TopicConfigSerializeWrapper,
)

DEFAULT_TOPIC = "TBW102"
RETRY_PREFIX, DLQ_PREFIX = "%RETRY%", "%DLQ%"
TOPIC_CHARS_MAX, RETRY_TOPIC_CHARS_MAX = 127, 255
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
# System topics that clients may not send to; RocketMQ's TopicValidator.
FORBIDDEN_TOPICS = frozenset(
    {"SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC",
     "TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"}
)  # fmt: skip


B = TypeVar("B", bound=Body)


class CorruptTable(Exception):
    """A table's file that cannot be read; says which and why."""


def name_fault(topic: str) -> str | None:
    """Why a topic name is illegal; None if it is not."""
    retry = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    longest = RETRY_TOPIC_CHARS_MAX if retry else TOPIC_CHARS_MAX
    if not topic.strip():
        return "The specified topic is blank."
    if not _NAME.fullmatch(topic):
        return "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(topic) > longest:
        return f"The specified topic is longer than topic max length {longest}."
    return None


class Tables:
    """Topics, groups and offsets of one broker, with their files below `folder`.

    Args:
        host: disk and clock.
        folder: RocketMQ's ``<store>/config``.
        cluster: the cluster's name, a topic of its own as in RocketMQ.
        broker_name: the broker's name, likewise.
        auto_create: whether topics come into being when first sent to.
        default_queues: number of queues of such topics at most.
    """

    def __init__(
        self,
        host: Host,
        folder: str,
        *,
        cluster: str,
        broker_name: str,
        auto_create: bool,
        default_queues: int,
    ) -> None:
        self._host = host
        self._folder = folder
        self.topics: dict[str, TopicConfig] = {}
        self.groups: dict[str, SubscriptionGroupConfig] = {}
        self.offsets: dict[str, dict[int, int]] = {}  # "topic@group" -> queue -> offset
        self.version = DataVersion()
        self.group_version = DataVersion()
        self._offsets_dirty = False
        self._write = asyncio.Lock()  # one write of a file at a time
        self._auto_create = auto_create
        template = PERM_READ | PERM_WRITE | PERM_INHERIT
        system = [(cluster, 16, template), (broker_name, 1, template)]
        if auto_create:
            system.append((DEFAULT_TOPIC, default_queues, template))
        self._system = {n: _config(n, queues, perm) for n, queues, perm in system}

    def load(self) -> None:
        """Read the files. Raises `CorruptTable`."""
        topics = self._read(TopicConfigSerializeWrapper, self._topics_path)
        groups = self._read(SubscriptionGroups, self._groups_path)
        offsets = self._read(ConsumerOffsets, self._offsets_path)
        self.topics, self.version = dict(topics.topic_config_table), topics.data_version
        self.groups = dict(groups.subscription_group_table)
        self.group_version = groups.data_version
        self.offsets = {k: dict(v) for k, v in offsets.offset_table.items()}
        if not self._auto_create:
            self.topics.pop(DEFAULT_TOPIC, None)  # from a time when it was allowed
        self.topics = {**self._system, **self.topics}

    def _read(self, kind: type[B], path: str) -> B:
        """Read a table; an absent one is empty."""
        stored = read_file(self._host.disk, path)
        try:
            return kind() if stored is None else kind.from_json(stored)
        except RemoteProtocolError as error:
            raise CorruptTable(f"{path}: {error}; restore it") from None

    @property
    def _topics_path(self) -> str:
        return f"{self._folder}/topics.json"

    @property
    def _groups_path(self) -> str:
        return f"{self._folder}/subscriptionGroup.json"

    @property
    def _offsets_path(self) -> str:
        return f"{self._folder}/consumerOffset.json"

    def wrapper(self) -> TopicConfigSerializeWrapper:
        """The topic table as it is registered, and as slaves copy it."""
        return TopicConfigSerializeWrapper(
            data_version=self.version, topic_config_table=dict(sorted(self.topics.items()))
        )

    def adopt_epoch(self, master_epoch: int) -> None:
        """Stamp the table with a master epoch, so that a stale master's table loses."""
        self.version = self._next_version(self.version, state=master_epoch)

    async def put_topic(self, topic: TopicConfig) -> None:
        """Create or change a topic; durable when this returns."""
        async with self._write:
            if self.topics.get(topic.topic_name) == topic:
                return
            table = TopicConfigSerializeWrapper(
                data_version=self._next_version(self.version),
                topic_config_table=dict(sorted({**self.topics, topic.topic_name: topic}.items())),
            )
            await replace_file(self._host.disk, self._topics_path, table.to_json())
            self.topics[topic.topic_name] = topic
            self.version = self._next_version(self.version)  # an epoch may have come meanwhile

    async def put_group(self, group: SubscriptionGroupConfig) -> None:
        """Create or change a subscription group; durable when this returns."""
        name = group.group_name or ""
        async with self._write:
            if self.groups.get(name) == group:
                return
            table = SubscriptionGroups(
                data_version=self._next_version(self.group_version),
                subscription_group_table={**self.groups, name: group},
            )
            await replace_file(self._host.disk, self._groups_path, table.to_json())
            self.groups[name] = group
            self.group_version = table.data_version

    def _next_version(self, version: DataVersion, state: int | None = None) -> DataVersion:
        return DataVersion(
            counter=version.counter + 1,
            state_version=version.state_version if state is None else state,
            timestamp=self._host.wall_ms(),
        )

    def commit_offset(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Remember how far a group is in a queue, until the next save only in memory."""
        self.offsets.setdefault(f"{topic}@{group}", {})[queue_id] = offset
        self._offsets_dirty = True

    def offset(self, topic: str, group: str, queue_id: int) -> int | None:
        """How far a group is in a queue."""
        return self.offsets.get(f"{topic}@{group}", {}).get(queue_id)

    async def save_offsets(self) -> None:
        """Write the consumer offsets, if they changed. Raises OSError; the next call retries."""
        async with self._write:
            if not self._offsets_dirty:
                return
            self._offsets_dirty = False
            body = ConsumerOffsets(offset_table=self.offsets).to_json()
            try:
                await replace_file(self._host.disk, self._offsets_path, body)
            except BaseException:
                self._offsets_dirty = True
                raise


def _config(name: str, queues: int, perm: int) -> TopicConfig:
    return TopicConfig(topic_name=name, perm=perm, read_queue_nums=queues, write_queue_nums=queues)
