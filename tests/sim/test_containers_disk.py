"""Brokers of one container on one partition: each keeps to its retention, and to its share.

Claims: B9, B10, B13. A file of the log holds two messages.
"""

from collections.abc import Iterator

import pytest
from container_cluster import address, both_listed, furnish, path_of, settings, up
from reference_world import BROKER_CONF, NAMESRV, Cluster, Process

from maxq.harness.simulation.disk import SimDisk, SimFile
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.headers import MaxOffsetRequest, QueueRequest

FILE = 4096
ROOM = 100 * FILE
QUOTA = ROOM // 2
EACH_SECOND = {
    "mappedFileSizeCommitLog": str(FILE), "mappedFileSizeConsumeQueue": "40",
    "cleanResourceInterval": "1000", "deleteWhen": "4",
}  # fmt: skip
PER_LOOK = 10  # sends to the flooded broker in a second, so five files between two looks
HOUR_MS = 3_600_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        furnish(made)
        yield made


def put(cluster: Cluster, at: str, number: int) -> int:
    return cluster.send(at, b"%06d" % number + bytes(1700), queue_id=0).code


def log_of(cluster: Cluster, name: str, machine: str = "b1") -> dict[int, bytes]:
    folder = f"/data/{name}/commitlog"
    disk = cluster.machines[machine].disk
    return {int(f): bytes(disk.files[f"{folder}/{f}"]) for f in disk.list(folder)}


def used_by(cluster: Cluster, name: str) -> int:
    """Bytes of a broker's log and queues."""
    disk = cluster.machines["b1"].disk
    files = disk.files
    folders = tuple(f"/data/{name}/{part}/" for part in ("commitlog", "consumequeue"))
    return sum(SimFile(disk, files[path]).size() for path in files if path.startswith(folders))


def bounds(cluster: Cluster, at: str) -> tuple[int, int]:
    queue = QueueRequest(topic="T", queue_id=0)
    first = cluster.ask(at, RequestCode.GET_MIN_OFFSET, queue)
    asked = MaxOffsetRequest(topic="T", queue_id=0)
    end = cluster.ask(at, RequestCode.GET_MAX_OFFSET, asked)
    return int((first.ext or {})["offset"]), int((end.ext or {})["offset"])


def small_disk(cluster: Cluster) -> None:
    machine = cluster.machines["b1"]
    files = machine.disk.files
    machine.disk = SimDisk(machine.disk.draws, capacity=ROOM,
                           wall_ms=lambda: machine.clock.wall_ms(cluster.now_ns))  # fmt: skip
    for path, content in files.items():
        machine.disk.install(path, bytes(content))


def sharing(cluster: Cluster, *names: str, **more: str) -> Process:
    """A container whose brokers have half of a small partition each."""
    small_disk(cluster)
    for name in names:
        own = settings(name, **EACH_SECOND, replicasPerDiskPartition="2", **more)
        cluster.write("b1", path_of(name), own)
    process = up(cluster, *names)
    both_listed(cluster, *names)
    return process


def test_each_broker_keeps_its_messages_as_long_as_it_says(cluster: Cluster) -> None:
    """The fourth benefit that RIP-31 names: logs of different retention in one process."""
    kept_h = {"x": 24, "y": 48}
    for name, hours in kept_h.items():
        own = settings(name, **EACH_SECOND, fileReservedTime=str(hours))
        cluster.write("b1", path_of(name), own)
    up(cluster, *kept_h)
    both_listed(cluster, *kept_h)
    stored: list[int] = []  # when, by the number of the message
    machine = cluster.machines["b1"]
    for hour in range(80):
        machine.set_clock(hour * HOUR_MS, 0)
        stored.append(machine.clock.wall_ms(cluster.now_ns))
        assert {put(cluster, address(name), hour) for name in kept_h} == {ResponseCode.SUCCESS}
        cluster.sleep(1.1)
    now = machine.clock.wall_ms(cluster.now_ns)
    for name, hours in kept_h.items():
        first, end = bounds(cluster, address(name))
        assert 0 < first < end == 80
        assert stored[first - 1] < now - hours * HOUR_MS
        assert stored[first + 1] > now - (hours + 25) * HOUR_MS, "files go once a day"


def test_a_flood_takes_nothing_of_the_neighbour(cluster: Cluster) -> None:
    """B9, B10, B13: the flooded broker deletes its own oldest files, however young."""
    sharing(cluster, "x", "y")
    for number in range(60):
        assert put(cluster, address("y"), number) == ResponseCode.SUCCESS
    quiet = log_of(cluster, "y")
    most = 0
    for second in range(40):
        for number in range(PER_LOOK):
            at = second * PER_LOOK + number
            assert put(cluster, address("x"), at) == ResponseCode.SUCCESS
            cluster.sleep(0.09)
        most = max(most, used_by(cluster, "x"))
    assert 0.7 * QUOTA < most <= 0.8 * QUOTA + (PER_LOOK // 2 + 1) * (FILE + 40)
    first, end = bounds(cluster, address("x"))
    assert 0 < first < end == 400
    now = log_of(cluster, "y")
    assert {at: now.get(at) for at in quiet} == quiet
    assert bounds(cluster, address("y")) == (0, 60)
    assert put(cluster, address("y"), 60) == ResponseCode.SUCCESS
    assert cluster.logged("b1", "broker.disk.full") == 0


def test_who_fills_the_partition_beside_a_broker_deletes_nothing_of_it(cluster: Cluster) -> None:
    """Also where it is nobody's broker. Sends are refused until there is room."""
    sharing(cluster, "x")
    for number in range(20):
        assert put(cluster, address("x"), number) == ResponseCode.SUCCESS
    other = cluster.machines["b1"].disk.open("/other/file", create=True)
    other.truncate(ROOM - used_by(cluster, "x") - 5 * FILE)
    cluster.sleep(3)
    assert put(cluster, address("x"), 20) == ResponseCode.SERVICE_NOT_AVAILABLE
    assert bounds(cluster, address("x")) == (0, 20)
    other.truncate(0)
    cluster.sleep(2)
    assert put(cluster, address("x"), 20) == ResponseCode.SUCCESS


def test_a_share_changes_while_the_broker_runs(cluster: Cluster) -> None:
    """RIP-31 has operators lower it step by step. Two shares at odds are refused."""
    sharing(cluster, "x", "y")
    for number in range(60):
        assert put(cluster, address("x"), number) == ResponseCode.SUCCESS
        assert put(cluster, address("y"), number) == ResponseCode.SUCCESS

    def update(text: str) -> tuple[int, str]:
        answer = cluster.ask(address("x"), RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())
        return answer.code, answer.remark or ""

    assert update("replicasPerDiskPartition=8") == (0, "")
    cluster.until(lambda: used_by(cluster, "x") <= 0.8 * ROOM / 8, seconds=5)
    assert update("logicalDiskSpaceCleanForciblyThreshold=0.4") == (0, "")
    cluster.until(lambda: used_by(cluster, "x") <= 0.4 * ROOM / 8, seconds=5)
    odd = "request:1: quotaPercentForDiskPartition=0.5 is another share of the partition than "
    assert update("quotaPercentForDiskPartition=0.5") == (
        29, f"{odd}replicasPerDiskPartition=8; one is enough",
    )  # fmt: skip
    assert update("quotaPercentForDiskPartition=0")[0] == 29
    assert update("replicasPerDiskPartition=1\nquotaPercentForDiskPartition=0.5") == (29, (
        "request:2: quotaPercentForDiskPartition=0.5 is another share of the partition than "
        "replicasPerDiskPartition=1; one is enough"
    ))  # fmt: skip
    assert update("replicasPerDiskPartition=1") == (0, "")
    assert update("quotaPercentForDiskPartition=0.5") == (0, "")
    told = cluster.ask(address("x"), RequestCode.GET_BROKER_CONFIG).body or b""
    assert b"\nquotaPercentForDiskPartition=0.5\n" in told
    assert bounds(cluster, address("y")) == (0, 60)


def test_a_broker_that_may_not_delete_says_that_it_has_too_much(cluster: Cluster) -> None:
    sharing(cluster, "x", cleanFileForciblyEnable="false")
    for number in range(90):
        assert put(cluster, address("x"), number) == ResponseCode.SUCCESS
    cluster.sleep(3)
    assert bounds(cluster, address("x")) == (0, 90)
    assert cluster.logged("b1", "broker.share.exceeded") == 1
    whole = b"replicasPerDiskPartition=1"
    assert cluster.ask(address("x"), RequestCode.UPDATE_BROKER_CONFIG, body=whole).code == 0
    cluster.sleep(3)
    assert cluster.logged("b1", "broker.share.exceeded") == 1
    assert cluster.logged("b1", "broker.share.kept") == 1


def test_a_master_that_starts_with_too_much_deletes_and_serves(cluster: Cluster) -> None:
    """It looks before it is ready, when nobody copies its log yet."""
    before = sharing(cluster, "x", cleanFileForciblyEnable="false")
    for number in range(90):
        assert put(cluster, address("x"), number) == ResponseCode.SUCCESS
    before.loop.kill()
    own = settings("x", **EACH_SECOND, replicasPerDiskPartition="2")
    cluster.write("b1", path_of("x"), own)
    up(cluster, "x")
    both_listed(cluster, "x")
    assert used_by(cluster, "x") <= 0.8 * QUOTA
    assert put(cluster, address("x"), 90) == ResponseCode.SUCCESS


def test_a_slave_that_was_down_for_all_of_it_joins_again(cluster: Cluster) -> None:
    """Its master has deleted all that it has; it begins anew."""
    pair = {
        "brokerRole": "SYNC_MASTER", "totalReplicas": "2", "inSyncReplicas": "2",
        "enableAutoInSyncReplicas": "true", "enableSlaveActingMaster": "true",
        "slaveTimeout": "1500", "syncBrokerMemberGroupPeriod": "1000",
    }  # fmt: skip
    slave = {
        **BROKER_CONF, **EACH_SECOND, **pair, "brokerRole": "SLAVE", "brokerId": "1",
        "brokerName": "x", "namesrvAddr": NAMESRV, "storePathRootDir": "/data/x",
    }  # fmt: skip
    following = cluster.start("b2", "broker", slave)
    master = sharing(cluster, "x", "y", **pair)

    def whole() -> bool:
        membership = master.node.brokers[0].broker.membership
        return membership is not None and membership.in_sync_count == 2

    cluster.until(whole)
    for number in range(20):
        assert put(cluster, address("x"), number) == ResponseCode.SUCCESS
    end = max(log_of(cluster, "x", "b2"))
    following.loop.kill()
    cluster.until(lambda: put(cluster, address("x"), 20) == ResponseCode.SUCCESS)
    for number in range(21, 320):
        assert put(cluster, address("x"), number) == ResponseCode.SUCCESS
        cluster.sleep(0.09)
    assert min(log_of(cluster, "x")) > end
    cluster.start("b2", "broker", slave)
    cluster.until(whole)
    assert put(cluster, address("x"), 320) == ResponseCode.SUCCESS

    def level() -> bool:
        ours, theirs = log_of(cluster, "x"), log_of(cluster, "x", "b2")
        return max(ours) == max(theirs) and all(theirs[at] == ours.get(at) for at in theirs)

    cluster.until(level)
    assert cluster.oracle.anomalies == []
