"""Messages that brokers may have deleted: the files that hold them are older than their retention,
or go beyond a broker's share of its disk.

A fault *trim* makes files of a commit log old, and says of each key which queue offsets they hold.
Where observers look at disks, they say where each log begins.
What lies before is no loss from then on, on any broker of the set: a consumer reads from
any master. What is behind is promised as before. A replica's own store is judged more strictly
(`maxq.checkers.replication.replicas`).

Offsets are queue offsets where nothing else is said.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.observations import NEVER
from maxq.checkers.evidence.stores.disk_looks import begins_of, kept_by_set
from maxq.histories.fault_facts import TRIM
from maxq.histories.history import History
from maxq.histories.op import HistoryError


class Trim(NamedTuple):
    """The log of one broker got old, or too large: from `begun` (index) on it may begin at byte
    `aged_to`. `young` maps keys to the first offset that must stay."""

    begun: int
    node: str
    aged_to: int
    young: Mapping[int, int]


class Expiry(NamedTuple):
    """From an index on the messages of a key before an offset may be gone."""

    begun: int
    offset: int


def trims_of(history: History) -> list[Trim]:
    """All of them: those of faults in order, and then by broker what was seen.

    Raises:
        HistoryError: the proof of one has another shape (W9).
    """
    return [*_by_age(history), *history.once(trims_of, lambda: _by_looks(history))]


def aged_logs(history: History) -> dict[str, int]:
    """The byte at which each log may begin that got old."""
    aged: dict[str, int] = {}
    for trim in _by_age(history):
        aged[trim.node] = max(trim.aged_to, aged.get(trim.node, 0))
    return aged


def _by_looks(history: History) -> list[Trim]:
    begins = [*begins_of(history)]
    kept = kept_by_set(history) if begins else {}
    return [
        Trim(b.begun, b.node, b.byte, {k: v.first(b.byte) for k, v in kept.get(b.set, {}).items()})
        for b in begins
    ]


def _by_age(history: History) -> list[Trim]:
    if not history.of_f(TRIM):
        return []
    found = []
    for fault in faults(history):
        if fault.f != TRIM or not isinstance(fault.result, dict):
            continue
        for node, proof in fault.result.items():
            if isinstance(proof, dict) and "aged-to" in proof:
                found.append(_trim(fault.begun, str(node), proof))
    return found


def _trim(begun: int, node: str, proof: Mapping[str, Any]) -> Trim:
    try:
        young = {int(key): int(offset) for key, offset in proof.get("young", ())}
        return Trim(begun, node, int(proof["aged-to"]), young)
    except (TypeError, ValueError) as error:
        raise HistoryError(
            f"what the {TRIM} of {begun} did to {node} is no proof: {error}"
        ) from None


def expiries(trims: Sequence[Trim]) -> dict[int, tuple[Expiry, ...]]:
    """What may be gone of each key, in order of time."""
    found: dict[int, list[Expiry]] = {}
    for trim in trims:
        for key, offset in trim.young.items():
            found.setdefault(key, []).append(Expiry(trim.begun, offset))
    return {key: tuple(sorted(of)) for key, of in found.items()}


def first_young(expired: Sequence[Expiry], at: int = NEVER) -> int:
    """The first offset of a key that must be there at an index; 0 if none may be gone."""
    return max((e.offset for e in expired if e.begun <= at), default=0)
