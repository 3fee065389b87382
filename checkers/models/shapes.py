"""Shapes that values of foreign histories have: keys beside values, pairs, lists."""

from typing import Any

from maxq.histories.op import HistoryError, Op

TXN = "txn"


def keyed(op: Op) -> tuple[Any, Any]:
    """The key and the value of an operation. Where it has no `key` beside its value there is one
    object, whose key is None."""
    ext = op.ext or {}
    return (frozen(ext["key"]) if "key" in ext else None), op.value


def is_txn(parts: Any) -> bool:
    """Whether a value is a list of [f key value], as transactions have them."""
    return isinstance(parts, list) and all(isinstance(p, list) and len(p) == 3 for p in parts)


def answered(ended: Op | None) -> bool:
    """Whether an operation succeeded, so that its value is an answer, also if that is nil."""
    return ended is not None and ended.type == "ok"


def members(op: Op, value: Any) -> tuple[Any, ...]:
    """The values of a list, or of a set.

    Raises:
        HistoryError: it is neither.
    """
    if not isinstance(value, list | tuple | frozenset):
        raise HistoryError(f"op {op.index}: {op.f} wants a list, not {value!r:.100}")
    return tuple(map(frozen, value))


def something(op: Op, value: Any) -> Any:
    """A value that can be told from none.

    Raises:
        HistoryError: it is nil.
    """
    if value is None:
        raise HistoryError(f"op {op.index}: {op.f} wants a value")
    return frozen(value)


def pair_in(op: Op, value: Any) -> tuple[Any, Any]:
    """Two values in a list.

    Raises:
        HistoryError: it is no such list.
    """
    if not isinstance(value, list) or len(value) != 2:
        raise HistoryError(f"op {op.index}: {op.f} wants [old new], not {value!r:.100}")
    return value[0], value[1]


def frozen(value: Any) -> Any:
    """A value that can be a state, or be in a set: lists become tuples, maps sets of pairs."""
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return frozenset((frozen(k), frozen(v)) for k, v in value.items())
    return value
