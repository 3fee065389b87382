"""Example workload: each client writes a setting of its own on a name server, and reads it back.

Requests 100 (put) and 101 (get) of RocketMQ's KV settings. Operations: ``write n``, ``read``.
"""

import asyncio

import msgspec

from maxq.harness.contracts.cluster import Cluster, Workload
from maxq.harness.contracts.error_classes import error_of
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Fail, Info, Ok, Outcome
from maxq.harness.generators import each_thread
from maxq.harness.run.plugins import Making, WorkloadKind
from maxq.histories.op import Op
from maxq.reference.rpc import ConnectionLost, NotSent, Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext
from maxq.reference.wire.node_headers import KvRequest, KvResponse

TIMEOUT_S, NAMESPACE, THREADS = 2.0, "MAXQ_EXAMPLE", 3


class Turns(msgspec.Struct, frozen=True):
    """One thread: writes the next number, reads, writes, and so on. Changes nothing in itself."""

    count: int = 0

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        f, value = ("read", None) if self.count % 2 else ("write", self.count)
        return Op("invoke", process, f, value, time=ctx.time), Turns(self.count + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class Register:
    """One client. One operation is one attempt; what is unsure is `info`, never `fail`."""

    def __init__(self, cluster: Cluster, group: asyncio.TaskGroup) -> None:
        self._cluster = cluster
        self._pool = Pool(group, dial=cluster.dial)

    async def open(self) -> None:
        """Connections are made when first needed."""

    async def invoke(self, op: Op) -> Outcome:
        put = op.f == "write"
        code = RequestCode.PUT_KV_CONFIG if put else RequestCode.GET_KV_CONFIG
        header = KvRequest(
            namespace=NAMESPACE, key=str(op.process), value=str(op.value) if put else None
        )
        request = Frame(code=code, ext=to_ext(header))
        try:
            server = self._cluster.namesrvs()[0]
            answer = await self._pool.call(server, request, timeout_s=TIMEOUT_S)
        except NotSent as error:
            return Fail(["not-sent", str(error)])
        except (TimeoutError, ConnectionLost) as error:
            return Info(type(error).__name__) if put else Fail(type(error).__name__)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return Ok(None)
        if answer.code != ResponseCode.SUCCESS:
            why = error_of(answer.code, answer.remark)
            return Info(why) if put else Fail(why)
        read = None if put else from_ext(KvResponse, answer.ext).value
        return Ok(op.value if put else None if read is None else int(read))

    async def close(self) -> None:
        self._pool.close()


def register_workload(making: Making) -> Workload:
    """Make the workload: three clients, whose turns a run's schedule spreads over its time."""

    def client(thread: int) -> Client:
        return Register(making.cluster, making.group)

    return Workload(
        name="register",
        threads=THREADS,
        generator=each_thread(Turns()),
        final_generator=None,
        client=client,
        topics={},
    )


REGISTER = WorkloadKind(
    name="register",
    about="each client writes a setting of its own on a name server, and reads it back",
    threads=THREADS,
    make=register_workload,
    purpose=("X1",),
)
