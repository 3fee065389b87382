"""Peers that begin frames and do not end them, ask and do not read, wait and do not go."""

import asyncio
from collections.abc import Iterator

import pytest
from reference_world import BROKER, NAMESRV, Cluster, broker_up, create_topic, pull_header

from maxq.reference import rpc
from maxq.reference.bounds import FRAME_S_MAX, Bounds
from maxq.reference.broker.messages import pull
from maxq.reference.namesrv.kv import CHARS_MAX
from maxq.reference.rpc import Connection, Pool
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame, encode
from maxq.reference.wire.headers import to_ext

PORT = 9000
HALF_MAX, UNREAD_MAX = 1_000_000, 2_000_000


class Stranger(asyncio.Protocol):
    """A connection that says what it is told to, and reads or does not."""

    def __init__(self) -> None:
        self.lost = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def say(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)


async def stranger(address: str) -> Stranger:
    host, port = rpc.split_address(address)
    _, made = await rpc.loop_dial(Stranger, host, port)
    assert isinstance(made, Stranger)
    return made


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        yield made


def half(size: int) -> bytes:
    """A frame of 16 MB, as far as so many bytes."""
    return (16_000_000).to_bytes(4, "big") + bytes(size - 4)


def echo(request: Frame, connection: Connection) -> Frame:
    return request.answer(0, body=request.body)


def serving(cluster: Cluster) -> tuple[str, Bounds[Connection], list[str]]:
    """A server on a machine of its own, with small bounds; its log."""
    loop, _ = cluster.world.process(cluster.machines["relay"])
    log: list[str] = []
    bounds: Bounds[Connection] = Bounds(
        lambda trace, **fields: log.append(trace),
        half_bytes_max=HALF_MAX, unread_bytes_max=UNREAD_MAX,
    )  # fmt: skip
    listening: list[rpc.Server] = []

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            listening.append(await rpc.serve("0.0.0.0", PORT, echo, group=group, bounds=bounds))
            await asyncio.Event().wait()  # until it is killed

    loop.create_task(main())
    cluster.until(lambda: bool(listening))
    return f"{cluster.machines['relay'].address}:{PORT}", bounds, log


def test_a_frame_that_does_not_end_is_given_its_time(cluster: Cluster) -> None:
    """Of a broker: whoever has begun a frame and says no more is cut off, and nobody else."""
    broker_up(cluster)

    async def main(pool: Pool) -> None:
        slow, idle = await stranger(BROKER), await stranger(BROKER)
        slow.say(half(5))
        await asyncio.sleep(FRAME_S_MAX - 1)
        assert not slow.lost
        await asyncio.sleep(2)
        assert slow.lost
        assert not idle.lost

    cluster.client(main)
    assert cluster.logged("b1", "rpc.peer.cut-off") == 1


def test_bytes_that_are_no_frame_close_their_connection_and_are_logged(cluster: Cluster) -> None:
    broker_up(cluster)

    async def main(pool: Pool) -> None:
        noisy, other = await stranger(BROKER), await stranger(BROKER)
        noisy.say(b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.sleep(1)
        assert (noisy.lost, other.lost) == (True, False)

    cluster.client(main)
    assert cluster.logged("b1", "rpc.peer.nonsense") == 1


def test_each_frame_has_its_own_time(cluster: Cluster) -> None:
    """A peer that is slow but ends its frames is served for ever."""
    address, _, log = serving(cluster)

    async def main(pool: Pool) -> None:
        slow = await stranger(address)
        frame = encode(Frame(code=1, body=b"x" * 100))
        slow.say(frame[:10])
        for _ in range(4):
            await asyncio.sleep(FRAME_S_MAX * 0.8)
            slow.say(frame[10:] + frame[:10])
        assert not slow.lost

    cluster.client(main)
    assert log == []


def test_what_half_frames_hold_together_is_bounded(cluster: Cluster) -> None:
    """The oldest go, and a neighbour is answered all the time."""
    address, bounds, log = serving(cluster)

    async def main(pool: Pool) -> None:
        many = []
        for _ in range(20):
            many.append(await stranger(address))
            many[-1].say(half(200_000))
            await asyncio.sleep(0.5)
            assert bounds.half.total <= HALF_MAX
            answer = await pool.call(address, Frame(code=1, body=b"x" * 50_000), timeout_s=1)
            assert answer.body == b"x" * 50_000
        assert [one.lost for one in many] == [True] * 15 + [False] * 5

    cluster.client(main)
    assert log == ["rpc.peer.cut-off"] * 15


def test_answers_that_are_not_read_are_bounded(cluster: Cluster) -> None:
    address, bounds, log = serving(cluster)

    async def main(pool: Pool) -> None:
        deaf = await stranger(address)
        assert deaf.transport is not None
        deaf.transport.pause_reading()
        # One call of the loop serves them all before a pause of reading could matter.
        deaf.say(encode(Frame(code=1, body=b"x" * 1000)) * 4000)
        await asyncio.sleep(1)
        assert bounds.unread.total <= UNREAD_MAX
        assert (await pool.call(address, Frame(code=1), timeout_s=1)).code == 0

    cluster.client(main)
    assert "rpc.peer.cut-off" in log


def test_a_client_with_too_many_requests_is_told_so(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc, "IN_FLIGHT_MAX", 2)
    broker_up(cluster)
    create_topic(cluster)
    cluster.pull(BROKER)  # makes the group
    header = pull_header(sys_flag=6, suspend_timeout_millis=1000, queue_id=1)
    frame = Frame(code=RequestCode.PULL_MESSAGE, ext=to_ext(header))

    async def main(pool: Pool) -> None:
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(pool.call(BROKER, frame, timeout_s=9)) for _ in range(3)]
        assert [call.result().code for call in calls] == [19, 19, 2]

    cluster.client(main)


def test_no_more_pulls_are_held_than_the_bound_says(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are answered at once, as if they had not asked to wait."""
    monkeypatch.setattr(pull, "HELD_MAX", 3)
    broker_up(cluster)
    create_topic(cluster)
    cluster.pull(BROKER)  # makes the group
    header = pull_header(sys_flag=6, suspend_timeout_millis=5000, queue_id=1)
    frame = Frame(code=RequestCode.PULL_MESSAGE, ext=to_ext(header))

    async def main(pool: Pool) -> None:
        loop = asyncio.get_running_loop()
        took: list[float] = []

        async def one() -> None:
            began = loop.time()
            assert (await pool.call(BROKER, frame, timeout_s=9)).code == 19
            took.append(round(loop.time() - began))

        for _ in range(2):
            took.clear()
            async with asyncio.TaskGroup() as group:
                for _ in range(5):
                    group.create_task(one())
            assert sorted(took) == [0, 0, 5, 5, 5]

    cluster.client(main)


def test_the_settings_of_a_name_server_are_bounded_by_their_length(cluster: Cluster) -> None:
    cluster.up("namesrv", "namesrv", {"kvConfigPath": "/data/kvConfig.json"})
    ext = {"namespace": "N", "key": "k", "value": "v" * (CHARS_MAX // 2)}
    assert cluster.ask(NAMESRV, RequestCode.PUT_KV_CONFIG, ext).code == 0
    assert cluster.ask(NAMESRV, RequestCode.PUT_KV_CONFIG, ext).code == 0  # the same again
    more = cluster.ask(NAMESRV, RequestCode.PUT_KV_CONFIG, {**ext, "key": "l"})
    assert (more.code, "at most" in (more.remark or "")) == (1, True)
