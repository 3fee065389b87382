"""How much time and memory a judgement may use: ``--budget 30s,1GB``."""

import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from maxq.checkers.judgement.piecewise.memory import memory_free
from maxq.harness.cli.given.param_types import Duration
from maxq.harness.run.process.memory import LEAST, memory_used

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


def bytes_of(text: str) -> int | None:
    """How many bytes a text such as 800MB or 1.5GB says; None: it is none."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?) ?(KB|MB|GB)", text.strip(), re.IGNORECASE)
    return round(float(match[1]) * UNITS[match[2].upper()]) if match else None


class MemoryType(click.ParamType[int]):
    """How much memory a judgement may take: ``2GB``."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        size = value if isinstance(value, int) else bytes_of(str(value))
        if size is None:
            self.fail(f"{value!r} is no size such as 800MB or 2GB", param, ctx)
        if size < LEAST:
            self.fail(f"at least {LEAST // 10**6}MB, which reading a history takes", param, ctx)
        return size


class BudgetType(click.ParamType[Budget]):
    """How long, and how much memory: ``30s,1GB``, either alone."""

    name = "budget"

    def convert(self, value: Any, param: Any, ctx: Any) -> Budget:
        if isinstance(value, Budget):
            return value
        found = Budget()
        for part in str(value).split(","):
            if (size := bytes_of(part)) is not None:
                found = found._replace(memory=size)
            else:
                duration_ns = Duration().convert(part.strip(), param, ctx)
                found = found._replace(seconds=duration_ns / 1e9)
        return found
