"""A slave that sends what is due to the first other broker name that has an id 0, writable or not.

A slave that acts there has that id for clients, takes nothing, and is asked again and again, while
another broker set would take it. Breaks E1.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.escape import escape, escape_bridge
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.route import PERM_WRITE, QueueData, TopicRouteData

FAMILY = "escape"
CLAIM = "E1"
SOURCE = "the hazard of routes that show acting masters (docs/spec/acting-master.md 4)"


@contextmanager
def mutant() -> Iterator[None]:
    """Take every broker set for one that may be written to, and stay with the first."""
    honest = escape.targets

    def targets(route: TopicRouteData, own_name: str) -> tuple[escape.Target, ...]:
        ran(__name__)
        found = honest(_writable(route), own_name)[:1]
        if found and found[0] not in honest(route, own_name):
            diverged(__name__)
        return found

    with replaced(escape_bridge, "targets", targets):
        yield


def _writable(route: TopicRouteData) -> TopicRouteData:
    queues = tuple(_with_write(queue) for queue in route.queue_datas)
    return TopicRouteData(broker_datas=route.broker_datas, queue_datas=queues)


def _with_write(queue: QueueData) -> QueueData:
    return QueueData(
        broker_name=queue.broker_name,
        perm=queue.perm | PERM_WRITE,
        read_queue_nums=queue.read_queue_nums,
        write_queue_nums=queue.write_queue_nums,
    )
