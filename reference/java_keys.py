"""The configuration keys of Apache RocketMQ by role and release: what each is, and its default.

The table ``java_keys.tsv`` is made from RocketMQ's own configuration classes by
``python -m benchmarks.key_table``. A line is role, key, first and last release in which it is so,
type (``int``, ``long``, ``double``, ``boolean``, ``string``), the values of an enum joined by
commas, and the default; ``*`` is a default that depends on the machine. The release 4.9.7 stands
for all before 5.0: many files have its spellings.

A file that serves both systems may hold all of them: our nodes accept each that they do not use
with one warning.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

TABLE = Path(__file__).with_name("java_keys.tsv")
MACHINE = "*"
# A system property of the Java broker, which our broker has as a line of its file.
LOCK_LEASE = "rocketmq.broker.rebalance.lockMaxLiveTime"
# RIP-31's name for the inverse of replicasPerDiskPartition; no release has it.
RIP_QUOTA = "quotaPercentForDiskPartition"


class Key(msgspec.Struct, frozen=True):
    """One line of the table: what a key is from one release to another, both included."""

    role: str
    name: str
    first: str
    last: str
    type: str
    values: tuple[str, ...]
    default: str

    def holds_in(self, release: str) -> bool:
        """Whether this is what the key is in a release."""
        return _ordered(self.first) <= _ordered(release) <= _ordered(self.last)


def _ordered(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.partition("-")[0].split(".")))


def _read() -> dict[str, dict[str, tuple[Key, ...]]]:
    found: dict[str, dict[str, tuple[Key, ...]]] = {}
    for line in TABLE.read_text().splitlines():
        role, name, first, last, type_, values, default = line.split("\t")
        choices = tuple(values.split(",")) if values else ()
        of = found.setdefault(role, {})
        of[name] = (*of.get(name, ()), Key(role, name, first, last, type_, choices, default))
    return found


_KEYS = _read()


def keys_of(role: str) -> Mapping[str, tuple[Key, ...]]:
    """All keys of a role, by name; the lines of each from the oldest release on."""
    return _KEYS[role]


def key_in(role: str, name: str, release: str) -> Key | None:
    """What a key is in a release; None where the release has none of that name."""
    return next((k for k in keys_of(role).get(name, ()) if k.holds_in(release)), None)
