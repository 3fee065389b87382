"""What a client may say of an operation: it happened, it certainly did not, or that is unknown.

The table that turns answers into these words is in `maxq.harness.contracts.error_classes`.
"""

from typing import Any, Protocol

import msgspec

from maxq.harness.contracts.error_classes import plain
from maxq.histories.op import Op
from maxq.reference.rpc import ConnectionLost, NotSent, Pool
from maxq.reference.wire.frame import Frame


class Ok(msgspec.Struct, frozen=True):
    """The operation took effect exactly as `value` says, between invocation and completion."""

    value: Any = None
    ext: dict[str, Any] | None = None


class Fail(msgspec.Struct, frozen=True):
    """The operation did not take effect and never will; `error` names the proof."""

    error: Any
    ext: dict[str, Any] | None = None


class Info(msgspec.Struct, frozen=True):
    """Nothing is known: it may have happened, may happen later, or never. Retires the process.

    `value` may enrich the invocation's value; None keeps it.
    """

    error: Any
    value: Any = None
    ext: dict[str, Any] | None = None


Outcome = Ok | Fail | Info


async def attempt(
    pool: Pool, address: str, request: Frame, *, timeout_s: float
) -> Frame | Fail | Info:
    """One call of an operation with an effect: its answer, whatever that says, or what is known
    without one. Only what never left this machine has certainly not happened."""
    try:
        return await pool.call(address, request, timeout_s=timeout_s)
    except NotSent as error:
        return Fail(["not-sent", plain(str(error))])
    except TimeoutError:
        return Info("timeout")
    except ConnectionLost:
        return Info("connection-lost")


class Client(Protocol):
    """One process's view of the cluster, or the nemesis. Retries nothing inside an operation."""

    async def open(self) -> None:
        """Get ready for the first operation. An error here makes each operation `fail`
        with ``no-client``, because nothing was attempted."""
        ...

    async def invoke(self, op: Op) -> Outcome:
        """Perform an invocation. An exception means `info`, error ``indeterminate: …``."""
        ...

    async def close(self) -> None:
        """Give up connections. Called once, also after an `info`."""
        ...
