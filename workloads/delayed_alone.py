"""Workload delayed-alone: delayed messages of a topic that one broker set has, and no other.

While the master of that set is away, nobody can take them: they wait for it, and must not hold up
what is due behind them at the same delay level, which is what the workload `delayed` sends and
reads. Nobody reads these here. Operation (`maxq.histories.observed`):

    send-delayed-alone   [value, delay]   ok: the master has it; delay in ms

Claims: none of its own; E1 of what stands behind them.
"""

import asyncio
from collections.abc import Callable

from maxq.harness.client.session import POLLERS, QueueName, RouteBook, Session
from maxq.harness.contracts.cluster import Cluster, Workload
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.outcome import Client
from maxq.histories.observed import SEND_DELAYED_ALONE
from maxq.workloads.delayed import DelayedClient, Sends

TOPIC = "maxq-delayed-alone"
SENDERS = 1


def delayed_alone_workload(
    cluster: Cluster, routes: RouteBook, group: asyncio.TaskGroup, *, wall_ms: Callable[[], int]
) -> Workload:
    """Make the workload; its topic is the first broker set's.

    Args:
        cluster: where it runs.
        routes: where its queue lives.
        group: the run's tasks.
        wall_ms: the harness's wall clock, for message time stamps.
    """
    first = min(n.broker_set for n in cluster.by_role(Role.BROKER) if not n.spare)
    queue = QueueName(TOPIC, first, 0)

    def client(thread: int) -> Client:
        return DelayedClient(Session(routes, cluster.dial, group), (queue,), wall_ms)

    return Workload(
        name="delayed-alone",
        threads=SENDERS,
        generator=Sends(0, f=SEND_DELAYED_ALONE, of=SENDERS),
        final_generator=None,
        client=client,
        topics={},
        needs=("delayed",),
        groups=(POLLERS,),
        alone={TOPIC: 1},
    )
