"""Generators: immutable, lazy sources of operations.

A generator answers two questions, and changing nothing in itself:

* ``op(ctx)``: what is the next operation, and what generator comes after it? The answer is an
  operation whose `time` says when it should be invoked (now or later) and whose `process` says by
  whom; or `PENDING`, if none can be had until something else happens; or None, if it is exhausted.
* ``update(ctx, event)``: what generator follows, now that `event` (an invocation or completion of
  anybody) has happened?

Semantics and names follow jepsen-io/generator.
"""

from collections.abc import Mapping
from enum import Enum
from random import Random
from typing import Protocol

import msgspec

from histories.op import Op

Thread = int | str  # 0 … concurrency-1, or "nemesis"


class Pending(Enum):
    """No operation can be had until something else happens."""

    PENDING = "pending"


PENDING = Pending.PENDING


class Context(msgspec.Struct, frozen=True):
    """What a generator may know of the run.

    `workers` maps each thread to the process it runs now, in thread order with the nemesis last;
    `free` are the threads with no operation outstanding, in the same order. `rng` is the run's
    seeded stream: the one thing here that is not a value.
    """

    time: int  # ns since the start of the run
    free: tuple[Thread, ...]
    workers: Mapping[Thread, int | str]
    rng: Random


Step = tuple[Op | Pending, "Generator"]


class Generator(Protocol):
    """An immutable source of operations."""

    def op(self, ctx: Context) -> Step | None:
        """The next operation and the generator after it; None when exhausted."""
        ...

    def update(self, ctx: Context, event: Op) -> "Generator":
        """The generator after `event`."""
        ...
