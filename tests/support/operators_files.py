"""Files of settings as operators might have them: every key that the reference honours, and some
that only RocketMQ knows, with the values that people set, each pair of which some file has."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from covering import covering

from maxq.checkers.core.promises import DEFAULTS
from maxq.harness.cli.given.asked import asked_from
from maxq.harness.contracts.environment import Role
from maxq.harness.schedule.options import Options
from maxq.harness.targets.known_keys import NEWEST, value_fault
from maxq.harness.targets.reference import PERIODS
from maxq.harness.targets.settings_files import Fate, fate, read
from maxq.reference.java_keys import MACHINE, Key, key_in, keys_of

EACH_PASSED = 15  # of the keys that only RocketMQ uses, one in so many
TEXTS = {"messageDelayLevel": ("1s 5s 10s",), "deleteWhen": ("04;16",), "regionId": ("cn-a",),
         "namesrvAddr": ("10.0.0.1:9876", "ns-a:9876;ns-b:9876")}  # fmt: skip
PAIR = {"brokerRole": "ASYNC_MASTER"}
COPIED = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}
ELECTED = {"enableControllerMode": "true", "totalReplicas": "2"}
POOL = {"transientStorePoolEnable": "true"}
ALL_ACK = {"allAckInSyncStateSet": "true"}
SYNCED = {"flushDiskType": "SYNC_FLUSH"}
UNCLEAN = {"controller:enableElectUncleanMaster": "true"}
ACTING = {"enableSlaveActingMaster": "true", "slaveReadEnable": "true",
          "namesrv:supportActingMaster": "true"}  # fmt: skip
# What decides which messages survive, and a fault that shows it.
KEEPING: Mapping[str, tuple[str, dict[str, str]]] = {
    "a pair": ("kill", PAIR),
    "a pair with a pool": ("kill", PAIR | POOL),
    "a pair that copies": ("kill", COPIED | POOL),
    "a pair that waits for fewer": ("kill", COPIED | {"enableAutoInSyncReplicas": "true"} | POOL),
    "a pair that acts": ("restart", COPIED | ACTING),
    "controllers": ("partition", ELECTED),
    "controllers with a pool": ("kill", ELECTED | POOL),
    "controllers, copied": ("partition", ELECTED | {"inSyncReplicas": "2"}),
    "controllers, unclean": ("kill", ELECTED | UNCLEAN),
    "controllers, all-ack": ("partition", ELECTED | ALL_ACK),
    "controllers, all-ack of two": (
        "power", ELECTED | ALL_ACK | SYNCED | {"minInSyncReplicas": "2"},
    ),
    "controllers without power": ("power", ELECTED),
}  # fmt: skip
LOSES = frozenset({"a pair with a pool", "controllers", "controllers with a pool"})
Settings = dict[str, str]  # key of a broker, or role:key


def factors() -> dict[str, tuple[str, ...]]:
    """The values of each key, as role:key; an empty value is a file without it."""
    found = {}
    for role in Role:
        passed = 0
        for name in sorted(keys_of(role.value)):
            setting, key = f"{role.value}:{name}", key_in(role.value, name, NEWEST)
            becomes = fate(role, name)
            passed += becomes is Fate.PASSED
            sampled = becomes is Fate.PASSED and passed % EACH_PASSED == 0
            if key is None or setting in DEFAULTS or not (
                becomes is Fate.HONOURED or sampled or name in TEXTS
            ):  # fmt: skip
                continue
            values = [v for v in _values(key) if v != key.default and not value_fault(setting, v)]
            if values:
                found[setting] = ("", *values)
    return found


def _values(key: Key) -> tuple[str, ...]:
    if key.name in TEXTS:
        return TEXTS[key.name]
    if key.type == "boolean":
        return ("true", "false")
    if key.values:
        return key.values
    if key.type not in ("int", "long") or key.default in (MACHINE, ""):
        return ()
    n, setting = int(key.default), f"{key.role}:{key.name}"
    around = ((n // 4, n * 9 // 10), (n * 3, n + 1))
    fit = ([v for v in map(str, side) if not value_fault(setting, v)] for side in around)
    return tuple(side[0] for side in fit if side)


def files(count: int) -> Iterator[tuple[str, Settings]]:
    """How a file keeps messages, and what it says beside that: `count` files, of every way the
    first one with nothing else. Every pair of values is met by each way of a full array. A way that
    loses leaves out what moves its faults or its commits, so that each of its files must lose."""
    of = factors()
    rows = islice(covering([len(values) for values in of.values()]), count // len(KEEPING))
    beside = [{}, *({k: v[n] for (k, v), n in zip(of.items(), row, strict=True) if v[n]}
                    for row in rows)]  # fmt: skip
    for settings, way in islice(((s, w) for s in beside for w in KEEPING), count):
        timed = _moves if way in LOSES else (lambda _: False)
        yield way, {key: value for key, value in settings.items() if not timed(key)}


def _moves(setting: str) -> bool:
    role, _, key = setting.partition(":")
    return key in PERIODS[Role(role)] or bool(re.search("[cC]ommit|Wait|waitSec|Flush", key))


def options(folder: Path, way: str, settings: Settings, seed: int) -> Options:
    """Write the files, and read them as a command does.

    Raises:
        ValueError: they are refused.
    """
    nemesis, own = KEEPING[way]
    given: dict[str, Any] = {
        "environment": "simulated", "seed": seed, "nemesis": (nemesis,), "workload": ("queue",),
        "time_limit": 6_000_000_000, "rate": 100.0, "concurrency": 10, "mutant": None,
        "target": "reference", "timing": "fast", "profile": None, "keys": (), "mode": None,
    }  # fmt: skip
    for role in Role:
        prefix = f"{role.value}:"
        every = {k if ":" in k else f"broker:{k}": v for k, v in (settings | own).items()}
        lines = [
            f"{k.removeprefix(prefix)}={v}\n" for k, v in every.items() if k.startswith(prefix)
        ]
        if lines and (role is not Role.CONTROLLER or "enableControllerMode" in own):
            path = folder / f"{role.value}.conf"
            path.write_text("".join(lines))
            given[f"{role.value}_conf"] = (read(path, role),)
    return asked_from(given)
