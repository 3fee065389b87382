"""Holes of simulated files: nothing that is read, and nothing that power takes, depends on them."""

import asyncio
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.contracts.draws import Draws
from maxq.harness.simulation import disk as disks
from maxq.harness.simulation.disk import SimDisk

SIZE = 60
WRITE = st.tuples(st.just("write"), st.integers(0, SIZE), st.binary(min_size=1, max_size=20))
RESIZE = st.tuples(st.just("resize"), st.integers(0, SIZE), st.just(b""))
ACTS = st.lists(WRITE | RESIZE, max_size=12)


def held(disk: SimDisk) -> tuple[int, bytes]:
    file = disk.open("/d/f")
    return file.size(), file.pread(2 * SIZE + 40, 0)


def played(acts: list[tuple[str, int, bytes]], seed: int, hole_min: int) -> list[object]:
    """What a file holds after each act, then after a loss of power, and how much that took."""
    seen: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disks, "HOLE_MIN", hole_min)
        disk = SimDisk(Draws("holes"), capacity=1000)
        file = disk.open("/d/f", create=True)
        asyncio.run(disk.sync_dir("/d"))
        for act, at, data in acts:
            if act == "write":
                file.pwrite(data, at)
            else:
                file.truncate(at)
            seen.append(held(disk))
        seen.append(disk.power_loss(Draws(f"{seed}")))
        seen += [held(disk), disk.usage("/d/f")]
    return seen


@given(acts=ACTS, seed=st.integers(0, 1 << 30))
def test_a_hole_is_as_good_as_zeros(acts: list[tuple[str, int, bytes]], seed: int) -> None:
    assert played(acts, seed, hole_min=1) == played(acts, seed, hole_min=1 << 30)


def test_a_log_of_a_gibibyte_takes_what_is_written() -> None:
    disk = SimDisk(Draws("log"))
    file = disk.open("/d/f", create=True)
    file.truncate(1 << 30)
    for number in range(100):
        file.pwrite(Random(number).randbytes(100), 100 * number)
    assert (file.size(), len(disk.files["/d/f"])) == (1 << 30, 10_000)
    assert file.pread(4, (1 << 30) - 2) == bytes(2)
