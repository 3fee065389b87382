"""How much time and memory a judgement may use: ``--budget 30s,1GB``."""

import re
import resource
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from maxq.harness.cli.given.param_types import Duration

UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


class Budget(NamedTuple):
    """How long (s), and how much memory more than before (bytes; 0: half of what is free)."""

    seconds: float = 60.0
    memory: int = 0

    def __str__(self) -> str:
        return f"{self.seconds:g}s" + (f",{self.memory >> 20}MB" if self.memory else "")

    def begun(self) -> Callable[[], bool]:
        """Says from now on whether it is used up."""
        memory = self.memory or memory_free() // 2
        until, most = time.monotonic() + self.seconds, memory_used() + memory
        return lambda: time.monotonic() > until or memory_used() > most


def memory_used() -> int:
    """How much memory this process has (bytes, resident)."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def memory_free() -> int:
    """How much memory this machine can give (bytes)."""
    with open("/proc/meminfo", "rb") as file:
        known = dict(line.split(b":", 1) for line in file)
    return int(known[b"MemAvailable"].split()[0]) << 10


class BudgetType(click.ParamType[Budget]):
    """How long, and how much memory: ``30s,1GB``, either alone."""

    name = "budget"

    def convert(self, value: Any, param: Any, ctx: Any) -> Budget:
        if isinstance(value, Budget):
            return value
        found = Budget()
        for part in str(value).split(","):
            if match := re.fullmatch(r"(\d{1,9})(KB|MB|GB)", part.strip(), re.IGNORECASE):
                found = found._replace(memory=int(match[1]) * UNITS[match[2].upper()])
            else:
                duration_ns = Duration().convert(part.strip(), param, ctx)
                found = found._replace(seconds=duration_ns / 1e9)
        return found
