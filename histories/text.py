"""An operation as one JSON object, and back: the text of the journal and of the events table.

JSON has no sets and no keys but strings, so those are written as escapes: a map with other keys is
``{"$map": [[k, v], …]}``, a set is ``{"$set": […]}``, a keyword is ``{"$kw": "name"}``. An object
with exactly one key that starts with ``$`` is always an escape; a literal one uses ``$map``.

We have no type for keywords. A keyword is a plain string whose *position* says what it is (`type`,
`f`, a process that is no integer, the names of keys, and what the workload's schema says inside
`value`). So nothing here writes ``$kw``, and one that is read becomes a plain string.

Integers are exact at any size. NaN and infinities are refused in both directions.

Source: docs/spec/history-format.md 9.2.
"""

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, get_args

import msgspec

from maxq.histories.aliases import current_f
from maxq.histories.op import HistoryError, Op, OpType

FIXED = ("index", "time", "type", "process", "f", "value")
RESERVED = frozenset((*FIXED, "error"))
TYPES: tuple[str, ...] = get_args(OpType)
# What msgspec raises of a text that is no JSON, is too deep, or is not UTF-8.
NOT_JSON = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)

INT64_MAX = 2**63 - 1
SHORT = 900  # bytes; so that no more than 450 lists or maps are in each other
FLAT_DEPTH = 20
_STRING = re.compile(rb'"[^"]*"')
_NO_BRACKETS = bytes(n for n in range(256) if n not in b"[]{}")

_ATOMS = frozenset((type(None), bool, int, str))
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder()

_KEY = '"epochs":'
_NUMBERS = re.compile(r"\[\[[0-9,]+\](?:,\[[0-9,]+\])*\]")
_HEADS_MAX = 256  # texts before a list that are remembered: about one a broker
_HEAD = 64  # characters


def encode_value(value: Any) -> bytes:
    """The JSON text of any value an operation may hold.

    Raises:
        ValueError: it holds what no history may: a NaN, an object, a lone surrogate.
    """
    return _ENCODER.encode(escape(value))


def decode_value(text: bytes | str) -> Any:
    """The value that `encode_value` wrote.

    Raises:
        HistoryError: the text is not JSON, or holds an unknown escape.
    """
    try:
        found = _DECODER.decode(text)
        return found if _plain(text) else unescape(found)
    except NOT_JSON as e:
        raise HistoryError(f"not a value: {e}") from None


def _plain(text: bytes | str) -> bool:
    """Whether there is nothing to undo in a text of JSON, which also is not nested deeply."""
    data = text.encode() if isinstance(text, str) else text
    if b"$" in data or b"\\" in data:
        return False
    return len(data) <= SHORT or _is_flat(data)


def _is_flat(data: bytes) -> bool:
    """Whether a text without escapes has few lists and maps in each other."""
    brackets = _STRING.sub(b"", data).translate(None, _NO_BRACKETS)
    for _ in range(FLAT_DEPTH):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return False


def encode_op(op: Op) -> bytes:
    """One line of the journal, without its end of line."""
    fields: dict[str, Any] = {
        "index": op.index,
        "time": op.time,
        "type": op.type,
        "process": op.process,
        "f": op.f,
        "value": escape(op.value),
    }
    rest = op.ext
    if op.error is not None:
        rest = {"error": op.error} if rest is None else {**rest, "error": op.error}
    if rest:
        if op.ext and not RESERVED.isdisjoint(op.ext):
            raise ValueError(f"ext redefines a key of the operation: {sorted(op.ext)}")
        for key in sorted(rest):
            fields[key] = escape(rest[key])
    return _ENCODER.encode(fields)


def decode_fields(line: bytes) -> dict[str, Any]:
    """The JSON object of one line, still escaped."""
    try:
        fields = _DECODER.decode(line)
    except NOT_JSON as e:
        raise HistoryError(f"not JSON: {e}") from None
    if type(fields) is not dict:
        raise HistoryError(f"not an object: {type(fields).__name__}")
    return fields


def op_of_fields(fields: dict[str, Any]) -> Op:
    """Build an operation from a decoded line; takes the dict over."""
    try:
        index, time, op_type, process, f, value = (fields.pop(key) for key in FIXED)
    except KeyError as e:
        raise HistoryError(f"no key {e.args[0]!r}") from None
    checked(index, time, op_type, process, f)
    error = unescape(fields.pop("error", None))
    ext = {key: unescape(v) for key, v in fields.items()} if fields else None
    return Op(op_type, process, current_f(f, process), unescape(value), error, index, time, ext)


def checked(index: Any, time: Any, op_type: Any, process: Any, f: Any) -> None:
    """Check what every operation has.

    Raises:
        HistoryError: one of them is none.
    """
    if type(index) is not int or type(time) is not int:
        raise HistoryError(f"index and time must be integers: {index!r}, {time!r}")
    check_numbers(index, time, process)
    if op_type not in TYPES:
        raise HistoryError(f"unknown type: {op_type!r}")
    if type(process) is not int and type(process) is not str:
        raise HistoryError(f"process is neither an integer nor a name: {process!r}")
    if type(f) is not str:
        raise HistoryError(f"f is not a name: {f!r}")


def check_numbers(index: int, time: int, process: object) -> None:
    """Check what no operation can have, however it came about.

    Raises:
        HistoryError: a time before the run began, or a number that no table holds.
    """
    if time < -1:  # -1: unknown
        raise HistoryError(f"impossible time: {time} ns, before the run began")
    if time > INT64_MAX:
        raise HistoryError(f"impossible time: {time}, more than 64 bits")
    if abs(index) > INT64_MAX:
        raise HistoryError(f"impossible index: {index}, more than 64 bits")
    if type(process) is int and abs(process) > INT64_MAX:
        raise HistoryError(f"impossible process: {process}, more than 64 bits")


def escape(value: Any) -> Any:
    """Turn a value into what JSON can hold."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is list or kind is tuple:
        return [v if type(v) in _ATOMS else escape(v) for v in value]
    if kind is dict:
        return _escape_map(value)
    if kind is float:
        if not math.isfinite(value):
            raise ValueError(f"not a finite number: {value}")
        return value
    if kind is frozenset or kind is set:
        return {"$set": sorted((escape(v) for v in value), key=_ENCODER.encode)}
    # An enumeration's member, a NewType's subclass: written as the plain value it stands for.
    for plain in (int, str):
        if isinstance(value, plain):
            return plain(value)
    raise ValueError(f"a history cannot hold a {kind.__name__}: {value!r:.100}")


def _escape_map(value: dict[Any, Any]) -> dict[str, Any]:
    literal = all(type(key) is str for key in value)
    if literal and not (len(value) == 1 and next(iter(value)).startswith("$")):
        return {key: escape(v) for key, v in value.items()}
    return {"$map": [[escape(key), escape(v)] for key, v in value.items()]}


def unescape(value: Any) -> Any:
    """Undo `escape` on decoded JSON."""
    kind = type(value)
    if kind is list:
        return [unescape(v) if type(v) is list or type(v) is dict else v for v in value]
    if kind is not dict:
        return value
    if len(value) == 1:
        ((key, held),) = value.items()
        if key.startswith("$"):
            return _unescape_tagged(key, held)
    return {key: unescape(v) for key, v in value.items()}


def _unescape_tagged(tag: str, held: Any) -> Any:
    if tag == "$kw" and type(held) is str:
        return held
    if tag == "$set" and type(held) is list:
        return frozenset(_hashable(held, "a set's member"))
    if tag == "$map" and type(held) is list:
        if not all(type(pair) is list and len(pair) == 2 for pair in held):
            raise HistoryError("a $map holds something that is not a pair")
        keys = _hashable((k for k, _ in held), "a map's key")
        return {k: unescape(v) for k, (_, v) in zip(keys, held, strict=True)}
    raise HistoryError(f"unknown escape: {tag}")


def _hashable(members: Iterable[Any], what: str) -> list[Any]:
    # A list would not hash; equal lists are equal tuples, and are written alike again.
    return [_frozen(unescape(m), what) for m in members]


def _frozen(value: Any, what: str) -> Any:
    if type(value) is list:
        return tuple(_frozen(v, what) for v in value)
    if type(value) is dict:
        raise HistoryError(f"{what} is a map: not supported")
    return value


class Grown:
    """Decodes texts whose list grows from one to the next.

    A broker says all its epochs each time: after some hundred elections an answer is 10 KB of text
    of which a few bytes are new, and an hour of answers is half a gigabyte. So a list shares its
    elements with that of an earlier text that began alike: nobody may change either.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, list[Any]]] = {}
        self._values: dict[str, tuple[str, Any]] = {}

    def value(self, text: str) -> Any:
        """What `decode_value` gives of it; the same object as of the last text that began alike, if
        that is the same text.

        Raises:
            HistoryError: the text is no value.
        """
        head = text[:_HEAD]
        before = self._values.get(head)
        if before is not None and before[0] == text:
            return before[1]
        if len(self._values) >= _HEADS_MAX:
            self._values.clear()
        found = self._decoded(text)
        self._values[head] = text, found
        return found

    def _decoded(self, text: str) -> Any:
        """What `decode_value` gives of it.

        Raises:
            HistoryError: the text is no value.
        """
        at = text.find(_KEY + "[[")
        end = text.find("]]", at) + 2
        if at < 0 or end < 2 or text.find(_KEY, end) >= 0:
            return decode_value(text)
        found = self._list(text[:at], text[at + len(_KEY) : end])
        if found is None:
            return decode_value(text)
        with suppress(HistoryError):  # whose words are those of the whole text
            rest = decode_value(f"{text[:at]}{_KEY}null{text[end:]}")
            if type(rest) is dict and rest.get("epochs", found) is None:
                rest["epochs"] = found
                return rest
        return decode_value(text)  # it is not the value's own list

    def _list(self, head: str, text: str) -> list[Any] | None:
        """The list of a text; None: it is to be read by other means."""
        known, before = self._last.get(head, ("[", []))
        shared = text.startswith(known)
        tail = "[" + text[len(known) :] if shared else text
        if not _NUMBERS.fullmatch(tail):
            return None
        try:
            found: list[Any] = _DECODER.decode(tail)
        except NOT_JSON:
            return None
        if shared:
            found = before + found
        if len(self._last) >= _HEADS_MAX:
            self._last.clear()
        # The last element's end grows; it is read anew each time.
        self._last[head] = text[: text.rfind("[")], found[:-1]
        return found
