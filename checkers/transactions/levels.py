"""Consistency models of transactions, and the anomalies that each of them rules out.

Two families. Where histories have a real-time order the names are those of Adya and of Elle: a
model without `strong-` promises nothing about the order of a process or of real time, and an
anomaly that needs such an order says so (``-process``, ``-realtime``). Where nothing is known but
the order of each session, every model includes that order, as Biswas and Enea define them.

Source: docs/spec/checkers.md 9. Adya, *Weak consistency*, 1999; Kingsbury and Alvaro, *Elle*, VLDB
2020; Biswas and Enea, *On the complexity of checking transactional consistency*, 2019.
"""

from collections.abc import Collection, Mapping
from functools import cache
from typing import NamedTuple

CYCLES = ("G0", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item")  # the worst first
PROCESS, REALTIME = "-process", "-realtime"
EXTRAS = ("", PROCESS, REALTIME)
G1 = ("G0", "G1a", "G1b", "G1c", "incompatible-order", "dirty-update", "cyclic-versions")
SKEW = ("G-single-item", "lost-update")
ALWAYS = ("phantom", "duplicate-elements")  # what no database may show


class Level(NamedTuple):
    """What it promises beyond the weaker models that it includes."""

    includes: tuple[str, ...]
    without: tuple[str, ...]


def _strong(extra: str, *names: str) -> tuple[str, ...]:
    return tuple(name + extra for name in names)


_STAMPS = ("inverted-timestamps", "stale-snapshot", "write-conflict")
_SI = ("G-single-item", "G-nonadjacent-item", "lost-update", "internal", *_STAMPS)
_SERIAL = (*CYCLES[2:], "lost-update", "internal")
SNAPSHOT = (*CYCLES[:4], "stale-snapshot")
TIMED: Mapping[str, Level] = {
    "read-uncommitted": Level((), (*ALWAYS, "G0")),
    "read-committed": Level(("read-uncommitted",), G1),
    "cursor-stability": Level(("read-committed",), ("lost-update",)),
    "consistent-view": Level(("cursor-stability",), SKEW),
    "repeatable-read": Level(("cursor-stability",), (*CYCLES[2:], "lost-update")),
    "snapshot-isolation": Level(("consistent-view",), _SI),
    "serializable": Level(("repeatable-read", "snapshot-isolation"), _SERIAL),
    "strong-session-read-uncommitted": Level(("read-uncommitted",), _strong(PROCESS, "G0")),
    "strong-session-read-committed": Level(
        ("read-committed", "strong-session-read-uncommitted"), _strong(PROCESS, "G0", "G1c")
    ),
    "strong-session-snapshot-isolation": Level(
        ("snapshot-isolation", "strong-session-read-committed"), _strong(PROCESS, *SNAPSHOT)
    ),
    "strong-session-serializable": Level(
        ("serializable", "strong-session-snapshot-isolation"), _strong(PROCESS, *CYCLES)
    ),
    "strong-read-uncommitted": Level(("strong-session-read-uncommitted",), _strong(REALTIME, "G0")),
    "strong-read-committed": Level(
        ("strong-session-read-committed", "strong-read-uncommitted"),
        _strong(REALTIME, "G0", "G1c"),
    ),
    "strong-snapshot-isolation": Level(
        ("strong-session-snapshot-isolation", "strong-read-committed"),
        _strong(REALTIME, *SNAPSHOT),
    ),
    "strict-serializable": Level(
        ("strong-session-serializable", "strong-snapshot-isolation"), _strong(REALTIME, *CYCLES)
    ),
}  # fmt: skip
# Of what is judged by sessions: names of `weak` beside those of cycles.
WEAK = ("read-committed", "read-atomic", "causal")
_WEAK = tuple(f"{name}-cycle" for name in WEAK)
SESSIONS: Mapping[str, Level] = {
    "read-committed": Level((), (*ALWAYS, *G1, _WEAK[0])),
    "read-atomic": Level(("read-committed",), ("internal", _WEAK[1])),
    "causal": Level(("read-atomic",), (_WEAK[2],)),
    "snapshot-isolation": Level(("causal",), _SI),
    "serializable": Level(("snapshot-isolation",), _SERIAL),
}
BY_SESSION: Mapping[str, Level] = {
    "read-atomic": Level(("strong-session-read-committed",), ("internal", *_WEAK[:2])),
    "causal": Level(("read-atomic",), (_WEAK[2],)),
}
# Of registers: what is decided without an order of all versions.
EXACT = (
    "read-uncommitted", "read-committed", "cursor-stability", "read-atomic", "causal",
    "strong-session-read-uncommitted", "strong-session-read-committed",
    "strong-read-uncommitted", "strong-read-committed",
)  # fmt: skip


def family(*, timed: bool, sessions: bool = False) -> Mapping[str, Level]:
    """The models that can be asked for.

    Args:
        timed: whether the history has an order of real time.
        sessions: whether `weak` judges it also.
    """
    if not timed:
        return SESSIONS
    if not sessions:
        return TIMED
    strong = TIMED["strong-session-snapshot-isolation"]
    both = {**TIMED, **BY_SESSION}
    both["strong-session-snapshot-isolation"] = strong._replace(
        includes=(*strong.includes, "causal")
    )
    return both


NAMES = tuple(sorted({*TIMED, *SESSIONS}))  # what may be asked for, of one history or another


@cache
def _below(name: str, of: tuple[tuple[str, Level], ...]) -> frozenset[str]:
    levels = dict(of)
    return frozenset({name}).union(*(_below(other, of) for other in levels[name].includes))


def included(levels: Mapping[str, Level], name: str) -> frozenset[str]:
    """A model and all weaker ones that it includes."""
    return _below(name, tuple(levels.items()))


def forbidden(levels: Mapping[str, Level], name: str) -> frozenset[str]:
    """The anomalies that a model rules out."""
    return frozenset(a for each in included(levels, name) for a in levels[each].without)


def broken(levels: Mapping[str, Level], anomalies: Collection[str]) -> frozenset[str]:
    """The models that some anomalies contradict."""
    return frozenset(name for name in levels if not forbidden(levels, name).isdisjoint(anomalies))


def weakest(levels: Mapping[str, Level], names: Collection[str]) -> list[str]:
    """Those models that include none of the others."""
    return [n for n in levels if n in names and not (included(levels, n) - {n}) & set(names)]


def strongest(levels: Mapping[str, Level], names: Collection[str]) -> list[str]:
    """Those that none of the others includes."""
    return [
        n
        for n in levels
        if n in names and not any(n in included(levels, m) for m in names if m != n)
    ]
