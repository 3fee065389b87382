"""The simulated network: machines with addresses, who listens where, what is cut, how dials go.

Each machine has a `Stack`, its kernel's part: addresses, names, cuts, ports. A dial to a machine
where nobody listens is refused, one that is not taken is tried again as a kernel does, one to an
address that nobody has fails after three seconds. The death of a process resets its connections
and frees its ports. Connections themselves are in `harness.simulation.stream`. Times are ns.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Literal

from harness.simulation.loop import Kernel, Scheduler, SimLoop
from harness.simulation.stream import LATENCY_NS, Address, SimTransport, join

EPHEMERAL_PORT = 32_768
SYN_RETRY_NS = 1_000_000_000  # then twice as long each time
SYN_RETRIES_MAX = 6
NOBODY_NS = 3_000_000_000  # how long a kernel looks for who has an address
ANY = ""  # a listener of all addresses

Factory = Callable[[], Any]
Verdict = Literal["take", "drop", "reset", "nobody"]


class Rule:
    """What a machine does not take, and how many packets that was."""

    def __init__(self, source: str, block: str, *, reset: bool) -> None:
        net = IPv4Network(block)
        self.source = source
        self.reset = reset
        self.packets = 0
        self._mask, self._prefix = int(net.netmask), int(net.network_address)

    def covers(self, address: str) -> bool:
        return int(IPv4Address(address)) & self._mask == self._prefix


class Stack:
    """The network side of a machine. It outlives the machine's processes."""

    def __init__(self, network: "Network", name: str, address: str) -> None:
        self.network = network
        self.name = name
        self.addresses = [address]  # the first is the machine's own
        self.hosts: dict[str, str] = {}
        self.rules: tuple[Rule, ...] = ()
        self.listeners: dict[tuple[str, int], tuple[SimLoop, Factory]] = {}

    def add_address(self, address: str) -> None:
        """Have one address more."""
        if address not in self.addresses:
            self.addresses.append(address)
            self.network.owners[address] = self

    def set_address(self, address: str) -> None:
        """Have another address of its own; connections of the old one hang."""
        self.network.owners.pop(self.addresses[0])
        self.addresses[0] = address
        self.network.owners[address] = self

    def cut(self, rules: Iterable[Rule]) -> None:
        """Take no packets that a rule covers, instead of what was not taken before."""
        self.rules = tuple(rules)

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

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.owners: dict[str, Stack] = {}  # by address
        self._kernel = Kernel(scheduler)
        self._ends: dict[SimLoop, list[SimTransport]] = {}
        self._connections = 0

    @property
    def now_ns(self) -> int:
        return self.scheduler.now_ns

    def at(self, when_ns: int, callback: Callable[..., object], *args: object) -> asyncio.Handle:
        """Let a kernel do something, whatever its processes do."""
        handle = asyncio.Handle(callback, args, self._kernel.stock)
        self.scheduler.at(when_ns, handle, self._kernel)
        return handle

    def add(self, name: str, address: str) -> Stack:
        stack = self.owners[address] = Stack(self, name, address)
        return stack

    def verdict(self, source: str, target: str, *, reset: bool = False) -> Verdict:
        """What becomes of a packet that is sent now; `reset`: one that nobody answers."""
        sender, receiver = self.owners.get(source), self.owners.get(target)
        if sender is None or receiver is None:
            return "nobody"
        for rule in receiver.rules:
            if rule.covers(source):
                rule.packets += 1
                return "reset" if rule.reset and not reset else "drop"
        return "take"

    # Listening.

    def listener(self, address: str, port: int) -> tuple[SimLoop, Factory] | None:
        """Who accepts connections there."""
        stack = self.owners.get(address)
        if stack is None:
            return None
        return stack.listeners.get((address, port)) or stack.listeners.get((ANY, port))

    def listening(self, address: str, port: int) -> bool:
        return self.listener(address, port) is not None

    def listen(self, loop: SimLoop, factory: Factory, host: str, port: int) -> SimServer:
        stack = loop.stack
        address = ANY if host in ("", "0.0.0.0") else stack.resolve(host)
        if address != ANY and address not in stack.addresses:
            raise OSError(errno.EADDRNOTAVAIL, f"cannot assign requested address: {host}")
        for known, taken in stack.listeners:
            if taken == port and (ANY in (known, address) or known == address):
                raise OSError(errno.EADDRINUSE, f"address already in use: {host}:{port}")
        stack.listeners[address, port] = (loop, factory)
        return SimServer(stack, (address, port), loop)

    # Connections.

    async def dial(
        self,
        loop: SimLoop,
        factory: Factory,
        host: str,
        port: int,
        *,
        stack: Stack | None = None,
        local: str = "",
    ) -> tuple[SimTransport, Any]:
        """Connect a process.

        Args:
            loop: whose connection it is.
            factory: makes its protocol.
            host: an address, or a name of the machine's hosts.
            port: where to.
            stack: the machine to dial from; by default the process's own.
            local: the address to dial from; by default the machine's own.
        """
        stack = stack or loop.stack
        self._connections += 1
        remote = (stack.resolve(host), port)
        port_here = EPHEMERAL_PORT + self._connections % 30_000
        here = (local or stack.addresses[0], port_here)
        dialling = Dialling(self, loop, factory, here, remote, self._connections)
        return await dialling.future

    def hold(self, end: SimTransport) -> None:
        """Remember a connection of a process, for its death."""
        ends = self._ends.setdefault(end.loop, [])
        ends[:] = [e for e in ends if not e.lost] + [end]

    def process_died(self, loop: SimLoop) -> None:
        listeners = loop.stack.listeners
        for key in [k for k, (owner, _) in listeners.items() if owner is loop]:
            del listeners[key]
        for end in self._ends.pop(loop, []):
            if not end.lost and end.flow is not None:
                end.flow.send(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))


class Dialling:
    """A dial under way: it asks until there is an answer."""

    def __init__(self, network: Network, loop: SimLoop, factory: Factory, local: Address,
                 remote: Address, number: int) -> None:  # fmt: skip
        self._network = network
        self._loop = loop
        self._factory = factory
        self._local, self._remote = local, remote
        self._number = number
        self._rng = network.scheduler.rng(f"dial/{number}")
        self._begun_ns = network.now_ns
        self._retries = 0
        self.future: asyncio.Future[tuple[SimTransport, Any]] = loop.create_future()
        self._soon(self._arrive)

    def _soon(self, callback: Callable[..., object], *args: object) -> int:
        """When the callback will run: after one way through the network."""
        when = self._network.now_ns + self._rng.randint(*LATENCY_NS)
        self._network.at(when, callback, *args)
        return when

    def _arrive(self) -> None:
        """A request to connect reaches the machine, or nobody."""
        if self.future.done() or not self._loop.alive:
            return
        network, here, there = self._network, self._local[0], self._remote[0]
        verdict = network.verdict(here, there)
        listener = network.listener(*self._remote) if verdict == "take" else None
        if verdict == "take" and listener is not None:
            if network.verdict(there, here) == "take":
                self._connect(*listener)
                return
        elif verdict in ("take", "reset") and network.verdict(there, here, reset=True) == "take":
            why = f"connection refused: {there}:{self._remote[1]}"
            self._fail(ConnectionRefusedError(errno.ECONNREFUSED, why))
            return
        waited = network.now_ns - self._begun_ns
        if verdict == "nobody" and waited >= NOBODY_NS:
            self._fail(OSError(errno.EHOSTUNREACH, f"no route to host: {there}"))
        elif self._retries == SYN_RETRIES_MAX:
            self._fail(TimeoutError(errno.ETIMEDOUT, f"connection timed out: {there}"))
        else:
            network.at(network.now_ns + (SYN_RETRY_NS << self._retries), self._arrive)
            self._retries += 1

    def _fail(self, error: OSError) -> None:
        self._soon(self._loop.interrupt, self._told, error)

    def _told(self, error: OSError) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def _connect(self, server: SimLoop, factory: Factory) -> None:
        """The machine accepts, whatever its process does: it learns of it when it runs."""
        near = SimTransport(self._loop, self._local, self._remote)
        far = SimTransport(server, self._remote, self._local)
        join(self._network, near, far, self._number)
        # Nothing of the server can arrive before the dialler knows that it is connected.
        if far.flow is not None:
            far.flow.arrives_ns = self._soon(self._loop.interrupt, self._connected, near)
        self._network.hold(far)
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
        self._network.hold(near)
        near.made(self._factory())
        self.future.set_result((near, near.protocol))
