"""Which brokers a container has, and which it takes in. Pure.

A broker is known by its *identity*: cluster, name and id as its file has them. With controllers the
file has no id that counts, so the id is -1 there, and a container has at most one broker of such a
set. RocketMQ keeps masters, slaves and DLedger brokers in three tables, and looks a broker up in
one after the other; here identities are unique over all kinds, so that order decides nothing.

RocketMQ admits by identity alone, and meets a port that is taken when it binds the first of three:
that one stays reserved for ever. Here ports and store are part of the admission.

Source: RIP-31; RocketMQ ``BrokerContainer``, ``BrokerIdentity``; docs/spec/acting-master.md 2.
"""

from collections.abc import Callable
from enum import Enum

from maxq.reference.config import BrokerConfig
from maxq.reference.records import Record

# RocketMQ's words for who did not get as far as its start, a `Member`; and for who did.
INIT_FAILED = "Failed to initialize {0.rank} broker {0.identity.canonical}"
START_FAILED = "start broker failed"
CONTROLLED_ID = -1  # of a broker whose id controllers give


class Kind(Enum):
    """Where a broker's role comes from, and which one it is."""

    MASTER = "master"
    SLAVE = "slave"
    CONTROLLED = "controlled"  # either, as controllers say


class Identity(Record):
    """Who a broker is within a container."""

    cluster: str
    broker_name: str
    broker_id: int

    @property
    def canonical(self) -> str:
        """The name in logs and remarks, RocketMQ's canonical name."""
        return f"{self.cluster}_{self.broker_name}_{self.broker_id}"

    def __str__(self) -> str:
        """As operators write it: ``cluster:name:id``."""
        return f"{self.cluster}:{self.broker_name}:{self.broker_id}"


class Member(Record):
    """One broker of a container."""

    identity: Identity
    kind: Kind
    port: int  # its own; the fast port is two below, the HA port one above
    stores: frozenset[str]  # folders and files that must be its own

    @property
    def rank(self) -> str:
        """Master or slave, as far as its file says it."""
        return "slave" if self.kind is Kind.SLAVE else "master"

    @property
    def ports(self) -> frozenset[int]:
        """All ports that it listens at."""
        return frozenset({self.port - 2, self.port, self.port + 1})


class NotAdmitted(Exception):
    """Nothing was changed: a broker cannot come in.

    Args:
        key: of its file, which is to blame.
        why: what is wrong.
        said: what RocketMQ's container says first; empty: the same.
    """

    def __init__(self, key: str, why: str, said: str = "") -> None:
        super().__init__(why)
        self.key = key
        self.remark = f"{said}: {why}" if said else why


def member_of(config: BrokerConfig) -> Member:
    """The member that a broker with these settings is."""
    if config.enable_controller_mode:
        kind, broker_id = Kind.CONTROLLED, CONTROLLED_ID
    elif config.broker_role == "SLAVE":
        kind, broker_id = Kind.SLAVE, config.broker_id
    else:
        kind, broker_id = Kind.MASTER, 0
    paths = (config.store_path_root_dir, config.commit_log_path, config.identity_path,
             config.epoch_path)  # fmt: skip
    return Member(
        identity=Identity(
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            broker_id=broker_id,
        ),
        kind=kind,
        port=config.listen_port,
        stores=frozenset("/".join(filter(None, path.split("/"))) for path in paths),
    )


def _refuse_ports(member: Member, taken: frozenset[int], known: frozenset[int], by: str) -> None:
    """Refuse who needs a port of another one; `known` are those that RocketMQ's container looks up
    before it binds any."""
    clash = taken & member.ports
    if not clash:
        return
    early = known & (member.ports - {member.port + 1})
    port = member.port if member.port in clash else min(clash)
    said = INIT_FAILED.format(member) if early else START_FAILED
    raise NotAdmitted("listenPort", f"The port {port} already in use by {by}", said)


class Registry:
    """The brokers of one container, in the order in which they came.

    Args:
        port: the container's own; it listens two below as well.
    """

    def __init__(self, port: int) -> None:
        self._own_ports = frozenset({port - 2, port})
        self._members: dict[Identity, Member] = {}

    @property
    def members(self) -> tuple[Member, ...]:
        return tuple(self._members.values())

    def admit(self, member: Member) -> None:
        """Take a broker in.

        Raises:
            NotAdmitted: another one has its identity, one of its ports, or its store; the first of
                these is named.
        """
        if member.identity in self._members:
            name = member.identity.canonical
            why = f"{name} has already been added to current broker container"
            raise NotAdmitted("brokerName", why)
        _refuse_ports(member, self._own_ports, self._own_ports, "the container")
        for other in self._members.values():
            by = f"{other.identity.canonical}, which listens at {other.port}"
            _refuse_ports(member, other.ports, other.ports - {other.port + 1}, by)
        for other in self._members.values():
            if shared := other.stores & member.stores:
                why = f"the store /{min(shared)} is that of {other.identity.canonical}"
                raise NotAdmitted("storePathRootDir", why, START_FAILED)
        self._members[member.identity] = member

    def remove(self, identity: Identity) -> None:
        """Let a broker go; its ports and its store are free again."""
        self._members.pop(identity, None)

    def find(self, wanted: Identity, id_now: Callable[[Identity], int]) -> Identity | None:
        """Which broker an operator means.

        A broker that controllers rule is also known by the id that they have given it, since
        ``mqadmin removeBroker`` takes no negative one.

        Args:
            wanted: as the operator writes it.
            id_now: the id that controllers have given a broker of this container; -1: none yet.

        Returns:
            Its identity; None if no broker of this container is meant.
        """
        if wanted in self._members:
            return wanted
        set_of = Identity(
            cluster=wanted.cluster, broker_name=wanted.broker_name, broker_id=CONTROLLED_ID
        )
        given = set_of in self._members and id_now(set_of) == wanted.broker_id
        return set_of if given else None

    def of_name(self, broker_name: str) -> tuple[Member, ...]:
        """The brokers of a set that are here, masters first."""
        found = [m for m in self.members if m.identity.broker_name == broker_name]
        return tuple(sorted(found, key=lambda m: m.kind is Kind.SLAVE))

    def peek_master(self, usable: Callable[[Member], bool]) -> Member | None:
        """The local master that takes what a slave here cannot store.

        RocketMQ takes some master in the order of a hash table, and does not ask how it is.

        Args:
            usable: whether a broker is master now and takes what is to be stored.

        Returns:
            The usable one that came first; None if none is.
        """
        masters = (m for m in self.members if m.kind is not Kind.SLAVE)
        return next((m for m in masters if usable(m)), None)
