"""Which keys of RocketMQ's configuration there are, and which of them the reference uses.

A key that nobody knows is a typing error: RocketMQ ignores it in silence, and a run would be judged
as if it had been set. The list is that of RocketMQ's own classes (`maxq.reference.java_keys`).
"""

from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.nearest import nearest
from maxq.reference.config import ROLES, ConfigError, keys_known, keys_used, parse_config

_BY_LETTER = {"n": Role.NAMESRV, "c": Role.CONTROLLER, "b": Role.BROKER}


def _roles(who: str) -> tuple[Role, ...]:
    """The roles that ``broker``, or the node ``b0-1``, can have."""
    if who in {role.value for role in Role}:
        return (Role(who),)
    role = _BY_LETTER[who[0]]
    return (role, Role.CONTROLLER) if role is Role.NAMESRV else (role,)


def fault(setting: str) -> str:
    """What is wrong with the key of ``broker:flushDiskType``; empty if it is known."""
    who, _, key = setting.partition(":")
    roles = _roles(who)
    known = frozenset[str]().union(*(keys_known(role.value) for role in roles))
    if key in known:
        return ""
    return f"a {roles[0].value} has no key {key!r}{nearest(key, sorted(known))}"


def value_fault(setting: str, value: str) -> str:
    """What is wrong with the value of a known key, as far as the reference uses it; else empty."""
    who, _, key = setting.partition(":")
    for role in _roles(who):
        if key in keys_used(role.value):
            line = f"{key}={value}".replace("\\", "\\\\").replace("\n", "")
            try:
                parse_config(ROLES[role.value], line.encode(), "")
            except ConfigError as error:
                return str(error).removeprefix(":1: ")
    return ""


def ignored(setting: str) -> bool:
    """Whether the reference does not use a key."""
    who, _, key = setting.partition(":")
    return not any(key in keys_used(role.value) for role in _roles(who))
