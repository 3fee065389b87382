"""Ways to look at a cluster from outside: wait for a condition, dial a port, ask a question.

Every wait here is for a condition and has a bound; a probe comes from the observers' address or
from a machine, and never through a client. Units: seconds.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from maxq.harness.contracts.environment import Port
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Dial, Pool, Wired
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.route import KVTable

PROBE_TIMEOUT_S = 2.0
POLL_S = 0.05
# ``[ 0 days, 1 hours, 0 minutes, 3 seconds ]``; of Java, which groups digits.
RAN = re.compile(r"\[ (-?[\d,]+) days, (-?[\d,]+) hours, (-?[\d,]+) minutes, (-?[\d,]+) seconds \]")
UNITS_S = (86_400, 3_600, 60, 1)


async def until(condition: Callable[[], Awaitable[bool]], timeout_s: float) -> bool:
    """Wait for a condition; whether it came true in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while not await condition():
        if loop.time() > deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


async def met(dialled: Awaitable[Wired], timeout_s: float) -> Port:
    """What a dial meets; a connection is closed again."""
    try:
        async with asyncio.timeout(timeout_s):
            transport, _ = await dialled
    except ConnectionRefusedError:
        return "refused"
    except OSError:
        return "silent"
    transport.close()
    return "open"


@asynccontextmanager
async def probing(dial: Dial) -> AsyncIterator[Pool]:
    """A pool for the length of a block, whose errors leave it as they are, in no group."""
    failure: Exception | None = None
    async with asyncio.TaskGroup() as group:
        pool = Pool(group, dial=dial)
        try:
            yield pool
        except Exception as error:
            failure = error
        finally:
            pool.close()
    if failure is not None:
        raise failure


async def ask_all(dial: Dial, addresses: Sequence[str], request: Frame) -> list[Frame]:
    """Good answers of those who answer, in the order of the addresses. All are asked at once, so
    that one who is away costs no more than one time-out."""

    async def ask(pool: Pool, address: str) -> Frame | None:
        try:
            answer = await pool.call(address, request, timeout_s=PROBE_TIMEOUT_S)
        except (OSError, RemoteProtocolError):
            return None
        return answer if answer.code == ResponseCode.SUCCESS else None

    async with asyncio.TaskGroup() as group:
        pool = Pool(group, dial=dial)
        async with asyncio.TaskGroup() as asking:
            tasks = [asking.create_task(ask(pool, address)) for address in addresses]
        pool.close()
    return [answer for task in tasks if (answer := task.result()) is not None]


async def runtime_info(pool: Pool, address: str) -> dict[str, str]:
    """What a broker reports of itself. Raises OSError, RemoteProtocolError."""
    request = Frame(code=RequestCode.GET_BROKER_RUNTIME_INFO, ext={})
    answer = granted(await pool.call(address, request, timeout_s=PROBE_TIMEOUT_S))
    return KVTable.from_json(answer.body).table


def granted(answer: Frame) -> Frame:
    """A good answer. Raises RemoteProtocolError: it is a refusal."""
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteProtocolError(f"refused with code {answer.code}: {answer.remark or ''}")
    return answer


def uptime_s(info: Mapping[str, str]) -> int | None:
    """How long a broker says that it has run, by its wall clock and in whole seconds, from what it
    reports of itself. Negative where its clock has gone back since; None where it says nothing."""
    said = RAN.fullmatch(info.get("runtime", ""))
    if said is None:
        return None
    numbers = [int(part.replace(",", "")) for part in said.groups()]
    return sum(number * unit_s for number, unit_s in zip(numbers, UNITS_S, strict=True))
