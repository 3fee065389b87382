"""How many remote calls a second the simulator carries, beside real sockets in the same run.

Run as ``python -m benchmarks.simulator``. The figure to quote is the ratio: both sides run the same
code over `reference.rpc`, ten callers on one connection, in one process, one after the other.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from harness.simulation.world import SimHost, World
from reference import rpc
from reference.wire.frame import Frame

CALLS = 20_000
CALLERS = 10
ROUNDS = 3
PORT = 20_999
Measure = Callable[[], float]


async def exchange(address: str, callers: int) -> float:
    """Serve and call on one address; returns calls a second of process time on the clock."""
    async with asyncio.TaskGroup() as group:
        server = await rpc.serve(address, PORT, lambda r, c: r.answer(0, body=r.body), group=group)
        client = await rpc.connect(f"{address}:{PORT}", group=group)

        async def caller() -> None:
            for _ in range(CALLS // callers):
                await client.call(Frame(code=10, ext={"topic": "T"}, body=b"x" * 100), timeout_s=30)

        begun = time.perf_counter()
        async with asyncio.TaskGroup() as all_callers:
            for _ in range(callers):
                all_callers.create_task(caller())
        elapsed = time.perf_counter() - begun
        client.close()
        server.close()
    return CALLS / elapsed


def simulated() -> float:
    """Calls a second in the simulator."""
    world = World(1)

    def main(host: SimHost) -> Awaitable[float]:
        return exchange(host.addresses()[0], CALLERS)

    try:
        return world.run(world.add_machine("a", "198.18.0.16"), main)  # type: ignore[arg-type]
    finally:
        world.close()


def real() -> float:
    """Calls a second over loopback sockets."""
    return asyncio.run(exchange("127.0.0.1", CALLERS))


def best(measure: Measure) -> float:
    """The best of a few rounds: what disturbs only slows down."""
    return max(measure() for _ in range(ROUNDS))


def main() -> None:
    """Measure both and print them."""
    in_simulator, over_sockets = best(simulated), best(real)
    print(f"simulator: {in_simulator:8,.0f} calls/s")
    print(f"loopback:  {over_sockets:8,.0f} calls/s")
    print(f"ratio:     {in_simulator / over_sockets:8.2f}")


if __name__ == "__main__":
    main()
