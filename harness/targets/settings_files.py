"""Files of settings as operators have them: RocketMQ's properties, taken for a whole cluster.

What cannot be right is refused with file and line, all of it at once. Keys that say where a node
lives and who it is are Max-Q's own, since it lays out the cluster itself; they are left out, and
named with the reason. Everything else is set for every node of the role.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from maxq.harness.contracts.environment import Role
from maxq.harness.targets import known_keys
from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire.files import decode_properties

NAMES, ADDRESSES, FILES = "who a node is", "addresses and whom a node knows", "where files lie"
# What differs between the nodes of a cluster, or is laid out by an option: why it is left out.
OWN: Mapping[Role, Mapping[str, str]] = {
    Role.BROKER: {
        **dict.fromkeys(("brokerClusterName", "brokerName", "brokerId", "brokerRole"), NAMES),
        **dict.fromkeys(
            """
            listenPort namesrvAddr controllerAddr brokerIP1 brokerIP2 haListenPort bindAddress
            fetchNameSrvAddrByDnsLookup fetchNamesrvAddrByAddressServer
            fetchControllerAddrByDnsLookup
            """.split(),
            ADDRESSES,
        ),
        **dict.fromkeys(
            """
            storePathRootDir storePathCommitLog storePathDLedgerCommitLog storePathEpochFile
            storePathBrokerIdentity storePathConsumeQueue storePathIndex timerStorePath abortFile
            rocketmqHome
            """.split(),
            FILES,
        ),
        "enableControllerMode": "there always are controllers",
        "totalReplicas": "--replicas says it",
        "asyncLearner": "--learners says it",
        **dict.fromkeys(
            ("enableDLegerCommitLog", "dLegerGroup", "dLegerPeers", "dLegerSelfId"),
            "controllers replicate, not DLedger",
        ),
    },
    Role.CONTROLLER: {
        **dict.fromkeys(
            ("controllerDLegerGroup", "controllerDLegerSelfId", "jRaftGroupId", "jRaftServerId"),
            NAMES,
        ),
        **dict.fromkeys(
            ("controllerDLegerPeers", "listenPort", "bindAddress", "jraftConfig",
             "jRaftControllerRPCAddr", "jRaftInitConf"),
            ADDRESSES,
        ),
        **dict.fromkeys(
            ("controllerStorePath", "configStorePath", "storePath", "rocketmqHome"), FILES
        ),
        "controllerType": "--target says it",
    },
}  # fmt: skip


class SettingsError(ValueError):
    """A file that cannot be taken; a line for each thing that is wrong."""


class Taken(NamedTuple):
    """What of a file counts: settings as ``broker:flushDiskType``, and the keys that are left out
    since Max-Q sets them itself."""

    keys: dict[str, str]
    own: tuple[str, ...]


def taken(role: Role, content: bytes, file: str) -> Taken:
    """Read a file.

    Args:
        role: whose file it is, broker or controller.
        content: its bytes.
        file: its name, for messages.

    Raises:
        SettingsError: names file and line, and the nearest right key.
    """
    try:
        entries = decode_properties(content)
    except RemoteProtocolError as error:
        raise SettingsError(f"{file}: {error}") from None
    keys: dict[str, str] = {}
    own: dict[str, None] = {}
    wrong: list[str] = []
    for entry in entries:
        setting = f"{role.value}:{entry.key}"
        if entry.key in OWN[role]:
            own[entry.key] = None
        elif why := known_keys.fault(setting) or known_keys.value_fault(setting, entry.value):
            wrong.append(f"{file}:{entry.line}: {why}")
        else:
            keys[setting] = entry.value
    if wrong:
        raise SettingsError("\n".join(wrong))
    return Taken(keys, tuple(own))


def why_left_out(settings: Iterable[str]) -> tuple[str, ...]:
    """Settings that were left out, such as ``broker:brokerName``, in words: by their reasons."""
    reasons = {f"{role.value}:{key}": why for role, of in OWN.items() for key, why in of.items()}
    by_reason: dict[str, list[str]] = {}
    for setting in settings:
        key = setting.partition(":")[2]
        by_reason.setdefault(reasons.get(setting, NAMES), []).append(key)
    return tuple(f"{', '.join(keys)} ({reason})" for reason, keys in by_reason.items())
