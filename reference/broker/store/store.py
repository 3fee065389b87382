"""The message store: commit log, consume queues, and who waits for the next message.

A message is stored in two steps in one go of the event loop: `_assign` gives it its places in the
log and in its queue, `_commit` writes it, makes it visible and wakes all that wait for it. Nothing
can come between the two, so queue offsets follow log order.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile

from maxq.reference.broker.store.commit_log import CommitLog, CorruptLog, file_name, looks_torn
from maxq.reference.broker.store.consume_queue import ConsumeQueue
from maxq.reference.broker.store.delay import Levels, unit_code
from maxq.reference.broker.store.incoming import Incoming, Piece
from maxq.reference.broker.store.metrics import Metrics
from maxq.reference.broker.store.pool import Commits, Pool
from maxq.reference.broker.store.queue_ends import QueueEnds
from maxq.reference.broker.store.tail import Tail
from maxq.reference.broker.store.watermark import Watermark
from maxq.reference.host import Host
from maxq.reference.names import folder_of
from maxq.reference.records import PhyOffset, QueueOffset, Record, invariant
from maxq.reference.wire.message import Message, QueueUnit, encode_at, encoded_size

QueueKey = tuple[str, int]


class TakesNothing(OSError):
    """The store takes no messages for now; nothing was stored."""


class DiskFull(TakesNothing):
    """The partition is at its warning level; nothing was stored."""


class Unflushed(TakesNothing):
    """The consume queues' files cannot be written; nothing was stored."""


class Stored(Record):
    """Where a message went."""

    queue_offset: QueueOffset
    physical_offset: PhyOffset
    end: PhyOffset  # of the log, behind the message
    at_ms: int = 0  # when


class Store:
    """One broker's messages.

    Args:
        host: disk, clock and log.
        root: RocketMQ's storePathRootDir.
        log_path: the commit log's folder.
        log_file_size: bytes.
        queue_file_size: bytes.
        replicated: whether readers see only what `confirm` has released; else everything.
        levels: delays of the schedule topic, whose units hold the time of delivery.
        pool: when what is sent leaves the process for its file; None: there is no pool.
        on_growth: called when the log has grown, or more of it is durable, or waits in the pool.
    """

    def __init__(
        self,
        host: Host,
        *,
        root: str,
        log_path: str,
        log_file_size: int,
        queue_file_size: int,
        replicated: bool = False,
        levels: Levels = (),
        pool: Commits | None = None,
        on_growth: Callable[[], None] = lambda: None,
    ) -> None:
        self._host = host
        self._root = root
        self._queue_file_size = queue_file_size
        self._tail = Tail(host.disk, root)
        pooled = pool is not None
        self._log = CommitLog(host.disk, log_path, log_file_size, tail=self._tail, pooled=pooled)
        self.pool = Pool(self._log, pool, committed=self._grown, log_line=host.log)
        self._watermark = Watermark(host.disk, root)
        self._ends = QueueEnds(host.disk, root)
        self._marking = asyncio.Lock()  # the watermark is not raised while the log is cut
        self._queues: dict[QueueKey, ConsumeQueue] = {}
        self._waiting: dict[QueueKey, list[asyncio.Future[None]]] = {}
        self._dirty: dict[QueueKey, None] = {}
        self._recovering = self._locked = False
        # Whether it is known how many messages of each queue went with the log's first files.
        self.ends_known = True
        self.on_begun: Callable[[], object] = lambda: None  # called when that is not known any more
        self.full = False  # the partition is at its warning level
        self.flush_fault = ""  # why the last flush of queues failed; empty if it did not
        self._replicated = replicated
        self._levels = levels
        self.metrics = Metrics()
        self._on_growth = on_growth
        self._hidden: deque[tuple[PhyOffset, QueueKey]] = deque()  # not confirmed: end, queue
        self._visible: dict[QueueKey, int] = {}  # messages of a queue that readers may see
        self._torn_looking_end = PhyOffset(0)  # of the last record that looks torn, and is not
        self.confirm_offset = PhyOffset(0)  # readers see what ends here or before

    @property
    def end(self) -> PhyOffset:
        """End of the log."""
        return self._log.end

    @property
    def pooled_end(self) -> PhyOffset:
        """The same with what waits in the pool."""
        return self._log.written

    def recover(self) -> None:
        """Do at once what `recovering` does in pieces."""
        for _ in self.recovering():
            pass

    def recovering(self) -> Iterator[None]:
        """Open the store, in pieces: a long log must not hold up who else is in this process.

        Raises:
            CorruptLog: damage that is no torn tail.
            BlockingIOError: another broker uses it.
        """
        self._host.disk.lock(f"{self._root}/lock")
        self._locked = True
        sealed, written = self._watermark.load(), self._tail.load()
        # Without a watermark that counts, others may have written to the log.
        written = None if sealed is None else written
        self._recovering = True
        yield from self._log.recovering(self._dispatch, sealed=sealed, written=written)
        self._recovering = False
        if self._watermark.overtaken:
            self._host.log("broker.watermark.ignored", why="RocketMQ has run on this store")
        self._rewrite_queues()
        self._dirty.clear()
        self._recover_ends()
        if not self._replicated:
            self.confirm(self._log.end)

    def _recover_ends(self) -> None:
        """Let queues of which the log has no message go on where they did."""
        known = self._ends.load() if self._log.start else {}
        # RocketMQ may have deleted more since, and says so in its consume queues at best.
        self.ends_known = known is not None and not self._watermark.overtaken
        self._begin_at(known or {})

    async def sync_recovered(self) -> None:
        """Make what `recover` found and erased durable. Nothing may be written before."""
        await self._tail.clear()
        await self._log.sync_recovered()
        self._tail.resume()
        await self.mark()

    def _rewrite_queues(self) -> None:
        """Make the files of every queue hold what the log says, also where only the disk knows the
        queue: its messages are lost, or its folder is of another name."""
        disk, base = self._host.disk, f"{self._root}/consumequeue"
        known = {(folder_of(topic), number): queue for (topic, number), queue in
                 self._queues.items()}  # fmt: skip
        found = {(t, int(q)) for t in disk.list(base) for q in disk.list(f"{base}/{t}")
                 if q.isdecimal()}  # fmt: skip
        for topic, number in sorted(found | known.keys()):
            queue = known.get((topic, number))
            if queue is not None:
                queue.rewrite()
                continue
            gone = ConsumeQueue(disk, f"{base}/{topic}/{number}", self._queue_file_size)
            if self._log.start:
                gone.load_trimmed(self._log.start)
            gone.rewrite()
            if gone.max_offset and folder_of(topic) == topic:
                self._queues[topic, number] = gone
            else:
                gone.close()

    def queue_counts(self) -> dict[str, int]:
        """The topics that have messages, each with its queues up to the last one that has any."""
        counts: dict[str, int] = {}
        for (topic, queue_id), queue in self._queues.items():
            if queue.max_offset:
                counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        return counts

    # Writing.

    def put(self, messages: Sequence[Message]) -> list[Stored]:
        """Store messages of one queue side by side: all of them or none.

        Raises:
            ValueError: they do not fit a file together, or a field does not fit a record, or a
                recovery would take one for torn.
            DiskFull: the partition is nearly full.
            Unflushed: what was stored before waits for its queues' files, still in vain.
            OSError: the disk is full or failed; nothing was stored.
        """
        if self.full:
            raise DiskFull("the partition of the store is nearly full")
        if self.flush_fault:
            self.flush_queues()
        if self.pool.fault:
            self.pool.commit()
        data, stored = self._assign(messages)
        self._commit(messages, data, stored)
        self.pool.after_put()
        return stored

    def _assign(self, messages: Sequence[Message]) -> tuple[bytes, list[Stored]]:
        """Choose places: bytes to write, and for each message where it goes."""
        now = self._host.wall_ms()
        sizes = [encoded_size(m) for m in messages]
        at = self._log.place(sum(sizes))
        key = (messages[0].topic, messages[0].queue_id)
        queue_offset = self._queue(key).max_offset
        parts, stored = [], []
        for message, size in zip(messages, sizes, strict=True):
            if looks_torn(message):
                raise ValueError("topic or properties hold a zero byte where a torn write has one")
            record = encode_at(
                message, queue_offset=queue_offset, physical_offset=at, store_timestamp=now
            )
            parts.append(record)
            end = PhyOffset(at + size)
            stored.append(Stored(queue_offset=queue_offset, physical_offset=at, end=end, at_ms=now))
            queue_offset, at = QueueOffset(queue_offset + 1), end
        return b"".join(parts), stored

    def _commit(self, messages: Sequence[Message], data: bytes, stored: Sequence[Stored]) -> None:
        """Write what was assigned; visible once it is in the file, or when it is confirmed."""
        self._log.write(stored[0].physical_offset, data)
        self.metrics.on_put(len(stored), len(data))
        for message, place in zip(messages, stored, strict=True):
            self._index(message, place)
        self._grown()

    def _grown(self) -> None:
        if not self._replicated:
            self.confirm(self._log.end)
        self._on_growth()

    def commit(self) -> None:
        """Write what waits in the pool to its file. Raises OSError."""
        self.pool.commit()

    def confirm(self, offset: PhyOffset) -> None:
        """Let readers see every message that ends at `offset` or before, and wake who waits."""
        self.confirm_offset = offset
        while self._hidden and self._hidden[0][0] <= offset:
            _, key = self._hidden.popleft()
            self._visible[key] = self._seen_until(key) + 1
            self._wake(key)

    def _dispatch(self, message: Message, size: int) -> None:
        end = PhyOffset(message.physical_offset + size)
        next_offset = self._next_offset(message.topic, message.queue_id)
        if next_offset is None:
            self._queue((message.topic, message.queue_id)).begin(message.queue_offset)
            self._visible.pop((message.topic, message.queue_id), None)
        elif message.queue_offset != next_offset:
            raise CorruptLog(
                f"{self._log.folder}: the record at offset {message.physical_offset} is message "
                f"{message.queue_offset} of {message.topic}:{message.queue_id}, expected "
                f"{next_offset}; records before it are missing, or it is damaged"
            )
        place = Stored(queue_offset=message.queue_offset, physical_offset=message.physical_offset,
                       end=end, at_ms=message.store_timestamp)  # fmt: skip
        self._index(message, place)

    def _next_offset(self, topic: str, queue_id: int) -> QueueOffset | None:
        """What the log's next message of a queue must be; None if it may be any, since the log has
        no message of the queue, and those before went with its first files.

        The queue's files may say how many went, or a master did (`adopt_ends`).
        """
        queue = self._queue((topic, queue_id))
        if self._log.start and queue.min_offset == queue.max_offset:
            return None
        return queue.max_offset

    def _index(self, message: Message, place: Stored) -> None:
        key = (message.topic, message.queue_id)
        unit = QueueUnit(
            physical_offset=place.physical_offset,
            size=place.end - place.physical_offset,
            tags_code=unit_code(message, place.at_ms, self._levels),
        )
        self._queue(key).append(place.queue_offset, unit)
        self._dirty[key] = None
        self._hidden.append((place.end, key))

    def is_empty(self, topic: str, queue_id: int) -> bool:
        """Whether the log has no message of a queue."""
        queue = self._queues.get((topic, queue_id))
        return queue is None or queue.min_offset == queue.max_offset

    async def adopt_ends(self, ends: Mapping[QueueKey, QueueOffset]) -> None:
        """Let queues of which the log has no message go on where the master's do: it may be elected
        before the next one comes, and must not give an offset a second time.

        Raises:
            OSError: the disk failed.
        """
        async with self._marking:  # who deletes files or cuts the log writes the same file
            await self._ends.save({**self._ends_at(self._log.start), **ends})
            self._begin_at(ends)
            self.ends_known = True

    def _begin_at(self, ends: Mapping[QueueKey, QueueOffset]) -> None:
        for key, end in ends.items():
            if self.is_empty(*key) and end > self._queue(key).max_offset:
                self._queue(key).begin(end)
                self._visible.pop(key, None)
                self._dirty[key] = None

    def _ends_at(self, start: PhyOffset) -> dict[QueueKey, QueueOffset]:
        """Where the queues go on of which a log that begins at `start` has no message."""
        return {
            key: queue.max_offset
            for key, queue in self._queues.items()
            if queue.min_offset == queue.max_offset
            or queue.unit(QueueOffset(queue.max_offset - 1)).physical_offset < start
        }

    def _queue(self, key: QueueKey) -> ConsumeQueue:
        if key not in self._queues:
            folder = f"{self._root}/consumequeue/{folder_of(key[0])}/{key[1]}"
            self._queues[key] = ConsumeQueue(self._host.disk, folder, self._queue_file_size)
            if self._recovering and self._log.start:
                self._queues[key].load_trimmed(self._log.start)
        return self._queues[key]

    def flush_queues(self) -> None:
        """Write the consume queues' news to their files.

        Raises:
            Unflushed: they cannot be written. Until they can be, `put` takes nothing, as in
                RocketMQ: what is not written now must be found in the log at the next start.
        """
        try:
            while self._dirty:
                key = next(iter(self._dirty))
                self._queues[key].flush()
                del self._dirty[key]
        except OSError as error:
            self.flush_fault = str(error)
            raise Unflushed(f"consume queues cannot be written: {error}") from None
        self.flush_fault = ""

    async def sync(self) -> PhyOffset:
        """Make the log durable, and what waits in the pool with it; returns up to where."""
        self.pool.try_commit()
        before = self._log.durable
        end = await self._log.sync()
        if self._log.durable > before:
            self._on_growth()
        return end

    async def mark(self) -> None:
        """Sync, and remember how far that was, for the start after a loss of power."""
        async with self._marking:
            self.pool.try_commit()
            sealed = self._log.sealed()
            await self.sync()
            try:
                await self._watermark.save(sealed)
                self._log.marked(sealed.end)
            except OSError as error:  # a full disk; too low a watermark is no harm
                self._host.log("broker.watermark.unwritten", why=str(error))

    # Replication: the log as bytes. What these write is indexed record by record.

    @property
    def start(self) -> PhyOffset:
        """First byte of the log that is kept."""
        return self._log.start

    def log_files(self) -> list[tuple[PhyOffset, str]]:
        """Where each file of the log begins, in order, and its path."""
        return [(start, f"{self._log.folder}/{file_name(start)}") for start in self._log.files()]

    @property
    def size(self) -> int:
        """Bytes of the files of log and queues, at their full size, as RocketMQ counts them."""
        queues = sum(queue.size for queue in self._queues.values())
        return len(self._log.files()) * self._log.file_size + queues

    @property
    def durable(self) -> PhyOffset:
        """Everything before this is on the disk."""
        return self._log.durable

    def whole_end(self) -> PhyOffset:
        """End of the last whole record: a slave's log may end within one."""
        return self._log.whole

    def read_range(self, offset: PhyOffset, size_max: int) -> bytes:
        """Read from `offset` up to `size_max` bytes, the end of the file, or of the log."""
        return self._log.read_range(offset, size_max)

    def checked(self, offset: PhyOffset, data: bytes) -> Callable[[], None]:
        """Judge a master's bytes, which follow on; an empty log may begin at any offset.

        Returns:
            What appends them, or raises OSError and appends nothing.

        Raises:
            RemoteProtocolError: a recovery would not take them back.
        """
        empty = self._log.end == self._log.start
        following = partial(self._following, any_first=empty and offset > 0)
        incoming = Incoming(offset, data, self._log.read_range, self._log.file_size, following)
        whole = offset if empty else self._log.whole
        return partial(self._append, incoming.checked(whole))

    def _following(self, topic: str, queue_id: int, *, any_first: bool) -> QueueOffset | None:
        if (topic, queue_id) not in self._queues:  # which a look makes no queue
            return None if any_first or self._log.start else QueueOffset(0)
        return None if any_first else self._next_offset(topic, queue_id)

    def _append(self, piece: Piece) -> None:
        """Append a master's bytes; records that they complete are indexed, and stay hidden."""
        if piece.start and self._log.start == self._log.end:
            self.ends_known = False
            self.on_begun()
        self._log.append_raw(piece.start, piece.data, piece.whole)
        self._torn_looking_end = max(self._torn_looking_end, piece.torn_looking_end)
        for message, end in piece.records:
            self._dispatch(message, end - message.physical_offset)

    async def vouch(self) -> None:
        """Make sure that a recovery takes what was appended back, also what looks torn.

        Raises:
            OSError: that cannot be written down.
        """
        known = self._watermark.sealed
        if self._torn_looking_end <= (0 if known is None else known.end):
            return
        async with self._marking:
            sealed = self._log.sealed()
            await self.sync()
            await self._watermark.save(sealed)

    async def truncate(self, offset: PhyOffset) -> None:
        """Cut log and queues to `offset`, the end of a record or 0; durable when this returns.

        Raises:
            CorruptLog: what is left is not as it was written.
        """
        async with self._marking:
            self.pool.try_commit()
            sums, known = self._log.sums_cut(offset), self._watermark.sealed
            if known is not None and offset < known.end:
                await self._watermark.save(sums.sealed())  # before: it may never be too high
            await self._tail.clear()
            self._log.use_sums(sums)
            await self._truncate(offset)

    async def trim(self, start: PhyOffset) -> None:
        """Let the log begin with the file that begins at `start`; durable when this returns.

        The watermark says so first: a crash on the way leaves files that it does not know, and
        never lacks one that it knows.

        Raises:
            OSError: the watermark, or a folder, cannot be written.
        """
        invariant(start <= self.confirm_offset, "what may still be cut is not trimmed", start=start)
        async with self._marking:
            self.pool.try_commit()
            sealed = self._log.sealed().since(start)
            if self.ends_known:
                await self._ends.save(self._ends_at(start))
            await self.sync()
            await self._watermark.save(sealed)
            self._log.marked(sealed.end)
            await self._log.trim(start)
            for queue in self._queues.values():
                queue.trim(self._log.start)

    async def _truncate(self, offset: PhyOffset) -> None:
        self.confirm_offset = min(self.confirm_offset, offset)
        self._torn_looking_end = min(self._torn_looking_end, offset)
        for key, queue in self._queues.items():
            count = queue.max_offset
            while count > queue.min_offset and _end(queue.unit(QueueOffset(count - 1))) > offset:
                count = QueueOffset(count - 1)
            if count < queue.max_offset:
                self._visible[key] = min(self._seen_until(key), count)
                queue.truncate(count)
                self._dirty[key] = None
        if 0 < self._log.start >= offset:  # nothing is left, and what comes may begin anywhere
            self._forget_queues()
            await self._ends.forget()
        elif self._log.start and self.ends_known:
            await self._ends.save(self._ends_at(self._log.start))
        while self._hidden and self._hidden[-1][0] > offset:
            self._hidden.pop()
        await self._log.truncate(offset)

    def _forget_queues(self) -> None:
        for queue in self._queues.values():
            queue.begin(QueueOffset(0))
            queue.rewrite()
            queue.close()
        self._queues.clear()
        self._dirty.clear()
        self._visible.clear()

    # Reading.

    def bounds(self, topic: str, queue_id: int) -> tuple[QueueOffset, QueueOffset]:
        """First offset, and the one that the next message gets; zeros for an unknown queue."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return QueueOffset(0), QueueOffset(0)
        return queue.min_offset, self._seen_until((topic, queue_id))

    def _seen_until(self, key: QueueKey) -> QueueOffset:
        """The first offset of a queue that readers may not see yet."""
        return QueueOffset(self._visible.get(key, self._queues[key].min_offset))

    def written(self, topic: str, queue_id: int) -> QueueOffset:
        """The offset that a queue's next message gets, confirmed or not."""
        queue = self._queues.get((topic, queue_id))
        return QueueOffset(0) if queue is None else queue.max_offset

    def units(
        self, topic: str, queue_id: int, offset: QueueOffset
    ) -> Iterator[tuple[QueueOffset, QueueUnit]]:
        """Units of a queue from `offset` on."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            return iter(())
        _, end = self.bounds(topic, queue_id)
        return takewhile(lambda found: found[0] < end, queue.units(offset))

    def unit_of(self, topic: str, queue_id: int, offset: int) -> QueueUnit | None:
        """The unit of a message, confirmed or not; None if there is no such message."""
        queue = self._queues.get((topic, queue_id))
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return None
        return queue.unit(QueueOffset(offset))

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

    def wake_all(self) -> None:
        """Let all who wait look again: not only messages change what they are told."""
        for key in tuple(self._waiting):
            self._wake(key)

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
        """Release the files, and let another broker use them."""
        self._log.close()
        self._tail.close()
        for queue in self._queues.values():
            queue.close()
        if self._locked:
            self._locked = False
            self._host.disk.unlock(f"{self._root}/lock")


def _end(unit: QueueUnit) -> int:
    return unit.physical_offset + unit.size
