"""B14: what fails in one broker of a container ends that one, on the real event loop.

In real processes most of a broker runs in callbacks of the loop, and no task awaits those.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from reference_nodes import HOST, free_port

from maxq.reference import __main__ as main
from maxq.reference.broker.client_calls.offsets import Offsets
from maxq.reference.broker.server import Broker
from maxq.reference.config import BrokerConfig, ContainerConfig
from maxq.reference.container.inner import BrokerBootHook
from maxq.reference.container.server import Container
from maxq.reference.host import RealHost
from maxq.reference.records import InvariantViolation
from maxq.reference.rpc import Connection, NotSent, Pool, Reply
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame

BOUND_S = 20.0


class Logging(RealHost):
    """A machine that keeps what its nodes say."""

    def __init__(self) -> None:
        super().__init__(seed=1)
        self.lines: list[tuple[str, dict[str, object]]] = []
        self._said: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def log(self, trace: str, /, **fields: object) -> None:
        self.lines.append((trace, fields))
        self._said[trace].set()

    async def until(self, trace: str) -> None:
        """Wait until a node has said so."""
        async with asyncio.timeout(BOUND_S):
            await self._said[trace].wait()


class Two:
    """A container with brokers x and y; no name server."""

    def __init__(self, folder: Path, hooks: list[BrokerBootHook]) -> None:
        rng, taken = random.Random(), set[int]()
        self.ports = {name: free_port(rng, taken) for name in ("k", "x", "y")}
        for name in ("x", "y"):
            (folder / f"{name}.conf").write_text(
                f"brokerName={name}\nbrokerId=0\nlistenPort={self.ports[name]}\n"
                f"brokerIP1={HOST}\nstorePathRootDir={folder}/{name}\n"
                "mappedFileSizeCommitLog=65536\n"
            )
        config = ContainerConfig(
            listen_port=self.ports["k"],
            bind_address=HOST,
            broker_config_paths=f"{folder}/x.conf:{folder}/y.conf",
        )
        self.host = Logging()
        self.node = Container(config, self.host, hooks=hooks)

    def names(self) -> list[str]:
        return [inner.file.config.broker_name for inner in self.node.brokers]


def lived(two: Two, case: Callable[[Pool], Awaitable[None]]) -> None:
    """Run a container as its process does, and a client beside it."""

    async def run() -> None:
        process = asyncio.ensure_future(main.run_until_signal(two.node, two.host))
        await two.host.until("container.started")
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)
            try:
                await case(pool)
            finally:
                pool.close()
        assert not process.done()
        process.cancel()
        await asyncio.gather(process, return_exceptions=True)

    asyncio.run(run())


def boom() -> None:
    raise InvariantViolation("planted")


def failing_at_x(self: Offsets, request: Frame, connection: Connection) -> Reply:
    if "/x/" in self._tables.folder:
        boom()
    return request.answer(0, "served")


def after_start(broker: Broker, config: BrokerConfig) -> None:
    """Each broker has a timer of its own; x's fails."""
    if config.broker_name == "x":
        asyncio.get_running_loop().call_later(0.2, boom)


@pytest.mark.parametrize("where", ["a request", "a timer"])
def test_a_broken_invariant_ends_one_broker(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = [BrokerBootHook("timer", after_start=after_start)] if where == "a timer" else []
    monkeypatch.setattr(Offsets, "_query_offset", failing_at_x)
    two = Two(tmp_path, hooks)
    query = Frame(code=RequestCode.QUERY_CONSUMER_OFFSET, ext={})

    async def case(pool: Pool) -> None:
        if where == "a request":
            with pytest.raises(ConnectionError):
                await pool.call(f"{HOST}:{two.ports['x']}", query, timeout_s=5)
        await two.host.until("container.broker.ended")
        assert two.names() == ["y"]
        for port in (two.ports["x"] - 2, two.ports["x"]):
            with pytest.raises(NotSent):
                await pool.get(f"{HOST}:{port}")
        answer = await pool.call(f"{HOST}:{two.ports['y']}", query, timeout_s=5)
        assert answer.remark == "served"
        added = {"configPath": str(tmp_path / "x.conf")}
        answer = await pool.call(
            f"{HOST}:{two.ports['k']}", Frame(code=902, ext=added), timeout_s=9
        )
        assert (answer.code, answer.remark) == (0, None)

    lived(two, case)
    told = [fields for trace, fields in two.host.lines if trace == "container.broker.failed"]
    assert told[0]["broker"] == "DefaultCluster_x_0"
    assert told[0]["why"] == "InvariantViolation: planted"
    assert "in boom" in str(told[0]["story"])
