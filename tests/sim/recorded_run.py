"""Simulated runs whose every step is recorded, made in a process that was told how to begin.

As a program: ``recorded_run.py FOLDER SEEDS [BEFORE] [TASKS]``, lists of numbers divided by commas.
It runs the seeds of BEFORE, makes TASKS tasks on a loop of its own, and records the runs of SEEDS.
"""

import asyncio
import json
import sys
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

from maxq.harness.run.execute import run_in_world
from maxq.harness.run.run_context import RunContext
from maxq.harness.schedule.options import Options
from maxq.harness.simulation.steps import Steps
from maxq.histories.store import JOURNAL, RunStore

SECONDS = 2


def options_of(seed: int) -> Options:
    """A small cluster under faults that come and go in a few seconds."""
    return Options(
        environment="simulated",
        seed=seed,
        nemesis=("kill", "power", "partition", "pause"),
        time_limit_ns=SECONDS * 1_000_000_000,
    )


def record(seed: int, folder: Path) -> None:
    """Run a seed: leaves its steps in ``SEED.steps`` and its digests in ``SEED.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    run = RunStore(folder / "runs").create(f"seed{seed}", datetime.now(UTC))
    with (folder / f"{seed}.steps").open("wb") as file:
        steps = Steps(file)
        run_in_world(options_of(seed), run, RunContext(steps=steps), lambda: True)
        digest = steps.digest()
    history = (run.path / JOURNAL).read_bytes()
    told = {
        "steps": steps.count,
        "digest": digest,
        "ops": history.count(b"\n"),
        "history": blake2b(history).hexdigest(),
    }
    (folder / f"{seed}.json").write_text(json.dumps(told))


def numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",") if n]


def make_tasks(count: int) -> object:
    """Tasks that were never finished, and the loop that they wait on."""
    loop = asyncio.new_event_loop()

    async def waiting() -> None:
        await loop.create_future()

    tasks = [loop.create_task(waiting()) for _ in range(count)]
    loop.run_until_complete(asyncio.sleep(0))
    return tasks, loop


def main(argv: list[str]) -> None:
    folder, seeds, before, tasks = Path(argv[0]), *[*argv[1:], "", "", ""][:3]
    for seed in numbers(before):
        record(seed, folder / "before")
    kept = make_tasks(int(tasks or "0"))
    for seed in numbers(seeds):
        record(seed, folder)
    sys.stdout.flush()
    del kept


if __name__ == "__main__":
    main(sys.argv[1:])
