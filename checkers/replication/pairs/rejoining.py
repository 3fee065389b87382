"""Rejoining: a slave that runs beside its master copies its log, again and again.

Judged in the calm times of `maxq.checkers.replication.pairs.acting`, of sets whose master runs,
from `JOINED_NS` after its begin, and after the master was first seen online in it. Till then a
slave has noticed that its old connection is dead, and dialled again.

A slave is paused if it gives one end of its log in two answers `STILL_NS` apart, of which the
second was asked for in that time, and its master, asked before the first, had more already. A
slave that copies slowly moves. Who was away until its master had deleted what comes next in its
log is named apart: RocketMQ's slaves then copy nothing for ever, and sends that wait for them are
answered FLUSH_SLAVE_TIMEOUT. A run that sets after what silence a link is dead is not judged.

Claim: A11 (docs/spec/acting-master.md 8.3), of brokers without controllers.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.observations import Sighting, replica_sightings
from maxq.checkers.evidence.quiescence import Lull, calm
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.fault_facts import TRIM
from maxq.histories.history import History
from maxq.histories.observed import ReplicaView
from maxq.histories.op import HistoryError

# By timing: the silence after which a link is dead (5 s, 20 s); a slave dials every 5 s for 5 s.
JOINED_NS = {"fast": 20_000_000_000, "stock": 35_000_000_000}
SILENCE_KEY = "broker:haHousekeepingInterval"
STILL_NS = 10_000_000_000
Said = Sighting[ReplicaView]
Still = tuple[Said, Said, Said]  # the master with more, the slave then, the slave later


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
    if SILENCE_KEY in context.by_hand:
        return case
    trims = [look for look in faults(history) if look.f == TRIM and look.ended is not None]
    joined_ns = JOINED_NS.get(context.timing, JOINED_NS["stock"])
    said: dict[str, list[Said]] = defaultdict(list)
    for s in replica_sightings(history):
        said[s.view.node].append(s)
    for lull in calm(history):
        for name, nodes in sorted(context.broker_sets.items()):
            if nodes[0] in lull.state.gone:
                continue
            for still in _judged(nodes, lull, said, joined_ns):
                case.judged["A11"] += 1
                case.found.extend([_stands(name, *still, trims)] if still is not None else [])
    case.counts = {"answers-A11": case.judged["A11"]}
    return case


def _judged(
    nodes: Sequence[str],
    lull: Lull,
    said: Mapping[str, Sequence[Said]],
    joined_ns: int,
) -> Iterator[Still | None]:
    """Of each slave of a set that could be seen to stand still in a lull: what shows that it
    did."""
    of_master = _within(lull, said.get(nodes[0], ()))
    online = next((s for s in of_master if s.view.isolated is not True), None)
    if online is None:
        return
    since_ns = max(lull.time.at_ns, online.at_ns) + joined_ns
    for node in (n for n in nodes[1:] if n not in lull.state.gone):
        late = [s for s in _within(lull, said.get(node, ())) if s.begun_ns >= since_ns]
        if late:
            yield _still(of_master, _within(lull, said[node]), late)


def _within(lull: Lull, said: Sequence[Said]) -> list[Said]:
    return [s for s in said if lull.time.holds(s.begun, s.at)]


def _still(
    of_master: Sequence[Said], of_slave: Sequence[Said], late: Sequence[Said]
) -> Still | None:
    """What shows that a slave stands still; None if nothing does."""
    for last in late:
        had = next((m for m in of_master if m.view.end > last.view.end), None)
        first = next((s for s in of_slave if had is not None and s.begun > had.at), last)
        still = first.view.end == last.view.end and last.begun_ns - first.at_ns >= STILL_NS
        if had is not None and still:
            return had, first, last
    return None


def _stands(name: str, had: Said, first: Said, last: Said, trims: Sequence[Fault]) -> Found:
    master, slave, end = had.view.node, last.view.node, last.view.end
    detail = {"set": name, "node": slave, "end": end}
    ops = (had.at, first.at, last.at)
    for trim in trims:
        begins = _begins(trim, master)
        if trim.ended is not None and end < begins:
            still_s = (last.begun_ns - first.at_ns) / 1e9
            said = (
                f"{slave} runs beside its master and copies nothing. Its log ends at byte "
                f"{end:,} (op {first.at}), and still does {still_s:.1f} s later (op {last.at}). "
                f"That of {master} begins at byte {begins:,}, as older files got too old (op "
                f"{trim.ended}). What lies between is nowhere."
            )
            return Found("A11", "slave-behind-trim", (trim.ended, *ops), said,
                         {**detail, "begins": begins})  # fmt: skip
    said = (
        f"Broker set {name}: {had.view.node}, its master, had a log up to byte {had.view.end} (op "
        f"{had.at}). That of {last.view.node}, which runs beside it, undisturbed, ends at byte "
        f"{last.view.end} (op {first.at}). It still does "
        f"{(last.begun_ns - first.at_ns) / 1e9:.1f} s later (op {last.at}): it copies nothing."
    )
    return Found("A11", "slave-stands-still", ops, said, detail)


def _begins(trim: Fault, node: str) -> int:
    """Where a node's log begins once its old files are deleted; 0: they are those of another."""
    proof = trim.result.get(node) if isinstance(trim.result, dict) else None
    aged = proof.get("aged-to") if isinstance(proof, dict) else None
    return aged if isinstance(aged, int) else 0
