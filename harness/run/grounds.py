"""What a run's verdict will rest on: its evidence, from how the run is set up.

A run declares them in the first line of its history. For a history of an older version, which
declares none, the same function says what it must hold; what such a version did not do (probes,
the last locks and offsets) is left out.
"""

from collections.abc import Iterator

from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import plan
from maxq.harness.schedule.options import COMMITTERS, Options
from maxq.histories.grounds import (
    BROKER,
    CONSUMER_OFFSET,
    CONTROLLER,
    FINAL_READ,
    LOCK,
    NAMESRV,
    PROBE,
    RECOVERY,
    REPLICA_LOG_READ,
    Ground,
)
from maxq.histories.observed import ORDERED_KEYS
from maxq.workloads.queue import homes_of

NEW = frozenset((PROBE, LOCK, CONSUMER_OFFSET))  # kinds of which older versions had none
OF_ROLE = {Role.CONTROLLER: CONTROLLER, Role.NAMESRV: NAMESRV, Role.BROKER: BROKER}


def grounds_of(options: Options) -> tuple[Ground, ...]:
    """The grounds of a run, in the order in which they are declared."""
    return tuple(_grounds(options))


def older(grounds: tuple[Ground, ...]) -> tuple[Ground, ...]:
    """Those that a run of an older version could hold."""
    return tuple(ground for ground in grounds if ground[0] not in NEW)


def _grounds(options: Options) -> Iterator[Ground]:
    nodes = [n for n in plan(options.topology) if not n.spare]
    brokers = [n for n in nodes if n.broker_set]
    sets = sorted({n.broker_set for n in brokers})
    keys = [*enumerate(homes_of(sets, 1))]
    if options.watched:
        yield from ((OF_ROLE[role], n.name) for n in nodes for role in n.roles)
        return
    yield (RECOVERY,)
    probed = homes_of(sets, options.topics_probed)
    yield from ((PROBE, key, name) for key, name in enumerate(probed))
    if "queue" in options.workload:
        for key, name in enumerate(homes_of(sets, options.topics)):
            in_turn = [n.name for n in brokers if n.broker_set == name and not n.learner]
            each = options.ending == "each-replica"
            yield from ((FINAL_READ, key, name, node) for node in (in_turn if each else [None]))
    if "lock" in options.workload:
        yield from ((LOCK, key, name) for key, name in keys)
    if "ordered" in options.workload:
        yield from ((LOCK, ORDERED_KEYS + number, name) for number, name in enumerate(sets))
    if "offsets" in options.workload:
        yield from ((CONSUMER_OFFSET, thread) for thread in range(COMMITTERS))
    if not options.lacks_ids and options.existing is None:  # of such logs nothing is judged
        yield from ((REPLICA_LOG_READ, n.name) for n in brokers)
    yield from ((OF_ROLE[role], n.name) for n in nodes for role in n.roles)
