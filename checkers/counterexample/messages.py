"""A history without some messages: neither their sends nor anybody's sight of them.

What is true of all messages of a log is true of those that are left, so a history that keeps its
promises keeps them without some messages too. Offsets stay as they are.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from maxq.checkers.evidence.log import MESSAGES
from maxq.histories.op import Op

Message = tuple[str, str]  # key and value, as texts: values may be of any kind


def messages_of(ops: Iterable[Op]) -> list[Message]:
    """Every message that some operations send or show, once."""
    found: dict[Message, None] = {}
    for op in ops:
        if op.f in MESSAGES and isinstance(op.value, list):
            for micro in op.value:
                found.update(dict.fromkeys(_of_micro(micro)))
    return list(found)


def without(ops: Iterable[Op], gone: Collection[Message]) -> list[Op]:
    """The operations without these messages; one that neither sent nor showed another is gone."""
    left = []
    for op in ops:
        if op.f not in MESSAGES or not isinstance(op.value, list):
            left.append(op)
            continue
        value = [new for micro in op.value if (new := _without(micro, gone)) is not None]
        if value or not op.value:
            left.append(op if value == op.value else msgspec.structs.replace(op, value=value))
    return left


def _of_micro(micro: Any) -> Iterator[Message]:
    match micro:
        case ["send", key, [_, value]] | ["send", key, value]:
            yield repr(key), repr(value)
        case ["poll", dict() as seen]:
            for key, shown in seen.items():
                yield from ((repr(key), repr(value)) for value in _values(shown))


def _values(shown: Any) -> Iterator[Any]:
    for pair in shown if isinstance(shown, list) else ():
        if isinstance(pair, list) and len(pair) == 2:
            yield pair[1]


def _without(micro: Any, gone: Collection[Message]) -> Any:
    """A part of an operation without these messages; None: nothing is left of it."""
    match micro:
        case ["poll", dict() as seen]:
            kept = {}
            for key, shown in seen.items():
                left = _left(repr(key), shown, gone)
                if left or not shown:  # a list that became empty would say that nothing was there
                    kept[key] = left
            return ["poll", kept] if kept or not seen else None
        case _:
            own = list(_of_micro(micro))
            return None if own and own[0] in gone else micro


def _left(key: str, shown: Any, gone: Collection[Message]) -> Any:
    if not isinstance(shown, list):
        return shown
    return [
        pair for pair in shown
        if not (isinstance(pair, list) and len(pair) == 2 and (key, repr(pair[1])) in gone)
    ]  # fmt: skip
