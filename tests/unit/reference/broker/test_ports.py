"""The ports of a broker are bound together or not at all, on the loopback of this machine."""

import asyncio
import random
import socket
from contextlib import closing
from pathlib import Path

import pytest
from reference_nodes import HOST, free_port

from maxq.reference.broker.server import Broker
from maxq.reference.config import BrokerConfig
from maxq.reference.host import RealHost


def can_bind(port: int) -> bool:
    try:
        with closing(socket.create_server((HOST, port))):
            return True
    except OSError:
        return False


async def lives(broker: Broker) -> None:
    """Start a broker, and stop it once it is ready."""
    ready = asyncio.Event()
    task = asyncio.ensure_future(broker.run(ready.set))
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    for one in (waiting, task):
        one.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    try:
        await task
    except asyncio.CancelledError:
        assert ready.is_set()


@pytest.mark.parametrize("taken", [-2, 0, 1])
@pytest.mark.parametrize("role", ["SYNC_MASTER", "SLAVE"])
def test_a_broker_that_lacks_a_port_leaves_none_behind(
    tmp_path: Path, taken: int, role: str
) -> None:
    """B6: nor does it keep its store, so it can start once the port is free."""
    port = free_port(random.Random(), set())
    config = BrokerConfig(
        broker_role="SLAVE" if role == "SLAVE" else "SYNC_MASTER",
        broker_id=1 if role == "SLAVE" else 0,
        listen_port=port,
        bind_address=HOST,
        broker_ip1=HOST,
        store_path_root_dir=str(tmp_path),
        mapped_file_size_commit_log=65536,
    )

    async def case() -> None:
        host = RealHost(seed=1)
        with closing(socket.create_server((HOST, port + taken))):
            with pytest.raises(BaseExceptionGroup) as caught:
                await lives(Broker(config, host))
            assert f"{port + taken}" in str(caught.value.exceptions[0])
            others = {port - 2, port, port + 1} - {port + taken}
            assert all(map(can_bind, others))
        await lives(Broker(config, host))
        assert all(map(can_bind, others))

    asyncio.run(case())
