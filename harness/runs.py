"""Runs as commands make them: options, folder, environment, progress, results.

Everything here is about this machine and this process; what happens in a run is `lifecycle`.
"""

import asyncio
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.status import Status

from checkers.runner import Results
from harness import doctor
from harness.environments.local import LocalEnvironment
from harness.environments.simulated import CLIENT_ADDRESS, SimulatedEnvironment
from harness.lifecycle import FAULTS, Options, perform
from harness.simulation.world import SimHost, World
from harness.targets.reference import ReferenceTarget
from histories.jsonl import read_jsonl
from histories.op import Op
from histories.store import JOURNAL, Run, RunStore

SEED_BITS = 32


def options_from(given: Mapping[str, Any]) -> Options:
    """Resolve what the command line said: environment, seed, the meaning of `all`."""
    known = dict(given)
    if known["environment"] == "auto":
        works = {f.environment: f.works for f in doctor.examine()}
        known["environment"] = "local" if works["local"] else "simulated"
        print(f"environment: {known['environment']} (chosen by auto)", file=sys.stderr)
    if known["seed"] is None:
        known["seed"] = secrets.randbits(SEED_BITS)
    names = [n for n in FAULTS if n != "none"] if "all" in known["nemesis"] else known["nemesis"]
    known["nemesis"] = tuple(dict.fromkeys(names))
    known["mutant"] = known["mutant"] or ""
    known["time_limit_ns"] = known.pop("time_limit")
    return Options(**known)


def run_test(options: Options, root: Path, *, quiet: bool) -> tuple[Run, Results]:
    """Perform a run in a folder of its own and store its verdict."""
    run = RunStore(root.resolve()).create(options.workload, datetime.now(UTC))
    run.save_config(_config(options))
    with Progress(options, quiet=quiet) as progress:
        simulated = options.environment == "simulated"
        results = (
            _simulated(options, run, progress) if simulated else _local(options, run, progress)
        )
    ops, _ = read_jsonl(run.path / JOURNAL)
    run.save_results(ops, {**results.to_json(), "repeat": options.command()})
    return run, results


def _config(options: Options) -> dict[str, Any]:
    return {
        "options": msgspec.to_builtins(options),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "python": sys.version.split()[0],
        "kernel": Path("/proc/sys/kernel/osrelease").read_text().strip(),
        "start_wall": datetime.now(UTC).isoformat(),
        "start_monotonic_ns": time.monotonic_ns(),  # node logs are stamped by the same clock
        "repeat": options.command(),
    }


def _git(*args: str) -> str:
    try:
        done = subprocess.run(
            ["git", *args], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _local(options: Options, run: Run, progress: "Progress") -> Results:
    environment = LocalEnvironment(run.path / "nodes")
    return asyncio.run(
        perform(
            options,
            environment,
            ReferenceTarget(),
            run,
            say=progress.say,
            progress=progress.update,
            wall_ms=lambda: time.time_ns() // 1_000_000,
        )
    )


def _simulated(options: Options, run: Run, progress: "Progress") -> Results:
    world = World(options.seed)

    async def main(host: SimHost) -> Results:
        return await perform(
            options,
            SimulatedEnvironment(world, mutant=options.mutant),
            ReferenceTarget(),
            run,
            say=progress.say,
            progress=progress.update,
            wall_ms=host.wall_ms,
        )

    try:
        return world.run(world.add_machine("client", CLIENT_ADDRESS), main)
    finally:
        world.close()


class Progress:
    """Says on standard error what is happening and how long is left."""

    def __init__(self, options: Options, *, quiet: bool) -> None:
        console = Console(stderr=True, quiet=quiet)
        self._console = console
        self._status: Status | None = console.status("") if console.is_terminal else None
        self._limit_ns = options.time_limit_ns
        self._counts: Counter[str] = Counter()
        self._first_ns: int | None = None
        self._shown_ns = 0

    def __enter__(self) -> "Progress":
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, text: str) -> None:
        """Something new begins."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def update(self, now_ns: int, op: Op | None) -> None:
        """An operation, or a moment without one."""
        if op is not None:
            self._counts["faults" if not op.is_client else op.type] += 1
            if not op.is_client and (op.error or isinstance(op.value, dict)):
                self.say(f"{now_ns / 1e9:7.2f} s  {op.f}: {told(op)}")
        if self._first_ns is None:
            self._first_ns = now_ns
        if self._status is not None and now_ns - self._shown_ns > 200_000_000:
            self._shown_ns = now_ns
            left = max(0, self._first_ns + self._limit_ns - now_ns) / 1e9
            c = self._counts
            self._status.update(
                f"{left:.0f}s left  ok {c['ok']}  fail {c['fail']}  info {c['info']}"
                if left
                else f"healing and reading everything  ok {c['ok']}"
            )


def told(op: Op) -> str:
    """A completed fault in a line: which nodes, and whether it was seen to take effect."""
    if not isinstance(op.value, dict):
        return f"not done: {op.error}"
    return ", ".join(
        f"{node} {'proven' if seen.get('holds') else f'NOT PROVEN {seen}'}"
        for node, seen in op.value.items()
    )
