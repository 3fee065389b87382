"""Shares of a disk: a broker keeps to its own, and nobody else's excess takes a file of it.

Observers look at the files of each broker. Between two looks of its own a broker may come beyond
what it may have at rest, by the files that it makes meanwhile; so what it has is compared with
that, and with what it has made since a look that is older than such a time. It may keep more than
that only if its oldest file holds what some broker of its set had not copied (B9). Where the first
bytes of a log are gone although its broker was within its share all the time, and they were young,
another one's excess has taken them (B10).

Looks count while nothing happens to the broker, and B9 from its first cleaning on. That others fill
the partition keeps no broker from its looks, and is no reason to delete.

Source: RIP-31; docs/spec/acting-master.md 2.8. Claims: B9, B10.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.observations import NEVER, Sighting, replica_sightings
from maxq.checkers.evidence.quiescence import Interval, Spans, Undisturbed
from maxq.checkers.evidence.stores.disk_looks import Look, looks_of, may_be_new, most, within
from maxq.checkers.evidence.stores.trims import aged_logs
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.fault_facts import FILL_DISK, FREE_DISK
from maxq.histories.history import History
from maxq.histories.observed import DiskView, ReplicaView
from maxq.histories.op import HistoryError

MS = 1_000_000
LATE_MS = 2_000  # a look of a broker may come so much later, and take so long
HELD = "held-above-share"
FILLS = (FILL_DISK, FREE_DISK)


class Copied(NamedTuple):
    """Where the log of each broker of a set ended, by index of the answer."""

    nodes: Mapping[str, Sequence[tuple[int, int]]]

    def by_all(self, before: int) -> int:
        """The byte up to which all had the log before an index; 0 where one said nothing."""
        last = [max(((at, end) for at, end in said if at < before), default=(0, 0))[1]
                for said in self.nodes.values()]  # fmt: skip
        return min(last, default=0)


class Shares:
    """The checker. See the module's text."""

    name = "shares"
    claims = ("B9", "B10")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            case = _judge(history, context)
        except HistoryError as error:
            return unreadable(self, error)
        return rule(self, history, context, case)


def _judge(history: History, context: Context) -> Case:
    looks, acts = looks_of(history), [*_acts(history)]
    times, aged, said = Undisturbed(acts), aged_logs(history), replica_sightings(history)
    case = Case(counts={"looks": sum(map(len, looks.values())), HELD: 0})
    for node, of in looks.items():
        spans, copied = times.of((node,)), _copied(said, context, of[0].view.set)
        _judge_use(of, spans, copied, case)
        clocks = (a.begun for a in acts if a.effect == "clock" and node in a.nodes)
        floods = (_flooded(beside) for other, beside in looks.items() if other != node)
        times_of_flood = Interval(min(floods, default=NEVER), until=min(clocks, default=NEVER))
        _judge_files(of, spans, times_of_flood, said, aged.get(node, 0), case)
    return case


def _acts(history: History) -> Iterator[Fault]:
    """What may keep a broker from its looks, or take a file; a full partition does neither."""
    return (a for a in faults(history) if a.kind != "question" and a.f not in FILLS)


def _judge_use(looks: Sequence[Look], spans: Spans, copied: Copied, case: Case) -> None:
    """B9 of a broker."""
    for look in looks:
        before = _cleaned_before(looks, look, spans)
        if before is None or look.view.made <= most(look.view):
            continue
        case.judged["B9"] = case.judged.get("B9", 0) + 1
        if not _beyond(before.view, look.view):
            continue
        if copied.by_all(before.begun) < look.view.start + look.view.share.file_bytes:
            case.counts[HELD] += 1
        else:
            case.found.append(_exceeded(before, look))


def _judge_files(
    looks: Sequence[Look],
    spans: Spans,
    flooded: Interval,
    said: Sequence[Sighting[ReplicaView]],
    aged: int,
    case: Case,
) -> None:
    """B10 of a broker, while another one is beyond its share; `aged`: the byte up to which its log
    got old."""
    for number, (a, b) in enumerate(pairwise(looks), start=1):
        if not flooded.holds(b.at, b.at) or not _within(looks, number, spans):
            continue
        case.judged["B10"] = case.judged.get("B10", 0) + 1
        moved = b.view.start > max(a.view.start, aged)
        if moved and not may_be_new(said, a, b):
            case.found.append(_taken(a, b))


def _copied(said: Sequence[Sighting[ReplicaView]], context: Context, broker_set: str) -> Copied:
    nodes: dict[str, list[tuple[int, int]]] = {
        n: [] for n in context.broker_sets.get(broker_set, ())
    }
    for s in said:
        if s.view.node in nodes:
            nodes[s.view.node].append((s.at, s.view.end))
    return Copied(nodes)


def _flooded(looks: Sequence[Look]) -> int:
    """The index of the first look that saw more made than a broker may have."""
    return next((look.at for look in looks if look.view.made > most(look.view)), NEVER)


def _beyond(before: DiskView, now: DiskView) -> bool:
    """Whether a broker has more than it may at rest, and has made since a look, and a file."""
    share, made = now.share, max(0, now.made - before.made)
    slack = (1 + share.ahead) * share.file_bytes
    return now.used > most(now) + made + slack and now.end - now.start > slack


def _cleaned_before(looks: Sequence[Look], look: Look, spans: Spans) -> Look | None:
    """The last look that is surely older than the broker's own last one, which it has had; None
    where something may have kept the broker from it."""
    span, share = spans.at(look.begun), look.view.share
    if span is None:
        return None
    until_ns = look.begun_ns - (share.every_ms + LATE_MS) * MS
    before = [a for a in looks if a.at_ns <= until_ns and span.holds(a.begun, look.at)]
    if not before or not _cleans(before, span):
        return None
    return before[-1]


def _cleans(looks: Sequence[Look], span: Interval) -> bool:
    """Whether a broker has looked for the first time by the last of these: it was seen to have
    deleted, or enough time has passed."""
    first, last = looks[0], looks[-1]
    after_ns = last.begun_ns - max(0, span.at_ns)
    moved = last.view.start > first.view.start
    return moved or after_ns >= (last.view.share.first_ms + LATE_MS) * MS


def _within(looks: Sequence[Look], number: int, spans: Spans) -> bool:
    """Whether a broker was within its share, and what it has young, between a look, by its number,
    and the one before."""
    a, b = looks[number - 1 : number + 1]
    span = spans.at(a.begun)
    if span is None or not span.holds(a.begun, b.at):
        return False
    return b.at_ns < b.view.share.reserved_ms * MS and within(looks, number)


def _detail(a: Look, b: Look) -> dict[str, object]:
    view = b.view
    return {
        "broker": view.node, "set": view.set, "used": view.used, "may": most(view),
        "made": view.made - a.view.made, "start": view.start, "before": a.view.start,
    }  # fmt: skip


def _exceeded(a: Look, b: Look) -> Found:
    view, made = b.view, b.view.made - a.view.made
    said = (
        f"{view.node} had {view.used:,} bytes of log and queues (op {b.at}). It may have "
        f"{most(view):,} of its share of the disk at rest, and had made {made:,} since the look "
        f"before its last cleaning (op {a.at}). All brokers of {view.set} had what its oldest file "
        f"holds, at byte {view.start}."
    )
    return Found("B9", "share-exceeded", (a.at, b.at), said, _detail(a, b))


def _taken(a: Look, b: Look) -> Found:
    view = b.view
    said = (
        f"The log of {view.node} began at byte {a.view.start} (op {a.at}), and then at byte "
        f"{view.start} (op {b.at}). Nothing of it was old, and it had {view.used:,} bytes of the "
        f"{most(view):,} that it may have of its share of the disk."
    )
    return Found("B10", "deleted-within-share", (a.at, b.at), said, _detail(a, b))
