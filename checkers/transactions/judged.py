"""A history of transactions, judged: which anomalies it has, which models they contradict."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from maxq.checkers.linearizability.calls import OK
from maxq.checkers.transactions import list_append, registers, stamped, weak
from maxq.checkers.transactions.columns import Transactions
from maxq.checkers.transactions.cycles import Cycle, Cycles, acyclic, cycles, refuted, with_cycle
from maxq.checkers.transactions.findings import Analysis, said
from maxq.checkers.transactions.graph import PROCESS as PROCESS_EDGE
from maxq.checkers.transactions.graph import REALTIME as REALTIME_EDGE
from maxq.checkers.transactions.graph import (
    RW,
    Edges,
    Graph,
    Stations,
    joined,
    process_edges,
    realtime_edges,
)
from maxq.checkers.transactions.levels import (
    BY_SESSION,
    CYCLES,
    EXACT,
    EXTRAS,
    Level,
    broken,
    family,
    forbidden,
    included,
    strongest,
    weakest,
)
from maxq.checkers.transactions.serial import serial, snapshots
from maxq.checkers.transactions.told import short, told

DEFAULT, WITHOUT_TIMES = "strict-serializable", "serializable"
_ORDER = [
    "phantom", "duplicate-elements", "G1a", "G1b", "dirty-update", "incompatible-order",
    "cyclic-versions", "internal", "lost-update", "inverted-timestamps", "stale-snapshot",
    "write-conflict", "stale-snapshot-process", "stale-snapshot-realtime",
    *(name + extra for extra in EXTRAS for name in CYCLES),
]  # fmt: skip


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of anomaly: how often it is there, and one that shows it: in a line, with its
    transactions and why, and by the indices of their invocations."""

    name: str
    count: int
    forbidden: bool
    why: str
    lines: tuple[str, ...]
    witness: tuple[int, ...]


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a consistency model, and what is known of the others.

    `broken` are the weakest models that the anomalies contradict, `kept` the strongest of those
    that none of them contradicts. `unknown` says why nothing can be said.
    """

    consistency: str
    valid: bool | Literal["unknown"]
    transactions: int
    anomalies: tuple[Anomaly, ...]
    broken: tuple[str, ...]
    kept: tuple[str, ...]
    unknown: str = ""
    dependencies: dict[str, int] = {}


class Asked(NamedTuple):
    """What is asked: the model ("": the strongest), and of registers what may be assumed of each
    key: "" or "linearizable" or "sequential"."""

    consistency: str = ""
    keys: str = ""


STRONGEST = Asked()


def judge_lists(t: Transactions, asked: Asked, over: Callable[[], bool]) -> Judged:
    """Judge transactions that append to lists.

    Raises:
        ValueError: the model is none of those that can be asked for.
    """
    levels = family(timed=t.timed)
    wanted = chosen(asked.consistency, levels)
    analysis = list_append.analysed(t)
    graph, found = _loops(t, analysis, over)
    by_stamps = _by_stamps(t, analysis, levels, wanted, lists=True)
    names = {*analysis.findings.counts, *found.counts}
    unproven = ""
    if (
        not by_stamps
        and wanted not in broken(levels, names)
        and found.counts
        and _isolated(levels, wanted)
    ):
        proof = snapshots(t, analysis, _graph_of(graph(), t, wanted), over, lists=True)
        if proof.holds is False:
            found = with_cycle(found, Cycle(CYCLES[3] + _extra(wanted), ()))
        elif proof.holds is None:
            unproven = (
                "in which order values were appended that nobody read was not found (--budget)"
            )
    return verdict(t, wanted, (analysis, found), levels, lists=True, unproven=unproven)


def _by_stamps(
    t: Transactions,
    analysis: Analysis,
    levels: Mapping[str, Level],
    wanted: str,
    *,
    lists: bool,
) -> bool:
    """Whether timestamps decide it; what contradicts them is added to the findings."""
    unstamped = bool(np.any(analysis.there & (t.outcome != OK)))  # of these nobody knows when
    if t.stamps is None or unstamped or not _isolated(levels, wanted):
        return False
    found = stamped.sweep(t, analysis, lists=lists)
    analysis.findings.shown += found.shown
    analysis.findings.counts.update(found.counts)
    return True


def _isolated(levels: Mapping[str, Level], wanted: str) -> bool:
    """Whether a model is one of snapshot isolation, and of no more."""
    return {"snapshot-isolation", "serializable"} & included(levels, wanted) == {
        "snapshot-isolation"
    }


def _extra(wanted: str) -> str:
    """What is added to the names of cycles that a model rules out beyond the plain ones."""
    if wanted == DEFAULT or wanted.startswith("strong-snapshot"):
        return EXTRAS[2]
    return EXTRAS[1] if wanted.startswith("strong-session") else EXTRAS[0]


def _last(t: Transactions, wanted: str) -> int:
    """The last kind of edges that a model speaks of."""
    extra = _extra(wanted)
    if extra == EXTRAS[2]:
        return REALTIME_EDGE
    return PROCESS_EDGE if extra or not t.timed else RW


def judge_registers(t: Transactions, asked: Asked, over: Callable[[], bool]) -> Judged:
    """Judge transactions that write and read registers.

    Raises:
        ValueError: the model is none of those that can be asked for.
    """
    levels = family(timed=t.timed, sessions=True)
    wanted = chosen(asked.consistency, levels)
    analysis = registers.analysed(t, asked.keys)
    graph, loops = _loops(t, analysis, over)
    by_stamps = _by_stamps(t, analysis, levels, wanted, lists=False)
    if not t.timed or wanted in BY_SESSION or loops.counts or analysis.findings.counts:
        found = weak.broken(t, analysis, over)
        if found is not None:
            loops = with_cycle(loops, found[1])
        if analysis.findings.own_writes and (found is None or found[0] != weak.LEVELS[0]):
            loops = loops._replace(hidden=(*loops.hidden, f"{weak.LEVELS[0]}-cycle"))
    unproven = ""
    if not by_stamps and wanted not in broken(
        levels, {*analysis.findings.counts, *loops.counts, *loops.hidden}
    ):
        loops, unproven = _proved(t, analysis, graph(), (wanted, levels), loops, over)
    return verdict(t, wanted, (analysis, loops), levels, lists=False, unproven=unproven)


def _proved(
    t: Transactions,
    analysis: Analysis,
    graph: Graph,
    model: tuple[str, Mapping[str, Level]],
    loops: Cycles,
    over: Callable[[], bool],
) -> tuple[Cycles, str]:
    """What a serial order says, or that there is none; and why nothing is proved."""
    wanted, levels = model
    if wanted in EXACT:
        return loops, ""
    own = _graph_of(graph, t, wanted)
    if analysis.findings.counts or analysis.repeated:
        return loops, "some reads are wrong by themselves, which leaves the order of versions open"
    serializable = "serializable" in included(levels, wanted)
    proof = serial(t, analysis, own, over)
    if proof.holds:
        return loops, ""
    if proof.holds is False and serializable:
        cycle = refuted(own, proof.forced, CYCLES[-1] + _extra(wanted), over)
        return with_cycle(loops, cycle), ""
    if _isolated(levels, wanted):
        proof = snapshots(t, analysis, own, over, lists=False)
        if proof.holds:
            return loops, ""
        if proof.holds is False:
            return with_cycle(loops, Cycle(CYCLES[3] + _extra(wanted), ())), ""
    return loops, ("nothing was found against it, and no order that shows it either (--budget): "
                   "values that are written without being read have no known order")  # fmt: skip


def chosen(consistency: str, levels: Mapping[str, Level]) -> str:
    """The model that is asked for; by default the strongest.

    Raises:
        ValueError: it is none of `levels`.
    """
    wanted = consistency or (DEFAULT if DEFAULT in levels else WITHOUT_TIMES)
    if wanted not in levels:
        raise ValueError(f"{wanted} cannot be said of this history; {', '.join(levels)} can")
    return wanted


def _graph_of(graph: Graph, t: Transactions, wanted: str) -> Graph:
    """The dependencies of which a model speaks."""
    return graph._replace(edges=graph.edges.take(graph.edges.kind <= _last(t, wanted)))


def _loops(
    t: Transactions, analysis: Analysis, over: Callable[[], bool]
) -> tuple[Callable[[], Graph], Cycles]:
    """All dependencies, those of processes and of real time also, and their cycles. The graph is
    made for who asks for it, which most do not."""
    stations = Stations(analysis.size)
    order = (
        realtime_edges(t, analysis.there, stations) if t.timed else
        process_edges(t, analysis.there)
    )  # fmt: skip
    parts = [analysis.edges, order]
    free = acyclic(stations.size, parts)  # real time includes the order of each process
    parts += [process_edges(t, analysis.there)] if t.timed else []

    def graph() -> Graph:
        return Graph(t.size, stations.size, joined(parts))

    return graph, Cycles((), {}) if free else cycles(graph(), over, sessions=not t.timed)


def verdict(
    t: Transactions,
    wanted: str,
    found: tuple[Analysis, Cycles],
    levels: Mapping[str, Level],
    *,
    lists: bool,
    unproven: str = "",
) -> Judged:
    """What is said of a history; `unproven` says what else keeps it from being called valid."""
    analysis, loops = found
    names = {*analysis.findings.counts, *loops.counts, *loops.hidden}
    wrong = forbidden(levels, wanted)
    wrong |= {"internal"} if wrong.intersection(loops.hidden) else set()
    bad = broken(levels, names)
    why = "" if wanted in bad else _unknown(t, analysis, loops, wrong) or unproven
    anomalies = _anomalies(t, analysis, loops, wrong, lists=lists)
    anomalies.sort(key=lambda a: (not a.forbidden, _ORDER.index(a.name) if a.name in _ORDER else 0))
    kept = [name for name in levels if name not in bad]
    return Judged(
        consistency=wanted, valid=False if wanted in bad else "unknown" if why else True,
        transactions=t.size, anomalies=tuple(anomalies),
        broken=tuple(weakest(levels, bad)), kept=tuple(strongest(levels, kept)), unknown=why,
        dependencies=_counted(t, analysis.edges),
    )  # fmt: skip


def _unknown(t: Transactions, analysis: Analysis, loops: Cycles, wrong: frozenset[str]) -> str:
    if open_ := [name for name in loops.undecided if name in wrong]:
        return f"the budget was used up before all cycles were named ({', '.join(open_)})"
    if analysis.repeated:
        return (f"values were written more than once ({', '.join(analysis.repeated)}): what was "
                "read of them has no one source")  # fmt: skip
    if not len(analysis.edges.source):
        return "no transaction depends on another: the history tests nothing"
    return ""


def _counted(t: Transactions, edges: Edges) -> dict[str, int]:
    kinds = np.bincount(edges.kind[edges.source < t.size], minlength=3)
    return {"ww": int(kinds[0]), "wr": int(kinds[1]), "rw": int(kinds[2])}


def _anomalies(
    t: Transactions, analysis: Analysis, loops: Cycles, wrong: frozenset[str], *, lists: bool
) -> list[Anomaly]:
    found: list[Anomaly] = []
    for name, count in analysis.findings.counts.items():
        first = next(one for one in analysis.findings.shown if one.name == name)
        lines = tuple(said(t, txn, lists) for txn in first.txns)
        found.append(Anomaly(
            name=name, count=count, forbidden=name in wrong, why=first.why, lines=lines,
            witness=_begins(t, first.txns),
        ))  # fmt: skip
    for name, count in loops.counts.items():
        best = min((c for c in loops.shown if c.name == name), key=lambda c: len(c.steps))
        found.append(Anomaly(
            name=name, count=count, forbidden=name in wrong, why=short(t, best),
            lines=told(t, best, lists=lists), witness=_begins(t, [s.txn for s in best.steps]),
        ))  # fmt: skip
    return found


def _begins(t: Transactions, txns: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(t.begun[txn]) for txn in dict.fromkeys(txns) if txn < t.size)
