"""How many operations a second the interpreter performs: ``python -m benchmarks.interpreter``.

Bare: clients that answer at once and a recorder that only counts. Recorded: the same into a journal
on disk. Machines differ and are shared, so each figure is also given as a ratio to a calibration
loop of the same run: task switches a second of this interpreter's asyncio.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

from maxq.harness import generators as gen
from maxq.harness.contracts.outcome import Ok, Outcome
from maxq.harness.run.interpreter import Recorder, run
from maxq.histories.jsonl import JournalWriter
from maxq.histories.op import Op

CONCURRENCY = 10
OPS_COUNT = 40_000
SWITCHES_COUNT = 200_000
ROUNDS = 3
OK = Ok()


class CountingRecorder:
    """Counts events and forgets them."""

    def __init__(self) -> None:
        self.count = 0

    def append(self, op: Op) -> Op:
        op = msgspec.structs.replace(op, index=self.count)
        self.count += 1
        return op

    def tick(self, now_ns: int) -> None:
        """Nothing to write."""


class JournalRecorder(CountingRecorder):
    """Counts events and writes them to a journal."""

    def __init__(self, journal: JournalWriter) -> None:
        super().__init__()
        self.journal = journal

    def append(self, op: Op) -> Op:
        op = super().append(op)
        self.journal.append(op)
        return op

    def tick(self, now_ns: int) -> None:
        self.journal.tick(now_ns)


class PromptClient:
    """Answers at once."""

    async def open(self) -> None:
        pass

    async def invoke(self, op: Op) -> Outcome:
        return OK

    async def close(self) -> None:
        pass


def realistic_source() -> gen.Source:
    """The stack of a real workload, at a rate that never makes a client wait."""
    numbers = iter(range(OPS_COUNT * 2))

    def send() -> gen.Source:
        return {"f": "send", "value": [0, next(numbers)]}

    mixed = gen.mix(send, send, gen.repeat({"f": "poll"}))
    load = gen.limit(OPS_COUNT, gen.stagger(1, mixed))
    faults = gen.stagger(10 * gen.SECOND_NS, gen.repeat({"f": "kill"}))
    return gen.time_limit(600 * gen.SECOND_NS, gen.clients(load, gen.limit(1, faults)))


async def performed(recorder: Recorder) -> float:
    """Operations a second."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await run(
        realistic_source(),
        concurrency=CONCURRENCY,
        client=lambda thread: PromptClient(),
        nemesis=PromptClient(),
        recorder=recorder,
        rng=Random(0),
        now_ns=lambda: int((loop.time() - began) * 1e9),
    )
    return OPS_COUNT / (loop.time() - began)


async def switched() -> float:
    """Task switches a second."""

    async def switch() -> None:
        for _ in range(SWITCHES_COUNT // CONCURRENCY):
            await asyncio.sleep(0)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(switch())
    return SWITCHES_COUNT / (time.perf_counter() - began)


def recorded() -> float:
    """Operations a second with a journal."""
    with tempfile.TemporaryDirectory() as folder:
        with JournalWriter(Path(folder) / "history.jsonl") as journal:
            return asyncio.run(performed(JournalRecorder(journal)))


def main() -> int:
    def best(measure: Callable[[], float]) -> float:
        return max(measure() for _ in range(ROUNDS))

    switches = best(lambda: asyncio.run(switched()))
    bare = best(lambda: asyncio.run(performed(CountingRecorder())))
    journal = best(recorded)
    print(f"calibration {switches:12,.0f} task switches/s")
    print(f"bare        {bare:12,.0f} ops/s, {bare / switches:.4f} of calibration")
    print(f"recorded    {journal:12,.0f} ops/s, {journal / switches:.4f} of calibration")
    return 0


if __name__ == "__main__":
    sys.exit(main())
