"""A cluster that runs already: which nodes it has, and where, as a file says (``cluster.toml``).

    cluster = "DefaultCluster"

    [[namesrv]]
    name = "namesrv-0"
    address = "10.0.0.5:9876"

    [[broker]]
    name = "broker-a-0"
    address = "10.0.0.7:10911"
    container = "broker-a"
    set = "broker-a"
    id = 0

``[[controller]]`` is as ``[[namesrv]]``; without any, brokers are masters and slaves by their
settings, and `id` 0 is the master. With controllers `id` is what they gave the broker. `container`
may be left out: such a node can be watched, and has no faults.
"""

import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import Node, Topology

NODES_MAX = 255
BYTES_MAX = 1 << 20
Name = Annotated[str, Meta(pattern=r"^[^\s:/]{1,140}$")]
Address = Annotated[str, Meta(pattern=r"^[^\s:]{1,253}:[0-9]{1,5}$")]
Container = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{0,128}$")]
Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class ClusterFileError(ValueError):
    """A file describes no cluster that could be asked; says what is wrong."""


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A node, by what Max-Q calls it, and its ``host:port``. `container` is the name of the docker
    container in which it runs alone; empty: none of this machine."""

    name: Name
    address: Address
    container: Container = ""


class BrokerMember(Member, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A broker: `set` is its brokerName."""

    set: Name
    id: Id


M = TypeVar("M", bound=Member)


class Existing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cluster: `cluster` is its brokerClusterName, `file` where this was read from."""

    cluster: Annotated[str, Meta(min_length=1, max_length=200)]
    namesrv: Annotated[tuple[Member, ...], Meta(min_length=1)]
    broker: Annotated[tuple[BrokerMember, ...], Meta(min_length=1)]
    controller: tuple[Member, ...] = ()
    file: str = ""

    @property
    def members(self) -> tuple[Member, ...]:
        """All nodes."""
        return (*self.namesrv, *self.controller, *self.broker)

    @property
    def addresses(self) -> dict[str, str]:
        """Where each node is, by its name."""
        return {m.name: m.address for m in self.members}

    @property
    def topology(self) -> Topology:
        """How many of what, and the nodes themselves; of unequal sets the largest counts."""
        return Topology(
            namesrvs=len(self.namesrv),
            controllers=len(self.controller),
            broker_sets=len({broker.set for broker in self.broker}),
            replicas=max(Counter(broker.set for broker in self.broker).values()),
            nodes=tuple(self._nodes()),
        )

    def inside(self, at: Callable[[str, int], str]) -> "Existing":
        """The same, each node in the container that is there, where one is.

        Args:
            at: which container is at a host and port; empty: none.
        """

        def placed(members: tuple[M, ...]) -> tuple[M, ...]:
            return tuple(
                msgspec.structs.replace(m, container=at(_host(m.address), _port(m.address)))
                for m in members
            )

        return msgspec.structs.replace(
            self, namesrv=placed(self.namesrv), broker=placed(self.broker),
            controller=placed(self.controller),
        )  # fmt: skip

    def _nodes(self) -> Iterator[Node]:
        for role, members in ((Role.NAMESRV, self.namesrv), (Role.CONTROLLER, self.controller)):
            for one in members:
                yield Node(name=one.name, role=role, port=_port(one.address))
        for broker in sorted(self.broker, key=lambda b: (b.set, b.id)):
            yield Node(
                name=broker.name, role=Role.BROKER, port=_port(broker.address),
                broker_set=broker.set, replica=broker.id,
            )  # fmt: skip


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def read(path: Path) -> Existing:
    """Read a file.

    Raises:
        ClusterFileError: it is not there, or says what cannot be.
    """
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise ClusterFileError(f"{path}: longer than {BYTES_MAX} bytes")
        found = msgspec.convert(tomllib.loads(data.decode()), Existing)
    except OSError as error:
        raise ClusterFileError(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ClusterFileError(f"{path}: {error}") from None
    if wrong := _wrong(found):
        raise ClusterFileError(f"{path}: {wrong}")
    return msgspec.structs.replace(found, file=str(path))


def _wrong(found: Existing) -> str:
    """What is wrong of nodes taken together; empty if nothing is."""
    members = found.members
    if len(members) > NODES_MAX:
        return f"{len(members)} nodes, and at most {NODES_MAX} can be asked"
    for what, each in (("name", [m.name for m in members]),
                       ("address", [m.address for m in members])):  # fmt: skip
        if (twice := Counter(each).most_common(1)[0])[1] > 1:
            return f"two nodes with the {what} {twice[0]}"
    ids = Counter((b.set, b.id) for b in found.broker)
    if (same := ids.most_common(1)[0])[1] > 1:
        return f"two brokers of {same[0][0]} with the id {same[0][1]}"
    high = [m.address for m in members if not 0 < _port(m.address) < 1 << 16]
    return f"{high[0]} has no port between 1 and 65535" if high else ""


def written(found: Existing) -> str:
    """The text of a file that says so."""
    blocks = [f"cluster = {_quoted(found.cluster)}\n"]
    for kind, members in (("namesrv", found.namesrv), ("controller", found.controller)):
        blocks += [f"[[{kind}]]\n{_lines(one)}" for one in members]
    blocks += [
        f"[[broker]]\n{_lines(one)}set = {_quoted(one.set)}\nid = {one.id}\n"
        for one in found.broker
    ]
    return "\n".join(blocks)


def _lines(one: Member) -> str:
    inside = f"container = {_quoted(one.container)}\n" if one.container else ""
    return f"name = {_quoted(one.name)}\naddress = {_quoted(one.address)}\n{inside}"


def _quoted(text: str) -> str:
    # A JSON string is a basic string of TOML, but for one character.
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
