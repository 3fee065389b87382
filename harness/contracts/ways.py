"""What can be done to the ways between machines of a cluster, beside cutting them: packets can be
late, or lost at random, and connections reset. Contracts as those of
`maxq.harness.contracts.cluster`.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from maxq.harness.contracts.cluster import Direction, Proof

# Which connections: from slaves to masters' HA ports, among controllers, or all others.
Ports = Literal["all", "ha", "raft", "remoting"]


@runtime_checkable
class Delayable(Protocol):
    """Machines between which packets can be late."""

    def delaying(self, node: str) -> bool:
        """Whether a fault lets packets of the node be late."""
        ...

    async def delay(
        self,
        node: str,
        *,
        ms: int,
        jitter_ms: int = 0,
        kb_s: int = 0,
        peers: Sequence[str],
        ways: Direction,
        ports: Ports = "all",
    ) -> Proof:
        """Let packets between the node and its peers take `ms` longer, give or take `jitter_ms`,
        and no more than `kb_s` (1,000 bytes a second; 0: no bound) come of each connection;
        instead of what was so for this node, beside what is so for others. Prove it: the machines
        say so. In the simulator nobody who dials is sooner, as `seen` has in ``dials``. Elsewhere
        every connection goes through a proxy (``redirected``, and those that do not, ``straight``),
        a proxy of that kind is so slow (``echo_ms``, ``echo_kb_s``), and brokers answer so late
        (``asked_ms``). Needs `Capability.DELAY`, and with `kb_s` `Capability.BANDWIDTH`."""
        ...

    async def stop_delay(self, node: str) -> Proof:
        """Let packets of the node take as long as before, but for delays of other nodes; prove it
        likewise."""
        ...


@runtime_checkable
class Lossy(Protocol):
    """Machines between which packets can be lost at random."""

    def losing(self, node: str) -> bool:
        """Whether a fault lets packets of the node be lost."""
        ...

    async def lose(
        self, node: str, *, percent: int, peers: Sequence[str], ways: Direction,
        ports: Ports = "all",
    ) -> Proof:  # fmt: skip
        """Lose so many percent (1 to 99) of the packets between the node and its peers, beside all
        cuts and instead of what the node lost before; prove it: in each direction machines have
        dropped some. `seen` has `peers`, and as `dropped` by direction how many ``packets`` were
        dropped, and ``of`` how many. Needs `Capability.LOSS`."""
        ...

    async def stop_losing(self, node: str) -> Proof:
        """Lose none of the node's packets any more, but for losses of other nodes; prove it: no
        other rules are left, and probes meet something."""
        ...


@runtime_checkable
class Resettable(Protocol):
    """Machines whose connections can be ended, while everything else is as it was."""

    async def reset_connections(
        self, node: str, peers: Sequence[str], ports: Ports = "all"
    ) -> Mapping[str, Proof]:
        """Reset the TCP connections to such ports that are established between a node's machine and
        those of its peers; prove it: none of them is left at either end. One proof for each machine
        that had any: `seen` has ``from``, how many it had with whom, and ``left``, how many of them
        it has still. Empty where there was none."""
        ...
