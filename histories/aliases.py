"""Names that older versions wrote, and today's: the one table by which both are read.

Anyone who reads what was stored, or what a person wrote, asks it: histories for operations,
schedules and journals for whatever they name, the command line for faults. What is written has
today's names.
"""

from collections.abc import Mapping
from typing import Any

THEN = "-then-"  # joins two faults, of which the second strikes within a while of the first

# Of the nemesis.
ACTS: Mapping[str, str] = {
    "change-ip": "change-address",
    "restore-ip": "restore-address",
    "terminate": "stop",
}
# Of clients.
OPERATIONS: Mapping[str, str] = {
    "readdress": "change-address",
    "commit-place": "commit-offset",
    "fetch-place": "fetch-offset",
}
# Of faults that a run asks for.
FAULTS: Mapping[str, str] = {"readdress": "change-address"}
# Of what a fault does to a node.
EFFECTS: Mapping[str, str] = {"moved": "address"}
# Of options that a run stores.
OPTIONS: Mapping[str, str] = {"calm": "constant_latency"}
# Of what a verdict rests on.
GROUNDS: Mapping[str, str] = {"place": "consumer-offset"}
ANOMALIES: Mapping[str, str] = {"place-forgotten": "consumer-offset-regressed"}
# Of the schedules that come with Max-Q.
SCHEDULES: Mapping[str, str] = {
    "last_member_moves": "last_member_changes_address",
    "places_lost_at_election": "consumer_offsets_lost_at_election",
}
# Of what `maxq check --engine` takes: `local` is an environment as well.
ENGINES: Mapping[str, str] = {"columns": "here", "local": "here"}
_NAMES: Mapping[str, str] = {
    **ACTS, **OPERATIONS, **FAULTS, **EFFECTS, **ANOMALIES, **OPTIONS, **SCHEDULES,
}  # fmt: skip


def current_f(f: str, process: int | str) -> str:
    """Today's name of an operation: of a client, or of the nemesis."""
    return (OPERATIONS if type(process) is int else ACTS).get(f, f)


def current(name: str) -> str:
    """Today's name of a fault or a pair of them, of an act, a schedule, or a signature."""
    if name in _NAMES:
        return _NAMES[name]
    for joint in (THEN, "/"):
        if joint in name:
            return joint.join(map(current, name.split(joint)))
    return name


def renamed(value: Any) -> Any:
    """A plain value with today's names, wherever a whole string is a name."""
    match value:
        case str():
            return current(value)
        case list():
            return [renamed(each) for each in value]
        case dict():
            return {renamed(key): renamed(each) for key, each in value.items()}
    return value
