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
may be left out: such a node can be watched, and has no faults. In its place a node on another host
has

    ssh = "admin@10.0.0.7:22"
    unit = "rocketmq-broker.service"

or, where no systemd has it, commands of a shell: `start`; `stop`, where something else would start
it again; `pid`, a file or a command that says its process, where nobody listens at its port.
"""

import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
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
Host = Annotated[str, Meta(pattern=r"^([^\s:/@-][^\s:/@]*@[^\s:/@-][^\s:/@]*(:[0-9]{1,5})?)?$")]
Unit = Annotated[str, Meta(pattern=r"^([A-Za-z0-9_.:\\@][A-Za-z0-9_.:\\@-]*)?$")]
Command = Annotated[str, Meta(pattern=r"^[^\x00\r\n]*$", max_length=4096)]
Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]
SSH_PORT = 22


class ClusterFileError(ValueError):
    """A file describes no cluster that could be asked; says what is wrong."""


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A node, by what Max-Q calls it, and its ``host:port``. `container` is the name of the docker
    container in which it runs alone; empty: none of this machine. `ssh` is the host on which it
    runs, as ``user@host:port``; `unit` or `start` say how it is started there."""

    name: Name
    address: Address
    container: Container = ""
    ssh: Host = ""
    unit: Unit = ""
    start: Command = ""
    stop: Command = ""
    pid: Command = ""

    @property
    def how(self) -> str:
        """How it is started on its host."""
        return self.unit or self.start

    @property
    def place(self) -> str:
        """Where it runs, in words."""
        return f"ssh {self.ssh} {self.how}" if self.ssh else f"container {self.container}"


# What only a node with `ssh` has: its unit or commands.
ON_HOSTS = Member.__struct_fields__[Member.__struct_fields__.index("ssh") + 1 :]


class BrokerMember(Member, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A broker: `set` is its brokerName."""

    set: Name
    id: Id


M = TypeVar("M", bound=Member)


class SshFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is used in the place of files in ``~/.ssh``; keys of ssh-agent are used anyway. A path
    is relative to the folder of the file that names it."""

    key: str = ""
    known_hosts: str = ""


class Existing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cluster: `cluster` is its brokerClusterName, `file` where this was read from."""

    cluster: Annotated[str, Meta(min_length=1, max_length=200)]
    namesrv: Annotated[tuple[Member, ...], Meta(min_length=1)]
    broker: Annotated[tuple[BrokerMember, ...], Meta(min_length=1)]
    controller: tuple[Member, ...] = ()
    ssh: SshFiles = SshFiles()
    file: str = ""

    @property
    def members(self) -> tuple[Member, ...]:
        """All nodes."""
        return (*self.namesrv, *self.controller, *self.broker)

    @property
    def on_hosts(self) -> bool:
        """Whether nodes are on hosts that are reached over ssh."""
        return any(member.ssh for member in self.members)

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
    high = [
        at for m in members for at in (m.address, m.ssh if ":" in m.ssh else f":{SSH_PORT}")
        if not 0 < _port(at) < 1 << 16
    ]  # fmt: skip
    if high:
        return f"{high[0]} has no port between 1 and 65535"
    return next(filter(None, map(_wrong_place, members)), "")


def _wrong_place(one: Member) -> str:
    """What is wrong of where a node runs, and how it is started there."""
    if not one.ssh:
        stray = [key for key in ON_HOSTS if getattr(one, key)]
        return f'{one.name} has a line {stray[0]}: add ssh = "USER@HOST"' if stray else ""
    if one.container:
        return f"{one.name} has lines container and ssh: keep the one where it runs"
    if not one.how:
        return (
            f'{one.name} has ssh, and nothing that starts it: add unit = "NAME.service", or '
            'start = "COMMAND"'
        )
    twice = [key for key in ON_HOSTS if key not in ("unit", "pid") and getattr(one, key)]
    if one.unit and twice:
        return f"{one.name} has lines unit and {twice[0]}: systemd does it, so keep one of them"
    return ""


def written(found: Existing) -> str:
    """The text of a file that says so."""
    files = msgspec.to_builtins(found.ssh)
    blocks = [f"cluster = {_quoted(found.cluster)}\n"]
    if any(files.values()):
        blocks.append(f"[ssh]\n{_set(files)}")
    for kind, members in (("namesrv", found.namesrv), ("controller", found.controller)):
        blocks += [f"[[{kind}]]\n{_lines(one)}" for one in members]
    blocks += [
        f"[[broker]]\n{_lines(one)}set = {_quoted(one.set)}\nid = {one.id}\n"
        for one in found.broker
    ]
    return "\n".join(blocks)


def _lines(one: Member) -> str:
    keys = ("name", "address", "container", "ssh", *ON_HOSTS)
    return _set({key: getattr(one, key) for key in keys})


def _set(values: Mapping[str, str]) -> str:
    return "".join(f"{key} = {_quoted(text)}\n" for key, text in values.items() if text)


def _quoted(text: str) -> str:
    # A JSON string is a basic string of TOML, but for one character.
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
