"""How much time and memory a command may use: ``--budget 30s,1GB``."""

import re
import resource
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import click

UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


class Budget(NamedTuple):
    """How long (s), and how much memory more than before (bytes)."""

    seconds: float = 30.0
    memory: int = 1 << 30

    def begun(self) -> Callable[[], bool]:
        """Says from now on whether it is used up."""
        until, most = time.monotonic() + self.seconds, memory_used() + self.memory
        return lambda: time.monotonic() > until or memory_used() > most


def memory_used() -> int:
    """How much memory this process has (bytes, resident)."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class BudgetType(click.ParamType[Budget]):
    """How long, and how much memory: ``30s,1GB``, either alone."""

    name = "budget"

    def convert(self, value: Any, param: Any, ctx: Any) -> Budget:
        if isinstance(value, Budget):
            return value
        found = Budget()
        for part in str(value).split(","):
            if match := re.fullmatch(r"(\d+(?:\.\d+)?)(s|min)?", part.strip()):
                found = found._replace(seconds=float(match[1]) * (60 if match[2] == "min" else 1))
            elif match := re.fullmatch(r"(\d+)(KB|MB|GB)", part.strip(), re.IGNORECASE):
                found = found._replace(memory=int(match[1]) * UNITS[match[2].upper()])
            else:
                self.fail(f"{part!r} is neither a time (30s, 2min) nor a size (500MB, 1GB)")
        return found
