"""What controllers agree on: broker ids, masters, epochs and SyncStateSets of every broker set.

State changes in one place, `Registry.apply`. Anyone who proposes a command looked at an older
state, so `apply` validates everything again. A command carries what was seen of the world when it
was proposed (who is alive); `apply` looks at nothing but the command and the state, so that every
controller that applies the same commands has the same state.

Where Java's rules lose a promise this follows docs/spec/controller-ha.md 2.9 instead: ids are
handed out strictly in order and never twice, and a first election takes only a registered, living
broker. Claims: S1, S2, S3, S5. Sources: RocketMQ ``ReplicasInfoManager``,
apache/rocketmq:docs/en/controller/persistent_unique_broker_id.md.
"""

from dataclasses import dataclass, field

import msgspec

from maxq.reference.controller import election
from maxq.reference.records import (
    BrokerId,
    MasterEpoch,
    Record,
    RemoteProtocolError,
    invariant,
    some,
)
from maxq.reference.wire.codes import ResponseCode


class ApplyBrokerId(Record):
    """Claim an id for a broker that has none; `check_code` proves a repeated claim is its own."""

    cluster: str
    broker_set: str
    broker_id: BrokerId
    check_code: str
    address: str


class RegisterBroker(Record):
    """A broker that owns an id is now at `address`. `rival`: where the proposer saw another living
    owner of it; empty if it saw none."""

    cluster: str
    broker_set: str
    broker_id: BrokerId
    address: str
    rival: str = ""


class ElectMaster(Record):
    """Choose a master. `preferred` is a broker that wants to be it, or None for any; `designate`
    is an operator's word that it must be that one. `alive` was seen by the proposer, `unclean` is
    its setting: both are part of the command, so that every controller decides alike."""

    broker_set: str
    preferred: BrokerId | None
    designate: bool
    alive: tuple[election.Candidate, ...]
    unclean: bool = False


class AlterSyncStateSet(Record):
    """A master's wish for another SyncStateSet, by the epochs that it believes in."""

    broker_set: str
    master: BrokerId
    master_epoch: int
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    alive: tuple[int, ...]  # seen by the proposer


class CleanBrokerData(Record):
    """An operator's order to forget brokers of a set, or the whole set if `ids` is None. Only the
    dead, unless `living` is set."""

    broker_set: str
    ids: tuple[int, ...] | None
    living: bool
    alive: tuple[int, ...]


Command = ApplyBrokerId | RegisterBroker | ElectMaster | AlterSyncStateSet | CleanBrokerData


class Result(Record):
    """How a command ended: a response code and, for what went wrong, a remark."""

    code: ResponseCode
    remark: str = ""


OK = Result(code=ResponseCode.SUCCESS)


class Replica(msgspec.Struct):
    """One registered broker."""

    address: str
    check_code: str


@dataclass(slots=True)
class BrokerSet:
    """Everything known of one broker set."""

    cluster: str
    name: str
    next_broker_id: int = 1  # never decreases: an id is handed out once
    replicas: dict[int, Replica] = field(default_factory=dict)
    master: int | None = None
    master_epoch: int = 0
    sync_state_set: tuple[int, ...] = ()  # ascending
    sync_state_set_epoch: int = 0

    @property
    def master_address(self) -> str | None:
        replica = None if self.master is None else self.replicas.get(self.master)
        return None if replica is None else replica.address


class Registry:
    """All broker sets by name. Cluster names are carried, not part of the key, as in RocketMQ."""

    def __init__(self, sets: dict[str, BrokerSet] | None = None) -> None:
        self.sets = {} if sets is None else sets

    def next_broker_id(self, broker_set: str) -> int:
        """The id that the next new broker of a set should claim; 1 for an unknown set."""
        known = self.sets.get(broker_set)
        return 1 if known is None else known.next_broker_id

    def apply(self, command: Command) -> Result:
        """Change the state by one command, or say why not. The only way to change it."""
        match command:
            case ApplyBrokerId():
                return self._apply_broker_id(command)
            case RegisterBroker():
                return self._register(command)
            case ElectMaster():
                return self._elect(command)
            case AlterSyncStateSet():
                return self._alter(command)
            case CleanBrokerData():
                return self._clean(command)

    def _apply_broker_id(self, c: ApplyBrokerId) -> Result:
        if not c.check_code:  # two claims without a code would pass for one
            why = "a claim needs a check code"
            return Result(code=ResponseCode.CONTROLLER_INVALID_REQUEST, remark=why)
        known = self.sets.get(c.broker_set)
        owner = None if known is None else known.replicas.get(c.broker_id)
        if owner is not None and owner.check_code == c.check_code:
            return OK  # the answer to its first claim was lost
        if owner is not None or c.broker_id != self.next_broker_id(c.broker_set):
            why = f"broker id {c.broker_id} is not the next id of {c.broker_set}"
            return Result(code=ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark=why)
        if known is None:
            known = self.sets[c.broker_set] = BrokerSet(c.cluster, c.broker_set)
        known.replicas[c.broker_id] = Replica(c.address, c.check_code)
        known.next_broker_id = c.broker_id + 1
        return OK

    def _register(self, c: RegisterBroker) -> Result:
        known = self.sets.get(c.broker_set)
        if known is None or c.broker_id not in known.replicas:
            why = f"broker {c.broker_set}:{c.broker_id} must apply for an id first"
            return Result(code=ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark=why)
        if c.rival:
            why = f"broker id {c.broker_id} of {c.broker_set} is that of {c.rival}, which is alive"
            return Result(code=ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark=why)
        known.replicas[c.broker_id].address = c.address
        return OK

    def _elect(self, c: ElectMaster) -> Result:
        known = self.sets.get(c.broker_set)
        if known is None:
            return Result(
                code=ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
                remark=f"unknown broker set {c.broker_set}",
            )
        # A master that asks for itself was restarted, and needs an epoch of its own: its log may
        # lack what it had sent. It is chosen like any other then.
        again = known.master is not None and c.preferred == known.master and not c.designate
        chosen = election.choose(
            registered=tuple(sorted(known.replicas)),
            # Before the first election there is no SyncStateSet: any registered broker may win.
            sync_state_set=known.sync_state_set if known.master_epoch else None,
            alive=c.alive,
            old_master=None if again else known.master,
            preferred=c.preferred,
            designate=c.designate,
            unclean=c.unclean,
        )
        if chosen is None:
            code = ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
            if c.preferred is None:
                code = ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
            return Result(code=code, remark=f"no replica of {c.broker_set} may be master now")
        if chosen == known.master and not again:
            return Result(
                code=ResponseCode.CONTROLLER_MASTER_STILL_EXIST,
                remark=f"master of {c.broker_set} is {chosen} already",
            )
        invariant(chosen in known.replicas, "S5: a master is registered", chosen=chosen)
        known.master = chosen
        known.master_epoch = MasterEpoch(known.master_epoch + 1)
        known.sync_state_set = (chosen,)
        known.sync_state_set_epoch += 1
        return OK

    def _alter(self, c: AlterSyncStateSet) -> Result:
        known = self.sets.get(c.broker_set)
        members = tuple(sorted(set(c.sync_state_set)))
        fault = _alter_fault(known, c, members)
        if fault is not None:
            return fault
        known = some(known, "a change without fault is of a known set")
        known.sync_state_set = members
        known.sync_state_set_epoch += 1
        return OK

    def _clean(self, c: CleanBrokerData) -> Result:
        known = self.sets.get(c.broker_set)
        if known is None:
            return _not_cleaned(f"unknown broker set {c.broker_set}")
        if not c.living:
            if c.ids is None and known.master is not None:
                return _not_cleaned(f"{c.broker_set} has a master")
            if any(i in c.alive for i in c.ids or ()):
                return _not_cleaned("a broker to be cleaned is alive")
        gone = set(known.replicas) if c.ids is None else set(c.ids)
        # The set itself stays, also empty: it remembers which ids and epochs were given out.
        known.replicas = {i: r for i, r in known.replicas.items() if i not in gone}
        known.sync_state_set = tuple(i for i in known.sync_state_set if i not in gone)
        if known.master in gone:
            known.master = None
        return OK


def _not_cleaned(why: str) -> Result:
    return Result(code=ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, remark=why)


def _alter_fault(
    known: BrokerSet | None, c: AlterSyncStateSet, members: tuple[int, ...]
) -> Result | None:
    """Why a SyncStateSet may not be changed, in RocketMQ's order of checks."""
    failed = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
    if known is None:
        return Result(code=failed, remark=f"unknown broker set {c.broker_set}")
    unregistered = [i for i in members if i not in known.replicas]
    dead = [i for i in members if i not in c.alive]
    checks = (
        (members == known.sync_state_set, failed, "the set is this one already"),
        (known.master != c.master, ResponseCode.CONTROLLER_INVALID_MASTER,
         f"the master is {known.master}, not {c.master}"),
        (known.master_epoch != c.master_epoch, ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
         f"the master epoch is {known.master_epoch}, not {c.master_epoch}"),
        (known.sync_state_set_epoch != c.sync_state_set_epoch,
         ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
         f"the set's epoch is {known.sync_state_set_epoch}, not {c.sync_state_set_epoch}"),
        (bool(unregistered), ResponseCode.CONTROLLER_INVALID_REPLICAS,
         f"not registered: {unregistered}"),
        (bool(dead), ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, f"not alive: {dead}"),
        (c.master not in members, failed, "the set lacks its master"),
    )  # fmt: skip
    for broken, code, remark in checks:
        if broken:
            return Result(code=code, remark=remark)
    return None


VERSION = 1


class _Snapshot(msgspec.Struct):
    version: int  # of this format
    sets: dict[str, BrokerSet]


def to_bytes(registry: Registry) -> bytes:
    """Write the whole state."""
    return msgspec.json.encode(_Snapshot(VERSION, registry.sets))


def from_bytes(data: bytes) -> Registry:
    """Read the whole state.

    Raises:
        RemoteProtocolError: torn, of another version, or a state that `apply` never makes.
    """
    try:
        snapshot = msgspec.json.decode(data, type=_Snapshot)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"not a controller's state: {error}") from None
    if snapshot.version != VERSION:
        raise RemoteProtocolError(f"state of version {snapshot.version}, not {VERSION}")
    for name, known in snapshot.sets.items():
        if not _is_sound(name, known):
            raise RemoteProtocolError(f"impossible state of broker set {name}")
    return Registry(snapshot.sets)


def _is_sound(name: str, known: BrokerSet) -> bool:
    """Whether a stored set keeps what every command keeps: ids below the next one, one master."""
    ids, members = set(known.replicas), known.sync_state_set
    return (
        known.name == name
        and ids <= set(range(1, known.next_broker_id))
        and all(replica.check_code for replica in known.replicas.values())
        and list(members) == sorted(set(members) & ids)
        and (known.master is None or known.master_epoch > 0)
        and (known.master is None or known.master in members)
    )


_commands = msgspec.msgpack.Decoder(Command)


def encode_command(command: Command) -> bytes:
    """Write a command for the log."""
    return msgspec.msgpack.encode(command)


class Machine:
    """The registry as the state machine of a Raft group."""

    def __init__(self) -> None:
        self.registry = Registry()

    def apply(self, index: int, command: bytes) -> Result:
        """Apply a committed command."""
        return self.registry.apply(_commands.decode(command))

    def refuses(self, command: bytes) -> str:
        """Why a command cannot be read."""
        try:
            _commands.decode(command)
        except msgspec.MsgspecError as error:
            return str(error)
        return ""

    def refuses_snapshot(self, data: bytes) -> str:
        """Why a snapshot cannot be read."""
        try:
            from_bytes(data)
        except RemoteProtocolError as error:
            return str(error)
        return ""

    def snapshot(self) -> bytes:
        return to_bytes(self.registry)

    def restore(self, data: bytes) -> None:
        self.registry = from_bytes(data)
