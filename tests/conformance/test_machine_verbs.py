"""The verbs of a machine mean the same in every real environment: processes, pauses, cuts, other
addresses, names, probes."""

import asyncio
import os
import signal
from ipaddress import IPv4Address
from pathlib import Path

import msgspec
import pytest
from real_machines import (
    LONG_S,
    PORT,
    SHORT_S,
    WORLDS,
    Real,
    line,
    meets,
    nobody,
    nth,
    python_of,
    until,
    world,
)

from maxq.harness.contracts.environment import CLIENT, CLIENT_ADDRESS, Cut, Dropped, Loss
from maxq.harness.environments.machines.machine import LinkedMachine

pytestmark = [pytest.mark.parametrize("where", WORLDS), pytest.mark.timeout(300)]


# Connects, waits for a word, and says what came instead.
DIALS = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
try:
    print(s.recv(1), flush=True)
except OSError as error:
    print("met", error.errno, flush=True)
"""


def test_clients_and_observers_have_addresses_of_their_own(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        network = IPv4Address(a.address) - 16
        for dial, index in ((environment.dial, 2), (environment.observer_dial, 3)):
            async with line(dial, a.address) as client:
                assert await client.answered(LONG_S)
                assert client.transport.get_extra_info("sockname")[0] == str(network + index)

    world(where, tmp_path, main)


def test_how_processes_end_and_whose_files_they_write(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        async def code_of(*argv: str) -> int | None:
            pid = (await a.spawn(argv, log="node.log")).pid

            async def ended() -> bool:
                return (await a.status(pid)).code is not None

            await until(ended)
            return (await a.status(pid)).code

        assert await code_of("sh", "-c", "mkdir store; echo x > store/y; exit 3") == 3
        assert await code_of("sh", "-c", "kill -9 $$") == -signal.SIGKILL
        assert await code_of("no-such-program") == 127
        assert b"cannot start" in (await a.get(f"{a.data_dir}/node.log") or b"")
        assert await a.files(a.data_dir) == ["echo.log", "node.log", "store/y"]

    world(where, tmp_path, main)
    owners = {(p.stat().st_uid, p.stat().st_gid) for p in (tmp_path / "a").rglob("*")}
    assert owners == {(os.getuid(), os.getgid())}


def test_a_paused_process_is_in_state_t_and_goes_on(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        pid = (await a.spawn(["sleep", "60"], log="sleep.log")).pid

        async def stopped() -> bool:
            return (await a.status(pid)).stopped

        assert not await stopped()
        await a.signal(pid, signal.SIGSTOP)
        await until(stopped)
        assert (await a.status(pid)).code is None
        await a.signal(pid, signal.SIGCONT)

        async def running() -> bool:
            return not await stopped()

        await until(running)
        await a.signal(pid, signal.SIGSTOP)
        await a.signal(pid, signal.SIGKILL)  # ends a stopped process as well

        async def ended() -> bool:
            return (await a.status(pid)).code == -signal.SIGKILL

        await until(ended)
        assert not await stopped()

    world(where, tmp_path, main)


def test_a_cut_is_silent_one_way_counts_and_heals(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        assert await a.cut_packets() == {}
        await a.cut([Cut(source="b", block=b.block)])
        assert await a.cut_packets() == {"b": 0}
        assert await b.probe(a.address, PORT, timeout_s=SHORT_S) == "silent"
        assert (await a.cut_packets())["b"] > 0
        # One way: what a sends still leaves, but b's answers are packets of b.
        assert await a.probe(b.address, PORT, timeout_s=SHORT_S) == "silent"
        assert await b.cut_packets() == {}
        async with line(environment.dial, a.address) as client:
            assert await client.answered(LONG_S), "clients are not cut"
        await a.cut([])
        assert await a.cut_packets() == {}
        assert await meets(b, a)
        assert await meets(a, b)

    world(where, tmp_path, main)


def test_resets_are_heard_where_both_sides_cut_each_other(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        await a.cut([Cut(source="b", block=b.block, reset=True)])
        assert await b.probe(a.address, PORT, timeout_s=LONG_S) == "refused"
        await b.cut([Cut(source="a", block=a.block, reset=True)])
        assert await b.probe(a.address, PORT, timeout_s=LONG_S) == "refused"
        assert await a.probe(b.address, PORT, timeout_s=LONG_S) == "refused"
        assert (await a.cut_packets())["b"] > 0
        assert (await b.cut_packets())["a"] > 0

    world(where, tmp_path, main)


def test_a_cut_of_some_ports_leaves_all_others(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        cut = Cut(source="b", block=b.block, reset=True, ports=(PORT + 1, PORT + 2))
        await a.cut([cut])
        assert await b.probe(a.address, PORT, timeout_s=LONG_S) == "open"
        assert await a.cut_packets() == {"b": 0}
        await a.cut([msgspec.structs.replace(cut, ports=(PORT,))])
        assert await b.probe(a.address, PORT, timeout_s=LONG_S) == "refused"
        assert (await a.cut_packets())["b"] > 0

    world(where, tmp_path, main)


def test_connections_are_listed_at_both_ends_and_reset_from_one(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        async with line(environment.observer_dial, a.address) as observer:
            assert await b.connections(a.block) == frozenset()
            await b.spawn([python_of(environment), "-c", DIALS, a.address, str(PORT)], log="d.log")

            async def connected() -> bool:
                return bool(await b.connections(a.block))

            await until(connected)
            [(here, there)] = await b.connections(a.block)
            assert there == f"{a.address}:{PORT}"
            assert await a.connections(b.block) == {(there, here)}
            await a.reset_connections(b.block, [PORT + 1, PORT + 2])
            assert await a.connections(b.block) == {(there, here)}, "of other ports"
            await a.reset_connections(b.block, [PORT + 1, PORT])

            async def heard() -> bool:
                return b"met 104" in (await b.get(f"{b.data_dir}/d.log") or b"")

            await until(heard)
            assert await a.connections(b.block) == frozenset()
            assert await observer.answered(LONG_S), "others keep theirs"

    world(where, tmp_path, main)


def test_cutting_clients_off_ends_what_they_have_and_leaves_observers(
    where: str, tmp_path: Path
) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        async with (
            line(environment.dial, a.address) as silent,
            line(environment.dial, b.address) as reset,
        ):
            assert await silent.answered(LONG_S)
            assert await reset.answered(LONG_S)
            await a.cut([Cut(source=CLIENT, block=f"{CLIENT_ADDRESS}/32")])
            await b.cut([Cut(source=CLIENT, block=f"{CLIENT_ADDRESS}/32", reset=True)])
            assert not await silent.answered(SHORT_S)
            assert not silent.lost.is_set()
            reset.transport.write(b"x")
            await asyncio.wait_for(reset.lost.wait(), LONG_S)
            for machine in (a, b):
                assert (await machine.cut_packets())[CLIENT] > 0
                async with line(environment.observer_dial, machine.address) as observer:
                    assert await observer.answered(LONG_S)
            await a.cut([])
            await asyncio.wait_for(silent.echo.wait(), LONG_S)  # TCP sends again

    world(where, tmp_path, main)


def test_a_loss_drops_its_share_one_way_and_ends(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        assert await a.lost_packets() == {}
        await a.lose([Loss(source="b", block=b.block, percent=50)])
        assert list(await a.lost_packets()) == ["b"]

        async def many() -> bool:
            await asyncio.gather(*(b.probe(a.address, PORT, timeout_s=SHORT_S) for _ in range(20)))
            return (await a.lost_packets())["b"].of >= 200

        await until(many)
        seen = (await a.lost_packets())["b"]
        assert 0.3 < seen.packets / seen.of < 0.7, "beyond five standard deviations of 200 packets"
        assert await b.lost_packets() == {}
        await until(lambda: meets(b, a))
        async with line(environment.dial, a.address) as client:
            assert await client.answered(LONG_S)
        await a.lose([])
        assert await a.lost_packets() == {}

    world(where, tmp_path, main)


def test_all_packets_of_one_port_are_lost_and_none_of_others(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        await until(lambda: meets(b, a))
        await a.lose([Loss(source="b", block=b.block, percent=100, ports=(PORT + 1,))])
        assert await b.probe(a.address, PORT, timeout_s=LONG_S) == "open"
        assert await b.probe(a.address, PORT + 1, timeout_s=SHORT_S) == "silent"
        lost = (await a.lost_packets())["b"]
        assert lost.packets == lost.of > 0
        await a.lose([])
        assert await b.probe(a.address, PORT + 1, timeout_s=LONG_S) == "refused"

    world(where, tmp_path, main)


def test_a_cut_and_a_loss_stand_beside_each_other(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        await a.cut([Cut(source="b", block=b.block)])
        await a.lose([Loss(source="b", block=b.block, percent=50)])
        assert await b.probe(a.address, PORT, timeout_s=SHORT_S) == "silent"
        assert (await a.cut_packets())["b"] > 0
        assert await a.lost_packets() == {"b": Dropped(0, 0)}, "it sees what no cut has caught"
        await a.cut([])
        assert await a.cut_packets() == {}
        await until(lambda: meets(b, a))
        assert (await a.lost_packets())["b"].of > 0
        await a.cut([Cut(source="b", block=b.block)])
        await a.lose([])
        assert await a.lost_packets() == {}
        assert await b.probe(a.address, PORT, timeout_s=SHORT_S) == "silent"

    world(where, tmp_path, main)


def test_a_loss_outlives_a_change_of_address(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        await a.lose([Loss(source="b", block=b.block, percent=50)])
        await b.set_address(nth(b, 1))
        before = (await a.lost_packets())["b"].of
        await until(lambda: meets(b, a))
        assert (await a.lost_packets())["b"].of > before

    world(where, tmp_path, main)


def test_a_cut_outlives_a_change_of_address(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        first = b.address
        await a.cut([Cut(source="b", block=b.block)])
        await b.cut([Cut(source="a", block=a.block)])
        await b.set_address(nth(b, 1))
        assert b.address == nth(b, 1) != first
        assert b.block == f"{first}/28"
        assert await b.probe(a.address, PORT, timeout_s=SHORT_S) == "silent"
        assert await a.probe(b.address, PORT, timeout_s=SHORT_S) == "silent"
        assert (await a.cut_packets())["b"] > 0
        assert (await b.cut_packets())["a"] > 0
        await b.cut([])
        await a.cut([])
        await b.set_address(first)
        assert await meets(a, b)

    world(where, tmp_path, main)


def test_after_a_change_of_address_old_connections_hang_and_new_ones_work(
    where: str, tmp_path: Path
) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        old = a.address
        async with line(environment.dial, old) as before:
            assert await before.answered(LONG_S)
            await a.set_address(nth(a, 1))
            assert not await before.answered(SHORT_S)
            assert not before.lost.is_set()
            assert await b.probe(old, PORT, timeout_s=SHORT_S) == "silent"
            assert await meets(b, a)
            async with line(environment.dial, a.address) as after:
                assert await after.answered(LONG_S)
            await a.set_address(old)
            await a.set_address(old)  # no change, no error
            await asyncio.wait_for(before.echo.wait(), LONG_S)
        for wrong in (nth(b, 0), nth(b, 1), "10.0.0.1", "a"):
            with pytest.raises(ValueError):
                await a.set_address(wrong)
        assert a.address == old

    world(where, tmp_path, main)


def test_names_mean_what_was_set_last_also_to_a_running_process(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        fifo, log = Path(a.data_dir) / "ask", "names.log"
        os.mkfifo(fifo)
        await a.set_hosts({"b": b.address})
        script = f'exec < "{fifo}"; exec "$0" -c "$1"'
        await a.spawn(["sh", "-c", script, python_of(environment), LOOKUPS_BY_LINE], log=log)
        asking = os.open(fifo, os.O_RDWR)  # opening one end only would wait for the other

        async def told(count: int) -> list[str]:
            async def enough() -> bool:
                return (await a.get(f"{a.data_dir}/{log}") or b"").count(b"\n") >= count

            await until(enough)
            return (await a.get(f"{a.data_dir}/{log}") or b"").decode().split()

        os.write(asking, b"b\n")
        assert await told(1) == [b.address]
        await a.set_hosts({"b": nth(b, 1), "c": nth(a, 2)})
        os.write(asking, b"b\nc\n")
        assert (await told(3))[1:] == [nth(b, 1), nth(a, 2)]
        await a.set_hosts({"localhost2": "127.0.0.1"})
        os.write(asking, b"b\nlocalhost\n")
        assert (await told(5))[3:] == ["unknown", "127.0.0.1"]
        os.close(asking)

    world(where, tmp_path, main)
    assert "198.18." not in Path("/etc/hosts").read_text(), "the host's own names stay as they are"


def test_a_machine_knows_its_own_name(where: str, tmp_path: Path) -> None:
    """Java asks for it at its start."""

    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        script = "import socket; print(socket.gethostbyname(socket.gethostname()))"
        for hosts in ({}, {"b": b.address}):
            await a.set_hosts(hosts)
            pid = (await a.spawn([python_of(environment), "-c", script], log="name.log")).pid

            async def ended(pid: int = pid) -> bool:
                return (await a.status(pid)).code is not None

            await until(ended)
        assert (await a.get(f"{a.data_dir}/name.log") or b"").split() == [b"127.0.1.1"] * 2

    world(where, tmp_path, main)


LOOKUPS_BY_LINE = """
import socket, sys
for line in sys.stdin:
    try:
        print(socket.gethostbyname(line.strip()), flush=True)
    except OSError:
        print('unknown', flush=True)
"""


def test_what_a_probe_meets(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        before = len(os.listdir("/proc/self/fd"))
        assert await a.probe(b.address, PORT, timeout_s=LONG_S) == "open"
        assert await a.probe(b.address, PORT + 1, timeout_s=LONG_S) == "refused"
        assert await a.probe(nobody(b), PORT, timeout_s=SHORT_S) == "silent"
        # The kernel gives up on an address that nobody has: silence as well.
        assert await a.probe(nobody(b), PORT, timeout_s=LONG_S) == "silent"
        assert await a.probe("192.0.2.1", PORT, timeout_s=LONG_S) == "silent", "no way out"
        assert len(os.listdir("/proc/self/fd")) == before

    world(where, tmp_path, main)


def test_probes_of_silence_do_not_hold_up_other_requests(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        probes = [
            asyncio.ensure_future(a.probe(nobody(b), PORT, timeout_s=LONG_S)) for _ in range(50)
        ]
        await asyncio.wait_for(b.probe(a.address, PORT, timeout_s=LONG_S), 2)
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)

    world(where, tmp_path, main)


def test_removing_files_and_folders(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        await a.put(f"{a.data_dir}/store/x/y", b"1")
        await a.put(f"{a.data_dir}/store.conf", b"2")
        for name in ("store", "store", "store.conf", "none"):
            await a.remove(f"{a.data_dir}/{name}")
        assert await a.files(a.data_dir) == ["echo.log"]

    world(where, tmp_path, main)
