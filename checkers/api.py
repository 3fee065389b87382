"""What a checker is: a pure function from a history to a verdict.

A checker sees the history and its context and nothing else; it cannot ask a cluster anything. It
says `valid` only with evidence: without an `ok` operation of a kind that it judges the verdict is
`unknown`. A crash of a checker becomes `unknown` with its traceback, never true or false.
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from histories.history import History

Valid = bool | Literal["unknown"]


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """One broken promise, provable from the history alone.

    `name` is the field's term (`lost-write`). `signature` is equal for equal findings across runs
    of one bug, so it holds no index, time or value of one run. `ops` are the indices of the
    operations that prove it; `story` is one paragraph that a person understands; `detail` holds
    the fields listed for `name` in ``docs/anomalies.md``.
    """

    claim: str
    name: str
    signature: str
    ops: tuple[int, ...]
    story: str
    detail: dict[str, Any] = msgspec.field(default_factory=dict)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a checker found. `reason` says why a verdict is unknown; `counts` are plain numbers."""

    checker: str
    claims: tuple[str, ...]
    valid: Valid
    anomalies: tuple[Anomaly, ...] = ()
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    reason: str = ""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a checker may know beside the history: how the run was set up.

    `ok_ops_min` is how many `ok` operations a kind (`send`) needs before its silence means
    anything; it follows from the load that the run's own schedule asked for. `broker_sets` maps
    each broker set that the run's faults struck to the names of its replicas. `lock_lease_ns` is
    how long a broker keeps a lock for a client that is silent, `client_lease_ns` how long the
    client relies on it. `recovery_ns` bounds what liveness claims promise, from the last heal on;
    `shrink_ns` how long a silent replica may stay in a SyncStateSet. `suspended` are claims that
    the run's own faults suspend: they are measured, as those that a profile does not make. Where
    brokers have no ids (`has_ids`) nothing is judged of who is a member of what.
    """

    profile: str = "P-ALL"
    timing: str = "fast"
    target: str = "reference"
    ok_ops_min: dict[str, int] = msgspec.field(default_factory=dict)
    broker_sets: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    lock_lease_ns: int = 10_000_000_000
    client_lease_ns: int = 5_000_000_000
    recovery_ns: int = 20_000_000_000
    shrink_ns: int = 8_000_000_000
    suspended: tuple[str, ...] = ()
    has_ids: bool = True


class Checker(Protocol):
    """Judges one history."""

    @property
    def name(self) -> str: ...

    @property
    def claims(self) -> tuple[str, ...]: ...

    def check(self, history: History, context: Context) -> Verdict:
        """Judge. Pure; may raise, which the runner turns into `unknown`."""
        ...


RANK: dict[Valid, int] = {True: 0, "unknown": 1, False: 2}


def worst(verdicts: Sequence[Verdict]) -> Valid:
    """Compose: invalid beats unknown beats valid; no verdict at all is unknown."""
    return max((v.valid for v in verdicts), key=RANK.__getitem__, default="unknown")
