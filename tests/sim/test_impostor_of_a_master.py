"""A stranger at a master's HA address: what it sends changes nothing for good.

It answers the handshake as the master would, with the master's epochs, and then sends what it
likes. A slave may take sound records of it, since nothing shows that they are not its master's.
"""

import asyncio
import struct
from collections.abc import Callable

import pytest
from reference_world import (
    BROKER,
    CONTROLLER_CONF,
    JOINED,
    NAMESRV,
    NAMESRV_CONF,
    Cluster,
    Process,
    bodies,
    create_topic,
)

from maxq.harness.simulation.loop import SimLoop
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.records import MasterEpoch, PhyOffset, QueueOffset
from maxq.reference.rpc import Pool
from maxq.reference.wire import ha
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.message import Message, encode_at
from maxq.reference.wire.node_headers import RegisterBrokerRequest

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
HA_PORT = 10912
FAR = PhyOffset(1 << 40)  # where the impostor says that its log ends
FOLLOWER = {**JOINED, "slaveReadEnable": "true"}


def record(at: int, *, queue_offset: int = 0, **more: object) -> bytes:
    fields = {"topic": "T", "body": b"x", "queue_id": 1, **more}
    return encode_at(
        Message(**fields),  # type: ignore[arg-type] # a test's fields
        queue_offset=QueueOffset(queue_offset),
        physical_offset=PhyOffset(at),
        store_timestamp=1,
    )


Sent = tuple[ha.Transfer, ...]


def transfer(at: int, data: bytes, epochs: Epochs, *, newer: int = 0) -> ha.Transfer:
    last = epochs[-1]
    return ha.Transfer(
        start=PhyOffset(at),
        epoch=MasterEpoch(last.epoch + newer),
        epoch_start=PhyOffset(at) if newer else last.start,
        confirm_offset=PhyOffset(at + len(data)),
        data=data,
    )


def after_a_beginning(at: int, epochs: Epochs) -> Sent:
    """A record that begins well and ends otherwise, in another epoch."""
    begun = record(at)[:60]
    return (
        transfer(at, begun, epochs),
        transfer(at + len(begun), b"\xff" * 60, epochs, newer=1),
    )


KINDS: dict[str, Callable[[int, Epochs], Sent]] = {
    "noise": lambda at, e: (transfer(at, b"\xff" * 200, e),),
    "noise in a new epoch": lambda at, e: (transfer(at, b"\xff" * 200, e, newer=1),),
    "after a beginning": after_a_beginning,
    "a gap in a queue": lambda at, e: (transfer(at, record(at, queue_offset=999), e),),
    "a long record without an end": lambda at, e: (
        transfer(at, struct.pack(">i", 1 << 30) + record(at)[4:], e),
    ),
    "a torn topic": lambda at, e: (transfer(at, record(at, topic="a\0b"), e),),
}
SOUND = {
    "a topic that leads out": lambda at: record(at, topic="../../../../ESCAPED"),
    "properties that end in a zero": lambda at: record(at, properties=b"A\x01B\x02\0"),
    "a negative queue": lambda at: record(at, queue_id=-7),
    "a delivery beyond all time": lambda at: encode_at(
        Message(topic="SCHEDULE_TOPIC_XXXX", body=b"x", properties=b"DELAY\x011\x02"),
        queue_offset=QueueOffset(0), physical_offset=PhyOffset(at), store_timestamp=2**63 - 1,
    ),
}  # fmt: skip


def pair(cluster: Cluster) -> tuple[Process, Process]:
    """A master with three messages, and a slave that has them and stays one: the controller and the
    master die."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    controller = cluster.up("controller", "controller", CONTROLLER_CONF)
    master = cluster.up("b1", "broker", FOLLOWER)
    cluster.until(lambda: master.node.membership.role == "master")
    create_topic(cluster)
    slave = cluster.up("b2", "broker", FOLLOWER)
    cluster.until(lambda: master.node.membership.replication.master.in_sync_count == 2)
    for number in range(3):
        assert cluster.send(BROKER, b"%d" % number).code == 0
    cluster.until(lambda: slave.node._store.end == master.node._store.end)
    controller.loop.kill()
    master.loop.kill()
    return master, slave


class Peer(asyncio.Protocol):
    """One connection to the impostor."""

    def __init__(self, epochs: Epochs, packets: Callable[[int], Sent]) -> None:
        self._epochs, self._packets = epochs, packets
        self._decoder = ha.slave_decoder()
        self._sent = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for packet in self._decoder.feed(data):
            if isinstance(packet, ha.SlaveHandshake):
                last = self._epochs[-1].epoch
                self._say(ha.MasterHandshake(max_offset=FAR, last_epoch=last, epochs=self._epochs))
            elif not self._sent:
                self._sent = True
                for one in self._packets(packet.offset):
                    self._say(one)

    def _say(self, packet: ha.MasterPacket) -> None:
        self._transport.write(ha.encode(packet))  # type: ignore[attr-defined]


def impostor(cluster: Cluster, epochs: Epochs, packets: Callable[[int], Sent]) -> SimLoop:
    """Listen where the master did."""
    loop, _ = cluster.world.process(cluster.machines["b1"])

    async def main() -> None:
        await loop.create_server(lambda: Peer(epochs, packets), "0.0.0.0", HA_PORT)
        await asyncio.Event().wait()  # until it is killed

    loop.create_task(main())
    return loop


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_it_sends_leaves_the_slave_as_it_was(kind: str) -> None:
    """Written is nothing that a recovery would not take back; the real master is followed again."""
    with Cluster(kind) as cluster:
        master, slave = pair(cluster)
        epochs, end = master.node.membership.replication.epochs, slave.node._store.end
        before = cluster.logged("b2", "ha.slave.left")
        stranger = impostor(cluster, epochs, lambda at: KINDS[kind](at, epochs))
        cluster.until(lambda: cluster.logged("b2", "ha.slave.left") >= before + 4)
        assert slave.healthy
        assert (slave.node._store.end, slave.node.membership.replication.epochs) == (end, epochs)
        slave.loop.kill()
        stranger.kill()
        cluster.up("controller", "controller", CONTROLLER_CONF)
        cluster.up("b1", "broker", FOLLOWER)
        again = cluster.up("b2", "broker", FOLLOWER)
        cluster.until(lambda: again.node._store.bounds("T", 0)[1] == 3)
        assert bodies(cluster.pull(BROKER)) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("kind", sorted(SOUND))
def test_odd_records_that_are_sound_end_no_slave(kind: str) -> None:
    with Cluster(kind) as cluster:
        master, slave = pair(cluster)
        epochs, end = master.node.membership.replication.epochs, slave.node._store.end
        impostor(cluster, epochs, lambda at: (transfer(at, SOUND[kind](at), epochs),))
        cluster.until(lambda: slave.node._store.end > end)
        cluster.sleep(3)  # queues are flushed
        assert slave.healthy
        slave.loop.kill()
        assert cluster.up("b2", "broker", FOLLOWER).node._store.end > end
        # Its store, and its own settings; no record leads out of the store.
        assert {path.split("/")[1] for path in cluster.machines["b2"].disk.files} == {"data", "etc"}


# --- where a master listens ----------------------------------------------------------------------


def replicating(cluster: Cluster, **settings: str) -> Process:
    """A master, and a slave of it that has all its messages."""
    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("controller", "controller", CONTROLLER_CONF)
    settings = {**FOLLOWER, "registerNameServerPeriod": "10000", **settings}
    master = cluster.up("b1", "broker", settings)
    cluster.until(lambda: master.node.membership.role == "master")
    slave = cluster.up("b2", "broker", settings)
    cluster.until(lambda: master.node.membership.replication.master.in_sync_count == 2)
    return slave


def test_a_master_that_listens_elsewhere_is_asked_and_dialled() -> None:
    with Cluster() as cluster:
        slave = replicating(cluster, haListenPort="12345")
        assert slave.node.membership.master_ha_address == "198.18.0.48:12345"


@pytest.mark.parametrize("said", ["198.18.0.48:10913", "198.18.0.96:10912", "nowhere", "x:1:2"])
def test_an_address_that_another_registers_for_a_master_is_not_dialled(said: str) -> None:
    """Whoever reaches a name server can register a broker's name and address with an HA address of
    its own."""
    with Cluster() as cluster:
        slave = replicating(cluster)
        registration = RegisterBrokerRequest(
            broker_name="b", broker_addr=BROKER, cluster_name="c", ha_server_addr=said, broker_id=0,
        )  # fmt: skip
        frame = Frame(code=RequestCode.REGISTER_BROKER, ext=to_ext(registration))

        async def main(pool: Pool) -> None:
            assert (await pool.call(NAMESRV, frame, timeout_s=3)).code == 0
            await asyncio.sleep(25)  # the slave registers again meanwhile

        cluster.client(main)
        assert cluster.logged("b2", "broker.ha.unconfirmed") >= 1
        assert slave.node.membership.master_ha_address == "198.18.0.48:10912"
        assert slave.healthy
