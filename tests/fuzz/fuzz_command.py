"""The command of the fuzzer, as ``python -m tests.fuzz`` calls it."""

import secrets
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import click
import fuzz_files
from fuzz_cluster import FuzzCluster
from fuzz_run import run

SAY_EVERY_S = 10.0


class Progress:
    """Prints a line now and then."""

    def __init__(self) -> None:
        self._next = 0.0

    def say(self, line: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SAY_EVERY_S
            print(line, flush=True)


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0.1), default=1.0, show_default=True)
@click.option("--files", type=click.IntRange(1, 10**7), help="so many damaged files instead")
@click.option("--histories", is_flag=True, help="of these files, only histories")
@click.option("--first", type=click.IntRange(min=0), default=0, help="number of the first file")
@click.option("--seed", type=int, help="of the input; drawn if there is none")
def main(minutes: float, files: int | None, histories: bool, first: int, seed: int | None) -> None:
    """Send hostile frames to a cluster of its own, or have damaged files read."""
    chosen = secrets.randbelow(10**6) if seed is None else seed
    print(f"seed {chosen}", flush=True)
    if files is not None:
        sys.exit(read_files(chosen, range(first, first + files), histories=histories))
    sys.exit(send_frames(chosen, minutes))


def read_files(seed: int, numbers: range, *, histories: bool) -> int:
    """Have damaged files read; 1 if something is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        found = fuzz_files.run(Path(folder), seed, numbers, Progress().say, histories=histories)
    print(f"{sum(found.ends.values())} files: {dict(sorted(found.ends.items()))}")
    print(f"{found.more_bytes >> 20} MiB more than before, slowest {found.slowest_s:.3f} s")
    for fault in found.faults:
        print(fault)
    return 1 if found.faults else 0


def send_frames(chosen: int, minutes: float) -> int:
    """Send hostile frames; 1 if something is wrong."""
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        cluster = FuzzCluster(Path(folder), Random(secrets.randbits(64)))
        try:
            cluster.start()
            found = run(cluster, chosen, lambda _: time.monotonic() < end, say=Progress().say)
        finally:
            cluster.stop()
    sizes = {name: f"{size >> 20} MiB" for name, size in found.peak_bytes.items()}
    print(f"{sum(found.frames.values())} frames: {dict(sorted(found.frames.items()))}")
    print(f"most memory {sizes}, slowest answer to a neighbour {found.slowest_s:.3f} s")
    for fault in found.faults:
        print(fault)
    return 1 if found.faults else 0
