"""Which keys of RocketMQ's configuration there are, in which release, and which the reference uses.

A key that nobody knows is a typing error: RocketMQ ignores it in silence, and a run would be
judged as if it had been set. The list is that of RocketMQ's own classes
(`maxq.reference.java_keys`).
"""

import difflib
from collections.abc import Mapping

from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.nearest import nearest
from maxq.harness.targets.rocketmq.releases import BACK_ENDS, MISSING, ordered, release_of
from maxq.reference.config import (
    ROLES,
    ConfigError,
    keys_known,
    keys_used,
    parse_config,
    type_fault,
)
from maxq.reference.java_keys import key_in, keys_of

NEWEST = [*MISSING][-1]
SPELLING = 0.85  # how like a key another one is that is meant, as difflib measures it
_BY_LETTER = {"n": Role.NAMESRV, "c": Role.CONTROLLER, "b": Role.BROKER}
NO_ACL = "Max-Q's clients do not sign what they ask for; set it to false to test without it"
NO_DLEDGER = "Max-Q runs no DLedger brokers; controllers or a fixed master do their work"
NO_CONTAINER = "this is the file of a BrokerContainer; give the files of the brokers in it"
NO_PERMISSION = "brokers would take no messages, or give none; 6 allows both"
ANY = "*"  # stands for each value that is not empty
# What no run can do, by role, key and value, with the reason.
REFUSED: Mapping[Role, Mapping[tuple[str, str], str]] = {
    Role.BROKER: {
        ("aclEnable", "true"): NO_ACL,
        ("authenticationEnabled", "true"): f"ACL 2.0: {NO_ACL}",
        ("authorizationEnabled", "true"): f"ACL 2.0: {NO_ACL}",
        ("enableDLegerCommitLog", "true"): NO_DLEDGER,
        ("useTLS", "true"): "Max-Q's clients do not speak TLS",
        ("inBrokerContainer", "true"): NO_CONTAINER,
        **{("brokerPermission", str(n)): NO_PERMISSION for n in range(8) if n & 6 != 6},
        ("messageStorePlugIn", ANY): "Max-Q judges RocketMQ's own message store; a plug-in such as "
        "tiered storage keeps messages elsewhere",
    },
    Role.CONTROLLER: {("controllerType", "jRaft"): "--target rocketmq:RELEASE:jraft says it"},
    Role.NAMESRV: {},
}


def roles_of(who: str) -> tuple[Role, ...]:
    """The roles that ``broker``, or the node ``b0-1``, can have."""
    if who in {role.value for role in Role}:
        return (Role(who),)
    role = _BY_LETTER[who[0]]
    return (role, Role.CONTROLLER) if role is Role.NAMESRV else (role,)


def fault(setting: str) -> str:
    """What is wrong with the key of ``broker:flushDiskType``; empty if it is known."""
    who, _, key = setting.partition(":")
    roles = roles_of(who)
    known = frozenset[str]().union(*(keys_known(role.value) for role in roles))
    if key in known:
        return ""
    return f"a {roles[0].value} has no key {key!r}{nearest(key, sorted(known))}"


def value_fault(setting: str, value: str) -> str:
    """What is wrong with the value of a known key, or why no run can have it; else empty."""
    who, _, key = setting.partition(":")
    for role in roles_of(who):
        line = f"{key}={value}"
        if why := refusal(role, key, value.strip()):
            return f"{line}: {why}"
        if why := type_fault_of(role, key, value):
            return f"{line}: {why}"
        if key in keys_used(role.value):
            try:
                text = line.replace("\\", "\\\\").replace("\n", "")
                parse_config(ROLES[role.value], text.encode(), "")
            except ConfigError as error:
                return str(error).removeprefix(":1: ")
    return ""


def refusal(role: Role, key: str, value: str) -> str:
    """Why no run can have a value of a key; empty if runs can."""
    of = REFUSED[role]
    return of.get((key, value)) or (of.get((key, ANY), "") if value else "")


def other_controllers(role: Role, key: str, value: str, target: str) -> bool:
    """Whether a file asks for controllers of the kind that a target does not run."""
    jraft = role is Role.CONTROLLER and key == "controllerType" and value.strip() == "jRaft"
    release = release_of(target)
    return jraft and release is not None and not target.endswith(f":{BACK_ENDS[1]}")


def type_fault_of(role: Role, key: str, value: str) -> str:
    """What a value is not that RocketMQ's key needs; empty: it is fit, or the key not known."""
    found = keys_of(role.value).get(key)
    return type_fault(found[-1].type, found[-1].values, value) if found else ""


def taken_for(role: Role, key: str) -> str:
    """What RocketMQ makes of a value of another type, which it takes in silence."""
    of = keys_of(role.value)[key][-1]
    if of.type == "boolean":
        return "RocketMQ takes it for false"
    return "RocketMQ ignores the line" + (f" and takes {of.default}" if of.default else "")


def ignored(setting: str) -> bool:
    """Whether the reference does not use a key."""
    who, _, key = setting.partition(":")
    return not any(key in keys_used(role.value) for role in roles_of(who))


def _release(target: str) -> str:
    """Of which release the table's keys count: the newest for the reference, and for newer ones."""
    release = release_of(target) or NEWEST
    return min(release, NEWEST, key=ordered)


def overlooks(role: Role, key: str, target: str) -> bool:
    """Whether what runs has no such key, and so ignores it in silence."""
    if key in keys_used(role.value) and release_of(target) is None:
        return False
    return key_in(role.value, key, _release(target)) is None


def why_overlooked(setting: str, target: str) -> str:
    """Such a key with its last release, or with the nearest that there is."""
    role, _, key = setting.partition(":")
    if of := keys_of(role).get(key):
        first, last = of[0].first, of[-1].last
        spans = f"only in {first}" if first == last else f"only from {first} to {last}"
        return f"{key} ({spans})"
    release = _release(target)
    known = [name for name in keys_of(role) if key_in(role, name, release)]
    near = difflib.get_close_matches(key, known, n=1, cutoff=SPELLING)
    return f"{key} (did you mean {near[0]}?)" if near else key


def shipped(role: Role, key: str, target: str) -> str | None:
    """The value of a key where none is set; None where there is no such key, ``*`` where it depends
    on the machine."""
    found = key_in(role.value, key, _release(target))
    return None if found is None else found.default
