"""Target reference: our own nodes, ``python -m maxq.reference``, with RocketMQ's own keys.

Nodes listen on all addresses of their machine, and brokers are configured with none of their own
(neither brokerIP1 nor brokerIP2), so that a machine's address can change under a running process.
Name servers and controllers are named to others by address or, `by_name`, by the name of their
machine.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from maxq.checkers.core.promises import ALL_ACK, MODE, NO_POOL, PAIR, SYNCED, weakest
from maxq.harness.contracts.environment import Machine, Role
from maxq.harness.contracts.target import (
    CONTROLLER_PORT,
    NAMESRV_PORT,
    NODE_FILE,
    SHIPPED,
    Container,
    Node,
    Settings,
    inner_folder,
    plan,
)
from maxq.reference.java_keys import LOCK_LEASE, keys_of
from maxq.reference.wire.frame import VERSION

LOG_FILE_BYTES = 16 << 20  # small, so that stores can be collected
QUEUE_FILE_BYTES = 60_000
# What lets more be seen in a run; not where the settings are an operator's.
PREFERRED = {
    "autoCreateTopicEnable": "false",
    "slaveReadEnable": "true",
    "lockInStrictMode": "true",
}
# Milliseconds, by RocketMQ's keys. `stock` is what RocketMQ ships.
TIMINGS: dict[str, dict[Role, dict[str, int]]] = {
    "fast": {
        Role.NAMESRV: {"scanNotActiveBrokerInterval": 1000},
        Role.CONTROLLER: {
            "scanNotActiveBrokerInterval": 1000,
            "scanInactiveMasterInterval": 1000,
            "jRaftElectionTimeoutMs": 500,
        },
        Role.BROKER: {
            "controllerHeartBeatTimeoutMills": 3000,
            "syncBrokerMetadataPeriod": 1000,
            "syncControllerMetadataPeriod": 1000,
            "checkSyncStateSetPeriod": 1000,
            "haMaxTimeSlaveNotCatchup": 3000,
            "slaveTimeout": 1500,  # a send that no broker takes keeps its client for no longer
            "registerNameServerPeriod": 10_000,
            "registerBrokerTimeoutMills": 3000,  # of 24 s, where a name server's machine is gone
            "transactionTimeOut": 1500,
            "transactionCheckInterval": 1000,
            "transactionCheckMax": 1000,  # a run is over before
        },
    },
    "stock": {Role.NAMESRV: {}, Role.CONTROLLER: {}, Role.BROKER: {}},
}

PROFILES: dict[str, dict[str, str]] = {
    "P-SAFE": {"allAckInSyncStateSet": "true", "minInSyncReplicas": "2"},
    "P-ALL": {"allAckInSyncStateSet": "true", "minInSyncReplicas": "1"},
    "P-NUM": {"allAckInSyncStateSet": "false", "inSyncReplicas": "2"},
    "P-DEFAULT": {},
    "P-UNCLEAN": {"allAckInSyncStateSet": "true"},
    SHIPPED: {},
}


# Of pairs: masters and slaves without controllers.
OF_PAIRS: dict[str, dict[str, str]] = {
    "P-SYNC": {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"},
    "P-AUTO": {
        "brokerRole": "SYNC_MASTER",
        "inSyncReplicas": "2",
        "enableAutoInSyncReplicas": "true",
    },
    "P-ASYNC": {"brokerRole": "ASYNC_MASTER", "lockInStrictMode": "false"},
    SHIPPED: {"brokerRole": "ASYNC_MASTER"},
}
ACTING = {
    "enableSlaveActingMaster": "true",
    "enableRemoteEscape": "true",
    "compatibleWithOldNameSrv": "false",
}
PAIR_TIMINGS: dict[str, dict[str, int]] = {  # ms
    "fast": {
        "brokerNotActiveTimeoutMillis": 3000,
        "haSendHeartbeatInterval": 1000,
        "haHousekeepingInterval": 5000,
    },
    "stock": {},
}


# What a broker without controllers is not told, and what it is told instead.
OF_CONTROLLERS = frozenset({"controllerAddr", "enableControllerMode"}).union(*PROFILES.values())
ALONE = {"brokerId": "0", "brokerRole": "ASYNC_MASTER"}

# What RocketMQ ships: the time-out that a broker registers, what a name server takes where none is
# registered, and its period of looking for silent ones.
NOT_ACTIVE_MS, UNNAMED_MS, SCAN_MS = 10_000, 120_000, 5_000
# After how long a broker registers again, and what RocketMQ makes of a shorter time.
REGISTRATION, REGISTRATION_MS, REGISTRATION_MIN_MS = "registerNameServerPeriod", 30_000, 10_000
ROUTELESS_S = 45  # with needWaitForService

# What a cluster waits for before it notices a fault, elects and copies again.
PERIODS: dict[Role, tuple[str, ...]] = {
    Role.NAMESRV: ("scanNotActiveBrokerInterval",),
    Role.CONTROLLER: tuple(TIMINGS["fast"][Role.CONTROLLER]),
    Role.BROKER: (
        "controllerHeartBeatTimeoutMills", "brokerHeartbeatInterval", "sendHeartbeatTimeoutMillis",
        "syncBrokerMetadataPeriod", "syncControllerMetadataPeriod", "checkSyncStateSetPeriod",
        "haMaxTimeSlaveNotCatchup", "haSendHeartbeatInterval", "haHousekeepingInterval",
        "slaveTimeout", "registerBrokerTimeoutMills",
        "brokerNotActiveTimeoutMillis", "syncBrokerMemberGroupPeriod", "commitIntervalCommitLog",
        "commitCommitLogThoroughInterval",
    ),
}  # fmt: skip
# A run keeps what it wrote, however full the machine's own partition is.
KEEPING = {
    "cleanFileForciblyEnable": "false",
    "diskSpaceCleanForciblyRatio": "100",
    "diskSpaceWarningLevelRatio": "100",
}


def properties(
    node: Node, settings: Settings, addresses: dict[str, str], data: str
) -> dict[str, str]:
    """The settings of a node that both targets share, by RocketMQ's keys; what was set for the node
    by name comes last."""
    found: dict[str, str] = {}
    for role in reversed(node.roles):  # of a key that two have, the process's own counts
        found |= _of_role(node, role, settings, addresses, data)
        found |= _set_for(role.value, settings)
    if node.embeds:
        found |= {"enableControllerInNamesrv": "true"}
    if node.role is Role.BROKER and not settings.topology.controllers:
        found = _in_a_pair(node, settings, found)
    elif settings.alone and node.role is Role.BROKER:
        found = {k: v for k, v in found.items() if k not in OF_CONTROLLERS} | ALONE
    found |= _set_for(node.name, settings)
    if node.guest:
        return {**found, "minInSyncReplicas": "1", "inSyncReplicas": "1"}  # it is alone
    if node.container and "minInSyncReplicas" in found:  # or a container refuses the file
        return {"inSyncReplicas": found["minInSyncReplicas"], **found}
    return found


def _promises(settings: Settings) -> dict[str, str]:
    """What a profile sets at brokers.

    Raises:
        ValueError: it is one of clusters with controllers, and there are none, or the reverse.
    """
    known, others = (PROFILES, OF_PAIRS) if settings.topology.controllers else (OF_PAIRS, PROFILES)
    if settings.profile not in known:
        missing = "without" if settings.profile in others and known is PROFILES else "with"
        raise ValueError(f"{settings.profile} is a profile of clusters {missing} controllers")
    return known[settings.profile]


def _in_a_pair(node: Node, settings: Settings, found: dict[str, str]) -> dict[str, str]:
    """A broker's settings without controllers: who it is follows from its name."""
    own = {k: v for k, v in found.items() if k not in OF_CONTROLLERS}
    own |= _promises(settings)
    own |= {k: str(v) for k, v in PAIR_TIMINGS[settings.timing].items()}
    own |= {"brokerId": str(node.replica)} if _shipped(settings) else {
        "brokerId": str(node.replica), **ACTING
    }  # fmt: skip
    own |= _set_for(Role.BROKER.value, settings)
    return own | ({"brokerRole": "SLAVE"} if node.replica else {})


def _shipped(settings: Settings) -> bool:
    """Whether nothing is set but what was set one by one."""
    return settings.profile == SHIPPED


def _set_for(whom: str, settings: Settings) -> dict[str, str]:
    """What was set for a role, or for a node, by name."""
    prefix = f"{whom}:"
    return {k.removeprefix(prefix): v for k, v in settings.keys.items() if k.startswith(prefix)}


def effective(settings: Settings, changed: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """What a cluster's settings come to, by the keys of ``maxq.checkers.core.promises``: the
    weakest of all its nodes, once there are controllers, and of what is `changed` in the run.
    Spares do not count."""
    settings = msgspec.structs.replace(settings, alone=False)
    nodes = [n for n in plan(settings.topology) if not n.spare]
    addresses = {n.name: n.name for n in nodes}
    of_nodes = [
        {
            f"{r.value}:{k}": v
            for r in n.roles
            for k, v in properties(n, settings, addresses, "").items()
        }
        for n in nodes
    ]
    for key, value in changed:
        role = key.partition(":")[0]
        of_nodes += [{**of, key: value} for of in of_nodes if any(k.startswith(role) for k in of)]
    found = weakest(of_nodes)
    if found[SYNCED.key] == SYNCED.value:  # a broker that syncs uses no pool
        found[NO_POOL.key] = NO_POOL.value
    if settings.topology.controllers:
        return found
    return {**found, MODE: PAIR, ALL_ACK.key: "false"}  # which only controllers' sets have


def eviction_ms(settings: Settings) -> int:
    """How long a silent broker may stay in a name server's table: the longest time-out that a
    broker registers, and the longest pause between two looks."""
    nodes = [n for n in plan(settings.topology) if not n.spare]
    addresses = {n.name: n.name for n in nodes}
    timeout = scan = 0
    for node in nodes:
        found = properties(node, settings, addresses, "")
        if Role.BROKER in node.roles:
            acts = found.get("enableSlaveActingMaster") == "true"
            named = int(found.get("brokerNotActiveTimeoutMillis", NOT_ACTIVE_MS))
            timeout = max(timeout, named if acts else UNNAMED_MS)
        if Role.NAMESRV in node.roles:
            scan = max(scan, int(found.get("scanNotActiveBrokerInterval", SCAN_MS)))
    return timeout + scan


def registration_ms(settings: Settings) -> int:
    """After how long the last of all brokers registers again with name servers that know it."""
    nodes = [n for n in plan(settings.topology) if not n.spare]
    addresses = {n.name: n.name for n in nodes}
    brokers = (n for n in nodes if Role.BROKER in n.roles)
    every = [properties(n, settings, addresses, "").get(REGISTRATION) for n in brokers]
    return max(REGISTRATION_MIN_MS, *(int(ms or REGISTRATION_MS) for ms in every))


def slower_ms(settings: Settings) -> int:
    """How much later than with the timing's own periods a cluster is over a fault: twice what each
    period is longer, as one may have just begun, and what a name server gives no routes for."""
    usual = msgspec.structs.replace(settings, keys={})
    nodes = [n for n in plan(settings.topology) if not n.spare]
    addresses = {n.name: n.name for n in nodes}
    longer: dict[str, int] = {}
    for node in nodes:
        now, was = (properties(node, of, addresses, "") for of in (settings, usual))
        for role in node.roles:
            for key in PERIODS[role]:
                shipped = keys_of(role.value)[key][-1].default
                more = int(now.get(key, shipped)) - int(was.get(key, shipped))
                longer[key] = max(more, longer.get(key, 0))
    return 2 * sum(longer.values()) + routeless_ms(settings)


def routeless_ms(settings: Settings) -> int:
    """How long after its start a name server gives no routes, as it is set to wait for brokers."""
    nodes = [n for n in plan(settings.topology) if Role.NAMESRV in n.roles]
    every = [properties(n, settings, {n.name: n.name for n in nodes}, "") for n in nodes]
    waits = [int(of.get("waitSecondsForService", ROUTELESS_S)) for of in every
             if of.get("needWaitForService") == "true"]  # fmt: skip
    return 1000 * max(waits, default=0)


def _of_role(
    node: Node, role: Role, settings: Settings, addresses: dict[str, str], data: str
) -> dict[str, str]:
    nodes = plan(settings.topology)
    if settings.by_name:
        addresses = {name: name for name in addresses}
    timing = {k: str(v) for k, v in TIMINGS[settings.timing][role].items()}
    match role:
        case Role.NAMESRV:
            return {
                "listenPort": str(NAMESRV_PORT),
                "kvConfigPath": f"{data}/kvConfig.json",
                **(
                    {}
                    if settings.topology.controllers or _shipped(settings)
                    else {"supportActingMaster": "true"}
                ),
                **timing,
            }
        case Role.CONTROLLER:
            peers = [n for n in nodes if Role.CONTROLLER in n.roles]
            unclean = str(settings.profile == "P-UNCLEAN").lower()
            return {
                "controllerDLegerGroup": settings.cluster,
                "controllerDLegerPeers": ";".join(
                    f"{n.name}-{addresses[n.name]}:{CONTROLLER_PORT}" for n in peers
                ),
                "controllerDLegerSelfId": node.name,
                "controllerStorePath": f"{data}/store",
                "mappedFileSize": str(LOG_FILE_BYTES),
                "enableElectUncleanMaster": unclean,
                **timing,
            }
        case Role.BROKER:
            return {
                "brokerClusterName": settings.cluster,
                "brokerName": node.broker_set,
                "brokerId": "-1",
                "brokerRole": "SLAVE",  # until the controller says otherwise
                "listenPort": str(node.port),
                "namesrvAddr": _joined(nodes, Role.NAMESRV, NAMESRV_PORT, addresses),
                "controllerAddr": _joined(nodes, Role.CONTROLLER, CONTROLLER_PORT, addresses),
                "enableControllerMode": "true",
                **_copies(node, settings),
                "storePathRootDir": f"{data}/store",
                "storePathCommitLog": f"{data}/store/commitlog",
                "mappedFileSizeCommitLog": str(LOG_FILE_BYTES),
                "mappedFileSizeConsumeQueue": str(QUEUE_FILE_BYTES),
                **({} if _shipped(settings) else PREFERRED),
                **({"flushDiskType": "SYNC_FLUSH"} if settings.sync_flush else {}),
                **({"asyncLearner": "true"} if node.learner else {}),
                **_promises(settings),
                **timing,
            }


def _copies(node: Node, settings: Settings) -> dict[str, str]:
    """How many brokers a set has, as its brokers are configured."""
    if _shipped(settings):
        return {}
    return {"totalReplicas": str(1 if node.spare else settings.topology.replicas)}


def _joined(nodes: Sequence[Node], role: Role, port: int, addresses: dict[str, str]) -> str:
    return ";".join(f"{addresses[n.name]}:{port}" for n in nodes if role in n.roles)


def container_file(
    container: Container, settings: Settings, addresses: dict[str, str], data: str
) -> str:
    """The properties file of a container, which both targets share."""
    if settings.by_name:
        addresses = {name: name for name in addresses}
    lines = {
        "listenPort": str(container.port),
        "namesrvAddr": _joined(plan(settings.topology), Role.NAMESRV, NAMESRV_PORT, addresses),
        "brokerConfigPaths": ":".join(
            f"{inner_folder(data, b)}/{NODE_FILE}" for b in container.brokers
        ),
    }
    return _as_file(lines)


def _as_file(lines: dict[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in lines.items())


class ReferenceTarget:
    """Runs the nodes of this package.

    Args:
        python: the interpreter, as machines know it.
    """

    name = "reference"
    patience = 1
    layer = ""

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python

    def config(self, node: Node, settings: Settings, addresses: dict[str, str], data: str) -> str:
        lines = properties(node, settings, addresses, data)
        if node.role is Role.BROKER:
            lines = {**KEEPING, **lines, LOCK_LEASE: str(settings.lock_lease_ms)}
        return _as_file(lines)

    def argv(self, node: Node, settings: Settings, config_path: str) -> Sequence[str]:
        return self._argv(node.role.value, settings, config_path)

    def _argv(self, role: str, settings: Settings, config_path: str) -> Sequence[str]:
        command = [self._python, "-m", "maxq.reference", role, "--config", config_path]
        if settings.mutant:
            command += ["--mutant", settings.mutant]
        return command

    def container(
        self, container: Container, settings: Settings, addresses: dict[str, str], data: str
    ) -> str:
        """Name servers, and the files of its brokers."""
        return container_file(container, settings, addresses, data)

    def container_argv(
        self, container: Container, settings: Settings, config_path: str
    ) -> Sequence[str]:
        """The same program."""
        return self._argv("container", settings, config_path)

    def folders(self) -> Sequence[Path]:
        """None."""
        return ()

    def ends_with(self, node: Node) -> int:
        """In good order."""
        return 0

    def follows_address(self, node: Node) -> bool:
        """All do."""
        return True

    def answers_as(self, node: Node) -> int:
        """All as the release whose protocol they speak."""
        return VERSION

    def prepare(self) -> dict[str, str]:
        """Nothing: it is this program."""
        return {}

    async def install(self, machine: Machine) -> None:
        """Nothing: the nodes run where this program runs."""
