"""What nemeses and workloads may know of a cluster, and do to it, in small contracts.

A cluster offers what it can; a fault asks for what it needs (`Cluster.offers`), and its kind names
the capabilities that an environment must have for that. Faults choose their victims by role when
they strike, so answers are about now: the cluster is asked, and None is the answer where it cannot
know. `maxq.harness.cluster.deployment.Deployment` is such a cluster.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import msgspec

from maxq.harness.contracts.environment import Misread, Port, Role
from maxq.harness.contracts.generator import Generator
from maxq.harness.contracts.outcome import Client
from maxq.harness.contracts.target import Node
from maxq.reference.rpc import Dial

T = TypeVar("T")

AGED_MS = 366 * 24 * 3_600_000  # how old a file is once it was aged

# What a node may be at a moment: a role, or what the cluster has made of it.
# A `sync-state-set-slave` is in the SyncStateSet and not master, as the leading controller says.
# Of pairs: the acting master is a slave that says so, the smallest slave the one of its set, of
# those that run, that would act.
Part = Literal[
    "namesrv",
    "controller",
    "controller-leader",
    "broker",
    "master",
    "slave",
    "sync-state-set-slave",
    "acting-master",
    "smallest-slave",
]


# Who takes no packets from whom: destination -> sources, by name of machine or `CLIENT`. One
# direction; a symmetric partition names both. (Jepsen's word.)
Grudge = Mapping[str, frozenset[str]]

# Which packets between a node and others are concerned: all, those to the node, those from it.
Direction = Literal["both", "in", "out"]


# Which port of a broker is one that another has.
Clash = Literal["main", "fast", "ha"]


class Hosted(msgspec.Struct, frozen=True, kw_only=True):
    """A container's answer to a request about a broker, and what was seen right after it: whom each
    name server lists, and what is met at the broker's ports that no neighbour has. `beside` are the
    brokers that the container was started with."""

    code: int
    remark: str
    listed: Mapping[str, tuple[str, ...]]
    ports: Mapping[str, Port]
    beside: tuple[str, ...]


class Proof(msgspec.Struct, frozen=True):
    """What a probe saw. `holds` is whether that proves the fault, or its heal, took effect."""

    holds: bool
    seen: dict[str, Any]

    @property
    def forced(self) -> dict[str, Any]:
        """``forced`` and the ``reason``, where a node did not end when it was asked to and was
        killed; empty otherwise. Part of what is seen of any fault for which a node is stopped."""
        return {k: self.seen[k] for k in ("forced", "reason") if self.seen.get("forced")}


class Members(Protocol):
    """Where the nodes are, and how clients and observers reach them."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    def address(self, node: str, role: Role | None = None) -> str:
        """``ip:port`` of a node now: as that of its roles, else as what its process is."""
        ...

    def by_role(self, role: Role) -> Sequence[Node]:
        """The nodes of a role, without spares."""
        ...

    def namesrvs(self) -> Sequence[str]:
        """Addresses of all name servers."""
        ...

    def controllers(self) -> Sequence[str]:
        """Addresses of all controllers."""
        ...

    def resolve(self, address: str) -> str:
        """``ip:port`` now of what a node calls ``host:port``; names are those of machines."""
        ...

    @property
    def dial(self) -> Dial: ...

    @property
    def observer_dial(self) -> Dial:
        """As `dial`, from the observers' address."""
        ...


@runtime_checkable
class Killable(Protocol):
    """Processes that can be ended, started, and robbed of their stores."""

    def running(self, node: str) -> bool:
        """Whether the node should run: started, and not killed by a fault."""
        ...

    async def kill(self, node: str) -> Proof:
        """End the node's process as SIGKILL does; prove it: process gone, port refused."""
        ...

    async def start(self, node: str) -> Proof:
        """Start the node on its store; prove it: process alive, port answers. No error if it
        runs already."""
        ...

    async def stop(self, node: str) -> Proof:
        """End the node cleanly, as SIGTERM does; prove it as for `kill`, with the exit code of a
        clean end. One that does not end in time is killed: it is stopped all the same, and `seen`
        has ``forced`` and the reason, as it was no clean end."""
        ...

    async def wipe(self, node: str) -> Proof:
        """Remove the store of a node that is down, its identity with it."""
        ...

    async def crashed(self) -> Mapping[str, int]:
        """Nodes that should run and have ended by themselves, with their exit codes."""
        ...

    def excused(self, node: str) -> bool:
        """Whether the node's disk was at fault since it was last started, or its store was tampered
        with, so that it may well have ended by itself."""
        ...


@runtime_checkable
class Replaceable(Protocol):
    """Nodes that can be started as another release, or with other settings."""

    async def replace_release(self, node: str, release: str) -> Proof:
        """Stop a node, if it runs, and start it on its store as another release, by the name of its
        target: ``reference``, ``rocketmq:5.1.0``. Prove it: its answers have that version.
        `seen` has ``from``, ``to`` and ``version``, and ``forced`` as for `Killable.stop`.

        Raises:
            MissingCapability: the run has one release only.
            ValueError: the run has no such release.
        """
        ...

    async def start_as(self, node: str, release: str) -> Proof:
        """The same for a node that is down."""
        ...

    async def change_settings(self, node: str, settings: Mapping[str, str]) -> Proof:
        """Stop a node, if it runs, and start it on its store with settings beside those that it
        has, by RocketMQ's keys. Prove it: it answers that it has them. `seen` has ``settings`` and,
        where it has others, ``otherwise``; and ``forced`` as for `Killable.stop`."""
        ...


class NothingThere(Exception):
    """A store has nothing where an accident should happen."""


@runtime_checkable
class Tamperable(Protocol):
    """Stores at rest that accidents can change."""

    async def copy_store(self, node: str, source: str) -> Proof:
        """Replace the store of a node that is down by a copy of another one's, as an operator does
        who clones a machine."""
        ...

    async def cut_file(self, node: str, path: str, length: int | float) -> Proof:
        """Cut a file of a node that is down. `path` is below the store; `length` is how many bytes
        are left, or as a fraction the share of what is written.

        Raises:
            NothingThere: of a fraction: there is no such file, or nothing in it.
        """
        ...

    async def flip_bit(self, node: str, path: str, bit: int | float) -> Proof:
        """Flip a bit of a file of a node that is down, counted from the file's beginning; from its
        end if negative; or at a fraction of what is written. `path` is below the store.

        Raises:
            NothingThere: as `cut_file`.
        """
        ...

    async def remove_files(self, node: str, paths: Sequence[str]) -> Proof:
        """Remove files of a node that is down, which must be able to make that good. `paths` are
        below the store.

        Raises:
            NothingThere: it has none of them.
        """
        ...


@runtime_checkable
class Aging(Protocol):
    """Brokers whose stored messages can be made old."""

    async def age_log(self, node: str, keys: Sequence[tuple[str, str, int]]) -> Proof:
        """Let every file of a broker's commit log but the one in which the log ends look as if
        last changed `AGED_MS` ago, beyond any retention: from then on the broker may delete them.
        Prove it: each is that old. It may run or be down.

        `seen` has ``start``, the log's first byte, ``aged-to``, the first byte that is young,
        ``files``, how many were aged, and ``young``: for each key with messages in them, as
        ``[key, offset]``, the queue offset after its last one there.

        Args:
            node: the broker.
            keys: (topic, broker set, queue id) of each key, in order.

        Raises:
            NothingThere: the log ends in its first file.
        """
        ...


@runtime_checkable
class PowerLosing(Protocol):
    """Machines that can lose their power."""

    async def power_loss(self, node: str) -> Proof:
        """End the node as a loss of its machine's power does: as `kill`, and what its disk had
        not synced is lost. Needs `Capability.POWER_LOSS`."""
        ...


@runtime_checkable
class Pausable(Protocol):
    """Processes that can be held."""

    def paused(self, node: str) -> bool:
        """Whether a fault has paused the node."""
        ...

    async def pause(self, node: str) -> Proof:
        """Hold the node's process as SIGSTOP does; prove it: its state."""
        ...

    async def resume(self, node: str) -> Proof:
        """Let a paused node go on; prove it: its state, and its port answers. No error if it is
        not paused."""
        ...


@runtime_checkable
class AddressChangeable(Protocol):
    """Machines that can get other addresses."""

    async def change_address(self, node: str, *, restart: bool) -> Proof:
        """Give the node's machine the next address of its block, under the running process or,
        with `restart`, with the process stopped before and started after. Prove it: the node
        answers at the new address, and nobody at the old one. `seen` has `from` and `to`, and
        ``forced`` as for `stop`."""
        ...

    async def restore_address(self, node: str, *, restart: bool) -> Proof:
        """Give the machine its first address again, likewise. No error if it has it."""
        ...


@runtime_checkable
class Partitionable(Protocol):
    """Machines between which packets can be dropped."""

    async def cut(
        self,
        grudge: Grudge,
        *,
        reset: bool = False,
        name: str = "",
        patience_s: float = 1.0,
    ) -> Mapping[str, Proof]:
        """Cut packets as `grudge` says, beside the cuts of other names and instead of the one that
        had this name. One proof a destination: a probe from each source met nothing (or a reset)
        for `patience_s`, and the cut has caught packets of it. `seen` has `from`, a map from source
        to packets caught."""
        ...

    async def heal(self, *, name: str | None = None) -> Mapping[str, Proof]:
        """End the cut of this name; None: all cuts. One proof for each machine that was cut: no
        rule is left but of other cuts, and nodes that run are met from where they were not. Empty
        where nothing was cut."""
        ...


@runtime_checkable
class Permitting(Protocol):
    """Name servers that can be told whether clients may write to a broker set."""

    async def wipe_write(self, node: str, namesrvs: Sequence[str]) -> Mapping[str, Proof]:
        """Tell name servers that nobody may write to a broker's set, as an operator does (205);
        prove it by their routes. One proof for each broker of the set: `seen` has ``set``, and
        ``perms``, the permission of each topic, by name server, without those that do not answer or
        know no topic of it. Empty where none is left."""
        ...

    async def add_write(self, node: str, namesrvs: Sequence[str]) -> Mapping[str, Proof]:
        """Tell them that everybody may read and write (327); prove it likewise."""
        ...


@runtime_checkable
class ClockShifting(Protocol):
    """Machines whose wall clocks can be set off."""

    async def bump_clock(self, node: str, *, offset_ms: int, drift_ppm: int) -> Proof:
        """Set the machine's wall clock off and let it drift; prove it: it shows so much another
        time than it would have. Needs `Capability.CLOCK`."""
        ...

    async def reset_clock(self, node: str) -> Proof:
        """Set the wall clock right; prove it likewise."""
        ...


@runtime_checkable
class DiskBreaking(Protocol):
    """Machines whose disks can be slow, frozen or full, or misread."""

    async def break_disk(
        self,
        node: str,
        *,
        full: bool = False,
        sync_ms: int | None = None,
        frozen: bool = False,
        misread: Misread | None = None,
    ) -> Proof:
        """Let the machine's disk take nothing more, take so long to sync, never come to the end of
        a sync, or read a bit as another, of a file whose path is below the store; prove it by a
        file that is written, and by that file. Needs `Capability.DISK`."""
        ...

    async def heal_disk(self, node: str) -> Proof:
        """Let the disk be sound; prove it likewise. A node that the fault has ended is not started
        again."""
        ...


@runtime_checkable
class DiskFilling(Protocol):
    """Machines whose partition can fill up."""

    def filled(self, node: str) -> bool:
        """Whether a fault has filled the partition of the node's machine."""
        ...

    async def fill_disk(self, node: str) -> Proof:
        """Let a file fill the partition until brokers refuse sends; prove it: those that run say
        so. Needs `Capability.FILL`."""
        ...

    async def free_disk(self, node: str) -> Proof:
        """Remove that file, if there is one; prove it likewise."""
        ...


@runtime_checkable
class Ailing(Protocol):
    """Machines of which it is known what faults have made of them."""

    def ailments(self, node: str) -> Set[str]:
        """What faults have made of the node's machine: ``clock``, ``slow-disk``,
        ``frozen-disk``, ``full-disk``, ``misreading-disk``."""
        ...


@runtime_checkable
class Stored(Protocol):
    """Brokers whose files can be read."""

    async def identity(self, node: str) -> int | None:
        """The persistent id that a broker's identity file holds; None before it has one."""
        ...

    async def stored(self, node: str, folder: str) -> Mapping[str, bytes]:
        """The files below a folder of the node's data, by path below its data folder."""
        ...

    async def sizes(self, node: str) -> Mapping[str, int]:
        """How long the files of its store are, by path below the store."""
        ...

    async def partition(self, node: str) -> int:
        """How many bytes the partition of its store has."""
        ...


@runtime_checkable
class Electing(Protocol):
    """Controllers that can be given orders, as operators give them."""

    async def elect(self, node: str) -> Proof:
        """Have controllers elect a broker, as an operator does; prove it: name servers, controllers
        and brokers agree that it leads. No error if it does already."""
        ...

    async def change_leader(self) -> Proof:
        """Pause the controller that leads until another one does; prove it: who led and who leads.
        `seen` has `from` and `to`. Needs `Capability.PAUSE`."""
        ...

    async def order_election(self, node: str) -> Proof:
        """Tell controllers to elect a broker, as an operator might at any time, and tell what they
        answered: they may refuse, or have no leader."""
        ...

    async def apply_ids(self, name: str, *, count: int) -> Proof:
        """Have controllers give out ids, one to each of so many broker sets that do not exist,
        named after `name`; prove it: each was answered. So their log grows."""
        ...


@runtime_checkable
class HostingBrokers(Protocol):
    """Containers that brokers can be added to and removed from while they run."""

    async def add_broker(self, node: str, clash: Clash | None = None) -> Hosted:
        """Have a node's container add it (902); with a `clash` by a file whose broker needs that
        port of a neighbour. Raises OSError where there was no answer (`NotSent`: the request was
        not sent), RemoteProtocolError where it cannot be read."""
        ...

    async def remove_broker(self, node: str) -> Hosted:
        """Have it removed (903). Raises as `add_broker`."""
        ...

    async def move_broker(self, node: str) -> Hosted:
        """Have a guest removed, take its store to the next container, and have it added there; the
        answer to that. Raises as `add_broker`: then it may be in either, or in neither."""
        ...

    def removed(self, node: str) -> bool:
        """Whether a fault was to remove a broker from a container that should run."""
        ...

    async def remove(self, node: str) -> Proof:
        """Remove a broker that others use; prove it: its ports refuse."""
        ...

    async def add(self, node: str) -> Proof:
        """Add it again, on its store; prove it: its ports answer."""
        ...

    async def fail_store(self, node: str) -> Proof:
        """Let no sync of a broker's store succeed until it has ended by itself; prove it: its ports
        refuse. Needs `Capability.DISK`. Raises NothingThere: it wrote nothing, and went on."""
        ...


@runtime_checkable
class Levelled(Protocol):
    """Broker sets whose replicas can be compared."""

    async def level(self) -> bool:
        """Whether all replicas of every set are there, have logs of the same length, and are in
        the SyncStateSet."""
        ...


class Cluster(Members, Protocol):
    """The cluster as faults and clients see it: its members, the parts that they play now, and what
    can be done to them, each a contract of its own."""

    async def playing(self, part: Part) -> Sequence[str]:
        """Names of the nodes that should run and play a part now, in order; nobody where the
        cluster does not tell."""
        ...

    def offers(self, contract: type[T]) -> T:
        """Whatever fulfils one of the contracts of this module.

        Raises:
            MissingCapability: nothing here does.
        """
        ...


# What clients need beside plain messages: delayed ones, transactions, offsets of consumer groups.
Need = Literal["delayed", "half", "offsets"]
# When topics of the workload queue but the first are made: before the run, by the first message to
# each, or by an operator during the run.
Made = Literal["before", "by-sending", "during"]


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How producers try again: how often at most, of each key the one to try next and the number of
    its broker set, and whether they keep away from sets that failed or were slow."""

    count: int
    elsewhere: tuple[int, ...]
    homes: tuple[int, ...]
    avoids: bool


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What clients do during the run and after it, and how each client is made.

    `threads` are what it runs on, numbered from 0 in each workload; several workloads run side by
    side. `generator` says what a client does when it is its turn; the schedule of the run says when
    that is. `final_generator` runs after the heal and reads everything; None where there is nothing
    to read. `topics` maps each topic to its number of queues on each broker set; they exist on all
    replicas before the first fault; `alone` those that only the first broker set has. `needs` are
    what its clients do beside sending and reading plain messages, which is tried before. `groups`
    are its consumer groups, which exist before as well. `late` are topics that come into being
    during the run, and `instead` maps the keys of those that an operator makes to the ones that are
    sent to before. `shares` are the keys that its first threads read, by thread. `look` is a short
    look at who lives and who leads, beside what happens at the end; `settling` is what clients do
    last before a long time without any disturbance and a fail-over; None where the workload has
    none. `retries`: None where
    producers try once.
    """

    name: str
    threads: int
    generator: Generator
    final_generator: Generator | None
    client: Callable[[int], Client]  # thread -> a fresh client
    topics: dict[str, int]
    needs: tuple[Need, ...] = ()
    alone: dict[str, int] = {}
    late: dict[str, int] = {}
    instead: Mapping[int, int] = {}
    groups: tuple[str, ...] = ()
    shares: tuple[tuple[int, ...], ...] = ()
    look: Generator | None = None
    settling: Generator | None = None
    retries: Retries | None = None
