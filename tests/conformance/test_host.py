"""One contract for `Host` and the loop's network, held on both sides: simulated and real."""

import asyncio
import errno

import pytest
from both_worlds import Run, in_both_worlds

from maxq.reference import rpc
from maxq.reference.host import Host, read_file, replace_file
from maxq.reference.wire.frame import Frame

run = in_both_worlds  # the fixture


def test_a_file_keeps_what_was_written_at_each_offset(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        file = host.disk.open(f"{folder}/deep/er/log", create=True)
        file.pwrite(b"abc", 0)
        file.pwrite(b"xyz", 5)
        await file.sync()
        assert file.size() == 8
        assert file.pread(100, 0) == b"abc\0\0xyz"
        assert file.pread(2, 1) == b"bc"
        assert file.pread(5, 8) == b""
        file.close()
        assert read_file(host.disk, f"{folder}/deep/er/log") == b"abc\0\0xyz"

    run(case)


def test_truncate_cuts_and_grows_with_zeros(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        file = host.disk.open(f"{folder}/log", create=True)
        file.pwrite(b"abcdef", 0)
        file.truncate(2)
        file.truncate(4)
        assert file.pread(10, 0) == b"ab\0\0"

    run(case)


def test_two_handles_of_a_file_see_each_others_writes(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        one = host.disk.open(f"{folder}/log", create=True)
        two = host.disk.open(f"{folder}/log")
        one.pwrite(b"hello", 0)
        assert two.pread(5, 0) == b"hello"

    run(case)


def test_rename_replaces_and_list_is_sorted(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        for name in ("b", "a", "c/d"):
            host.disk.open(f"{folder}/{name}", create=True).pwrite(name.encode(), 0)
        host.disk.rename(f"{folder}/b", f"{folder}/a")
        await host.disk.sync_dir(folder)
        assert host.disk.list(folder) == ["a", "c"]
        assert read_file(host.disk, f"{folder}/a") == b"b"
        assert host.disk.list(f"{folder}/nowhere") == []

    run(case)


def test_replace_file_leaves_only_the_new_content(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        await replace_file(host.disk, f"{folder}/id", b"a longer first content")
        await replace_file(host.disk, f"{folder}/id", b"second")
        assert read_file(host.disk, f"{folder}/id") == b"second"
        assert host.disk.list(folder) == ["id"]

    run(case)


def test_what_is_absent_is_enoent(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        for act in (
            lambda: host.disk.open(f"{folder}/none"),
            lambda: host.disk.unlink(f"{folder}/none"),
            lambda: host.disk.rename(f"{folder}/none", f"{folder}/other"),
        ):
            with pytest.raises(OSError, match="none") as caught:
                act()
            assert caught.value.errno == errno.ENOENT
        assert read_file(host.disk, f"{folder}/none") is None

    run(case)


def test_a_user_has_a_home(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        assert host.home().startswith("/")

    run(case)


def test_random_streams_are_named(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        first = [host.rng("a").random() for _ in range(2)]
        assert first[0] == first[1]
        assert host.rng("b").random() != first[0]

    run(case)


def test_calls_are_answered_whatever_their_order(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def slow(request: Frame) -> Frame:
            arrived.set_result(None)
            await gate
            return request.answer(0, body=b"slow")

        def handler(request: Frame, connection: rpc.Connection) -> object:
            if request.code == 1:
                return slow(request)
            gate.set_result(None)
            return request.answer(0, body=request.body)

        async with asyncio.TaskGroup() as group:
            address = host.addresses()[0]
            server = await rpc.serve(address, 20911, handler, group=group)  # type: ignore[arg-type]
            client = await rpc.connect(f"{address}:20911", group=group)
            first = group.create_task(client.call(Frame(code=1), timeout_s=5))
            big = b"x" * 300_000
            await arrived
            second = await client.call(Frame(code=2, body=big), timeout_s=5)
            assert second.body == big
            assert (await first).body == b"slow"
            client.close()
            server.close()

    run(case)


def test_a_handlers_future_is_answered_when_it_is_done(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        loop = asyncio.get_running_loop()

        def handler(request: Frame, connection: rpc.Connection) -> "asyncio.Future[Frame | None]":
            reply: asyncio.Future[Frame | None] = loop.create_future()
            loop.call_later(0.01, reply.set_result, request.answer(0, body=request.body))
            return reply

        async with asyncio.TaskGroup() as group:
            address = host.addresses()[0]
            server = await rpc.serve(address, 20918, handler, group=group)
            client = await rpc.connect(f"{address}:20918", group=group)
            calls = [
                group.create_task(client.call(Frame(code=1, body=b"%d" % n), timeout_s=5))
                for n in range(3)
            ]
            assert [(await c).body for c in calls] == [b"0", b"1", b"2"]
            client.close()
            server.close()

    run(case)


def test_a_post_dials_and_then_sends_the_newest(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        heard: list[bytes | None] = []
        arrived = [asyncio.get_running_loop().create_future() for _ in range(2)]

        def handler(request: Frame, connection: rpc.Connection) -> None:
            heard.append(request.body)
            arrived[len(heard) - 1].set_result(None)

        async with asyncio.TaskGroup() as group:
            address = host.addresses()[0]
            pool = rpc.Pool(group)
            pool.post(f"{address}:20919", Frame(code=1, body=b"to nobody"))
            await asyncio.sleep(0.1)
            server = await rpc.serve(address, 20919, handler, group=group)
            for body in (b"old", b"new"):
                pool.post(f"{address}:20919", Frame(code=1, body=body))
            await arrived[0]
            pool.post(f"{address}:20919", Frame(code=1, body=b"at once"))
            await arrived[1]
            assert heard == [b"new", b"at once"]
            pool.close()
            server.close()

    run(case)


def test_nobody_listening_is_not_sent(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        async with asyncio.TaskGroup() as group:
            with pytest.raises(rpc.NotSent):
                await rpc.connect(f"{host.addresses()[0]}:20912", group=group)

    run(case)


def test_a_closed_peer_is_a_lost_connection(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        def handler(request: Frame, connection: rpc.Connection) -> None:
            connection.close()

        async with asyncio.TaskGroup() as group:
            address = host.addresses()[0]
            server = await rpc.serve(address, 20913, handler, group=group)
            client = await rpc.connect(f"{address}:20913", group=group)
            with pytest.raises(rpc.ConnectionLost):
                await client.call(Frame(code=1), timeout_s=5)
            assert client.closed
            with pytest.raises(rpc.NotSent):
                await client.call(Frame(code=1), timeout_s=5)
            server.close()

    run(case)


def test_a_call_without_answer_times_out_and_closes_the_connection(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        async with asyncio.TaskGroup() as group:
            address = host.addresses()[0]
            server = await rpc.serve(address, 20914, lambda r, c: None, group=group)
            client = await rpc.connect(f"{address}:20914", group=group)
            with pytest.raises(TimeoutError):
                await client.call(Frame(code=1), timeout_s=0.05)
            assert client.closed
            server.close()

    run(case)


def test_an_address_is_bound_once(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        async with asyncio.TaskGroup() as group:
            address = host.addresses()[0]
            server = await rpc.serve(address, 20915, rpc.refuse, group=group)
            with pytest.raises(OSError, match="in use") as caught:
                await rpc.serve(address, 20915, rpc.refuse, group=group)
            assert caught.value.errno == errno.EADDRINUSE
            client = await rpc.connect(f"{address}:20915", group=group)
            answer = await client.call(Frame(code=77), timeout_s=5)
            assert (answer.code, answer.remark) == (3, " request type 77 not supported")
            client.close()
            server.close()

    run(case)


def test_garbage_closes_the_connection_and_the_server_lives(run: Run) -> None:
    async def case(host: Host, folder: str) -> None:
        class Raw(asyncio.Protocol):
            def __init__(self) -> None:
                self.lost = asyncio.get_running_loop().create_future()

            def connection_lost(self, exc: Exception | None) -> None:
                self.lost.set_result(None)

        async with asyncio.TaskGroup() as group:
            address = host.addresses()[0]
            server = await rpc.serve(address, 20916, rpc.refuse, group=group)
            raw = Raw()
            transport, _ = await rpc.loop_dial(lambda: raw, address, 20916)
            transport.write(b"\x16\x03\x01 a TLS hello is no frame")  # type: ignore[attr-defined]
            async with asyncio.timeout(5):
                await raw.lost
            client = await rpc.connect(f"{address}:20916", group=group)
            assert (await client.call(Frame(code=77), timeout_s=5)).code == 3
            client.close()
            server.close()

    run(case)
