"""The wall clock of a machine that can be set off, in every real environment: who sees it, who does
not, and what is left."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from real_machines import WORLDS, Real, make, python_of, until, world

from maxq.harness.contracts.environment import EnvironmentUnavailable, MachineSpec
from maxq.harness.environments.machines import wrong_clock
from maxq.harness.environments.machines.machine import LinkedMachine

LACKING = wrong_clock.lacking()
pytestmark = [
    pytest.mark.parametrize("where", WORLDS),
    pytest.mark.skipif(LACKING is not None, reason=str(LACKING)),
    pytest.mark.timeout(300),
]
HOUR_MS = 3_600_000
NEAR_MS = 2_000  # of a time that another process wrote down a moment ago
# Says every 50 ms what time it is, and how long an event with a time limit took. Not by
# `time.sleep`, which fails under the library.
TELLS = """
import json, os, sys, threading, time
quiet = threading.Event()
while True:
    before = time.monotonic()
    quiet.wait(0.05)
    told = [time.time() * 1000, time.monotonic() - before]
    open(sys.argv[1] + ".new", "w").write(json.dumps(told))
    os.replace(sys.argv[1] + ".new", sys.argv[1])
"""
Body = Callable[[Real, LinkedMachine, LinkedMachine], Coroutine[Any, Any, None]]


async def telling(environment: Real, m: LinkedMachine) -> int:
    """A process that tells the time."""
    argv = [python_of(environment), "-c", TELLS, f"{m.data_dir}/told"]
    (Path(m.data_dir) / "told").unlink(missing_ok=True)
    pid = (await m.spawn(argv, log="tells.log")).pid
    await until(lambda: told(m))
    return pid


async def told(m: LinkedMachine) -> bool:
    return (Path(m.data_dir) / "told").exists()


def off_ms(m: LinkedMachine) -> float:
    """How far the clock of that process is off."""
    wall_ms, waited_s = json.loads((Path(m.data_dir) / "told").read_text())
    assert 0.04 < waited_s < 5, "timers run on"
    return float(wall_ms - time.time() * 1000)


def test_processes_see_a_clock_that_is_off_until_it_is_right(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        for m in (a, b):
            await telling(environment, m)
        before, agents = await a.clock(None), time.time() - time.monotonic()
        for offset_ms in (HOUR_MS, -30_000, 0):
            await a.set_clock(offset_ms, 0)
            assert off_ms(a) == pytest.approx(offset_ms, abs=NEAR_MS), "when it returns"
            shown = (await a.clock(None)).ahead_ms - before.ahead_ms
            assert shown == pytest.approx(offset_ms, abs=2)
            assert off_ms(b) == pytest.approx(0, abs=NEAR_MS), "a machine's own"
            assert time.time() - time.monotonic() == pytest.approx(agents, abs=0.05)

    world(where, tmp_path, main, clocks=True)


def test_a_process_that_starts_on_a_machine_whose_clock_is_off_has_that_clock(
    where: str, tmp_path: Path
) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        await a.set_clock(HOUR_MS, 0)
        pid = await telling(environment, a)
        assert off_ms(a) == pytest.approx(HOUR_MS, abs=NEAR_MS)
        assert (await a.clock(pid)).followed is True
        await a.signal(pid, 9)
        await telling(environment, a)
        assert off_ms(a) == pytest.approx(HOUR_MS, abs=NEAR_MS)
        with pytest.raises(OSError, match=r"the clock of a cannot be read: .*No such file"):
            await a.clock(pid)

    world(where, tmp_path, main, clocks=True)


def test_files_keep_the_times_of_the_kernel(where: str, tmp_path: Path) -> None:
    """And a file that is made old is so by the clock of its machine."""

    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        await a.set_clock(HOUR_MS, 0)
        await telling(environment, a)
        file = Path(a.data_dir) / "told"
        assert file.stat().st_mtime == pytest.approx(time.time(), abs=NEAR_MS / 1000)
        assert await a.age(str(file), 5_000) == 5_000

    world(where, tmp_path, main, clocks=True)


def test_nothing_is_left_of_the_library(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        pid = await telling(environment, a)
        await a.signal(pid, 9)
        await until(lambda: gone(a, pid))

    async def gone(m: LinkedMachine, pid: int) -> bool:
        return (await m.status(pid)).code is not None

    before = {name for name in os.listdir("/dev/shm") if "faketime" in name}
    world(where, tmp_path, main, clocks=True)
    assert {name for name in os.listdir("/dev/shm") if "faketime" in name} <= before


def test_a_machine_without_a_clock_of_its_own_has_no_library(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        argv = [python_of(environment), "-c", "import os; print(sorted(os.environ))"]
        pid = (await a.spawn(argv, log="env.log")).pid
        await until(lambda: ended(a, pid))
        words = (await a.get(f"{a.data_dir}/env.log") or b"").decode()
        assert "HOME" in words
        assert "FAKETIME" not in words
        assert "LD_PRELOAD" not in words

    async def ended(m: LinkedMachine, pid: int) -> bool:
        return (await m.status(pid)).code is not None

    world(where, tmp_path, main)


def test_a_library_that_sets_nothing_off_is_found_out_before_a_run(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrong_clock, "spelled", lambda offset_ms: "+0\n")

    async def main() -> None:
        environment = make(where, tmp_path, clocks=True)
        with pytest.raises(EnvironmentUnavailable, match="sets off by 3600000 ms is off by 0"):
            await environment.up([MachineSpec(name="a")])

    asyncio.run(main())
