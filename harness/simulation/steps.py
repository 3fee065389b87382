"""What a run did, step by step: a digest of all of it, and the first step in which two runs differ.

A step is a callback that ran: the time (ns), the number of its process's loop, and what ran. That
is named by qualified names and by numbers in the run alone, never by an address or a `repr`, so
that equal runs have equal steps, byte for byte.

A mismatch of two histories says that something differed long before; the first differing step says
where. Record both runs with a `file`, then ``python -m maxq.harness.simulation.steps ONE OTHER``.
"""

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

import msgspec

CHUNK = 4096  # steps that are hashed and written at once
CONTEXT = 5  # equal steps that are shown before the first differing one


class Difference(msgspec.Struct, frozen=True):
    """The first step in which two runs differ; an empty line where a run had ended."""

    number: int  # of the step, from 0
    before: tuple[str, ...]  # the last steps that were equal
    one: str
    other: str

    def __str__(self) -> str:
        equal = "".join(f"   {line}\n" for line in self.before)
        return (f"first difference at step {self.number} (time ns, loop, what):\n{equal}"
                f" < {self.one or '(ended)'}\n > {self.other or '(ended)'}")  # fmt: skip


class Steps:
    """Records the steps of one run.

    Args:
        file: where each step is written as a line; None keeps the digest alone.
    """

    def __init__(self, file: BinaryIO | None = None) -> None:
        self.count = 0
        self._file = file
        self._hash = blake2b(digest_size=16)
        self._lines: list[str] = []

    def add(self, now_ns: int, loop: int, callback: Callable[..., object]) -> None:
        """A callback of a loop runs."""
        self.count += 1
        self._lines.append(f"{now_ns} {loop} {name_of(callback)}\n")
        if len(self._lines) == CHUNK:
            self._flush()

    def digest(self) -> str:
        """Of all steps so far, in hex; all of them are written to the file then."""
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        if not self._lines:
            return
        data = "".join(self._lines).encode()
        self._lines.clear()
        self._hash.update(data)
        if self._file is not None:
            self._file.write(data)


def name_of(callback: Callable[..., object]) -> str:
    """What a callback is, in words that are the same in every run."""
    if isinstance(callback, partial):
        return name_of(callback.func)
    owner = getattr(callback, "__self__", None)
    number = getattr(owner, "number", None)
    if isinstance(owner, asyncio.Task):  # a step of it, or its awakening
        return f"task {number} {getattr(owner.get_coro(), '__qualname__', '')}"
    name = getattr(callback, "__qualname__", None) or type(callback).__qualname__
    return name if number is None else f"{name} {number}"


def first_difference(one: Path, other: Path) -> Difference | None:
    """Compare two recorded runs; None if they are equal."""
    before: list[str] = []
    with one.open(encoding="utf-8") as mine, other.open(encoding="utf-8") as theirs:
        for number, (a, b) in enumerate(zip_longest(mine, theirs, fillvalue="")):
            if a != b:
                return Difference(number, tuple(before), a.rstrip("\n"), b.rstrip("\n"))
            before = [*before[1 - CONTEXT :], a.rstrip("\n")]
    return None


def main(argv: list[str]) -> int:
    """Print the first difference of two files of steps; 0 if there is none, else 1."""
    found = first_difference(Path(argv[0]), Path(argv[1]))
    print(found or "no difference")
    return 0 if found is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
