"""What a broker's log and queues take of its partition, by the files of its store."""

from collections.abc import Mapping

from maxq.histories.observed import DiskView, Share

LOG, QUEUES = "commitlog/", "consumequeue/"


def disk_view(
    node: str, broker_set: str, sizes: Mapping[str, int], partition: int, share: Share
) -> DiskView:
    """What is seen of a broker.

    Args:
        node: its name.
        broker_set: whose it is.
        sizes: how long each file of its store is, by path.
        partition: bytes that there are for all who share it.
        share: what it may take of them.
    """
    own = {path: size for path, size in sizes.items() if _counts(path)}
    ends: dict[str, int] = {}
    for path, size in own.items():
        folder, _, name = path.rpartition("/")
        ends[folder] = max(ends.get(folder, 0), int(name) + size)
    log = LOG.rstrip("/")
    return DiskView(
        node=node,
        set=broker_set,
        used=sum(own.values()),
        made=sum(ends.values()),
        start=min((int(p.removeprefix(LOG)) for p in own if p.startswith(LOG)), default=0),
        end=ends.get(log, 0),
        partition=partition,
        share=share,
    )


def _counts(path: str) -> bool:
    """Whether it is a file of log or queues: its name says where it begins."""
    return path.startswith((LOG, QUEUES)) and path.rpartition("/")[2].isdecimal()
