"""Brokers that delete old files: what is left, what is answered, a full partition, ten days.

Days pass by the wall clocks, which leap an hour at a time while the cluster works on.
"""

from collections.abc import Iterator

import pytest
from reference_world import (
    BROKER,
    CONTROLLER_CONF,
    JOINED,
    NAMESRV_CONF,
    Cluster,
    Process,
    bodies,
    broker_up,
    create_topic,
    ext,
)

from maxq.harness.simulation.disk import SimDisk
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.headers import MaxOffsetRequest, QueueRequest

FILE = 4096
BODY = 1700  # two messages fill a file
SMALL = {
    "mappedFileSizeCommitLog": str(FILE),
    "mappedFileSizeConsumeQueue": "40",
    "fileReservedTime": "24",
    "deleteWhen": "4",
    "cleanResourceInterval": "1000",
}
LOG = "/data/commitlog"
HOUR_MS, DAY_H = 3_600_000, 24
ALONE_HOURS = 40


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        yield made


class Clocks:
    """The wall clocks of all machines, which leap together."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._hours = 0

    def leap(self, hours: int) -> None:
        self._hours += hours
        for machine in self._cluster.machines.values():
            machine.set_clock(self._hours * HOUR_MS, 0)


def log_files(cluster: Cluster, name: str) -> list[int]:
    return [int(n) for n in cluster.machines[name].disk.list(LOG)]


def put(cluster: Cluster, number: int, address: str = BROKER) -> int:
    answer = cluster.send(address, b"%06d" % number + bytes(BODY), topic="T", queue_id=0)
    return answer.code


def put_in_time(cluster: Cluster, number: int, address: str) -> None:
    """Until it is acknowledged; what is refused is not stored."""
    for _ in range(60):
        code = put(cluster, number, address)
        if code == ResponseCode.SUCCESS:
            return
        assert code in (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_ERROR), code
        cluster.sleep(0.5)
    raise AssertionError("not within 30 virtual seconds")


def bounds(cluster: Cluster, address: str = BROKER) -> tuple[int, int]:
    first = cluster.ask(address, RequestCode.GET_MIN_OFFSET, QueueRequest(topic="T", queue_id=0))
    end = cluster.ask(address, RequestCode.GET_MAX_OFFSET, MaxOffsetRequest(topic="T", queue_id=0))
    return int(ext(first)["offset"]), int(ext(end)["offset"])


def earliest_ms(cluster: Cluster) -> int:
    header = QueueRequest(topic="T", queue_id=0)
    answer = cluster.ask(BROKER, RequestCode.GET_EARLIEST_MSG_STORETIME, header)
    return int(ext(answer)["timestamp"])


def test_a_broker_answers_for_the_begin_of_what_is_left(cluster: Cluster) -> None:
    """30, 31, 32, 21 for an offset that is gone, and the same after a kill."""
    process = broker_up(cluster, **SMALL)
    create_topic(cluster)
    clocks = Clocks(cluster)
    for number in range(ALONE_HOURS):
        assert put(cluster, number) == ResponseCode.SUCCESS
        cluster.sleep(2)
        clocks.leap(1)
    oldest = machine_ms(cluster) - (DAY_H + DAY_H + 1) * HOUR_MS
    for _ in range(2):
        first, end = bounds(cluster)
        assert 0 < first < end == ALONE_HOURS
        assert earliest_ms(cluster) > oldest, "older than its retention and a day"
        gone = cluster.pull(BROKER, topic="T", queue_offset=first - 1)
        assert gone.code == ResponseCode.PULL_OFFSET_MOVED
        assert int(ext(gone)["nextBeginOffset"]) == first
        there = cluster.pull(BROKER, topic="T", queue_offset=first)
        assert bodies(there)[0][:6] == b"%06d" % first
        assert int(ext(there)["minOffset"]) == first
        assert log_files(cluster, "b1")[0] > 0
        process.loop.kill()
        process = broker_up(cluster, **SMALL)


def machine_ms(cluster: Cluster) -> int:
    return cluster.machines["b1"].clock.wall_ms(cluster.now_ns)


@pytest.mark.parametrize("at_start", [True, False])
def test_a_partition_at_the_warning_level_takes_no_messages_until_there_is_room(
    cluster: Cluster, at_start: bool
) -> None:
    """Code 14, also for a broker that starts so; nothing young is deleted unless it may be."""
    machine = cluster.machines["b1"]
    room = 60 * FILE
    machine.disk = SimDisk(machine.disk.draws, capacity=room,
                           wall_ms=lambda: machine_ms(cluster))  # fmt: skip
    other = machine.disk.open("/other/file", create=True)
    settings = {**SMALL, "cleanFileForciblyEnable": "false"}
    if not at_start:
        broker_up(cluster, **settings)
        create_topic(cluster)
        assert put(cluster, 0) == ResponseCode.SUCCESS
    other.truncate(int(room * 0.91))
    if at_start:
        broker_up(cluster, **settings)
        create_topic(cluster)
    else:
        cluster.sleep(2)
    assert put(cluster, 1) == ResponseCode.SERVICE_NOT_AVAILABLE
    assert cluster.logged("b1", "broker.disk.full") == 1
    other.truncate(int(room * 0.5))
    cluster.sleep(2)
    assert put(cluster, 2) == ResponseCode.SUCCESS
    assert cluster.logged("b1", "broker.disk.ok") == 1
    assert bounds(cluster) == (0, 1 if at_start else 2)


def test_a_partition_that_is_nearly_full_loses_its_oldest_files(cluster: Cluster) -> None:
    """As in RocketMQ, whatever their age, but never the last one; and sends go on."""
    machine = cluster.machines["b1"]
    machine.disk = SimDisk(machine.disk.draws, capacity=40 * FILE,
                           wall_ms=lambda: machine_ms(cluster))  # fmt: skip
    broker_up(cluster, **SMALL, deleteFileBatchMax="3")
    create_topic(cluster)
    codes = []
    for number in range(200):
        codes.append(put(cluster, number))
        cluster.sleep(0.3)
    assert codes.count(ResponseCode.SUCCESS) == 200
    assert len(log_files(cluster, "b1")) < 36
    first, end = bounds(cluster)
    assert 0 < first < end == 200


def replicas(cluster: Cluster) -> dict[str, Process]:
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("controller", "controller", CONTROLLER_CONF)
    return {name: cluster.up(name, "broker", set_conf()) for name in ("b1", "b2")}


def set_conf() -> dict[str, str]:
    return {
        **JOINED, **SMALL, "totalReplicas": "2", "allAckInSyncStateSet": "true",
        "slaveReadEnable": "true",
    }  # fmt: skip


def master_of(cluster: Cluster, processes: dict[str, Process]) -> str:
    def masters() -> list[str]:
        return [n for n, p in processes.items() if p.node.membership.role == "master"]

    cluster.until(lambda: len(masters()) == 1)
    return masters()[0]


def in_sync(cluster: Cluster, processes: dict[str, Process], count: int) -> str:
    master = master_of(cluster, processes)
    cluster.until(lambda: processes[master].node.membership.in_sync_count == count)
    return master


def test_ten_days_of_a_set_with_retention(cluster: Cluster) -> None:
    """The disk is bounded; what is younger than a day is readable; who was away for days begins
    anew at the master's first byte; and no replica accuses another."""
    processes = replicas(cluster)
    in_sync(cluster, processes, 2)
    clocks, sent, away = Clocks(cluster), 0, ""
    most = 0
    times: list[int] = []
    for hour in range(10 * DAY_H):
        master = master_of(cluster, processes)
        address = f"{cluster.machines[master].address}:10911"
        if hour == 0:
            create_topic_at(cluster, address)
        if hour == 3 * DAY_H + 1:  # the slave is away for two and a half days
            away = next(n for n in processes if n != master)
            processes.pop(away).loop.kill()
        if hour == 5 * DAY_H + 13:
            processes[away] = cluster.up(away, "broker", set_conf())
            in_sync(cluster, processes, 2)
        if hour == 7 * DAY_H:  # and leads, from a log that never began at 0
            processes.pop(master).loop.kill()
            in_sync(cluster, processes, 1)
            processes[master] = cluster.up(master, "broker", set_conf())
            in_sync(cluster, processes, 2)
            continue
        put_in_time(cluster, sent, address)
        times.append(machine_ms(cluster))
        sent += 1
        cluster.sleep(2)
        clocks.leap(1)
        most = max(most, *(len(log_files(cluster, n)) for n in processes))
        first, end = bounds(cluster, address)
        assert end == sent
        assert all(t < machine_ms(cluster) - DAY_H * HOUR_MS for t in times[:first])
    assert most <= 2 * DAY_H, "of 120 files"
    logs = {n: log_of(cluster, n) for n in processes}
    starts = {n: files[0][0] for n, files in logs.items()}
    assert all(start > 0 for start in starts.values())
    shared = max(starts.values())
    left, right = ([f for f in files if f[0] >= shared] for files in logs.values())
    assert left == right, "equal to the byte"
    assert cluster.oracle.anomalies == []


def log_of(cluster: Cluster, name: str) -> list[tuple[int, bytes]]:
    return [(start, cluster.disk(name, f"{LOG}/{start:020d}") or b"")
            for start in log_files(cluster, name)]  # fmt: skip


def create_topic_at(cluster: Cluster, address: str) -> None:
    from maxq.reference.wire.node_headers import CreateTopicRequest

    header = CreateTopicRequest(
        topic="T", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
        topic_filter_type="SINGLE_TAG",
    )  # fmt: skip
    answer = cluster.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    assert answer.code == ResponseCode.SUCCESS
