"""Who leads in an epoch, and whether that is one party.

A controller names the master of an epoch. A broker that leads names the last epoch of its own list;
slaves and deposed masters may lag and say nothing about who leads. RocketMQ notes no epoch that
begins where the one before it began, so where no client wrote in between, a master goes by the
number of the one before: its word counts only if what controllers said shows that no later election
was its own (`Elections`).

Claim: S5 (docs/spec/controller-ha.md 6.3). Each set is judged alone.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from maxq.checkers.evidence.observations import SetSighting, Sighting
from maxq.checkers.evidence.verdicts import Found
from maxq.histories.observed import ReplicaView

Replicas = Sequence[Sighting[ReplicaView]]
Seen = Sequence[SetSighting]


class Claimant(NamedTuple):
    """A broker that leads in an epoch, by its own word or by a controller's."""

    id: int | None
    node: str | None  # None: a controller said it
    at: int
    said: str


class Elections:
    """Who was elected when, as far as controllers reported.

    Args:
        seen: what they said of one set.
        linearizable: an answer holds everything that was decided before it was asked for,
            whichever controller gives it.
    """

    def __init__(self, seen: Seen, *, linearizable: bool) -> None:
        self._masters: dict[int, set[int]] = defaultdict(set)
        self._reports: dict[str, list[tuple[int, int]]] = defaultdict(list)  # by node: begun, epoch
        for s in seen:
            node = "" if linearizable else s.node
            self._reports[node].append((s.begun, s.view.master_epoch))
            if s.view.master is not None:
                self._masters[s.view.master_epoch].add(s.view.master)
        for reports in self._reports.values():
            reports.sort()

    def may_have_won(self, broker_id: int | None, after: int, until: int) -> bool:
        """Whether a broker may have been elected in an epoch later than `after` before `until`, the
        index at which something was known of it. The next answer says how many epochs there can
        have been by then, where answers are not linearizable each controller's; where none
        answers, it is unknown."""
        places = [(reports, bisect_left(reports, (until, 0))) for reports in self._reports.values()]
        last = max((reports[i][1] for reports, i in places if i < len(reports)), default=None)
        if last is None:
            return True
        return any(
            broker_id is None or broker_id in self._masters.get(epoch, {broker_id})
            for epoch in range(after + 1, last + 1)
        )


def claimants_of(
    seen: Seen, replicas: Replicas, *, linearizable: bool
) -> dict[int, list[Claimant]]:
    """Who leads, by master epoch; each once."""
    elections = Elections(seen, linearizable=linearizable)
    claims: dict[int, dict[tuple[int | None, str | None], Claimant]] = defaultdict(dict)
    for s in seen:
        m = s.view.master
        if m is not None:
            said = f"broker {m}, as {s.node} reported in op {s.at}"
            claims[s.view.master_epoch].setdefault((m, None), Claimant(m, None, s.at, said))
    for r in replicas:
        v = r.view
        epoch = v.epochs[-1].epoch if v.epochs else None
        if v.leads and epoch is not None and not elections.may_have_won(v.id, epoch, r.at):
            who = f"node {v.node}" + ("" if v.id is None else f" (broker {v.id})")
            said = f"{who} by its own word in op {r.at}"
            claims[epoch].setdefault((v.id, v.node), Claimant(v.id, v.node, r.at, said))
    return {epoch: list(found.values()) for epoch, found in claims.items()}


def two_masters(name: str, epoch: int, claimants: list[Claimant]) -> Iterator[Found]:
    """S5: who may be one and the same is one party; a finding for each party after the first."""
    parties: list[list[Claimant]] = []
    for b in claimants:
        same = next((p for p in parties if not any(_differ(c, b) for c in p)), None)
        if same is not None:
            same.append(b)
            continue
        parties.append([b])
        if len(parties) == 1:
            continue
        a = next(c for p in parties for c in p if _differ(c, b))
        said = (
            f"Broker set {name} has two masters in epoch {epoch}. One is {a.said}. The other is "
            f"{b.said}. Both may write under one epoch, and no replica can distinguish their logs."
        )
        detail = {
            "set": name,
            "epoch": epoch,
            "ids": [a.id, b.id],
            "nodes": [a.node, b.node],
        }
        yield Found("S5", "two-masters", (a.at, b.at), said, detail)


def _differ(a: Claimant, b: Claimant) -> bool:
    if a.node is not None and b.node is not None:
        return a.node != b.node
    return a.id is not None and b.id is not None and a.id != b.id
