"""Histories as elle-cli takes them: a vector of maps as JSON, or Jepsen's EDN.

elle-cli gives a history to Elle, to Knossos or to a checker of Jepsen. What these ask for beyond a
history of ours: indices without gaps; of a call that failed or has no answer what was asked, also
in its completion; `txn` as the name of a transaction. Whatever else an operation carries is left
out, so keys that stand beside values are as well.

Source: ligurio/elle-cli, `src/elle_cli/cli.clj` and its `histories/`.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from maxq.histories.op import Op

Pair = tuple[Op, Op | None]  # an invocation, and its completion


def for_elle(pairs: Iterable[Pair]) -> list[Op]:
    """The operations of some calls, in order and numbered anew."""
    every = [op for pair in pairs for op in _whole(*pair)]
    every.sort(key=lambda op: op.index)
    return [
        Op(op.type, op.process, op.f or "txn", op.value, op.error, index, op.time)
        for index, op in enumerate(every)
    ]


def _whole(begun: Op, ended: Op | None) -> list[Op]:
    if ended is None:
        return [begun]
    if ended.type != "ok" and ended.value is None:
        ended = msgspec.structs.replace(ended, value=begun.value)
    return [begun, ended]


def encode_elle_json(ops: Iterable[Op]) -> bytes:
    """The file: one vector, an operation a line. A set becomes a list, a keyword a string.

    Raises:
        ValueError: a value is none that JSON can hold.
    """
    return b"[" + b",\n".join(map(_line, ops)) + b"]\n"


def _line(op: Op) -> bytes:
    fields = {"index": op.index, "time": op.time, "type": op.type, "process": op.process,
              "f": str(op.f), "value": _plain(op.value), "error": _plain(op.error)}  # fmt: skip
    if op.time < 0:
        del fields["time"]
    if op.error is None:
        del fields["error"]
    try:
        return msgspec.json.encode(fields)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"op {op.index}: JSON cannot hold it: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_plain(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    if isinstance(value, frozenset):
        return sorted((_plain(member) for member in value), key=repr)
    return str(value) if isinstance(value, str) else value
