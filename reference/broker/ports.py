"""The ports of one broker: its own, the fast one two below, and the HA port, by default one above.

All are bound, or none: a broker of a container that cannot have one of them must leave nothing
behind. RocketMQ binds them in three places; a port whose fast port is taken stays reserved in its
container. Source: RocketMQ ``NettyRemotingServer.newRemotingServer``, ``DefaultHAService``.
"""

import asyncio
from collections.abc import Mapping

from maxq.reference import rpc
from maxq.reference.bounds import Bounds
from maxq.reference.broker.replication.ha_link import HaPort
from maxq.reference.config import BrokerConfig
from maxq.reference.node import dispatcher
from maxq.reference.rpc import Handler
from maxq.reference.wire.codes import RequestCode

# What the fast port does not serve, as in RocketMQ.
SLOW_CODES = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})


class Ports:
    """The listening ports of one broker; `ha` is served by its replication.

    Args:
        config: the broker's.
        shares: whether other brokers share its event loop.
    """

    def __init__(self, config: BrokerConfig, *, shares: bool) -> None:
        self._config = config
        self._turns = rpc.Turns() if shares else None
        self._servers: list[rpc.Server] = []
        self.ha = HaPort()

    async def bind(
        self,
        handlers: Mapping[int, Handler],
        group: asyncio.TaskGroup,
        bounds: Bounds[rpc.Connection],
    ) -> None:
        """Listen at all three; requests are answered from now on.

        Raises:
            OSError: one of them is taken, or the address is not this machine's. None is bound then.
        """
        config, host = self._config, self._config.bind_address
        fast = {code: h for code, h in handlers.items() if code not in SLOW_CODES}
        try:
            for port, served in ((config.listen_port, handlers), (config.listen_port - 2, fast)):
                handle, turns = dispatcher(served), self._turns
                self._servers.append(
                    await rpc.serve(host, port, handle, group=group, bounds=bounds, turns=turns)
                )
            await self.ha.bind(host, config.ha_listen_port or config.listen_port + 1)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Listen no more, and close every connection to the first two."""
        if self._turns is not None:
            self._turns.clear()
        for server in self._servers:
            server.close()
        self._servers.clear()
        self.ha.close()
