"""The simulated network under cuts, pauses and changes of address: what a real kernel would do."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from maxq.harness.contracts.environment import Cut, Delay, Loss
from maxq.harness.simulation.loop import SimLoop
from maxq.harness.simulation.network import Rule
from maxq.harness.simulation.world import SimMachine, World

A, B = "198.18.0.16", "198.18.0.32"
A_BLOCK, B_BLOCK = "198.18.0.16/28", "198.18.0.32/28"
PORT = 9000
SECOND_NS = 1_000_000_000


class End(asyncio.Protocol):
    """Remembers what it met."""

    def __init__(self) -> None:
        self.heard = b""
        self.ended: list[Exception | None] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.append(exc)


class Pair:
    """Two machines; a server on b, whoever dials on a."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.a, self.b = world.add_machine("a", A), world.add_machine("b", B)
        self.client, _ = world.process(self.a)
        self.server, _ = world.process(self.b)
        self.accepted: list[End] = []
        self.run(self.server, self.listen())

    async def listen(self, host: str = "") -> None:
        def accept() -> End:
            self.accepted.append(End())
            return self.accepted[-1]

        await asyncio.get_running_loop().create_server(accept, host, PORT)

    def run(self, loop: SimLoop, work: Any, seconds: float = 600) -> Any:
        """Run a coroutine of one process to its end."""
        task = loop.create_task(work)
        limit = self.world.scheduler.now_ns + round(seconds * SECOND_NS)
        self.world.scheduler.run_until(lambda: task.done() or self.world.scheduler.now_ns > limit)
        return task.result()

    def dial(self, host: str = B, seconds: float = 600) -> End:
        async def main() -> End:
            loop = asyncio.get_running_loop()
            return (await loop.create_connection(End, host, PORT))[1]

        return self.run(self.client, main(), seconds)  # type: ignore[no-any-return]

    def sleep(self, seconds: float) -> None:
        end = self.world.scheduler.now_ns + round(seconds * SECOND_NS)
        loop, _ = self.world.process(self.a)
        loop.call_later(seconds, lambda: None)
        self.world.scheduler.run_until(lambda: self.world.scheduler.now_ns >= end)

    def cut(self, machine: SimMachine, block: str, *, reset: bool = False) -> Rule:
        machine.stack.cut([Cut("them", block, reset=reset)])
        [rule] = machine.stack.rules
        return rule

    def within(self, done: Callable[[], bool], seconds: float) -> None:
        limit = self.world.scheduler.now_ns + round(seconds * SECOND_NS)
        self.sleep(0.001)
        while not done():
            assert self.world.scheduler.now_ns <= limit, "not in time"
            self.sleep(0.05)


@pytest.fixture
def pair() -> Iterator[Pair]:
    world = World(1)
    yield Pair(world)
    world.close()


def test_a_silent_cut_holds_a_stream_and_it_goes_on_after_the_heal(pair: Pair) -> None:
    near = pair.dial()
    rule = pair.cut(pair.b, A_BLOCK)
    near.transport.write(b"one")
    pair.sleep(1)
    near.transport.write(b"two")
    pair.sleep(2)
    assert (pair.accepted[0].heard, near.ended) == (b"", [])
    assert rule.packets >= 4, "the segment was sent again and again"
    pair.b.stack.cut([])
    pair.within(lambda: pair.accepted[0].heard == b"onetwo", 10)
    near.transport.write(b"three")
    pair.sleep(0.1)
    assert pair.accepted[0].heard == b"onetwothree"


def test_without_acknowledgements_a_sender_falls_silent(pair: Pair) -> None:
    """a takes nothing of b: what a sends arrives at first, and then nothing more."""
    near = pair.dial()
    rule = pair.cut(pair.a, B_BLOCK)
    near.transport.write(b"one")
    pair.sleep(1)
    assert pair.accepted[0].heard == b"one"
    assert rule.packets > 1, "acknowledgements are packets"
    near.transport.write(b"two")
    pair.accepted[0].transport.write(b"answer")
    pair.sleep(1)
    assert (pair.accepted[0].heard, near.heard) == (b"one", b"")
    pair.a.stack.cut([])
    pair.within(lambda: (pair.accepted[0].heard, near.heard) == (b"onetwo", b"answer"), 10)


def test_a_cut_with_resets_ends_a_stream_for_who_sends(pair: Pair) -> None:
    near = pair.dial()
    pair.cut(pair.b, A_BLOCK, reset=True)
    near.transport.write(b"one")
    pair.sleep(0.1)
    assert [type(e) for e in near.ended] == [ConnectionResetError]
    assert pair.accepted[0].ended == [], "its machine rejects, and its kernel is not told"
    with pytest.raises(ConnectionRefusedError):
        pair.dial()


def test_a_dial_into_silence_is_tried_again_until_the_heal(pair: Pair) -> None:
    rule = pair.cut(pair.b, A_BLOCK)
    pair.world.network.at(5 * SECOND_NS, pair.b.stack.cut, [])
    pair.dial()
    assert (rule.packets, pair.world.scheduler.now_ns // SECOND_NS) == (3, 7), "at 0, 1, 3 and 7 s"


def test_a_dial_whose_answers_are_lost_does_not_succeed(pair: Pair) -> None:
    rule = pair.cut(pair.a, B_BLOCK)
    with pytest.raises(TimeoutError):
        pair.dial()
    assert rule.packets == 7


def test_a_paused_process_accepts_and_does_not_answer(pair: Pair) -> None:
    pair.server.pause()
    near = pair.dial()
    near.transport.write(b"one")
    pair.sleep(5)
    assert not pair.accepted
    pair.server.resume()
    pair.sleep(0.001)
    assert pair.accepted[0].heard == b"one"


def test_timers_of_a_paused_process_fire_when_it_goes_on(pair: Pair) -> None:
    fired: list[float] = []
    for wait in (2, 1):
        pair.server.call_later(wait, lambda w=wait: fired.append(w))
    pair.server.pause()
    pair.sleep(3)
    assert not fired
    pair.server.resume()
    pair.sleep(0.001)
    assert fired == [1, 2]


def test_the_death_of_a_paused_process_is_heard(pair: Pair) -> None:
    near = pair.dial()
    pair.server.pause()
    pair.server.kill()
    pair.sleep(0.1)
    assert [type(e) for e in near.ended] == [ConnectionResetError]
    with pytest.raises(ConnectionRefusedError):
        pair.dial()


def test_connections_of_a_former_address_hang(pair: Pair) -> None:
    near = pair.dial()
    pair.b.stack.set_address("198.18.0.33")
    near.transport.write(b"to the old one")
    pair.accepted[0].transport.write(b"from the old one")
    pair.sleep(30)
    assert (pair.accepted[0].heard, near.heard, near.ended) == (b"", b"", [])
    with pytest.raises(OSError, match="no route"):
        pair.dial()
    assert pair.dial("198.18.0.33").transport is not None, "the listener has all addresses"
    pair.b.stack.set_address(B)
    pair.within(lambda: near.heard == b"from the old one", 60)
    assert pair.accepted[0].heard == b"to the old one"


def test_a_listener_of_a_former_address_does_not_answer(pair: Pair) -> None:
    pair.server.kill()
    loop, _ = pair.world.process(pair.b)
    pair.run(loop, pair.listen(B))
    pair.b.stack.set_address("198.18.0.33")
    with pytest.raises(ConnectionRefusedError):
        pair.dial("198.18.0.33")


def test_a_name_means_what_the_hosts_say_now(pair: Pair) -> None:
    with pytest.raises(OSError, match="not known"):
        pair.dial("b")
    pair.a.stack.hosts = {"b": B}
    pair.dial("b")
    pair.b.stack.set_address("198.18.0.33")
    pair.a.stack.hosts = {"b": "198.18.0.33"}
    pair.dial("b")
    assert len(pair.accepted) == 2


def test_who_gives_up_a_dial_leaves_no_connection(pair: Pair) -> None:
    async def main() -> None:
        async with asyncio.timeout(0.0007):
            await asyncio.get_running_loop().create_connection(End, B, PORT)

    given_up = 0
    for _ in range(30):
        try:
            pair.run(pair.client, main())
        except TimeoutError:
            given_up += 1
    pair.sleep(1)
    assert 0 < given_up < 30
    assert sum(end.ended == [None] for end in pair.accepted) == given_up


def test_connections_of_dead_processes_are_forgotten(pair: Pair) -> None:
    """Else each new one, and each death, would look at all that there ever were."""
    for _ in range(20):
        pair.dial()
        pair.client.kill()
        pair.sleep(1)
        pair.client, _ = pair.world.process(pair.a)
    assert [str(end.ended[0]) for end in pair.accepted] == [
        "[Errno 104] connection reset by peer"
    ] * 20
    pair.dial()
    assert [len(machine.stack._ends) for machine in (pair.a, pair.b)] == [1, 1]


def test_a_machine_that_lost_its_power_is_silent_and_then_knows_nothing(pair: Pair) -> None:
    near, idle = pair.dial(), pair.dial()
    pair.b.lose_power()
    near.transport.write(b"into the dark")
    pair.sleep(10)
    assert near.ended == [], "nobody has told anything"
    with pytest.raises(OSError, match="no route"):
        pair.dial()
    pair.server, _ = pair.world.process(pair.b)
    pair.within(lambda: [type(e) for e in near.ended] == [ConnectionResetError], 60)
    pair.sleep(600)
    assert idle.ended == [], "who says nothing hears nothing: its half stays open"
    idle.transport.write(b"are you there?")
    pair.sleep(0.1)
    assert [type(e) for e in idle.ended] == [ConnectionResetError]
    assert all(end.ended == [] for end in pair.accepted), "nothing of the dead ever runs"
    with pytest.raises(ConnectionRefusedError):
        pair.dial()


def test_a_machine_that_is_back_resets_who_speaks_though_nothing_listens(pair: Pair) -> None:
    near = pair.dial()
    pair.b.lose_power()
    pair.b.stack.powered = True
    pair.sleep(60)
    near.transport.write(b"x")
    pair.sleep(0.1)
    assert [type(e) for e in near.ended] == [ConnectionResetError]


def test_what_a_machine_without_power_had_sent_is_not_sent_again(pair: Pair) -> None:
    near = pair.dial()
    pair.cut(pair.a, B_BLOCK)
    pair.accepted[0].transport.write(b"lost")
    pair.sleep(1)
    pair.b.lose_power()
    pair.world.process(pair.b)
    pair.a.stack.cut([])
    pair.sleep(600)
    assert (near.heard, near.ended) == (b"", [])


def test_packets_of_a_delayed_block_take_longer_in_one_direction(pair: Pair) -> None:
    near = pair.dial()
    pair.b.stack.delay([Delay("a", A_BLOCK, 80)])
    near.transport.write(b"slow")
    pair.accepted[0].transport.write(b"fast")
    pair.sleep(0.01)
    assert (near.heard, pair.accepted[0].heard) == (b"fast", b"")
    pair.sleep(0.08)
    assert pair.accepted[0].heard == b"slow"
    pair.b.stack.delay([])
    near.transport.write(b"!")
    pair.sleep(0.01)
    assert pair.accepted[0].heard == b"slow!"


def test_delays_concern_ports_and_of_several_the_longest_counts(pair: Pair) -> None:
    near = pair.dial()
    pair.b.stack.delay([Delay("a", A_BLOCK, 900, ports=(PORT + 1,))])
    near.transport.write(b"1")
    pair.sleep(0.01)
    assert pair.accepted[0].heard == b"1"
    pair.b.stack.delay([Delay("a", A_BLOCK, 40), Delay("a", A_BLOCK, 80, ports=(PORT,))])
    near.transport.write(b"2")
    pair.sleep(0.06)
    assert pair.accepted[0].heard == b"1"
    pair.sleep(0.03)
    assert pair.accepted[0].heard == b"12"


def test_a_jitter_is_drawn_anew_and_keeps_the_order(pair: Pair) -> None:
    near, took = pair.dial(), []
    pair.b.stack.delay([Delay("a", A_BLOCK, 200, 50)])
    for n in range(20):
        begun = pair.world.scheduler.now_ns
        near.transport.write(b"x")
        pair.world.scheduler.run_until(lambda n=n: len(pair.accepted[0].heard) > n)  # type: ignore[misc]
        took.append((pair.world.scheduler.now_ns - begun) / 1e6)
    assert len(set(took)) > 10
    assert 150 <= min(took) < 190
    assert 210 < max(took) <= 252


class Pieces(End):
    """Remembers in which pieces it heard what it heard."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.pieces.append(data)


def test_a_stream_is_not_divided_as_it_was_written(pair: Pair) -> None:
    near = pair.dial()
    hears = pair.accepted[0].transport.protocol = Pieces()
    written = [b"%05d" % n * (1 + n % 7) for n in range(3000)]
    for at in range(0, len(written), 3):
        for piece in written[at : at + 3]:
            near.transport.write(piece)
        pair.sleep(0.001)
    pair.sleep(1)
    assert hears.heard == b"".join(written)
    divided = [piece for piece in hears.pieces if piece not in written]
    assert any(whole.startswith(part) for part in divided for whole in written), "split"
    assert any(part.startswith(whole) for part in divided for whole in written), "merged"
    assert 50 < len(divided) < 600
    assert b"" not in hears.pieces


def arrivals(extra_dials: int, extra_writes: int) -> list[int]:
    """When each of some messages arrives, beside others on the same and on other connections."""
    world = World(5)
    pair = Pair(world)
    try:
        others = [pair.dial() for _ in range(extra_dials)]
        found = []
        pair.sleep(1 - world.scheduler.now_ns / SECOND_NS)
        near = pair.dial()
        for number in range(20):
            pair.sleep(number / 100 + 2 - world.scheduler.now_ns / SECOND_NS)
            for other in others[:extra_writes]:
                other.transport.write(b"in between")
            before = world.scheduler.now_ns
            near.transport.write(b"message")
            end = pair.accepted[-1]
            world.scheduler.run_until(lambda n=number, e=end: len(e.heard) == 7 * (n + 1))  # type: ignore[misc]
            found.append(world.scheduler.now_ns - before)
        return found
    finally:
        world.close()


def test_latencies_do_not_depend_on_what_else_was_sent() -> None:
    alone = arrivals(0, 0)
    assert len(set(alone)) > 10
    assert arrivals(3, 0) == alone
    assert arrivals(3, 2) == alone


def test_connections_of_one_machine_have_ports_of_their_own(pair: Pair) -> None:
    ends = [pair.dial().transport.get_extra_info("sockname") for _ in range(50)]
    assert len(set(ends)) == 50
    assert all(32_768 <= port < 60_768 for _, port in ends)


def lose(pair: Pair, percent: int, *, ways: str = "both") -> None:
    """Lose packets on their way to b, back from it, or both."""
    if ways in ("both", "in"):
        pair.b.stack.lose([Loss(source="a", block=A_BLOCK, percent=percent)])
    if ways in ("both", "out"):
        pair.a.stack.lose([Loss(source="b", block=B_BLOCK, percent=percent)])


def transfers(pair: Pair, count: int) -> list[float]:
    """How long each of some messages takes, one sent a second after the other has come (s)."""
    near, took = pair.dial(), []
    for number in range(1, count + 1):
        begun = pair.world.scheduler.now_ns
        near.transport.write(b"message")
        pair.world.scheduler.run_until(
            lambda n=number: bool(pair.accepted) and len(pair.accepted[-1].heard) == 7 * n  # type: ignore[misc]
        )
        took.append((pair.world.scheduler.now_ns - begun) / SECOND_NS)
        pair.sleep(1)
    return took


@pytest.fixture
def steady() -> Iterator[Pair]:
    """A pair whose packets all take the same time, and whose segments are not divided."""
    world = World(1, constant_latency=True)
    yield Pair(world)
    world.close()


def test_a_lost_segment_comes_after_a_retransmission_timeout_that_doubles(steady: Pair) -> None:
    lose(steady, 30, ways="in")
    took = transfers(steady, 2_000)
    for timeout, share in ((0.2, 0.3), (0.6, 0.09), (1.4, 0.027)):
        late = sum(t >= timeout for t in took) / len(took)
        assert share * 0.75 < late < share * 1.25, (timeout, late)
    times = (0, 0.2, 0.6, 1.4, 3, 6.2, 12.6, 25.4)
    assert all(any(0 < t - after < 0.001 for after in times) for t in took)
    [loss] = steady.b.stack.losses
    assert 0.25 < loss.packets / loss.of < 0.35


def test_a_lost_acknowledgement_delays_nothing(pair: Pair) -> None:
    near = pair.dial()
    lose(pair, 50, ways="out")
    for number in range(1, 201):
        near.transport.write(b"message")
        pair.sleep(0.005)
        assert len(pair.accepted[0].heard) == 7 * number
    [loss] = pair.a.stack.losses
    assert loss.packets > 50


def test_a_stream_stays_whole_and_in_order_under_loss(pair: Pair) -> None:
    near = pair.dial()
    lose(pair, 20)
    written = [b"%05d" % n * (1 + n % 7) for n in range(300)]
    for piece in written:
        near.transport.write(piece)
        pair.sleep(0.01)
    near.transport.close()
    pair.within(lambda: pair.accepted[0].ended == [None], 300)
    assert pair.accepted[0].heard == b"".join(written)


def test_a_lost_request_to_connect_is_sent_again_after_a_second_that_doubles(pair: Pair) -> None:
    lose(pair, 40, ways="out")  # the answers are lost
    took = []
    for _ in range(200):
        begun = pair.world.scheduler.now_ns
        pair.dial()
        took.append((pair.world.scheduler.now_ns - begun) / SECOND_NS)
        pair.sleep(0.1)
    assert {round(t) for t in took} >= {0, 1, 3}
    assert all(abs(t - min((0, 1, 3, 7, 15, 31, 63), key=lambda s: abs(t - s))) < 0.002
               for t in took)  # fmt: skip
    assert 0.3 < sum(t >= 1 for t in took) / len(took) < 0.5


def test_a_connection_that_loses_nearly_everything_ends_as_tcp_does(pair: Pair) -> None:
    near = pair.dial()
    lose(pair, 99)
    near.transport.write(b"message")
    pair.within(lambda: bool(near.ended), 2_000)
    [error] = near.ended
    assert isinstance(error, TimeoutError)
    pair.b.stack.lose([])
    pair.a.stack.lose([])
    pair.dial()


def test_losses_are_the_same_each_time_and_none_changes_other_latencies() -> None:
    def run(percent: int) -> list[float]:
        world = World(5)
        pair = Pair(world)
        try:
            if percent:
                lose(pair, percent, ways="in")
            return transfers(pair, 50)
        finally:
            world.close()

    assert run(20) == run(20) != run(0)
    assert sum(t < 0.001 for t in run(20)) > 30
    assert all(t < 0.001 for t in run(0))


def test_a_cut_is_met_before_a_loss_and_either_ends_alone(pair: Pair) -> None:
    lose(pair, 50, ways="in")
    pair.cut(pair.b, A_BLOCK)
    with pytest.raises(TimeoutError):
        pair.dial()
    [loss] = pair.b.stack.losses
    assert loss.of == 0
    pair.b.stack.cut([])
    pair.dial()
    assert loss.of > 0
    pair.cut(pair.b, A_BLOCK)
    pair.b.stack.lose([])
    with pytest.raises(TimeoutError):
        pair.dial()
