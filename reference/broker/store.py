"""The message store: commit log, consume queues, and who waits for the next message.

A message is stored in two steps in one go of the event loop: `_assign` gives it its places in the
log and in its queue, `_commit` writes it, makes it visible and wakes whoever waits. Nothing can
come between the two, so queue offsets follow log order.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from reference.broker.commit_log import CommitLog, CorruptLog
from reference.broker.consume_queue import ConsumeQueue
from reference.host import Host
from reference.records import PhyOffset, QueueOffset, Record
from reference.wire.message import Message, QueueUnit, encode_at, encoded_size, tags_code

QueueKey = tuple[str, int]


class Stored(Record):
    """Where a message went."""

    queue_offset: QueueOffset
    physical_offset: PhyOffset
    end: PhyOffset  # of the log, behind the message


class Store:
    """One broker's messages.

    Args:
        host: disk, clock and log.
        root: RocketMQ's storePathRootDir.
        log_path: the commit log's folder.
        log_file_size: bytes.
        queue_file_size: bytes.
    """

    def __init__(
        self, host: Host, *, root: str, log_path: str, log_file_size: int, queue_file_size: int
    ) -> None:
        self._host = host
        self._root = root
        self._queue_file_size = queue_file_size
        self._log = CommitLog(host.disk, log_path, log_file_size)
        self._queues: dict[QueueKey, ConsumeQueue] = {}
        self._next: dict[QueueKey, int] = {}  # offsets given out; ahead of a queue within a put
        self._waiting: dict[QueueKey, list[asyncio.Future[None]]] = {}
        self._dirty: dict[QueueKey, None] = {}

    @property
    def end(self) -> PhyOffset:
        """End of the log."""
        return self._log.end

    def recover(self) -> None:
        """Open the store.

        Raises:
            CorruptLog: damage that is no torn tail.
            BlockingIOError: another broker uses it.
        """
        self._host.disk.lock(f"{self._root}/lock")
        self._log.recover(self._dispatch)
        for folder in self._queue_folders():
            self._queue(folder).settle()
        self._next = {key: queue.max_offset for key, queue in self._queues.items()}
        self._dirty.clear()

    def _queue_folders(self) -> list[QueueKey]:
        """Every queue that the log or the disk knows."""
        disk, base = self._host.disk, f"{self._root}/consumequeue"
        on_disk = {
            (topic, int(queue))
            for topic in disk.list(base)
            for queue in disk.list(f"{base}/{topic}")
            if queue.isdigit()
        }
        return sorted(on_disk | set(self._queues))

    # Writing.

    def put(self, messages: Sequence[Message]) -> list[Stored]:
        """Store messages of one queue side by side: all of them or none.

        Raises:
            ValueError: they do not fit a file together, or a field does not fit a record.
            OSError: the disk is full or failed; nothing was stored.
        """
        data, stored = self._assign(messages)
        self._commit(messages, data, stored)
        return stored

    def _assign(self, messages: Sequence[Message]) -> tuple[bytes, list[Stored]]:
        """Choose places: bytes to write, and for each message where it goes."""
        now = self._host.wall_ms()
        sizes = [encoded_size(m) for m in messages]
        at = self._log.place(sum(sizes))
        key = (messages[0].topic, messages[0].queue_id)
        queue_offset = self._next.get(key, 0)
        parts, stored = [], []
        for message, size in zip(messages, sizes, strict=True):
            parts.append(
                encode_at(
                    message,
                    queue_offset=QueueOffset(queue_offset),
                    physical_offset=at,
                    store_timestamp=now,
                )
            )
            end = PhyOffset(at + size)
            stored.append(
                Stored(queue_offset=QueueOffset(queue_offset), physical_offset=at, end=end)
            )
            queue_offset, at = queue_offset + 1, end
        return b"".join(parts), stored

    def _commit(self, messages: Sequence[Message], data: bytes, stored: Sequence[Stored]) -> None:
        """Write what was assigned, make it visible, wake who waits."""
        self._log.write(stored[0].physical_offset, data)
        for message, place in zip(messages, stored, strict=True):
            key = (message.topic, message.queue_id)
            self._next[key] = place.queue_offset + 1
            self._index(message, place.queue_offset, place.physical_offset, place.end)
            self._wake(key)

    def _dispatch(self, message: Message, size: int) -> None:
        end = PhyOffset(message.physical_offset + size)
        next_offset = self.bounds(message.topic, message.queue_id)[1]
        if message.queue_offset != next_offset:
            raise CorruptLog(
                f"{self._log.folder}: the record at offset {message.physical_offset} is message "
                f"{message.queue_offset} of {message.topic}:{message.queue_id}, expected "
                f"{next_offset}; records before it are missing"
            )
        self._index(message, message.queue_offset, message.physical_offset, end)

    def _index(
        self, message: Message, offset: QueueOffset, start: PhyOffset, end: PhyOffset
    ) -> None:
        key = (message.topic, message.queue_id)
        unit = QueueUnit(physical_offset=start, size=end - start, tags_code=tags_code(message.tags))
        self._queue(key).append(offset, unit)
        self._dirty[key] = None

    def _queue(self, key: QueueKey) -> ConsumeQueue:
        if key not in self._queues:
            folder = f"{self._root}/consumequeue/{key[0]}/{key[1]}"
            self._queues[key] = ConsumeQueue(self._host.disk, folder, self._queue_file_size)
        return self._queues[key]

    def flush_queues(self) -> None:
        """Write the consume queues' news to their files. Raises OSError."""
        while self._dirty:
            key = next(iter(self._dirty))
            self._queues[key].flush()
            del self._dirty[key]

    async def sync(self) -> PhyOffset:
        """Make the log durable; returns up to where."""
        return await self._log.sync()

    # Reading.

    def bounds(self, topic: str, queue_id: int) -> tuple[QueueOffset, QueueOffset]:
        """First offset, and the one that the next message gets; zeros for an unknown queue."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return QueueOffset(0), QueueOffset(0)
        return queue.min_offset, queue.max_offset

    def units(
        self, topic: str, queue_id: int, offset: QueueOffset
    ) -> Iterator[tuple[QueueOffset, QueueUnit]]:
        """Units of a queue from `offset` on."""
        queue = self._queues.get((topic, queue_id))
        return iter(()) if queue is None else queue.units(offset)

    def record(self, unit: QueueUnit) -> bytes:
        """The bytes of a stored message."""
        return self._log.read(unit.physical_offset, unit.size)

    def wait(self, topic: str, queue_id: int) -> asyncio.Future[None]:
        """A future that is done when the queue has got a message."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault((topic, queue_id), [])
        waiting[:] = [f for f in waiting if not f.done()]
        waiting.append(future)
        return future

    def _wake(self, key: QueueKey) -> None:
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_result(None)

    def search(
        self, topic: str, queue_id: int, stored_at: Callable[[bytes], int], timestamp: int
    ) -> QueueOffset:
        """First offset whose record was stored at `timestamp` ms or later; the end if none."""
        low, high = self.bounds(topic, queue_id)
        queue = self._queues.get((topic, queue_id))
        while queue is not None and low < high:
            middle = QueueOffset((low + high) // 2)
            if stored_at(self.record(queue.unit(middle))) < timestamp:
                low = QueueOffset(middle + 1)
            else:
                high = middle
        return low

    def close(self) -> None:
        """Release the files."""
        self._log.close()
        for queue in self._queues.values():
            queue.close()
