"""Rejoining: a slave that runs beside its master copies its log, again and again.

Judged in the calm times of `maxq.checkers.replication.pairs.acting`, of sets whose master runs,
from `JOINED_NS` after its begin, and after the master was first seen online in it. Till then a
slave has noticed that its old connection is dead, and dialled again.

A slave stands still if it gives one end of its log in two answers `STILL_NS` apart, of which the
second was asked for in that time, and its master, asked before the first, had more already. A
slave that copies slowly moves. A run that deletes old files is not judged: a slave that was away
for too long copies no more, by design; nor is one that sets after what silence a link is dead.

Claim: A11 (docs/spec/acting-master.md 8.3), of brokers without controllers.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.evidence.observations import Sighting, replica_sightings
from maxq.checkers.evidence.quiescence import Lull
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.checkers.replication.pairs.acting import calm
from maxq.histories.fault_facts import TRIM
from maxq.histories.history import History
from maxq.histories.observed import ReplicaView
from maxq.histories.op import HistoryError

# By timing: the silence after which a link is dead (5 s, 20 s); a slave dials every 5 s for 5 s.
JOINED_NS = {"fast": 20_000_000_000, "stock": 35_000_000_000}
SILENCE_KEY = "broker:haHousekeepingInterval"
STILL_NS = 10_000_000_000
Said = Sighting[ReplicaView]


class Rejoining:
    """The checker. See the module's text."""

    name = "rejoining"
    claims = ("A11",)

    def check(self, history: History, context: Context) -> Verdict:
        try:
            return rule(self, history, context, _case(history, context))
        except HistoryError as error:
            return unreadable(self, error)


def _case(history: History, context: Context) -> Case:
    case = Case(judged={"A11": 0})
    if SILENCE_KEY in context.by_hand or any(op.f == TRIM for op in history.nemesis):
        return case
    joined_ns = JOINED_NS.get(context.timing, JOINED_NS["stock"])
    said: dict[str, list[Said]] = defaultdict(list)
    for s in replica_sightings(history):
        said[s.view.node].append(s)
    for lull in calm(history):
        for name, nodes in sorted(context.broker_sets.items()):
            if nodes[0] in lull.state.gone:
                continue
            for found in _judged(name, nodes, lull, said, joined_ns):
                case.judged["A11"] += 1
                case.found.extend([found] if found is not None else [])
    case.counts = {"answers-A11": case.judged["A11"]}
    return case


def _judged(
    name: str,
    nodes: Sequence[str],
    lull: Lull,
    said: Mapping[str, Sequence[Said]],
    joined_ns: int,
) -> Iterator[Found | None]:
    """Of each slave of a set that could be seen to stand still in a lull: whether it did."""
    of_master = _within(lull, said.get(nodes[0], ()))
    online = next((s for s in of_master if s.view.isolated is not True), None)
    if online is None:
        return
    since_ns = max(lull.time.at_ns, online.at_ns) + joined_ns
    for node in (n for n in nodes[1:] if n not in lull.state.gone):
        late = [s for s in _within(lull, said.get(node, ())) if s.begun_ns >= since_ns]
        if late:
            yield _still(name, of_master, _within(lull, said[node]), late)


def _within(lull: Lull, said: Sequence[Said]) -> list[Said]:
    return [s for s in said if lull.time.holds(s.begun, s.at)]


def _still(
    name: str, of_master: Sequence[Said], of_slave: Sequence[Said], late: Sequence[Said]
) -> Found | None:
    """What shows that a slave stands still; None if nothing does."""
    for last in late:
        had = next((m for m in of_master if m.view.end > last.view.end), None)
        first = next((s for s in of_slave if had is not None and s.begun > had.at), last)
        still = first.view.end == last.view.end and last.begun_ns - first.at_ns >= STILL_NS
        if had is not None and still:
            return _stands(name, had, first, last)
    return None


def _stands(name: str, had: Said, first: Said, last: Said) -> Found:
    said = (
        f"Broker set {name}: {had.view.node}, its master, had a log up to byte {had.view.end} (op "
        f"{had.at}); that of {last.view.node}, which runs beside it, undisturbed, ends at byte "
        f"{last.view.end} (op {first.at}), and still does "
        f"{(last.begun_ns - first.at_ns) / 1e9:.1f} s later (op {last.at}): it copies nothing."
    )
    detail = {"set": name, "node": last.view.node, "end": last.view.end}
    return Found("A11", "slave-stands-still", (had.at, first.at, last.at), said, detail)
