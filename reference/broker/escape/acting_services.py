"""What a slave does for its master besides answering: it delivers, and settles, elsewhere. A shell.

Only while it acts, and with ``enableRemoteEscape`` or in a container, where a neighbour may take
it; else what waits, waits for the master.
Source: RocketMQ ``BrokerController.changeSpecialServiceStatus``; docs/spec/acting-master.md 3, 4.
"""

import asyncio

from maxq.reference.broker.escape.delayed_escape import DelayedEscape
from maxq.reference.broker.escape.escape_bridge import EscapeBridge, Local
from maxq.reference.broker.escape.half_escape import HalfEscape
from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.rpc import Pool

TICK_S = 0.1


class ActingServices:
    """The special services of one broker; `tick` every `TICK_S`.

    Args:
        config: the broker's.
        host: clock and log.
        store: the copy of the master's log.
        tables: remembers how far it is settled.
        membership: whether the broker acts.
        pool: connections.
        group: the broker's tasks.
        local: finds a master in the same process; None: the broker is alone in its process.
    """

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        store: Store,
        tables: Tables,
        membership: Membership,
        pool: Pool,
        group: asyncio.TaskGroup,
        local: Local | None,
    ) -> None:
        self._config = config
        self._host = host
        self._store = store
        self._tables = tables
        self._membership = membership
        self._group = group
        self._escapes = config.enable_remote_escape or local is not None
        self._bridge = EscapeBridge(config, host, pool, membership, local or (lambda *_: None))
        self._running: tuple[DelayedEscape, HalfEscape] | None = None

    def tick(self) -> None:
        """Begin with the acting, go on while it lasts, end with it."""
        me = self._membership
        # Once the master asks how far this broker is, it goes no further.
        if not me.acts or me.hands_over or not self._escapes:
            for service in self._running or ():
                service.end()
            self._running = None
            return
        if self._running is None:
            self._running = self._begun()
        for service in self._running:
            service.tick()

    def _begun(self) -> tuple[DelayedEscape, HalfEscape]:
        config, host, store, tables = self._config, self._host, self._store, self._tables
        levels, bridge, group = config.delay_levels(), self._bridge, self._group
        return (
            DelayedEscape(host, store, tables, levels, bridge, group),
            HalfEscape(config, host, store, tables, bridge, group),
        )
