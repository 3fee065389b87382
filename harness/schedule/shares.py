"""Brokers that share a partition: what a run with the workload flood sets, and what it comes to.

A share is some MiB, whatever the partition has: a small part of a large disk. A broker is beyond it
within seconds then, and no disk has to be made.
"""

from collections.abc import Mapping

from maxq.harness.contracts.environment import SIMULATED_DISK_BYTES, Role
from maxq.harness.contracts.target import Settings, plan
from maxq.harness.targets.reference import properties
from maxq.histories.observed import Share
from maxq.reference.java_keys import keys_of

FLOOD = "flood"  # the workload
# Not beside it: their messages may be deleted before they are read.
READ_LATE = ("delayed", "delayed-alone", "ordered", "transactions")
SHARE_BYTES = 4 << 20
COUNT, QUOTA = "broker:replicasPerDiskPartition", "broker:quotaPercentForDiskPartition"
SHARES = {COUNT, QUOTA}
QUOTA_KEY = QUOTA.partition(":")[2]
HOUR_MS = 3_600_000
# RocketMQ looks for the first time after a minute, and makes the next two files of a log ahead.
FIRST_MS, AHEAD = 60_000, 2
KEYS = {
    "broker:cleanResourceInterval": "1000",
    "broker:cleanFileForciblyEnable": "true",
    "broker:deleteFileBatchMax": "1000",
    "broker:mappedFileSizeCommitLog": "262144",
    "broker:mappedFileSizeConsumeQueue": "6000",
    "broker:messageIndexEnable": "false",  # a file of RocketMQ's index takes 400 MB of the share
}
# Where a partition fills up brokers refuse sends, as RocketMQ ships it.
FILL_KEYS = {"broker:diskSpaceWarningLevelRatio": "90"}


def keys_of_flood(own: Mapping[str, str]) -> dict[str, str]:
    """The settings of such a run beside its own: in the simulator, whose disks have one size."""
    return KEYS if SHARES & own.keys() else {**KEYS, **share_of(SIMULATED_DISK_BYTES, ours=True)}


def share_of(partition: int, *, ours: bool) -> dict[str, str]:
    """The setting by which a broker has `SHARE_BYTES` of a partition with so many bytes: of ours
    RIP-31's, which no release has; they take no thousands of replicas."""
    count = max(2, partition // SHARE_BYTES)
    return {QUOTA: f"{1 / count:.12f}"} if ours else {COUNT: str(count)}


def shares_of(settings: Settings, *, ours: bool) -> dict[str, Share]:
    """What each broker may take, by its name.

    Args:
        settings: of the run.
        ours: whether all nodes are of the reference.
    """
    nodes = [n for n in plan(settings.topology) if n.role is Role.BROKER and not n.spare]
    addresses = {n.name: n.name for n in plan(settings.topology)}
    return {n.name: _share(properties(n, settings, addresses, ""), ours=ours) for n in nodes}


def _share(found: Mapping[str, str], *, ours: bool) -> Share:
    def value(key: str) -> str:
        return found.get(key) or keys_of("broker")[key][-1].default

    count, every_ms = int(value(COUNT.partition(":")[2])), int(value("cleanResourceInterval"))
    return Share(
        part=float(found.get(QUOTA_KEY, "1")) if count == 1 else 1 / count,
        threshold=float(value("logicalDiskSpaceCleanForciblyThreshold")),
        every_ms=every_ms,
        first_ms=every_ms if ours else FIRST_MS,
        file_bytes=int(value("mappedFileSizeCommitLog")),
        ahead=0 if ours else AHEAD,
        reserved_ms=int(value("fileReservedTime")) * HOUR_MS,
    )
