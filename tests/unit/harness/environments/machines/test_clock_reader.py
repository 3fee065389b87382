"""What is said of a process and its clock, from what the kernel shows of it."""

import time
from pathlib import Path

import pytest

from maxq.harness.environments.machines.clock_reader import ahead_ns, follows

LIBRARY, FILE = "/usr/lib/faketime/libfaketimeMT.so.1", "/run/a/clock"
MAPS = "7f00-7f10 r-xp 00000000 fe:00 12   "


@pytest.mark.parametrize(
    ("loaded", "file", "expected"),
    [
        (LIBRARY, FILE, True),
        ("/usr/lib/libc.so.6", FILE, False),
        (f"{LIBRARY}.old", FILE, False),
        (LIBRARY, "/run/b/clock", False),
        (LIBRARY, "", False),
    ],
)
def test_a_process_follows_a_clock_by_what_it_loaded_and_reads(
    tmp_path: Path, loaded: str, file: str, expected: bool
) -> None:
    (tmp_path / "maps").write_text(f"{MAPS}/usr/bin/java\n{MAPS}{loaded}\n")
    given = f"FAKETIME_TIMESTAMP_FILE={file}\0" if file else ""
    (tmp_path / "environ").write_bytes(f"HOME=/\0{given}PATH=/bin\0".encode())
    assert follows(tmp_path, (LIBRARY, FILE)) is expected


def test_a_clock_is_read_against_the_one_that_only_runs() -> None:
    expected = time.time_ns() - time.monotonic_ns()
    assert abs(ahead_ns() - expected) < 50_000_000
