"""Words that every part of the reference shares: records, ids, and the one way to crash.

Records cross a border between a pure core and its shell, so they are frozen and tagged. Mutable
core state uses ``@dataclass(slots=True)`` instead. Offsets are bytes or message indices and must
never mix, so the `NewType`s.
"""

from typing import NewType, TypeVar, dataclass_transform

import msgspec

BrokerId = NewType("BrokerId", int)  # the persistent id, >= 1, unique in a broker set
PhyOffset = NewType("PhyOffset", int)  # a byte position in a commit log
QueueOffset = NewType("QueueOffset", int)  # a message index in one queue
MasterEpoch = NewType("MasterEpoch", int)

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Record(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Base of everything that crosses a core's border. Required fields come first."""


class InvariantViolation(AssertionError):
    """State that must never exist. A programmer error: crash, never catch."""


class RemoteProtocolError(Exception):
    """Bytes of a peer or of a file that cannot be parsed. Raised only by codecs."""


class LocalProtocolError(ValueError):
    """A caller asked a codec for something that the format cannot carry."""


def invariant(ok: bool, claim: str, **seen: object) -> None:
    """Crash unless `ok`. Always on, also under ``python -O``; one condition per call."""
    if not ok:
        raise InvariantViolation(f"{claim}; seen {seen}")


def some(value: T | None, why: str) -> T:
    """Return `value`, which cannot be None because of `why`."""
    if value is None:
        raise InvariantViolation(f"unexpected None: {why}")
    return value
