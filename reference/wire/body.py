"""Base of the JSON bodies: records that read fastjson's output and write strict JSON.

A body lists its fields in alphabetical order of their names on the wire, because that is how Java
writes them. A missing field takes its default, None is not written, an unknown field is ignored.
A field that Java always sends has no default unless Java's reader has one too; where such a field
follows another with a default, the class says ``kw_only=True``, which msgspec does not inherit.
"""

from typing import TypeVar

import msgspec

from maxq.reference.records import Record, RemoteProtocolError
from maxq.reference.wire import lenient_json
from maxq.reference.wire.lenient_json import Json

B = TypeVar("B", bound="Body")


class Body(Record, tag=False, rename="camel"):
    """Base of all JSON bodies. Maps inside are never changed after construction."""

    @classmethod
    def from_json(cls: type[B], data: bytes | None) -> B:
        """Read a body; None is a frame without one.

        Raises:
            RemoteProtocolError: no body, no JSON, or not of this shape.
        """
        if data is None:
            raise RemoteProtocolError(f"{cls.__name__}: no body")
        return read(cls, data)

    def to_json(self) -> bytes:
        """Write strict JSON in Java's field order, without nulls."""
        plain = msgspec.to_builtins(self, str_keys=True)
        return lenient_json.dumps(without_nulls(plain))


def read(cls: type[B], data: bytes) -> B:
    """Read `cls` from JSON, or from what fastjson writes instead of it.

    Raises:
        RemoteProtocolError: no JSON, or not of this shape.
    """
    try:
        return msgspec.json.decode(data, type=cls, strict=False)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # Bare keys, nulls in place of primitives: read slowly, as Java would.
        value = without_nulls(lenient_json.loads(data))
    try:
        return msgspec.convert(value, cls, strict=False, str_keys=True)
    except (msgspec.ValidationError, ValueError) as error:
        raise RemoteProtocolError(f"not a {cls.__name__}: {error}") from None


def without_nulls(value: Json | tuple[Json, ...]) -> Json:
    """Drop the null members of all objects, as fastjson does when it writes."""
    if isinstance(value, dict):
        return {
            k: without_nulls(v) if isinstance(v, (dict, list, tuple)) else v
            for k, v in value.items()
            if v is not None
        }
    if isinstance(value, (list, tuple)):
        return [without_nulls(v) for v in value]
    return value
