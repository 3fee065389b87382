"""How both sides of replication are set; RocketMQ's key in each comment.

Sizes are bytes; times are ns.
"""

from maxq.reference.broker.replication.sync_state_set import JoinTiming
from maxq.reference.records import Record


class MasterSettings(Record):
    """How a master replicates; RocketMQ's key in each comment."""

    file_size: int  # mappedFileSizeCommitLog, equal on all replicas
    all_ack: bool = False  # allAckInSyncStateSet
    in_sync_replicas: int = 1  # inSyncReplicas
    min_in_sync_replicas: int = 1  # minInSyncReplicas
    batch_bytes: int = 32_768  # haTransferBatchSize
    window_bytes: int = 1 << 20  # RocketMQ has no such bound
    heartbeat_ns: int = 5_000_000_000  # haSendHeartbeatInterval
    housekeeping_ns: int = 20_000_000_000  # haHousekeepingInterval
    not_catchup_ns: int = 15_000_000_000  # haMaxTimeSlaveNotCatchup
    check_ns: int = 5_000_000_000  # checkSyncStateSetPeriod
    wait_ns: int = 3_000_000_000  # slaveTimeout
    join: JoinTiming = JoinTiming()


class SlaveTiming(Record):
    """When a slave speaks, gives up and tries again; RocketMQ's key in each comment."""

    heartbeat_ns: int = 5_000_000_000  # haSendHeartbeatInterval
    housekeeping_ns: int = 20_000_000_000  # haHousekeepingInterval: a silent master is left
    handshake_ns: int = 5_000_000_000  # dial and answer; RocketMQ asks again on one connection
    retry_ns: int = 1_000_000_000  # RocketMQ waits 5 s
