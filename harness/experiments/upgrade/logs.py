"""The logs of an upgrade's replicas: where each ended before, and what each has now.

Read from the files that replicas left: those of before while the broker was stopped for the upgrade
(act ``read-log``), those of now once the run was over. Ends are bytes of the commit log, exclusive.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from maxq.harness.client.stored_logs import STORE, StoredLog, read_log
from maxq.reference.records import RemoteProtocolError


class Before(msgspec.Struct, frozen=True):
    """A log that was read while its broker was down."""

    end: int
    digest: str


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """The log of one replica. `before` is None where it was not read, so that there was none.
    `kept`: it begins with all that it was; `equal`: it is the first replica's, to the byte."""

    node: str
    before: int | None = None
    after: int | None = None  # None: what is there is no log
    kept: bool = False
    equal: bool = False


def measured(folder: Path, before: Mapping[str, Before]) -> tuple[Replica, ...]:
    """The logs of all replicas.

    Args:
        folder: of the run, with what its nodes left.
        before: by node, what was read before.
    """
    nodes = sorted(p.parent for p in folder.glob(f"nodes/*/{STORE}"))
    logs = {node.name: _log(node) for node in nodes if node.name.startswith("b")}
    first = next(iter(logs.values()), None)
    return tuple(_replica(node, log, before.get(node), first) for node, log in logs.items())


def _log(node: Path) -> StoredLog | None:
    store = node / STORE
    paths = [path for path in store.rglob("*") if path.is_file()]
    try:
        return read_log({p.relative_to(node).as_posix(): p.read_bytes() for p in paths})
    except RemoteProtocolError:
        return None


def _replica(
    node: str, log: StoredLog | None, before: Before | None, first: StoredLog | None
) -> Replica:
    end = None if before is None else before.end
    if log is None:
        return Replica(node=node, before=end)
    whole = before is None or log.digest(before.end) == before.digest
    equal = first is not None and (log.start, log.data) == (first.start, first.data)
    return Replica(node=node, before=end, after=log.end, kept=whole, equal=equal)


def words(logs: Sequence[Replica]) -> str:
    """Where logs ended before and end now, in sentences without the last one's end."""
    before = [f"{log.node} {log.before:,}" for log in logs if log.before is not None]
    ends = {log.after for log in logs}
    if all(log.equal for log in logs):
        now = f"all {len(logs)} at {logs[0].after:,}, equal to the byte"
    else:
        now = ", ".join(f"{log.node} {_end(log)}" for log in logs)
        now += "" if len(ends) > 1 else ", with other bytes"
    less = [log.node for log in logs if not log.kept]
    kept = f"without what it had: {', '.join(less)}" if less else "with all that they had"
    return f"logs ended at {', '.join(before) or 'nothing'}. Now {now}, {kept}"


def _end(log: Replica) -> str:
    return "unreadable" if log.after is None else f"{log.after:,}"
