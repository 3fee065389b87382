"""Reads what fastjson writes, which is not always JSON; writes what every Java release reads.

fastjson leaves integer map keys bare (``{0:"x"}``) and writes objects as map keys
(``{{"queueId":0}:7}``). Here the keys of every object become str: a bare key its own text, an
object key (or array) its compact JSON with sorted keys. `dumps` of what `loads` gave is strict
JSON. Bare integer keys are never written: 5.4.0 and later reject a whole document for one in a
field they do not know. Object keys are written as Java does (`dumps_object_keys`): 5.5.0 (fastjson
2.0.59) takes no text in their place, though fastjson 1.2.83 did.

``$ref`` markers stay what they are, objects with one key. Numbers must fit a Java long or be
doubles; NaN and infinities do not exist. Source: fastjson 1.2.83 and fastjson2 as run and
captured, docs/spec/remoting.md 3.2 and 3.3.
"""

import re

import msgspec

from maxq.reference.records import LocalProtocolError, RemoteProtocolError

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

DEPTH_MAX = 64  # of nested objects and arrays; Java's own bodies stay below 10

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"[-+.\w]+")
_BARE_KEY = re.compile(r"[-+.$\w]+")
_string = msgspec.json.Decoder(str)
_scalar = msgspec.json.Decoder(None | bool | int | float)


def loads(data: bytes) -> Json:
    """Read one document.

    Raises:
        RemoteProtocolError: it is not JSON even so, or nested too deep.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"json is not UTF-8: {error}") from None
    reader = _Reader(text)
    value = reader.value(0)
    reader.end()
    return value


def dumps(value: object) -> bytes:
    """Write compact strict JSON; integer keys are quoted.

    Raises:
        LocalProtocolError: a value that JSON does not have.
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise LocalProtocolError(f"not json: {error}") from None


def dumps_object_keys(value: object) -> bytes:
    """Write JSON as `dumps`, but every key that is the JSON of an object as that object.

    Raises:
        LocalProtocolError: a value that JSON does not have.
    """
    if not isinstance(value, dict):
        return dumps(value)
    members = (
        (key.encode() if key.startswith("{") else dumps(key)) + b":" + dumps_object_keys(member)
        for key, member in value.items()
    )
    return b"{" + b",".join(members) + b"}"


def object_key(value: object) -> str:
    """Write the object that Java uses as a map key as the str that stands for it here."""
    return msgspec.json.encode(value, order="sorted").decode()


class _Reader:
    """A recursive descent over one text; `at` is always the next character to read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def value(self, depth: int) -> Json:
        if depth > DEPTH_MAX:
            raise RemoteProtocolError(f"json nested deeper than {DEPTH_MAX}")
        match self._peek():
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case '"':
                return self._str()
            case _:
                return self._literal()

    def end(self) -> None:
        if self._peek():
            raise self._wrong("the end")

    def _peek(self) -> str:
        """Skip white space; give the next character, or an empty str at the end."""
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.text[self.at : self.at + 1]

    def _object(self, depth: int) -> Json:
        out: dict[str, Json] = {}
        self.at += 1
        if self._skip("}"):
            return out
        while True:
            key = self._key(depth)
            if not self._skip(":"):
                raise self._wrong("a colon")
            out[key] = self.value(depth + 1)
            if self._skip("}"):
                return out
            if not self._skip(","):
                raise self._wrong("a comma or brace")

    def _array(self, depth: int) -> Json:
        out: list[Json] = []
        self.at += 1
        if self._skip("]"):
            return out
        while True:
            out.append(self.value(depth + 1))
            if self._skip("]"):
                return out
            if not self._skip(","):
                raise self._wrong("a comma or bracket")

    def _skip(self, char: str) -> bool:
        if self._peek() != char:
            return False
        self.at += 1
        return True

    def _key(self, depth: int) -> str:
        match self._peek():
            case '"':
                return self._str()
            case "{" | "[":
                return object_key(self.value(depth + 1))
            case _:
                return self._match(_BARE_KEY, "a key")

    def _str(self) -> str:
        raw = self._match(_STRING, "a string")
        try:
            return _string.decode(raw.encode())
        except (msgspec.DecodeError, UnicodeError) as error:
            raise RemoteProtocolError(f"json string before {self.at}: {error}") from None

    def _literal(self) -> Json:
        raw = self._match(_SCALAR, "a value")
        try:
            value: bool | int | float | None = _scalar.decode(raw.encode())
        except (msgspec.DecodeError, ValueError) as error:
            raise RemoteProtocolError(f"json value before {self.at}: {error}") from None
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise RemoteProtocolError(f"json number before {self.at} does not fit 64 bits")
        return value

    def _match(self, pattern: re.Pattern[str], wanted: str) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self._wrong(wanted)
        self.at = found.end()
        return found.group()

    def _wrong(self, wanted: str) -> RemoteProtocolError:
        seen = self.text[self.at : self.at + 20]
        return RemoteProtocolError(f"json needs {wanted} at {self.at}: {seen!r}")
