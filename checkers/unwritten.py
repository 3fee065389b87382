"""Where nobody sends nothing is written.

A new master begins its epoch with a record of its own (RocketMQ writes none, ours one), and from
then on a log grows by what clients send. So in a history without a single send no epoch is ever
longer, in any replica, than its master first said. Ends are bytes of the commit log. Claim: S11b.
"""

from checkers.ruling import Found
from checkers.sightings import replica_sightings
from histories.history import History

WRITES = ("send", "txn")
Epoch = tuple[str, int, int]  # set, epoch, start


def grown(history: History) -> tuple[list[Found], int]:
    """Epochs that grew although nobody wrote, and how many epochs were looked at; none where
    somebody wrote.

    Raises:
        HistoryError: an observer's value has another shape (W9).
    """
    if any(history.totals[f, "invoke"] for f in WRITES):
        return [], 0
    first: dict[Epoch, tuple[int, int]] = {}  # how long its master said first, and where
    found: dict[Epoch, Found] = {}
    for s in replica_sightings(history):
        for epoch, start, end in ((e.epoch, e.start, e.end) for e in s.view.epochs):
            key, length = (s.view.set, epoch, start), end - start
            if key not in first:
                if s.view.leads and length:
                    first[key] = length, s.at
            elif length > first[key][0] and key not in found:
                found[key] = _found(key, s.view.node, length, s.at, first[key])
    return list(found.values()), len(first)


def _found(key: Epoch, node: str, length: int, at: int, first: tuple[int, int]) -> Found:
    name, epoch, start = key
    before, seen = first
    said = (
        f"Broker set {name}: nobody ever sent a message, but epoch {epoch} from {start} on, of "
        f"which its master first said that it has {before} bytes (op {seen}), has {length} in "
        f"{node} (op {at})."
    )
    detail = {"set": name, "epoch": epoch, "start": start, "node": node, "bytes": [before, length]}
    return Found("S11b", "written-by-nobody", (seen, at), said, detail)
