"""Members of a group that are none, or answer otherwise than the protocol has it, and name servers
that do: what a master on its way back makes of them."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from pair_world import MASTER_CONF, NAMESRV_ACTING, Group
from reference_world import BROKER, NAMESRV, Cluster, create_topic, relay

from maxq.reference import rpc
from maxq.reference.rpc import Connection, Pool
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.node_headers import RegisterBrokerRequest

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
RELAY = "198.18.0.96:9878"
OFFSETS = b'{"offsetTable":{"T@g":{"0":4}}}'
BARE = b'{"offsetTable":{"T@g":{0:4}},"pullOffsetTable":{"T@g":{0:9}}}'
DELAY = b'{"dataVersion":{},"offsetTable":{"1":7}}'
INFO = b'{"table":{"commitLogMinOffset":"0","commitLogMaxOffset":"0"}}'
Answer = tuple[int, bytes | None]
ANSWERS: dict[int, Answer] = {
    RequestCode.EXCHANGE_BROKER_HA_INFO: (0, None),
    RequestCode.GET_BROKER_RUNTIME_INFO: (0, INFO),
    RequestCode.GET_ALL_CONSUMER_OFFSET: (0, OFFSETS),
    RequestCode.GET_ALL_DELAY_OFFSET: (0, DELAY),
    RequestCode.GET_TIMER_CHECK_POINT: (0, bytes(56)),
}


class Copies(asyncio.Protocol):
    """A slave's end of the link: it has nothing, and says so."""

    def __init__(self, lost: asyncio.Event) -> None:
        self._lost = lost

    def connection_made(self, transport: Any) -> None:
        transport.write(bytes(8))

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set()


def member(cluster: Cluster, answers: Mapping[int, Answer], address: str = RELAY) -> None:
    """Be a member of the group: register, copy the log of b1, and answer so; unasked for, 3."""
    loop, _ = cluster.world.process(cluster.machines["relay"])
    registered = [False]

    def handle(request: Frame, connection: Connection) -> Frame:
        code, body = answers.get(request.code, (3, None))
        return request.answer(code, body=body)

    async def copy() -> None:
        while True:
            lost = asyncio.Event()
            try:
                await loop.create_connection(lambda lost=lost: Copies(lost), "198.18.0.48", 10912)
                await lost.wait()
            except OSError:
                await asyncio.sleep(0.2)  # the master is not there yet

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)
            for port in (9876, 9878):
                await rpc.serve("0.0.0.0", port, handle, group=group)
            header = RegisterBrokerRequest(
                broker_name="b", broker_addr=address, cluster_name="c",
                ha_server_addr="198.18.0.96:9879", broker_id=3, enable_acting_master=True,
            )  # fmt: skip
            frame = Frame(code=RequestCode.REGISTER_BROKER, ext=to_ext(header))
            registered[0] = (await pool.call(NAMESRV, frame, timeout_s=3.0)).code == 0
            await copy()

    loop.create_task(main())
    cluster.until(lambda: registered[0])


class Alone(Group):
    """A name server, and nobody yet."""

    def __init__(self, namesrv: str = NAMESRV) -> None:
        Cluster.__init__(self)
        self.more = {"namesrvAddr": namesrv, "compatibleWithOldNameSrv": "false"}
        self.brokers = {}
        if namesrv == NAMESRV:
            self.up("namesrv", "namesrv", NAMESRV_ACTING)

    def master(self) -> None:
        self.brokers["b1"] = self.up("b1", "broker", {**MASTER_CONF, **self.more})
        create_topic(self)

    def online(self) -> bool:
        return not self.brokers["b1"].node.membership.isolated


@pytest.mark.parametrize("offsets", [OFFSETS, BARE], ids=["quoted", "bare"])
@pytest.mark.parametrize(
    "timers", [(0, bytes(56)), (1, None), (0, b""), (0, bytes(60))],
    ids=["56 bytes", "refused", "0 bytes", "60 bytes"],
)  # fmt: skip
def test_a_members_tables_are_taken_in_each_form(offsets: bytes, timers: Answer) -> None:
    """43 with bare keys in both tables keeps a 5.5.0 master isolated for ever, as does 60 with an
    error. Progress of a delay level ends where its queue does (P7)."""
    with Alone() as made:
        assert isinstance(made, Alone)
        more: dict[int, Answer] = {
            RequestCode.GET_ALL_CONSUMER_OFFSET: (0, offsets),
            RequestCode.GET_TIMER_CHECK_POINT: timers,
        }
        member(made, {**ANSWERS, **more})
        made.master()
        made.until(made.online, seconds=8)
        assert made.logged("b1", "broker.preonline.left-out") == 0
        assert made.committed(BROKER) == 4
        assert made.brokers["b1"].node._tables.delay.offset_table == {1: 0}


@pytest.mark.parametrize(
    "wrong",
    [
        {RequestCode.GET_ALL_CONSUMER_OFFSET: (0, b"{")},
        {RequestCode.GET_ALL_CONSUMER_OFFSET: (1, None)},
        {RequestCode.GET_ALL_DELAY_OFFSET: (0, None)},
        {RequestCode.GET_BROKER_RUNTIME_INFO: (0, b'{"table":{}}')},
        {RequestCode.EXCHANGE_BROKER_HA_INFO: (1, None)},
    ],
)
def test_a_member_that_gives_no_tables_is_left_out(wrong: dict[int, Answer]) -> None:
    with Alone() as made:
        assert isinstance(made, Alone)
        member(made, {**ANSWERS, **wrong})
        made.master()
        made.sleep(8)
        assert not made.online()
        made.until(made.online, seconds=8)
        assert made.logged("b1", "broker.preonline.left-out") == 1


def test_a_member_whose_name_does_not_resolve_is_left_out() -> None:
    with Alone() as made:
        assert isinstance(made, Alone)
        member(made, ANSWERS, address="nobody.invalid:10911")
        made.master()
        made.sleep(8)
        assert made.info(BROKER)["maxq.isolatedBy"] == "nobody.invalid:10911 (id 3)"
        made.until(made.online, seconds=8)


@pytest.mark.parametrize(
    ("body", "comes_online"),
    [(b'{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"b","cluster":"c"}}', True),
     (b'{"brokerMemberGroup":{"brokerAddrs":{"0":"198.18.0.48:10911"}}}', True),
     (b'{"brokerMemberGroup":{"brokerAddrs":{"x":"198.18.0.96:9878"}}}', False),
     (b"", False), (None, False)],
    ids=["empty", "ids as text", "no ids", "nothing", "no answer"],
)  # fmt: skip
def test_what_a_name_server_says_otherwise(body: bytes | None, comes_online: bool) -> None:
    """An empty group is believed in the end; who says nothing that can be read, never."""

    async def answer(pool: Pool, request: Frame) -> Frame | None:
        if request.code == RequestCode.GET_BROKER_MEMBER_GROUP:
            return None if body is None else request.answer(0, body=body)
        return request.answer(0)

    with Alone(RELAY) as made:
        assert isinstance(made, Alone)
        relay(made, answer)
        made.master()
        made.sleep(12)
        assert made.online() == comes_online
