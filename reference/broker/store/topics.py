"""The topics, subscription groups and consumer offsets of one broker, kept as RocketMQ's files.

Tables change in memory and are written whole, aside and renamed. Topic changes are durable before
they are answered or used, so that no message is acknowledged whose topic a crash would forget;
consumer offsets are written every few seconds, as RocketMQ promises no more.
Units: offsets are message indices.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from maxq.reference.host import Host, read_file, replace_file
from maxq.reference.names import (
    DEFAULT_TOPIC,
    GROUP_TOPIC_PREFIX,
    HALF_TOPIC,
    RETRY_PREFIX,
    is_system_topic,
)
from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire.bodies import (
    ConsumerOffsets,
    DelayOffsets,
    MessageRequestModes,
    SubscriptionGroupConfig,
    SubscriptionGroups,
)
from maxq.reference.wire.body import Body
from maxq.reference.wire.route import (
    PERM_INHERIT,
    PERM_READ,
    PERM_WRITE,
    DataVersion,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from maxq.reference.wire.seal import seal, unseal

B = TypeVar("B", bound=Body)


class CorruptTable(Exception):
    """A table's file that cannot be read; says which and why."""


class Tables:
    """Topics, groups and offsets of one broker, with their files below `folder`.

    A slave's tables are its master's, adopted whole and with their data versions, so that an equal
    version means an equal table. Delay offsets and request modes are kept for whoever serves them.

    Args:
        host: disk and clock.
        folder: RocketMQ's ``<store>/config``.
        cluster: the cluster's name, a topic of its own as in RocketMQ.
        broker_name: the broker's name, likewise.
        auto_create: whether topics come into being when first sent to.
        default_queues: number of queues of such topics at most.
        in_group: whether the group has a topic, by whose route old name servers tell its members,
            and slaves that act.
        offset_step: after so many commits the version of consumer offsets goes on.
        delay_step: after so many steps of delay levels that of their progress does.
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
        in_group: bool = False,
        offset_step: int = 500,
        delay_step: int = 200,
    ) -> None:
        self._host = host
        self._offset_updates, self._delay_updates = Updates(offset_step), Updates(delay_step)
        self.folder = folder
        self.topics: dict[str, TopicConfig] = {}
        self.groups: dict[str, SubscriptionGroupConfig] = {}
        self.offsets: dict[str, dict[int, int]] = {}  # "topic@group" -> queue -> offset
        self.pulled: dict[str, dict[int, int]] = {}  # likewise; what has been handed out
        self.version = DataVersion()
        self.group_version = DataVersion()
        self.offset_version = DataVersion()
        self.forbidden: dict[str, dict[str, int]] = {}  # group -> topic -> bits
        self.delay = DelayOffsets()
        self.modes = MessageRequestModes()
        self.permission = PERM_READ | PERM_WRITE  # of the broker; narrows what is registered
        self.known = False  # these are a cluster's, and not those of an empty store
        self._offsets_dirty = False
        self._delay_dirty = False
        self._write = asyncio.Lock()  # one write of a file at a time
        self._auto_create = auto_create
        template = PERM_READ | PERM_WRITE | PERM_INHERIT
        system = [(cluster, 16, template), (broker_name, 1, template)]
        if auto_create:
            system.append((DEFAULT_TOPIC, default_queues, template))
        if in_group:
            system.append((GROUP_TOPIC_PREFIX + broker_name, 1, PERM_INHERIT))
            # A slave of RocketMQ's that acts registers it when it looks for half messages. Its
            # services then end 90 s after its master is back: one thread waits for another's lock.
            system.append((HALF_TOPIC, 1, PERM_READ | PERM_WRITE))
        self._system = {n: _config(n, queues, perm) for n, queues, perm in system}

    def load(self, queues: Mapping[str, int]) -> None:
        """Read the files.

        Args:
            queues: the topics of which the store holds messages, each with its number of queues.

        Raises:
            CorruptTable: a file cannot be read.
        """
        topics = self._read(TopicConfigSerializeWrapper, self._topics_path)
        own = {name: count for name, count in queues.items() if not is_system_topic(name)}
        absent = read_file(self._host.disk, self._topics_path) is None
        if own and absent:
            topics = self._from_queues(own)
        self.known = bool(own) or not absent
        groups = self._read(SubscriptionGroups, self._groups_path)
        offsets = self._read(ConsumerOffsets, self._offsets_path)
        self.topics = self._with_system(topics.topic_config_table)
        self.version = topics.data_version
        self.groups = dict(groups.subscription_group_table)
        self.group_version = groups.data_version
        self.forbidden = dict(groups.forbidden_table)
        self.offsets = {k: dict(v) for k, v in offsets.offset_table.items()}
        self.offset_version = offsets.data_version
        self.delay = self._read(DelayOffsets, self._delay_path)
        self.modes = self._read(MessageRequestModes, self._modes_path)

    def _from_queues(self, queues: Mapping[str, int]) -> TopicConfigSerializeWrapper:
        """The topics of a broker that has messages and no file of topics.

        A topic is durable before its first message, so a master's file was deleted: without its
        topics the broker would answer for none of its messages. A slave may have been killed
        between its first messages and its first copy of the table; it takes its master's once it
        follows one. Rights, attributes, and queues behind the last message are not known here.
        """
        made = {n: _config(n, count, PERM_READ | PERM_WRITE) for n, count in queues.items()}
        self._host.log("broker.topics.rebuilt", absent=self._topics_path, topics=sorted(made))
        return _table(made, DataVersion())

    def _with_system(self, topics: Mapping[str, TopicConfig]) -> dict[str, TopicConfig]:
        """A table with this broker's own topics; without the template of topics that come into
        being when first sent to, if that is not allowed here (any more)."""
        made = {**self._system, **topics}
        if not self._auto_create:
            made.pop(DEFAULT_TOPIC, None)
        return made

    def _read(self, kind: type[B], path: str) -> B:
        """Read a table; an absent one is empty."""
        stored = read_file(self._host.disk, path)
        try:
            return kind() if stored is None else kind.from_json(unseal(stored))
        except RemoteProtocolError as error:
            raise CorruptTable(f"{path}: {error}; restore it") from None

    async def _save(self, path: str, table: Body) -> None:
        await replace_file(self._host.disk, path, seal(table.to_json()))

    @property
    def _topics_path(self) -> str:
        return f"{self.folder}/topics.json"

    @property
    def _groups_path(self) -> str:
        return f"{self.folder}/subscriptionGroup.json"

    @property
    def _offsets_path(self) -> str:
        return f"{self.folder}/consumerOffset.json"

    @property
    def _delay_path(self) -> str:
        return f"{self.folder}/delayOffset.json"

    @property
    def _modes_path(self) -> str:
        return f"{self.folder}/messageRequestMode.json"

    def table(self) -> TopicConfigSerializeWrapper:
        """The topic table as slaves copy it."""
        return _table(self.topics, self.version)

    def wrapper(self) -> TopicConfigSerializeWrapper:
        """The topic table as it is registered: no topic allows what the broker does not."""
        rights = PERM_READ | PERM_WRITE
        if self.permission & rights == rights:
            return self.table()
        narrowed = {
            name: msgspec.structs.replace(topic, perm=topic.perm & self.permission)
            for name, topic in self.topics.items()
        }
        return _table(narrowed, self.version)

    def permit(self, permission: int) -> None:
        """Change what the broker allows; name servers learn it by the next registration."""
        self.permission = permission
        self.version = self._next_version(self.version)

    def adopt_epoch(self, master_epoch: int) -> None:
        """Stamp the table with a master epoch, so that a stale master's table loses."""
        self.version = self._next_version(self.version, state=master_epoch)

    # Topics and groups.

    async def put_topic(self, topic: TopicConfig) -> None:
        """Create or change a topic; durable when this returns."""
        await self.put_topics([topic])

    async def put_topics(self, topics: Iterable[TopicConfig]) -> None:
        """Create or change topics, all or none; durable when this returns."""
        async with self._write:
            wanted = {t.topic_name: t for t in topics}
            if any(self.topics.get(name) != topic for name, topic in wanted.items()):
                await self._write_topics({**self.topics, **wanted})

    async def delete_topic(self, topic: str) -> None:
        """Forget a topic, how far groups are in it, and its retry topics of POP consumers; durable
        when this returns, but for the offsets."""
        groups = [group for name, group in self._consumers() if name == topic]
        retries = (f"{RETRY_PREFIX}{g}{sign}{topic}" for g in groups for sign in "_+")
        gone = {topic, *retries}
        async with self._write:
            left = {name: t for name, t in self.topics.items() if name not in gone}
            if len(left) < len(self.topics):
                await self._write_topics(left)
        self._drop_offsets(lambda name, _: name in gone)

    async def _write_topics(self, topics: dict[str, TopicConfig]) -> None:
        table = _table(topics, self._next_version(self.version))
        await self._save(self._topics_path, table)
        self.topics = topics
        self.version = self._next_version(self.version)  # an epoch may have come meanwhile

    async def put_group(self, group: SubscriptionGroupConfig) -> None:
        """Create or change a subscription group; durable when this returns."""
        await self.put_groups([group])

    async def put_groups(self, groups: Sequence[SubscriptionGroupConfig]) -> None:
        """Create or change subscription groups, all or none; durable when this returns."""
        async with self._write:
            wanted = {g.group_name or "": g for g in groups}
            if any(self.groups.get(name) != group for name, group in wanted.items()):
                await self._write_groups({**self.groups, **wanted})

    async def delete_group(self, group: str, *, clean_offsets: bool) -> None:
        """Forget a group, and how far it is if asked to; durable when this returns, but for the
        offsets."""
        async with self._write:
            if group in self.groups:
                await self._write_groups({n: g for n, g in self.groups.items() if n != group})
        if clean_offsets:
            self._drop_offsets(lambda _, name: name == group)

    async def _write_groups(self, groups: dict[str, SubscriptionGroupConfig]) -> None:
        table = SubscriptionGroups(
            data_version=self._next_version(self.group_version),
            forbidden_table=self.forbidden,
            subscription_group_table=groups,
        )
        await self._save(self._groups_path, table)
        self.groups, self.group_version = groups, table.data_version

    def group_table(self) -> SubscriptionGroups:
        """The groups as slaves copy them."""
        return SubscriptionGroups(
            data_version=self.group_version,
            forbidden_table=self.forbidden,
            subscription_group_table=self.groups,
        )

    def _next_version(self, version: DataVersion, state: int | None = None) -> DataVersion:
        return DataVersion(
            counter=version.counter + 1,
            state_version=version.state_version if state is None else state,
            timestamp=self._host.wall_ms(),
        )

    # Offsets.

    def commit_offset(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Remember how far a group is in a queue, until the next save only in memory."""
        self.offsets.setdefault(f"{topic}@{group}", {})[queue_id] = offset
        self._offsets_dirty = True
        if self._offset_updates.is_step():
            self.offset_version = self._next_version(self.offset_version)

    def offset(self, topic: str, group: str, queue_id: int) -> int | None:
        """How far a group is in a queue."""
        return self.offsets.get(f"{topic}@{group}", {}).get(queue_id)

    def on_pull(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """A group asks for messages from `offset` on: it has got what is before."""
        self.pulled.setdefault(f"{topic}@{group}", {})[queue_id] = offset

    def topics_of(self, group: str) -> tuple[str, ...]:
        """Topics that a group has offsets in."""
        return tuple(sorted(topic for topic, name in self._consumers() if name == group))

    def groups_in(self, topic: str) -> tuple[str, ...]:
        """Groups that have offsets in a topic."""
        return tuple(sorted(group for name, group in self._consumers() if name == topic))

    def offset_table(self) -> ConsumerOffsets:
        """The offsets as slaves copy them, and as they are written."""
        topics: dict[str, list[str]] = {}
        for topic, group in self._consumers():
            topics.setdefault(group, []).append(topic)
        return ConsumerOffsets(
            data_version=self.offset_version,
            group_topic_map={group: tuple(names) for group, names in topics.items()},
            offset_table=self.offsets,
        )

    def _consumers(self) -> list[tuple[str, str]]:
        """Topic and group of each entry."""
        pairs = (key.partition("@") for key in self.offsets)
        return [(topic, group) for topic, _, group in pairs]

    def _drop_offsets(self, gone: Callable[[str, str], bool]) -> None:
        for topic, group in self._consumers():
            if gone(topic, group):
                del self.offsets[f"{topic}@{group}"]
                self.pulled.pop(f"{topic}@{group}", None)
                self._offsets_dirty = True

    async def save_offsets(self) -> None:
        """Write the consumer offsets, if they changed. Raises OSError; the next call retries."""
        async with self._write:
            if not self._offsets_dirty:
                return
            self._offsets_dirty = False
            try:
                await self._save(self._offsets_path, self.offset_table())
            except BaseException:
                self._offsets_dirty = True
                raise

    # Delayed messages.

    def deliver_from(self, level: int, offset: int) -> None:
        """Remember how far the messages of a delay level are delivered for good; until the next
        save only in memory."""
        table = {**self.delay.offset_table, level: offset}
        version = self.delay.data_version
        if self._delay_updates.is_step():
            version = self._next_version(version)
        self.delay = DelayOffsets(data_version=version, offset_table=table)
        self._delay_dirty = True

    async def save_delay(self) -> None:
        """Write how far delayed messages are delivered. Raises OSError; the next call retries."""
        async with self._write:
            if not self._delay_dirty:
                return
            self._delay_dirty = False
            try:
                await self._save(self._delay_path, self.delay)
            except BaseException:
                self._delay_dirty = True
                raise

    # A slave's copies. Each takes effect only if `valid` still holds once it is on disk: a slave
    # that was made master meanwhile must not fall back to what its master had.

    async def adopt_topics(
        self, theirs: TopicConfigSerializeWrapper, valid: Callable[[], bool]
    ) -> None:
        """Take a master's topic table. Raises OSError."""
        async with self._write:
            topics = self._with_system(theirs.topic_config_table)
            await self._save(self._topics_path, _table(topics, theirs.data_version))
            if valid():
                self.topics, self.version, self.known = topics, theirs.data_version, True

    async def adopt_groups(self, theirs: SubscriptionGroups, valid: Callable[[], bool]) -> None:
        """Take a master's subscription groups. Raises OSError."""
        async with self._write:
            await self._save(self._groups_path, theirs)
            if valid():
                self.groups = dict(theirs.subscription_group_table)
                self.forbidden = dict(theirs.forbidden_table)
                self.group_version = theirs.data_version

    def adopt_offsets(self, theirs: ConsumerOffsets) -> None:
        """Take a master's consumer offsets, until the next save only in memory."""
        self.offsets = {key: dict(queues) for key, queues in theirs.offset_table.items()}
        self.offset_version = theirs.data_version
        self._offsets_dirty = True

    def merge_offsets(self, table: dict[str, dict[int, int]], version: DataVersion) -> None:
        """Go on from this table of consumer offsets, and from the later version; until the next
        save only in memory."""
        self.offsets = table
        self.offset_version = max(self.offset_version, version, key=_age)
        self._offsets_dirty = True

    def merge_delay(self, table: dict[int, int]) -> None:
        """Go on from this progress of delay levels; until the next save only in memory."""
        self.delay = DelayOffsets(data_version=self.delay.data_version, offset_table=table)
        self._delay_dirty = True

    async def adopt_delay(self, theirs: DelayOffsets, valid: Callable[[], bool]) -> None:
        """Take how far a master has delivered delayed messages. Raises OSError."""
        async with self._write:
            await self._save(self._delay_path, theirs)
            if valid():
                self.delay = theirs

    async def adopt_modes(self, theirs: MessageRequestModes, valid: Callable[[], bool]) -> None:
        """Take a master's request modes. Raises OSError."""
        async with self._write:
            await self._save(self._modes_path, theirs)
            if valid():
                self.modes = theirs


class Updates:
    """Counts updates of a table whose version goes on with each so many of them."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._count = 0

    def is_step(self) -> bool:
        """Count one; whether the version goes on by it."""
        self._count += 1
        return self._count % self._step == 0


def _age(version: DataVersion) -> tuple[int, int, int]:
    return version.state_version, version.counter, version.timestamp


def _config(name: str, queues: int, perm: int) -> TopicConfig:
    return TopicConfig(topic_name=name, perm=perm, read_queue_nums=queues, write_queue_nums=queues)


def _table(topics: dict[str, TopicConfig], version: DataVersion) -> TopicConfigSerializeWrapper:
    return TopicConfigSerializeWrapper(
        data_version=version, topic_config_table=dict(sorted(topics.items()))
    )
