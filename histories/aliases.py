"""Names that older versions wrote, and today's: the one table by which both are read.

Whoever reads what was stored, or what a person wrote, asks it: histories for operations, schedules
and journals for whatever they name, the command line for faults. What is written has today's names.
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
OPERATIONS: Mapping[str, str] = {"readdress": "change-address"}
# Of faults that a run asks for.
FAULTS: Mapping[str, str] = {"readdress": "change-address"}
# Of what a fault does to a node.
EFFECTS: Mapping[str, str] = {"moved": "address"}
_NAMES: Mapping[str, str] = {**ACTS, **OPERATIONS, **FAULTS, **EFFECTS}


def current_f(f: str, process: int | str) -> str:
    """Today's name of an operation: of a client, or of the nemesis."""
    return (OPERATIONS if type(process) is int else ACTS).get(f, f)


def current(name: str) -> str:
    """Today's name of a fault, an act, a signature (``O1/lost-tail``), or a pair of faults."""
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
