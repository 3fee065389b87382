"""Comparing a log with its master's, where no epoch says what both share.

Record by record: the master is asked for what it has at each place where a record of this log
begins (33, which RocketMQ answers as well, whatever its epoch list), from where both logs have
begun. BLANK fillings are not
fetched: what a release leaves in them is its own affair, and that no record of the master begins
there is asked. Both logs stay as they are. Offsets are bytes of the commit log, ends exclusive.
Source: docs/spec/controller-ha.md 4.6, 6.5; RocketMQ ``ViewMessageProcessor``.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from maxq.reference.records import PhyOffset, RemoteProtocolError
from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import ViewMessageRequest, to_ext
from maxq.reference.wire.message import BLANK_BYTES, BLANK_MAGIC, peek
from maxq.reference.wire.route import KVTable

READS = 32  # questions under way at the same time
BATCH_BYTES = 1 << 20  # of this log, compared at a time, and one record more
CALL_TIMEOUT_S = 3.0
NOT_FOUND = "can not find message by the offset"  # RocketMQ's words

Read = Callable[[PhyOffset], Awaitable[bytes | None]]  # the record at a place; None: none begins


class Bytes(Protocol):
    """What is needed of a log."""

    @property
    def start(self) -> PhyOffset: ...

    def whole_end(self) -> PhyOffset:
        """End of the last whole record."""
        ...

    def read_range(self, offset: PhyOffset, size_max: int) -> bytes: ...


async def equal_end(
    log: Bytes, read: Read, their_start: PhyOffset, their_end: PhyOffset
) -> PhyOffset:
    """Find up to where a log has the records that its master has.

    Args:
        log: this one; it must not change meanwhile.
        read: asks the master.
        their_start: of the master's log. What this one has before it has expired there, and cannot
            be compared: it counts as equal if a record behind it is, which the master has only if
            it had all before it as well.
        their_end: of the master's log, or before it.

    Returns:
        The first place where they differ or where the master has nothing more; the end of
        this log's last whole record if there is none; this log's start if nothing shows that what
        is before the master's is the same.

    Raises:
        OSError: this log cannot be read; else what `read` raises.
    """
    at, end = max(log.start, their_start), log.whole_end()
    shown = at == log.start  # that both are the same before `at`
    while at < end:
        batch = _batch(log, at, end)
        questions = (read(start) for start, _ in batch)
        theirs = await asyncio.gather(*questions, return_exceptions=True)
        for (start, size), found in zip(batch, theirs, strict=True):
            # In order: behind the first difference a place means nothing to the master.
            if isinstance(found, BaseException):
                raise found
            if not _equal(log, start, size, found, their_end):
                return start if shown else log.start
            at = PhyOffset(start + size)
            shown = shown or not _is_blank(log, start)
    return at if shown else log.start


def _batch(log: Bytes, start: PhyOffset, end: PhyOffset) -> list[tuple[PhyOffset, int]]:
    """The next records: where each begins, and its size."""
    found: list[tuple[PhyOffset, int]] = []
    for at, size in _records(log, start, end):
        found.append((at, size))
        if len(found) == READS or at + size - start >= BATCH_BYTES:
            break
    return found


def _records(log: Bytes, at: PhyOffset, end: PhyOffset) -> Iterator[tuple[PhyOffset, int]]:
    while at < end:
        size, _ = peek(log.read_range(at, BLANK_BYTES))
        if size < BLANK_BYTES:
            raise OSError(f"no record of this log begins at {at} any more")
        yield at, size
        at = PhyOffset(at + size)


def _is_blank(log: Bytes, at: PhyOffset) -> bool:
    """Whether what begins at a place is a filling: it is alike in all logs."""
    return peek(log.read_range(at, BLANK_BYTES))[1] == BLANK_MAGIC


def _equal(
    log: Bytes, at: PhyOffset, size: int, theirs: bytes | None, their_end: PhyOffset
) -> bool:
    if not _is_blank(log, at):
        return theirs == log.read_range(at, size)
    blank = theirs is None or peek(theirs)[1] == BLANK_MAGIC  # RocketMQ gives them as they are
    return blank and at + size <= their_end


async def start_of(pool: Pool, address: str) -> PhyOffset:
    """Ask a broker where its log begins.

    Raises:
        NotSent, ConnectionLost, TimeoutError: no answer.
        RemoteProtocolError: it does not say.
    """
    return (await bounds_of(pool, address))[0]


async def bounds_of(pool: Pool, address: str) -> tuple[PhyOffset, PhyOffset]:
    """Ask a broker where its log begins and ends; errors as `start_of`."""
    request = Frame(code=RequestCode.GET_BROKER_RUNTIME_INFO)
    answer = await pool.call(address, request, timeout_s=CALL_TIMEOUT_S)
    if answer.code == ResponseCode.SUCCESS:
        with contextlib.suppress(KeyError, ValueError):
            table = KVTable.from_json(answer.body).table
            start, end = table["commitLogMinOffset"], table["commitLogMaxOffset"]
            return PhyOffset(int(start)), PhyOffset(int(end))
    raise RemoteProtocolError(f"28: no bounds of the log: code {answer.code}: {answer.remark}")


async def record_of(pool: Pool, address: str, offset: PhyOffset) -> bytes | None:
    """Ask a broker for the record that begins at a place of its log; None if none does.

    Raises:
        NotSent, ConnectionLost, TimeoutError: no answer.
        RemoteProtocolError: it answers otherwise.
    """
    request = Frame(
        code=RequestCode.VIEW_MESSAGE_BY_ID, ext=to_ext(ViewMessageRequest(offset=offset))
    )
    answer = await pool.call(address, request, timeout_s=CALL_TIMEOUT_S)
    if answer.code == ResponseCode.SUCCESS and answer.body and len(answer.body) >= BLANK_BYTES:
        return answer.body
    # The same code answers a request that failed, of which nothing follows.
    if answer.code == ResponseCode.SYSTEM_ERROR and (answer.remark or "").startswith(NOT_FOUND):
        return None
    raise RemoteProtocolError(f"33 at {offset}: code {answer.code}: {answer.remark}")
