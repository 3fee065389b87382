"""Files of settings as operators have them: RocketMQ's properties, one file or a folder of them.

A wrong value is refused with file and line, all of them at once. Which cluster the files describe:
`maxq.harness.targets.cluster_files`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from maxq.harness.contracts.environment import Role
from maxq.harness.targets import known_keys
from maxq.reference.config import keys_used
from maxq.reference.java_keys import keys_of
from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire.files import decode_properties

SUFFIXES = (".conf", ".properties")
NAMES, ADDRESSES, FILES = "names are Max-Q's", "so are addresses and ports", "and paths"
ROLES = "controllers decide them"
# What Max-Q sets itself for each node, since it lays out the cluster: with the reason.
OWN: Mapping[Role, Mapping[str, str]] = {
    Role.BROKER: {
        **dict.fromkeys(("brokerClusterName", "brokerName"), NAMES),
        **dict.fromkeys(("brokerId", "brokerRole"), ROLES),
        **dict.fromkeys(
            """
            listenPort namesrvAddr controllerAddr brokerIP1 brokerIP2 haListenPort bindAddress
            fetchNameSrvAddrByDnsLookup fetchNamesrvAddrByAddressServer haMasterAddress
            fetchControllerAddrByDnsLookup
            """.split(),
            ADDRESSES,
        ),
        **dict.fromkeys(
            """
            storePathRootDir storePathCommitLog storePathDLedgerCommitLog storePathEpochFile
            storePathBrokerIdentity storePathConsumeQueue storePathIndex timerStorePath abortFile
            storeCheckpoint rocketmqHome readOnlyCommitLogStorePaths authConfigPath
            """.split(),
            FILES,
        ),
        "enableControllerMode": "--mode says it",
        "asyncLearner": "--learners says it",
        **dict.fromkeys(
            ("dLegerGroup", "dLegerPeers", "dLegerSelfId"), known_keys.NO_DLEDGER
        ),
    },
    Role.CONTROLLER: {
        **dict.fromkeys(
            ("controllerDLegerGroup", "controllerDLegerSelfId", "jRaftGroupId", "jRaftServerId"),
            NAMES,
        ),
        **dict.fromkeys(
            ("controllerDLegerPeers", "listenPort", "bindAddress", "jRaftControllerRPCAddr",
             "jRaftInitConf"),
            ADDRESSES,
        ),
        **dict.fromkeys(("controllerStorePath", "configStorePath", "rocketmqHome"), FILES),
        "controllerType": "--target says it",
    },
    Role.NAMESRV: {
        **dict.fromkeys(("listenPort", "bindAddress"), ADDRESSES),
        **dict.fromkeys(("kvConfigPath", "configStorePath", "rocketmqHome"), FILES),
        "enableControllerInNamesrv": "--embedded-controllers says it",
    },
}  # fmt: skip
# From which the mode, the roles and the counts follow.
LAYOUT: Mapping[Role, frozenset[str]] = {
    Role.BROKER: frozenset(
        """
        enableControllerMode asyncLearner brokerName brokerRole brokerId totalReplicas namesrvAddr
        controllerAddr
        """.split()
    ),
    Role.CONTROLLER: frozenset({"controllerDLegerPeers"}),
    Role.NAMESRV: frozenset({"enableControllerInNamesrv"}),
}
# By which keys, and else by which words of its name, a file of a folder is known.
_BY_KEY = (
    (Role.NAMESRV, ("enableControllerInNamesrv", "kvConfigPath", "supportActingMaster",
                    "orderMessageEnable")),
    (Role.CONTROLLER, ("controllerDLegerGroup", "controllerDLegerPeers", "jRaftInitConf",
                       "controllerStorePath")),
    (Role.BROKER, ("brokerName", "brokerRole", "brokerId", "brokerClusterName")),
)  # fmt: skip
_BY_NAME = (("namesrv", Role.NAMESRV), ("nameserver", Role.NAMESRV), ("name-server", Role.NAMESRV),
            ("controller", Role.CONTROLLER), ("broker", Role.BROKER))  # fmt: skip
CONTAINER = "brokerConfigPaths"


class SettingsError(ValueError):
    """A file that cannot be taken; a line for each thing that is wrong."""


class Line(msgspec.Struct, frozen=True):
    """A setting and the number of its line."""

    value: str
    number: int


class SettingsFile(msgspec.Struct, frozen=True):
    """What a file of one node, or of all nodes of a role, says: by RocketMQ's keys."""

    role: Role
    name: str
    lines: dict[str, Line]

    def get(self, key: str, default: str = "") -> str:
        """The value of a key, without blanks around it."""
        return self.lines[key].value.strip() if key in self.lines else default


def read(path: Path, role: Role | None) -> tuple[SettingsFile, ...]:
    """Read a file, or those of a folder whose role is known by what they say.

    Args:
        path: of the file or folder.
        role: whose file it is; None: that is found out.

    Raises:
        OSError: it cannot be read.
        SettingsError: it is no properties text, or nothing of the folder is a node's.
    """
    if not path.is_dir():
        alone = _file(path, role)
        if alone is None:
            raise SettingsError(f"{path}: neither keys nor name say whose file it is")
        return (alone,)
    files = [each for each in sorted(path.iterdir()) if each.suffix in SUFFIXES and each.is_file()]
    found = [file for each in files if (file := _file(each, None)) is not None]
    if not found:
        raise SettingsError(f"{path}: no file in it is a broker's, controller's or name server's; "
                            f"looked at {len(files)} named *.conf and *.properties")  # fmt: skip
    return tuple(found)


def _file(path: Path, role: Role | None) -> SettingsFile | None:
    """A file; None where nobody knows whose it is."""
    content = path.read_bytes()
    if b"\0" in content:
        raise SettingsError(f"{path}: not a text file of settings")
    try:
        content.decode()
    except UnicodeDecodeError:  # Java reads these files as Latin-1, and comments have other bytes
        content = content.decode("latin-1").encode()
    try:
        entries = decode_properties(content.removeprefix(b"\xef\xbb\xbf"))
    except RemoteProtocolError as error:
        raise SettingsError(f"{path}: {error}") from None
    lines = {entry.key: Line(entry.value, entry.line) for entry in entries}
    if CONTAINER in lines:
        raise SettingsError(f"{path}:{lines[CONTAINER].number}: {known_keys.NO_CONTAINER}")
    role = role or _role_of(path.name, lines)
    if role is None:
        return None
    if lines and not any(key in keys_of(of.value) for of in Role for key in lines):
        first = ", ".join([*lines][:3])
        raise SettingsError(f"{path}: none of its keys is RocketMQ's: {first}")
    return SettingsFile(role, str(path), lines)


def _role_of(name: str, keys: Iterable[str]) -> Role | None:
    has = set(keys)
    for role, own in _BY_KEY:
        if has & set(own):
            return role
    return next((role for word, role in _BY_NAME if word in name.lower()), None)


def check(files: Iterable[SettingsFile], target: str) -> None:
    """Refuse values that cannot be right, and settings that no run can have.

    Args:
        files: of all nodes.
        target: what runs; a key that it overlooks may have any value.

    Raises:
        SettingsError: names file and line, and the nearest right value.
    """
    wrong = []
    for file in files:
        for key, line in file.lines.items():
            for role in roles_in(file):
                if known_keys.overlooks(role, key, target):
                    continue
                if why := _fault(role, key, line.value, target):
                    wrong.append(f"{file.name}:{line.number}: {why}")
    if wrong:
        raise SettingsError("\n".join(dict.fromkeys(wrong)))


def _fault(role: Role, key: str, value: str, target: str) -> str:
    """What is wrong with a value, and what RocketMQ makes of it."""
    if why := known_keys.type_fault_of(role, key, value):
        return f"{key}={value}: {why}; {known_keys.taken_for(role, key)}"
    if known_keys.other_controllers(role, key, value, target):
        return (
            f"{key}={value}: {target} has DLedger's controllers; --target {target}:jraft has these"
        )
    return "" if key in OWN[role] else known_keys.value_fault(f"{role.value}:{key}", value)


def roles_in(file: SettingsFile) -> tuple[Role, ...]:
    """The roles that a file's node has: a name server may hold a controller."""
    embeds = file.get("enableControllerInNamesrv").lower() == "true"
    return (file.role, Role.CONTROLLER) if embeds else (file.role,)


def overlooked(file: SettingsFile, key: str, target: str) -> bool:
    """Whether what runs has no such key in any role of the file's node."""
    return all(
        key not in OWN[role] and known_keys.overlooks(role, key, target) for role in roles_in(file)
    )


class Fate(StrEnum):
    """What Max-Q does with a key of a file."""

    LAYOUT = "decides the layout"
    OWN = "set by Max-Q, which lays out the cluster"
    REFUSED = "refused with a value that no run can have"
    HONOURED = "honoured by RocketMQ and by the reference"
    PASSED = "given to RocketMQ; without effect on the reference"


def fate(role: Role, key: str) -> Fate:
    """What becomes of a key that the release has; of one that it has not: `overlooked`."""
    if key in LAYOUT[role]:
        return Fate.LAYOUT
    if key in OWN[role]:
        return Fate.OWN
    if any(key == refused for refused, _ in known_keys.REFUSED[role]):
        return Fate.REFUSED
    return Fate.HONOURED if key in keys_used(role.value) else Fate.PASSED


def fates(release: str) -> dict[Role, Counter[Fate]]:
    """How many keys of each role of a release have which fate."""
    return {
        role: Counter(
            fate(role, name)
            for name, keys in keys_of(role.value).items()
            if any(key.holds_in(release) for key in keys)
        )
        for role in Role
    }


def why_left_out(settings: Iterable[str]) -> tuple[str, ...]:
    """Settings that were left out, such as ``broker:brokerName``, in words: by their reasons."""
    reasons = {f"{role.value}:{key}": why for role, of in OWN.items() for key, why in of.items()}
    by_reason: dict[str, list[str]] = {}
    for setting in settings:
        key = setting.partition(":")[2]
        by_reason.setdefault(reasons.get(setting, NAMES), []).append(key)
    return tuple(f"{', '.join(keys)} ({reason})" for reason, keys in by_reason.items())
