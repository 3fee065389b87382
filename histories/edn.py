"""Writes EDN, for what Jepsen's tools read of ours: ``results.edn`` and exported histories.

Writer only, and only the forms that a reader without tag readers accepts: nil, booleans, integers,
finite floats, strings, keywords, vectors, maps, sets. Source: docs/spec/history-format.md 8.2.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"[A-Za-z*+!_?<>=$%&-][A-Za-z0-9*+!_?<>=$%&./'#-]*")
_LONG = range(-(1 << 63), 1 << 63)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Keyword(str):
    """A string that is written as ``:name``."""

    __slots__ = ()


def to_edn(value: Any) -> str:
    """The EDN text of a value. A map's string keys become keywords where they can be one.

    Raises:
        ValueError: a NaN, an infinity, or a type that EDN's safe subset lacks.
    """
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value)) if value in _LONG else f"{int(value)}N"
        case float():
            if not math.isfinite(value):
                raise ValueError(f"not a finite number: {value}")
            return repr(value)
        case Keyword():
            return _keyword(value)
        case str():
            return _string(value)
        case list() | tuple():
            return "[" + " ".join(map(to_edn, value)) + "]"
        case set() | frozenset():
            return "#{" + " ".join(sorted(map(to_edn, value))) + "}"
        case Mapping():
            return "{" + ", ".join(f"{_key(k)} {to_edn(v)}" for k, v in value.items()) + "}"
    raise ValueError(f"EDN cannot hold a {type(value).__name__}: {value!r:.100}")


def name_of(text: str) -> str:
    """A keyword where a text can be one, else the text."""
    return Keyword(text) if _NAME.fullmatch(text) else text


def _key(key: Any) -> str:
    if isinstance(key, str) and _NAME.fullmatch(key):
        return f":{key}"
    return to_edn(key)


def _keyword(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"not a keyword: {str(name)!r:.100}")
    return f":{name}"


def _string(text: str) -> str:
    # Half a surrogate pair cannot be encoded, and this file must be written whatever happened.
    whole = text.encode("utf-8", "replace").decode()
    return '"' + "".join(map(_char, whole)) + '"'


def _char(c: str) -> str:
    if c in _ESCAPES:
        return _ESCAPES[c]
    return c if c >= " " else f"\\u{ord(c):04x}"
