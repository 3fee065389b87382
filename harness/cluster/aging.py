"""Commit logs that are made old, so that their broker may delete them.

RocketMQ and the reference measure the age of a log's file by its last change. What was aged is all
that a broker may delete from then on: checkers take every other message for young
(`maxq.checkers.evidence.stores.trims`).
"""

from collections.abc import Iterator, Sequence

from maxq.harness.client.stored_logs import LOG_FOLDER, StoredLog, read_log
from maxq.harness.cluster.processes import Nodes
from maxq.harness.contracts.cluster import AGED_MS, NothingThere, Proof
from maxq.reference.records import RemoteProtocolError

SLACK_MS = 3_600_000  # a clock that a fault sets back while a file is aged
Key = tuple[str, str, int]  # topic, broker set, queue id


class Ages:
    """Makes logs old.

    Args:
        nodes: whose.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    async def age_log(self, node: str, keys: Sequence[Key]) -> Proof:
        try:
            files = await self._nodes.stored(node, LOG_FOLDER.rstrip("/"))
            log = read_log(files)
        except (OSError, RemoteProtocolError) as error:  # it changed under the eyes of the reader
            return Proof(False, {"reason": str(error)})
        starts = sorted(int(p.removeprefix(LOG_FOLDER)) for p in files)
        last = max((s for s in starts if s < log.end), default=0)
        old = [s for s in starts if s < last]
        if not old:
            raise NothingThere(LOG_FOLDER)
        machine, own = self._nodes.machine(node), self._nodes.folder(node)
        ages = {s: await machine.age(f"{own}/{LOG_FOLDER}{s:020d}", AGED_MS)
                for s in old}  # fmt: skip
        # One that is gone meanwhile was deleted, as what was old before may be at any time.
        young = [s for s, age in ages.items() if age is not None and age < AGED_MS - SLACK_MS]
        seen = {"start": log.start, "aged-to": last, "files": len(old)}
        first = [list(pair) for pair in first_young(log, last, keys, self._set_of(node))]
        return Proof(not young, {**seen, "young": first})

    def _set_of(self, node: str) -> str:
        return self._nodes.node(node).broker_set


def first_young(
    log: StoredLog, aged_to: int, keys: Sequence[Key], broker_set: str
) -> Iterator[tuple[int, int]]:
    """For each key with messages before a byte of a log, the queue offset after the last of them.

    Args:
        log: of one broker.
        aged_to: the byte.
        keys: all keys, in order.
        broker_set: the broker's.
    """
    number = {(topic, queue): k for k, (topic, s, queue) in enumerate(keys) if s == broker_set}
    found: dict[int, int] = {}
    for message in log.messages:  # queue offsets of a key rise along the log
        key = number.get((message.topic, message.queue_id))
        if key is not None and message.physical_offset < aged_to:
            found[key] = message.queue_offset + 1
    yield from sorted(found.items())
