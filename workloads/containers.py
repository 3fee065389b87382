"""Workload containers: brokers that operators add to containers and remove, while others serve.

Each container has a guest, a broker set of its own that no other workload touches, and a thread
that adds and removes it: also when it is there, when it is not, and with a file that needs a port
of a neighbour, and that now and then takes its store to the next container, where it gets another
address. A container that was killed comes back without its guest; the thread does not know that,
and asks for what comes next. A guest that was added gets a message, and all that it has are
read. Operations (`maxq.histories.observed`): ``add-broker``, ``remove-broker``. Claims: B1 to B7,
B11.
"""

from typing import get_args

import msgspec

from maxq.harness.client.guests import kept
from maxq.harness.contracts.cluster import Clash, Cluster, HostingBrokers, Workload
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Fail, Info, Ok, Outcome
from maxq.harness.generators import each_thread
from maxq.histories.observed import ADD_BROKER, REMOVE_BROKER
from maxq.histories.op import Op
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import NotSent

GAP_NS = 500_000_000  # between an answer and the next request
# How a guest is asked for, as often as it stands here; what it is then decides what must come.
WAYS: tuple[tuple[str, dict[str, object]], ...] = (
    *[(ADD_BROKER, {})] * 4, *[(REMOVE_BROKER, {})] * 4, (ADD_BROKER, {"moved": True}),
    *[(ADD_BROKER, {"clash": port}) for port in get_args(Clash)] * 2,
)  # fmt: skip


class Requests(msgspec.Struct, frozen=True):
    """One thread and its guest."""

    guests: tuple[str, ...]
    next_ns: int = 0

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        guest = self.guests[ctx.roster.positions[process] % len(self.guests)]
        f, how = ctx.rng.choice(WAYS)
        value = {"broker": guest, **how}
        return Op("invoke", process, f, value, time=max(ctx.time, self.next_ns)), self

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.type == "invoke":
            return self
        return msgspec.structs.replace(self, next_ns=event.time + GAP_NS)


class Operator:
    """Asks containers for what the operation says."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sets = {node.name: node.broker_set for node in cluster.nodes if node.guest}

    async def open(self) -> None:
        """Connections are made for each request."""

    async def invoke(self, op: Op) -> Outcome:
        hosting, guest = self._cluster.offers(HostingBrokers), op.value["broker"]
        held: dict[str, object] = {}
        try:
            match op.f:
                case "add-broker" if op.value.get("moved"):
                    hosted = await hosting.move_broker(guest)
                case "add-broker":
                    hosted = await hosting.add_broker(guest, op.value.get("clash"))
                case "remove-broker":
                    hosted = await hosting.remove_broker(guest)
                case _:
                    return Fail(["no-such-operation", op.f])
            if op.f == ADD_BROKER and "clash" not in op.value and not hosted.code:
                held = await self._held(guest, f"{guest}/{op.time}")
        except NotSent as error:
            return Fail(["not-sent", str(error)])
        except (OSError, RemoteProtocolError) as error:
            return Info([type(error).__name__, str(error)])
        return Ok({**op.value, **msgspec.to_builtins(hosted), **held})

    async def _held(self, guest: str, message: str) -> dict[str, object]:
        """What a guest has, after one more message; nothing if that is not known."""
        address, broker_set = self._cluster.address(guest), self._sets[guest]
        found = await kept(self._cluster.dial, address, broker_set, message)
        return {} if found is None else {"held": found}

    async def close(self) -> None:
        """Nothing is held."""


def containers_workload(cluster: Cluster) -> Workload:
    """Make the workload of a cluster, a thread for each guest."""
    guests = tuple(node.name for node in cluster.nodes if node.guest)

    def client(thread: int) -> Client:
        return Operator(cluster)

    return Workload(
        name="containers",
        threads=len(guests),
        generator=each_thread(Requests(guests)),
        final_generator=None,
        client=client,
        topics={},
    )
