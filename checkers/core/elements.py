"""The messages of an operation, and who answered it.

Source: docs/spec/history-format.md 12.1.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from maxq.histories.observed import REPLICA_LOG, ReplicaLog, decoded
from maxq.histories.op import HistoryError, Op


class Element(msgspec.Struct, frozen=True, gc=False):
    """One message that an operation sent, polled, or read from a replica's store."""

    kind: str  # sent, polled, replica
    key: int
    offset: int | None
    value: Any


def elements_of(done: Op, begun: Op | None = None) -> Iterator[Element]:
    """The messages that a `send`, `poll`, `txn` or `replica-log` names, in order.

    Args:
        done: the completion, or the invocation of an open operation.
        begun: its invocation, whose value stands in where the completion has none.

    Raises:
        HistoryError: the value has not the shape of docs/spec/history-format.md 12.1 (W9).
    """
    if done.f == REPLICA_LOG and done.is_client and done.type == "ok":
        for record in decoded(done, ReplicaLog).records:
            yield Element("replica", *record)
    if done.f not in ("send", "poll", "txn") or not done.is_client:
        return
    value = done.value
    if value is None and begun is not None:
        value = begun.value
    if type(value) is not list and type(value) is not tuple:
        raise HistoryError(f"value of {done.index} is no vector: {value!r:.100}")
    for micro in value:
        match micro:
            case ["send", int(key), [int() | None as offset, int() | str() as sent]]:
                yield Element("sent", key, offset, sent)
            case ["send", int(key), sent] if type(sent) is int or type(sent) is str:
                yield Element("sent", key, None, sent)
            case ["poll", dict(polled)]:
                yield from _polled(done, polled)
            case ["poll"] | ["poll", *_] if done.type != "ok":
                pass  # nothing was learnt; a second member is a hint of the invocation
            case _:
                raise HistoryError(f"value of {done.index} holds {micro!r:.100}")


def _polled(done: Op, polled: dict[Any, Any]) -> Iterator[Element]:
    # In an invocation a map is a hint at best: nothing has been read.
    if done.type == "invoke":
        return
    for key, messages in polled.items():
        if type(key) is not int or type(messages) is not list:
            raise HistoryError(f"value of {done.index} holds {key!r}: {messages!r:.100}")
        for message in messages:
            match message:
                case [int() | None as offset, int() | str() as value]:
                    yield Element("polled", key, offset, value)
                case _:
                    raise HistoryError(f"value of {done.index} holds {message!r:.100}")


def node_of(ext: dict[str, Any]) -> str | None:
    """Who answered, as the client noted it."""
    node = ext.get("node", ext.get("broker"))
    return None if node is None else str(node)


def epoch_of(ext: dict[str, Any]) -> int | None:
    """The master epoch of who answered."""
    epoch = ext.get("epoch")
    return epoch if type(epoch) is int else None
