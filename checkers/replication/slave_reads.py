"""What a slave lets consumers read its master has confirmed: else it may be read and then be gone.

A slave learns from its master how far readers may go, so it is never ahead of it: what a slave
calls confirmed its master, asked after that, has confirmed. Judged where both have the same newest
epoch, the master leads in it and has confirmed what was there when it began (before that it does
not know what was confirmed, and slaves may), and a controller that was asked after both still knows
no newer one: then there was no other master in between. Offsets are bytes of the commit log, ends
exclusive. Sets judged one by one.

Claim: S10b (docs/spec/controller-ha.md 5.3).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from maxq.checkers.evidence.observations import SetSighting, Sighting
from maxq.checkers.evidence.verdicts import Found
from maxq.histories.observed import ReplicaView

Said = Sighting[ReplicaView]


def read_ahead(
    name: str, seen: Sequence[SetSighting], replicas: Sequence[Said]
) -> tuple[list[Found], int]:
    """Judge one broker set.

    Args:
        name: the set's.
        seen: what controllers said of it.
        replicas: what its brokers said of themselves.

    Returns:
        One finding for each slave and epoch, and how many answers were judged.
    """
    found: dict[tuple[str, int], Found] = {}
    judged = 0
    last: dict[int, int] = {}  # by epoch: where the last answer with it begins
    for s in seen:
        last[s.view.master_epoch] = max(last.get(s.view.master_epoch, -1), s.begun)
    for slave, master in _pairs(replicas, last):
        judged += 1
        key = (slave.view.node, slave.view.epochs[-1].epoch)
        if (slave.view.confirmed or 0) > (master.view.confirmed or 0) and key not in found:
            found[key] = _ahead(name, slave, master)
    return list(found.values()), judged


def _pairs(replicas: Sequence[Said], last: dict[int, int]) -> Iterator[tuple[Said, Said]]:
    """Each answer of a slave, with the next one that its master gave."""
    slaves: dict[int, list[Said]] = defaultdict(list)
    masters: dict[int, list[Said]] = defaultdict(list)
    for s in replicas:
        if s.view.epochs and s.view.confirmed is not None:
            (masters if s.view.leads else slaves)[s.view.epochs[-1].epoch].append(s)
    for epoch, said in sorted(slaves.items()):
        reported = sorted((m for m in masters[epoch] if _knows(m)), key=_begin)
        begins = [m.begun for m in reported]
        for slave in said:
            at = bisect_right(begins, slave.at)
            if at < len(reported) and reported[at].at < last.get(epoch, -1):
                yield slave, reported[at]


def _begin(s: Said) -> int:
    return s.begun


def _knows(master: Said) -> bool:
    """Whether a master has confirmed all that was there when it began to lead."""
    v = master.view
    return v.confirmed is not None and v.confirmed >= v.epochs[-1].start


def _ahead(name: str, slave: Said, master: Said) -> Found:
    v, m = slave.view, master.view
    epoch = v.epochs[-1].epoch
    said = (
        f"Broker set {name}: {v.node} (broker {v.id}), a slave of epoch {epoch}, lets consumers "
        f"read to byte {v.confirmed} (op {slave.at}). After that its master {m.node} had "
        f"confirmed all to byte {m.confirmed} (op {master.at}). What is beyond is not with every "
        "member of the SyncStateSet: it may be read now, and be gone with the next master."
    )
    detail = {
        "set": name,
        "node": v.node,
        "id": v.id,
        "epoch": epoch,
        "readable": v.confirmed,
        "confirmed": m.confirmed,
        "master": m.node,
    }
    return Found("S10b", "slave-ahead-of-master", (slave.at, master.at), said, detail)
