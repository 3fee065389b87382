"""Files of settings as operators have them: RocketMQ's properties, taken for a whole cluster.

What cannot be right is refused with file and line, all of it at once. Keys that say where a node
lives and who it is are Max-Q's own, since it lays out the cluster itself; they are left out, and
named. Everything else is set for every node of the role.
"""

from collections.abc import Mapping
from typing import NamedTuple

from maxq.harness.contracts.environment import Role
from maxq.harness.targets import known_keys
from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire.files import decode_properties

# Who a node is, where it keeps what, whom it knows: what differs between the nodes of a cluster.
OWN: Mapping[Role, frozenset[str]] = {
    Role.BROKER: frozenset(
        """
        brokerClusterName brokerName brokerId brokerRole listenPort namesrvAddr controllerAddr
        enableControllerMode brokerIP1 brokerIP2 haListenPort bindAddress totalReplicas asyncLearner
        storePathRootDir storePathCommitLog storePathDLedgerCommitLog storePathEpochFile
        storePathBrokerIdentity storePathConsumeQueue storePathIndex timerStorePath abortFile
        rocketmqHome fetchNameSrvAddrByDnsLookup fetchNamesrvAddrByAddressServer
        fetchControllerAddrByDnsLookup enableDLegerCommitLog dLegerGroup dLegerPeers dLegerSelfId
        """.split()
    ),
    Role.CONTROLLER: frozenset(
        """
        controllerDLegerGroup controllerDLegerPeers controllerDLegerSelfId controllerStorePath
        controllerType listenPort bindAddress rocketmqHome jraftConfig configStorePath storePath
        jRaftControllerRPCAddr jRaftGroupId jRaftInitConf jRaftServerId
        """.split()
    ),
}


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
