"""The simulated network: machines with addresses, who listens where, what is cut, how dials go.

Each machine has a `Stack`, its kernel's part: addresses, names, cuts, losses, ports. A dial to a
machine where no process listens is refused, one that is not taken is tried again as a kernel does
(RFC 6298: after 1 s, then twice as long each time), one to an address that no machine has fails
after three seconds. The death of a process resets its
connections and frees its ports. A machine without power does not answer, and has forgotten its
connections when it is back: until a peer says something, the peer's half stays open.

How long a packet takes is drawn for its link (from which machine to which, for which port of a
listener), the millisecond in which it is sent, and its length: removing an operation leaves the
packets of all others as they were. Connections themselves are in `maxq.harness.simulation.stream`.
Times are ns.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Collection, Iterable
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from maxq.harness.contracts.draws import MILLION, Draws
from maxq.harness.contracts.environment import Cut, Delay, Loss
from maxq.harness.simulation.loop import Kernel, Scheduler, SimHandle, SimLoop
from maxq.harness.simulation.stream import (
    QUANTUM_NS,
    Address,
    Link,
    SimTransport,
    Verdict,
    join,
    late_ns,
)

EPHEMERAL_PORT, EPHEMERAL_PORTS = 32_768, 28_000
SYN_RETRY_NS = 1_000_000_000  # then twice as long each time
SYN_RETRIES_MAX = 6
NO_HOST_NS = 3_000_000_000  # how long a kernel looks for who has an address
ANY = ""  # a listener of all addresses

Factory = Callable[[], Any]


class Block:
    """A block of addresses."""

    def __init__(self, block: str) -> None:
        net = IPv4Network(block)
        self._mask, self._prefix = int(net.netmask), int(net.network_address)

    def covers(self, address: str) -> bool:
        return int(IPv4Address(address)) & self._mask == self._prefix


class PacketRule(Block):
    """What a machine does with packets from a block, on connections to these ports of either
    machine; none: with all of them.
    """

    def __init__(self, source: str, block: str, ports: Collection[int]) -> None:
        super().__init__(block)
        self.source = source
        self.packets = 0  # that it has dropped
        self._ports = frozenset(ports)

    def concerns(self, source: Address, target: Address) -> bool:
        """Whether packets are of such a source, and of a connection that is concerned."""
        if not self.covers(source[0]):
            return False
        return not self._ports or source[1] in self._ports or target[1] in self._ports


class Rule(PacketRule):
    """What a machine does not take, and how many packets that was."""

    def __init__(self, cut: Cut) -> None:
        super().__init__(cut.source, cut.block, cut.ports)
        self.reset = cut.reset


class LossRule(PacketRule):
    """A source of whose packets a machine loses a share; how many came, and how many were lost.

    Whether one is lost is drawn for the millisecond in which it comes and its length, as its
    latency is: packets of one burst share their fate.
    """

    def __init__(self, loss: Loss, draws: Draws) -> None:
        super().__init__(loss.source, loss.block, loss.ports)
        self.of = 0
        self.percent = loss.percent
        self._draws = draws

    def takes(self, now_ns: int, length: int) -> bool:
        """Whether a packet that comes now gets through."""
        self.of += 1
        lost = self._draws.chance(self.percent * MILLION // 100, now_ns // QUANTUM_NS, length)
        self.packets += lost
        return not lost


class DelayRule(Block):
    """How much longer packets from a source take. A jitter is drawn for the ms in which a packet is
    sent and its length, as its latency is."""

    def __init__(self, delay: Delay, draws: Draws) -> None:
        super().__init__(delay.block)
        self.delay = delay
        self._ns, self._jitter_ns = delay.ms * 1_000_000, delay.jitter_ms * 1_000_000
        self._draws = draws

    def late_ns(self, now_ns: int, length: int) -> int:
        """How much longer one takes that is sent now."""
        if not self._jitter_ns:
            return self._ns
        drawn = self._draws.between(-self._jitter_ns, self._jitter_ns, now_ns // QUANTUM_NS, length)
        return max(0, self._ns + drawn)


Late = tuple[DelayRule, ...]  # all that concern a way


class Stack:
    """The network side of a machine. It outlives the machine's processes."""

    def __init__(self, network: "Network", name: str, address: str) -> None:
        self.network = network
        self.name = name
        self.addresses = [address]  # the first is the machine's own
        self.hosts: dict[str, str] = {}
        self.rules: tuple[Rule, ...] = ()
        self.losses: tuple[LossRule, ...] = ()
        self._powered = True
        self.listeners: dict[tuple[str, int], tuple[SimLoop, Factory]] = {}
        self.delays: tuple[DelayRule, ...] = ()
        self._dials: dict[Address, int] = {}  # how many there were to each remote address
        self._ends: dict[SimTransport, None] = {}  # of connections that its kernel knows

    @property
    def powered(self) -> bool:
        """Whether the machine has power; without it it does not answer."""
        return self._powered

    @powered.setter
    def powered(self, value: bool) -> None:
        self._powered = value
        self.network.version += 1

    def add_address(self, address: str) -> None:
        """Have one address more."""
        self.network.version += 1
        if address not in self.addresses:
            self.addresses.append(address)
            self.network.owners[address] = self

    def set_address(self, address: str) -> None:
        """Have another address of its own; connections of the old one hang."""
        self.network.version += 1
        self.network.owners.pop(self.addresses[0])
        self.addresses[0] = address
        self.network.owners[address] = self

    def cut(self, cuts: Iterable[Cut]) -> None:
        """Take no packets of these sources, instead of what was not taken before."""
        self.network.version += 1
        self.rules = tuple(Rule(cut) for cut in cuts)

    def lose(self, losses: Iterable[Loss]) -> None:
        """Lose a share of the packets of these sources, instead of what was lost before."""
        self.network.version += 1
        draws = self.network.draws.of("loss", self.name)
        self.losses = tuple(LossRule(loss, draws.of(loss.source)) for loss in losses)

    def delay(self, delays: Iterable[Delay]) -> None:
        """Packets take so much longer to this machine, instead of what was so."""
        self.network.version += 1
        draws = self.network.draws.of("delay", self.name)
        self.delays = tuple(DelayRule(delay, draws.of(delay.source)) for delay in delays)

    def late(self, source: str, ports: tuple[int, int]) -> Late:
        """What makes packets from an address late, of a connection between these ports."""
        return tuple(
            rule for rule in self.delays
            if rule.covers(source) and any(map(rule.delay.concerns, ports))
        )  # fmt: skip

    def hold(self, end: SimTransport) -> None:
        """Know a connection, until both its process and its kernel are done with it."""
        self._ends = {e: None for e in self._ends if e.known}
        self._ends[end] = None

    async def dial(
        self, loop: SimLoop, factory: Factory, host: str, port: int, local: str
    ) -> tuple[SimTransport, Any]:
        """Connect a process of this machine; arguments as `Network.dial`."""
        return await self.network.dial(self, loop, factory, host, port, local=local)

    def listen(self, loop: SimLoop, factory: Factory, host: str, port: int) -> "SimServer":
        """Accept connections for a process of this machine. Raises OSError."""
        address = ANY if host in ("", "0.0.0.0") else self.resolve(host)
        if address != ANY and address not in self.addresses:
            raise OSError(errno.EADDRNOTAVAIL, f"cannot assign requested address: {host}")
        for known, taken in self.listeners:
            if taken == port and (ANY in (known, address) or known == address):
                raise OSError(errno.EADDRINUSE, f"address already in use: {host}:{port}")
        self.listeners[address, port] = (loop, factory)
        return SimServer(self, (address, port), loop)

    def process_died(self, loop: SimLoop) -> None:
        """Reset its connections, free its ports."""
        self._stop_listening(loop)
        for end in self._ends:
            if end.loop is loop and not end.lost and end.flow is not None:
                end.flow.send(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))

    def lose_power(self) -> None:
        """Forget everything and do not answer until `powered` again. All processes are dead."""
        self.powered = False
        self.listeners.clear()
        for end in self._ends:
            end.gone = True
        self._ends = {}

    def with_block(self, block: str, ports: Collection[int] = ()) -> list[SimTransport]:
        """Its ends of connections with a block of addresses that are established; with such a port
        at either end, where any are named."""
        concerns = PacketRule("", block, ports).concerns
        living = (end for end in self._ends if end.known and not end.lost and end.loop.alive)
        return [end for end in living if concerns(end.remote, end.local)]

    def reset(self, block: str, ports: Collection[int] = ()) -> None:
        """End these connections at both ends, whatever lies between."""
        for end in self.with_block(block, ports):
            why = ConnectionResetError(errno.ECONNRESET, "connection reset by peer")
            for one in (end, end.peer):
                if one is not None:
                    one.reset(why)

    def _stop_listening(self, loop: SimLoop) -> None:
        for key in [k for k, (owner, _) in self.listeners.items() if owner is loop]:
            del self.listeners[key]

    def port_to(self, remote: Address, first: int) -> int:
        """A port of this machine for one more connection to `remote`, counted from `first`."""
        count = self._dials[remote] = self._dials.get(remote, -1) + 1
        return EPHEMERAL_PORT + (first + count) % EPHEMERAL_PORTS

    def resolve(self, host: str) -> str:
        """What a name or an address means here. Raises OSError."""
        if host in self.hosts:
            return self.hosts[host]
        try:
            return str(IPv4Address(host))
        except ValueError:
            why = f"name or service not known: {host}"
            raise socket.gaierror(socket.EAI_NONAME, why) from None


class SimServer:
    """A listening address."""

    def __init__(self, stack: Stack, key: tuple[str, int], loop: SimLoop) -> None:
        self._stack, self._key, self._loop = stack, key, loop

    def close(self) -> None:
        if self._stack.listeners.get(self._key, (None, None))[0] is self._loop:
            del self._stack.listeners[self._key]


class Network:
    """All machines, and the connections between their processes."""

    def __init__(self, scheduler: Scheduler, *, constant_latency: bool = False) -> None:
        self.scheduler = scheduler
        self._constant_latency = constant_latency
        self.owners: dict[str, Stack] = {}  # by address
        # Of addresses, cuts, losses, delays and power: what is known of a way may change.
        self.version = 0
        self._kernel = Kernel(scheduler)
        self.draws = scheduler.draws.of("network")
        self._links: dict[tuple[str, str, int], Link] = {}

    @property
    def now_ns(self) -> int:
        return self.scheduler.now_ns

    def at(self, when_ns: int, callback: Callable[..., object], *args: object) -> SimHandle:
        """Let a kernel do something, whatever its processes do."""
        handle = SimHandle(self._kernel, callback, args, None)
        self.scheduler.at(when_ns, handle)
        return handle

    def link(self, source: str, target: str, port: int) -> Link:
        """The way from an address to another; `port` is where one of the two listens."""
        key = (self._name(source), self._name(target), port)
        known = self._links.get(key)
        if known is None:
            known = self._links[key] = Link(
                self.draws.of(*key), constant_latency=self._constant_latency
            )
        return known

    def _name(self, address: str) -> str:
        owner = self.owners.get(address)
        return address if owner is None else owner.name

    def late(self, source: Address, target: Address) -> Late:
        """What makes packets late on this way."""
        receiver = self.owners.get(target[0])
        if receiver is None or not receiver.delays:
            return ()
        return receiver.late(source[0], (source[1], target[1]))

    def add(self, name: str, address: str) -> Stack:
        self.version += 1
        stack = self.owners[address] = Stack(self, name, address)
        return stack

    def lossy(self, source: Address, target: Address) -> bool:
        """Whether packets are lost this way."""
        receiver = self.owners.get(target[0])
        if receiver is None or not receiver.losses:
            return False
        return any(loss.concerns(source, target) for loss in receiver.losses)

    def verdict(
        self, source: Address, target: Address, length: int = 0, *, reset: bool = False
    ) -> Verdict:
        """What becomes of a packet of so many bytes that is sent now.

        `reset`: one that is not answered. None is lost by chance: the next packet of whoever missed
        it would be answered by another.
        """
        sender, receiver = self.owners.get(source[0]), self.owners.get(target[0])
        if sender is None or receiver is None or not (sender.powered and receiver.powered):
            return "nobody"
        for rule in receiver.rules:
            if rule.concerns(source, target):
                rule.packets += 1
                return "reset" if rule.reset and not reset else "drop"
        for loss in () if reset else receiver.losses:
            if loss.concerns(source, target) and not loss.takes(self.now_ns, length):
                return "drop"
        return "take"

    # Listening.

    def listener(self, address: str, port: int) -> tuple[SimLoop, Factory] | None:
        """Who accepts connections there."""
        stack = self.owners.get(address)
        if stack is None or not stack.powered:
            return None
        return stack.listeners.get((address, port)) or stack.listeners.get((ANY, port))

    def listening(self, address: str, port: int) -> bool:
        return self.listener(address, port) is not None

    # Connections.

    async def dial(
        self,
        stack: Stack,
        loop: SimLoop,
        factory: Factory,
        host: str,
        port: int,
        *,
        local: str = "",
    ) -> tuple[SimTransport, Any]:
        """Connect a process.

        Args:
            stack: the machine to dial from.
            loop: whose connection it is.
            factory: makes its protocol.
            host: an address, or a name of the machine's hosts.
            port: where to.
            local: the address to dial from; by default the machine's own.
        """
        remote = (stack.resolve(host), port)
        address = local or stack.addresses[0]
        first = self.link(address, *remote).first_port(EPHEMERAL_PORTS)
        here = (address, stack.port_to(remote, first))
        dialling = Dialling(stack, loop, factory, here, remote)
        return await dialling.future


class Dialling:
    """A dial under way: it asks until there is an answer."""

    def __init__(self, stack: Stack, loop: SimLoop, factory: Factory, local: Address,
                 remote: Address) -> None:  # fmt: skip
        self._stack = stack
        self._network = stack.network
        self._loop = loop
        self._factory = factory
        self._local, self._remote = local, remote
        self._begun_ns = self._network.now_ns
        self._retries = 0
        self.future: asyncio.Future[tuple[SimTransport, Any]] = loop.create_future()
        self._after_way(local, remote, self._arrive)

    def _after_way(
        self, source: Address, target: Address, callback: Callable[..., object], *args: object
    ) -> int:
        """Run the callback after one way through the network; returns when that is."""
        network = self._network
        way = network.link(source[0], target[0], self._remote[1])
        took = way.latency_ns(network.now_ns, 0)
        took += late_ns(network.late(source, target), network.now_ns, 0)
        network.at(network.now_ns + took, callback, *args)
        return network.now_ns + took

    def _arrive(self) -> None:
        """A request to connect reaches the machine, or none."""
        if self.future.done() or not self._loop.alive or not self._stack.powered:
            return
        network, here, there = self._network, self._local, self._remote
        verdict = network.verdict(here, there)
        listener = network.listener(*self._remote) if verdict == "take" else None
        if verdict == "take" and listener is not None:
            if network.verdict(there, here) == "take":
                self._connect(*listener)
                return
        elif verdict in ("take", "reset") and network.verdict(there, here, reset=True) == "take":
            why = f"connection refused: {there[0]}:{there[1]}"
            self._fail(ConnectionRefusedError(errno.ECONNREFUSED, why))
            return
        waited = network.now_ns - self._begun_ns
        if verdict == "nobody" and waited >= NO_HOST_NS:
            self._fail(OSError(errno.EHOSTUNREACH, f"no route to host: {there[0]}"))
        elif self._retries == SYN_RETRIES_MAX:
            self._fail(TimeoutError(errno.ETIMEDOUT, f"connection timed out: {there[0]}"))
        else:
            network.at(network.now_ns + (SYN_RETRY_NS << self._retries), self._arrive)
            self._retries += 1

    def _fail(self, error: OSError) -> None:
        self._answer(self._failed, error)

    def _answer(self, callback: Callable[..., object], *args: object) -> int:
        """Interrupt the dialler with what the machine says; returns when that will be."""
        return self._after_way(self._remote, self._local, self._loop.interrupt, callback, *args)

    def _failed(self, error: OSError) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def _connect(self, server: SimLoop, factory: Factory) -> None:
        """The machine accepts, whatever its process does: it learns of it when it runs."""
        near = SimTransport(self._loop, self._local, self._remote)
        far = SimTransport(server, self._remote, self._local)
        join(self._network, near, far)
        # Nothing of the server can arrive before the dialler knows that it is connected.
        if far.flow is not None:
            far.flow.arrives_ns = self._answer(self._connected, near)
        server.stack.hold(far)
        server.interrupt(self._accept, far, factory)

    def _accept(self, far: SimTransport, factory: Factory) -> None:
        if self._network.listening(*self._remote):
            far.made(factory())
        else:  # the process stopped listening before it saw the connection
            far.end(None)
            if far.flow is not None:
                far.flow.send(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))

    def _connected(self, near: SimTransport) -> None:
        if self.future.done():  # whoever dialled has given up
            near.close()
            return
        self._stack.hold(near)
        near.made(self._factory())
        self.future.set_result((near, near.protocol))
