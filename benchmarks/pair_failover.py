"""How long a pair is without an answer: from the kill of its master until a slave acts for it, and
from its start until it is back.

What a client sees is measured. A slave acts once a name server's route has it in its master's
place, and it says there how far a queue goes (30). Nothing is pulled from it: a master of RocketMQ
5.5.0 whose slave was pulled from never comes back. The master is back once the route has it, and it
acknowledges a send. Seconds; beside them the bounds by which the checkers would call them late
(A1, P2), which follow from the settings.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from maxq.harness.client.session import RouteBook
from maxq.harness.cluster.deployment import Deployment
from maxq.harness.contracts.cluster import Killable
from maxq.harness.schedule.options import Options
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import MaxOffsetRequest, to_ext

MASTER, SLAVE, SET = "b0-0", "b0-1", "b0"
STEP_S = 0.01  # between two questions
LIMIT_S = 180.0
CALL_S = 3.0


class FailOver(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, and the bounds (s)."""

    acts_s: float
    online_s: float
    acts_within_s: float
    online_within_s: float

    def line(self, name: str) -> str:
        """It in words."""
        return (
            f"{name}: {self.acts_s:.2f} s from the kill to the first answer of the slave that acts "
            f"(bound {self.acts_within_s:g} s), {self.online_s:.2f} s from the start to the first "
            f"acknowledged send (bound {self.online_within_s:g} s)"
        )


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Ask until it holds.

    Raises:
        TimeoutError: it does not within `LIMIT_S`.
    """
    async with asyncio.timeout(LIMIT_S):
        while True:
            if await holds():
                return
            await asyncio.sleep(STEP_S)


async def answers(pool: Pool, address: str | None, frame: Frame, *, has: bytes = b"") -> bool:
    """Whether a broker answers with success, and this in its body."""
    if address is None:
        return False
    try:
        answer = await pool.call(address, frame, timeout_s=CALL_S)
    except (OSError, RemoteProtocolError):
        return False
    return answer.code == ResponseCode.SUCCESS and has in (answer.body or b"")


async def fail_over(
    cluster: Deployment, group: asyncio.TaskGroup, topic: str, send: Frame, target: str
) -> FailOver:
    """Kill the master of the pair, and start it again.

    Args:
        cluster: of one broker set of two, without controllers.
        group: the tasks.
        topic: that it has.
        send: a request to send to it.
        target: what it runs, as ``rocketmq:5.5.0``.
    """
    pool = Pool(group, dial=cluster.dial)
    routes = RouteBook(cluster.namesrvs, cluster.dial, group)
    routes.watch([topic])
    killable = cluster.offers(Killable)
    end = Frame(
        code=RequestCode.GET_MAX_OFFSET, ext=to_ext(MaxOffsetRequest(topic=topic, queue_id=0))
    )
    tables = Frame(code=RequestCode.GET_ALL_TOPIC_CONFIG)

    async def knows() -> bool:
        return await answers(pool, cluster.address(SLAVE), tables, has=topic.encode())

    def led_by(node: str, frame: Frame) -> Callable[[], Awaitable[bool]]:
        async def holds() -> bool:
            await routes.refresh()
            leads = routes.master(topic, SET) == cluster.address(node)
            return leads and await answers(pool, cluster.address(node), frame)

        return holds

    try:
        await until(knows)
        await until(led_by(MASTER, send))
        begun = time.perf_counter()
        await killable.kill(MASTER)
        await until(led_by(SLAVE, end))
        acts_s = time.perf_counter() - begun
        begun = time.perf_counter()
        await killable.start(MASTER)
        await until(led_by(MASTER, send))
        online_s = time.perf_counter() - begun
    finally:
        routes.close()
        pool.close()
    options = Options(environment="local", seed=0, target=target, controllers=0,
                      broker_sets=1, replicas=2, profile="P-SYNC")  # fmt: skip
    context = options.context()
    return FailOver(
        acts_s=acts_s,
        online_s=online_s,
        acts_within_s=context.shrink_ns / 1e9,
        online_within_s=context.recovery_ns / 1e9,
    )
