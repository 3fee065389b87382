"""Which claims a run's settings and faults make: data, and the functions that read it.

A claim is made by settings, never by the name of a profile: each claim lists the `Need`s of its
promise (``maxq.checkers.core.claims``), and a run's effective settings (the release's defaults,
then the profile, then what was set by hand; where the brokers of a set differ, the weakest) fulfil
them or do not. Some needs count only in a run that lost power.

A claim that is not made is measured: what was found of it is reported, and breaks nothing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec


class Need(msgspec.Struct, frozen=True):
    """One setting that a promise rests on: role and RocketMQ's name of it, and its value."""

    key: str
    value: str

    def holds(self, value: str | None) -> bool:
        """Whether a key has this value, or a larger number."""
        if self.value.isdecimal() and (value or "").isdecimal():
            return int(value or "") >= int(self.value)
        return value == self.value

    def __str__(self) -> str:
        return f"{self.key.partition(':')[2]}={self.value}"


ALL_ACK = Need("broker:allAckInSyncStateSet", "true")
CLEAN = Need("controller:enableElectUncleanMaster", "false")
SYNCED = Need("broker:flushDiskType", "SYNC_FLUSH")
STRICT = Need("broker:lockInStrictMode", "true")
NOT_STRICT = Need(STRICT.key, "false")  # of what each broker then promises by itself
WHOLE = Need("broker:syncFromLastFile", "false")  # else an empty slave lacks what is older
# Else what is acknowledged is for a while in the master's process alone, which a kill takes.
NO_POOL = Need("broker:transientStorePoolEnable", "false")

# Of pairs: brokers without controllers.
SYNC_MASTER = Need("broker:brokerRole", "SYNC_MASTER")
TWO_COPIES = Need("broker:inSyncReplicas", "2")
NO_DEGRADING = Need("broker:enableAutoInSyncReplicas", "false")
ACTS = Need("broker:enableSlaveActingMaster", "true")
READS = Need("broker:slaveReadEnable", "true")
SHOWS = Need("namesrv:supportActingMaster", "true")
ESCAPES = Need("broker:enableRemoteEscape", "true")
PRE_ONLINE = Need("broker:skipPreOnline", "false")

MODE, PAIR = "broker:enableControllerMode", "false"  # in a run's effective settings

# What RocketMQ 5.0 to 5.5 ship (BrokerConfig, MessageStoreConfig, ControllerConfig, NamesrvConfig),
# for every key that a promise or a checker reads.
MIN_IN_SYNC, IN_SYNC = "broker:minInSyncReplicas", "broker:inSyncReplicas"
DEFAULTS: dict[str, str] = {
    ALL_ACK.key: "false",
    CLEAN.key: "false",
    SYNCED.key: "ASYNC_FLUSH",
    STRICT.key: "false",
    WHOLE.key: "false",
    MIN_IN_SYNC: "1",
    IN_SYNC: "1",
    SYNC_MASTER.key: "ASYNC_MASTER",
    NO_DEGRADING.key: "false",
    ACTS.key: "false",
    READS.key: "false",
    SHOWS.key: "false",
    ESCAPES.key: "false",
    PRE_ONLINE.key: "false",
    NO_POOL.key: "false",
}
# How promising each value is, where brokers of a set differ; numbers count as they are.
_STRENGTH: dict[str, tuple[str, ...]] = {
    ALL_ACK.key: ("false", "true"),
    CLEAN.key: ("true", "false"),
    SYNCED.key: ("ASYNC_FLUSH", "SYNC_FLUSH"),
    STRICT.key: ("false", "true"),
    WHOLE.key: ("true", "false"),
    SYNC_MASTER.key: ("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),  # a slave acknowledges nothing
    NO_DEGRADING.key: ("true", "false"),
    ACTS.key: ("false", "true"),
    READS.key: ("false", "true"),
    SHOWS.key: ("false", "true"),
    ESCAPES.key: ("false", "true"),
    PRE_ONLINE.key: ("true", "false"),
    NO_POOL.key: ("true", "false"),
}
# Keys that promise nothing and take nothing away: periods, time-outs, sizes, by which requests
# brokers are known and whether they are told of what they also ask for. The bounds of liveness
# claims follow those of them that lengthen what a cluster may take.
_THREADS = re.compile(r"(ThreadPoolNums|ThreadNums?|Threads|QueueCapacity)$|:(metrics|trace)")
NEUTRAL = frozenset(
    (
        "namesrv:scanNotActiveBrokerInterval",
        "namesrv:notifyMinBrokerIdChanged",
        "controller:notifyBrokerRoleChanged",
        "broker:compatibleWithOldNameSrv",
        "controller:scanNotActiveBrokerInterval",
        "controller:scanInactiveMasterInterval",
        "controller:jRaftElectionTimeoutMs",
        "controller:jRaftSnapshotIntervalSecs",
        "controller:mappedFileSize",
        "broker:controllerHeartBeatTimeoutMills",
        "broker:syncBrokerMetadataPeriod",
        "broker:syncControllerMetadataPeriod",
        "broker:checkSyncStateSetPeriod",
        "broker:haMaxTimeSlaveNotCatchup",
        "broker:slaveTimeout",
        "broker:brokerNotActiveTimeoutMillis",
        "broker:registerNameServerPeriod",
        "broker:registerBrokerTimeoutMills",
        "broker:totalReplicas",
        "broker:commitIntervalCommitLog",
        "broker:commitCommitLogLeastPages",
        "broker:commitCommitLogThoroughInterval",
        "broker:wakeCommitWhenPutMessage",
        "broker:transientStorePoolSize",
        "broker:mappedFileSizeCommitLog",
        "broker:mappedFileSizeConsumeQueue",
        "broker:deleteWhen",
        "broker:cleanResourceInterval",
        "broker:deleteFileBatchMax",
        "broker:timerWheelEnable",
        "broker:autoCreateTopicEnable",
        "broker:transactionTimeOut",
        "broker:transactionCheckInterval",
        "broker:fileReservedTime",
        "broker:diskMaxUsedSpaceRatio",
        "broker:waitTimeMillsInSendQueue",
        "broker:transferMsgByHeap",
        "broker:useReentrantLockWhenPutMessage",
        "broker:maxMessageSize",
        "broker:defaultTopicQueueNums",
        "broker:autoCreateSubscriptionGroup",
    )
)


def strength(key: str, value: str) -> int:
    """How much a value promises, for comparisons under one key; an unknown value promises
    nothing."""
    known = _STRENGTH.get(key)
    if known is not None:
        return known.index(value) if value in known else -1
    return int(value) if value.isdecimal() else -1


def weakest(of_nodes: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The effective settings of a cluster, by the keys of `DEFAULTS`.

    Args:
        of_nodes: each node's settings, by role and key; what one does not name is at its default,
            if the node's role has the key at all.
    """
    found: dict[str, str] = {}
    for settings in of_nodes:
        roles = {key.partition(":")[0] for key in settings}
        for key, default in DEFAULTS.items():
            if key.partition(":")[0] in roles:
                value = settings.get(key, default)
                before = found.setdefault(key, value)
                if strength(key, value) < strength(key, before):
                    found[key] = value
    return {**DEFAULTS, **found}


def unfulfilled(needs: Sequence[Need], settings: Mapping[str, str]) -> tuple[Need, ...]:
    """The needs that settings do not fulfil."""
    return tuple(n for n in needs if not n.holds(settings.get(n.key, DEFAULTS.get(n.key))))


def nobody_is_to_act(settings: Mapping[str, str] | None) -> bool:
    """Whether settings have no slave act for its master: then that none does is no finding."""
    return settings is not None and bool(unfulfilled((ACTS,), settings))


def copies(settings: Mapping[str, str]) -> int:
    """How many replicas, the master among them, must have a message before it is acknowledged."""
    least = int(settings.get(MIN_IN_SYNC, DEFAULTS[MIN_IN_SYNC]))
    if not unfulfilled((ALL_ACK,), settings):
        return max(1, least)
    return max(1, least, int(settings.get(IN_SYNC, DEFAULTS[IN_SYNC])))


def unknown_keys(by_hand: Iterable[str]) -> tuple[str, ...]:
    """Keys that were set by hand and of which this table does not know what they promise."""
    known = DEFAULTS.keys() | NEUTRAL
    return tuple(sorted(k for k in by_hand if k not in known and not _THREADS.search(k)))


def keys() -> list[tuple[str, str, str]]:
    """Each key that a promise rests on: its name, its default, its values from the weakest on."""
    numbers = "numbers, the smaller the weaker"
    return [
        (f"`{key}`", f"`{default}`", ", ".join(f"`{v}`" for v in _STRENGTH.get(key, ())) or numbers)
        for key, default in DEFAULTS.items()
    ]
