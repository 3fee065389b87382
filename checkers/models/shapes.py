"""Shapes that values of foreign histories have: keys beside values, pairs, lists."""

from typing import Any

from maxq.histories.op import HistoryError, Op


def keyed(op: Op) -> tuple[Any, Any]:
    """The key and the value of an operation. Where it has no `key` beside its value there is one
    object, whose key is None."""
    ext = op.ext or {}
    return (frozen(ext["key"]) if "key" in ext else None), op.value


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
