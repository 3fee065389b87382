"""What observers write into a history beside clients: the values of their operations.

Observers are integer processes of their own that ask one node one question an operation and never
change anything; a question without an answer is `fail`. Each class below is the value of one kind
of `ok` completion; the invocation's value is ``{"node": name}``.

    observe-controller   ControllerView   what a controller holds of every broker set
    observe-replica      ReplicaView      what a broker says of itself
    observe-route        RouteView        what a name server answers to clients
    observe-disk         DiskView         what a broker's log and queues take of its partition
    await-recovery       of the nemesis: whether all was back; ext ``late-ms``: how late the harness
                         itself was woken, by quantile (``p50``, ``p99``, ``max``), and how often
                         it was (``wakes``)
    await-level          {"level": bool}  after heal and drain: whether all replicas of each set
                                          had the same and were in sync, or the bound was over
    replica-log          ReplicaLog       then: one epoch of one replica's log

Some workloads have operations whose shapes are not a log's:

    acquire, renew, release   value: the key (int), a queue. `ok`: granted, prolonged, given back.
        `fail`: certainly not held by this process because of this operation. A process is one
        client; its group is the workload's. ext: ``broker`` (``ip:port`` that answered). Keys from
        1000 on (`ORDERED_KEYS`) are of the workload ordered, whose clients ask whom routes show.
    send-flood      [queue, message]. `ok`: the master has it. ext: ``node``, the broker set, and
        ``broker``. Queue 0 is that of the broker set that is flooded; the others get a few.
    probe      {"key", "value", "offset"}; ok the same: the message that a probe had sent, after the
        last heal, was read back at its offset. Such sends have ``"probe": true`` in their ext.
    commit-offset   [key, offset]: the consumer group of process `key` has read so far. `ok`: its
        master has taken note. ext: ``broker``.
    fetch-offset    key; ok: [key, offset], 0 for none. ext: ``broker``.
    send-delayed    [message, delay], in ms. `ok`: the master has it. ext: ``node``, the broker set.
    read-delayed    queue; ok: [message …]; ext: ``end``: all that is there is read; ``gap``: the
        broker has deleted what was not read.
    send-ordered    [key, message]. `ok`: the master has it. ext: ``node``, ``broker``.
    read-ordered    key; ok: [[offset, message] …], read by who holds the key's lock. ext: ``node``,
        the broker set, and ``broker``.
    commit-ordered  [key, offset]: who holds the key's lock has read so far. `ok`: taken note of.
    send-half       [message, decision, when]: the half of a transaction that its producers commit,
        roll back or leave open (``none``), and when its end is sent: ``soon``, ``late``, or never
        (``silent``, ``dies``). `ok`: the master has it. ext: ``node``, the broker set.
    end-transaction    [message, decision]. `ok`: a master says that it is done; `fail`: this end
        has done nothing.
    read-transactions  as ``read-delayed``.
    apply-id   {"set", "code"}; ok adds "id": an applicant with a register code of its own was
        registered under an id.
    join       {"node"}; ok: {"node", "set", "id"}: a broker came up and is registered.
    leave, kill-broker, change-address   {"node"}; ok the same: it went, or came back elsewhere.
    add-broker, remove-broker   {"broker"}, the first maybe with "clash": which port its file shares
        with a neighbour. `ok`: the container answered, whatever it said; adds "code", "remark",
        "listed" (name server -> the nodes that it lists), "ports" (what is met at each port of the
        broker, but for those of neighbours) and "beside" (the brokers that the container was
        started with), as seen right after the answer. One that was added has "held", if it
        answered: all messages in it after one more was sent, each as ``<broker>/<time of the op>``.
    wipe       {"node"}; ok the same: its store is removed on purpose. Here ends the claim that an
        id survives; that no id is given out twice holds on.

Ids are the controller's persistent ones, from 1; offsets are bytes of the commit log, ends
exclusive. Source: docs/spec/controller-ha.md 6.6, docs/spec/history-format.md 12.2.
"""

from operator import is_
from typing import Any, Final, TypeVar

import msgspec

from maxq.histories import fault_facts
from maxq.histories.op import HistoryError, Op

OBSERVE_CONTROLLER, OBSERVE_REPLICA, OBSERVE_ROUTE = (
    "observe-controller",
    "observe-replica",
    "observe-route",
)
OBSERVE_DISK = "observe-disk"
AWAIT_LEVEL, REPLICA_LOG, LATE_MS = "await-level", "replica-log", "late-ms"
COMMIT_OFFSET, FETCH_OFFSET = "commit-offset", "fetch-offset"
SEND_DELAYED, READ_DELAYED = "send-delayed", "read-delayed"
SEND_DELAYED_ALONE = "send-delayed-alone"  # of a topic that one broker set has
SEND_ORDERED, READ_ORDERED = "send-ordered", "read-ordered"
SEND_FLOOD = "send-flood"
COMMIT_ORDERED = "commit-ordered"
ORDERED_KEYS = 1000  # from here on keys of locks are those of the workload ordered
# How often its clients read routes, and after what time a holder renews its lock.
ROUTE_NS, RENEW_NS = 1_000_000_000, 1_000_000_000
SEND_HALF, END_TRANSACTION, READ_TRANSACTIONS = "send-half", "end-transaction", "read-transactions"
COMMIT: Final = "commit"  # what producers may decide
ROLL_BACK: Final = "roll-back"
OPEN: Final = "none"
LATE = "late"  # of an end: nobody knows the decision before `LATE_NS` have passed
LATE_NS = 8_000_000_000
# Of a probe after the last heal: its sends have this in their ext, its reads are of this kind.
PROBE_READ = PROBED = "probe"
# Of a topic that a run makes after its begin: an operator makes it, and after the last heal brokers
# are asked for it.
CREATE_TOPIC, FIND_TOPIC = "create-topic", "find-topic"
# Ext of an ok send to a topic that came into being during the run: its process's first one there.
NEW_TOPIC = "new-topic"
# Ext of a poll: the master does not know the topic of that key, of which its process has read.
FORGOTTEN_TOPIC = "forgotten-topic"
PROBE_STREAK = 3  # so often in a row: chance seldom makes three of three of one in seventy
# Replicas copy offsets every 10 to 13 s, and as much again (docs/spec/controller-ha.md 6.4 (H17)).
COPIED_NS = 30_000_000_000
FINAL = "final"  # ext of what a client of the workload offsets asks at the end: its thread
# A process reads these keys from now on, and forgets what it knew of all others; with `SEEK` beside
# them it reads them from their beginning (docs/spec/history-format.md 12.1).
ASSIGNMENTS = frozenset(("assign", "subscribe"))
SEEK = "seek-to-beginning?"
ACQUIRE, RENEW, RELEASE = "acquire", "renew", "release"
NOT_GRANTED = "not-granted"  # error of an acquire or renew of which the broker said no
APPLY_ID, JOIN, LEAVE = "apply-id", "join", "leave"
ADD_BROKER, REMOVE_BROKER = fault_facts.ADD_BROKER, fault_facts.REMOVE_BROKER  # of operators too
GRANTED = "granted"
# What clients say themselves where no broker was asked, for people.
UNASKED = {
    "no-route": "no route", "not-writable": "the routes let nobody write",
    "not-readable": "the routes let nobody read",
}  # fmt: skip
# ext: who was asked (``ip:port``), and whether as a slave, as routes list no master or it was
# suggested; of what did not succeed, the code of the answer, if there was one, and whether who was
# asked was so whatever routes say.
BROKER, SLAVE, CODE, PINNED = "broker", "slave", "code", "pinned"
RETRY = "retry"  # ext of a send: which try of its message it is, from 1 on; the first has none
WRITE = 2  # bit of a topic's permission, as RocketMQ has it
MASTER_ROLE = "0"  # the role id of a master in routes
WIPE = fault_facts.WIPE  # of clients as of the nemesis
# Operations of Max-Q's that change nothing of a log, a lock or a register that a model judges.
BESIDE = frozenset((
    OBSERVE_CONTROLLER, OBSERVE_REPLICA, OBSERVE_ROUTE, REPLICA_LOG, PROBED, COMMIT_OFFSET,
    FETCH_OFFSET, SEND_DELAYED, SEND_DELAYED_ALONE, READ_DELAYED, SEND_ORDERED, READ_ORDERED,
    COMMIT_ORDERED, SEND_HALF, END_TRANSACTION, READ_TRANSACTIONS, APPLY_ID, JOIN, LEAVE, WIPE,
    ADD_BROKER, REMOVE_BROKER, OBSERVE_DISK, SEND_FLOOD,
))  # fmt: skip
DIGEST_BYTES = 65_536  # of log under each digest of a `ReplicaLog`


class SetView(msgspec.Struct, frozen=True, kw_only=True):
    """One broker set, as a controller holds it. No master: `master` is None."""

    master: int | None
    master_address: str
    master_epoch: int
    sync_state_set: tuple[int, ...]  # ascending
    sync_state_set_epoch: int
    replicas: dict[str, str]  # id, in decimal -> ip:port of every registered broker


class Grant(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What a controller answered to an order to elect: the state that the election made. It stands
    in the proof of `elect-master`, under `GRANTED`."""

    set: str
    master: int
    master_epoch: int
    sync_state_set_epoch: int


class AddressedSet(msgspec.Struct, frozen=True, kw_only=True):
    """One broker set, as a controller of 5.0.0 or 5.1.0 holds it, which knows brokers by their
    addresses. No master: its address is empty."""

    master_address: str
    master_epoch: int
    sync_state_set: tuple[str, ...]  # ip:port of its members, ascending
    sync_state_set_epoch: int


class ControllerView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A controller's answer; only one that leads gives it. `by_address` are sets of which it
    reports no ids; histories of older versions left them out."""

    node: str
    sets: dict[str, SetView]
    by_address: dict[str, AddressedSet] = {}


class EpochView(msgspec.Struct, frozen=True, array_like=True):
    """An epoch of a replica's list: its bytes are ``[start, end)``; the last one ends at the end
    of the log."""

    epoch: int
    start: int
    end: int


class ReplicaView(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's answer. `id` is what its identity file says; None before it has one. `leads`,
    `epochs` and `end` are of one instant, `confirmed` of another one soon after."""

    node: str
    set: str
    address: str
    id: int | None
    leads: bool  # it calls itself master, in the last of its epochs
    epochs: tuple[EpochView, ...]
    end: int
    confirmed: int | None  # confirmOffset, where it is published
    acting: bool | msgspec.UnsetType = msgspec.UNSET  # of brokers without controllers
    isolated: bool | msgspec.UnsetType = msgspec.UNSET  # of the same: it is not in its group yet
    copying: bool | msgspec.UnsetType = msgspec.UNSET  # of their slaves: the master's log is copied
    # Of the same: delay level, in decimal -> how far its queue is delivered, and where it ends.
    delays: dict[str, tuple[int, int]] | msgspec.UnsetType = msgspec.UNSET


class RouteView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A name server's answer: broker set -> role id, in decimal (0: master) -> ip:port.

    `perms` is what it answers right after that to a question for the route of one of the run's
    topics: topic -> broker set -> permission of the topic's queues there (2: write, 4: read, both
    6, as RocketMQ has them). Of a topic without a route it is empty; a topic that got no answer is
    left out. None: not asked, as in histories of older versions.

    `shown` are the addresses of the same answers, topic -> broker set -> role id -> ip:port, where
    they are others than in `sets`, which is its raw table (106). `groups` is what it answers last
    (901): the raw group, of broker sets that have no master in `sets`, are shown otherwise or may
    not be written to. A group that is there as it was before the routes were asked for has stayed
    so, but for one that changed twice in between. `acting` are the broker sets that know acting
    masters (enableActingMaster), by every answer.
    """

    node: str
    sets: dict[str, dict[str, str]]
    perms: dict[str, dict[str, int]] | None = None
    shown: dict[str, dict[str, dict[str, str]]] = {}
    groups: dict[str, dict[str, str]] = {}
    acting: tuple[str, ...] = ()


class ReplicaLog(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of one epoch in one replica's store, at rest; epoch 0 is what its list labels not.

    `digests` are SHA-256 in hex of each 64 KiB of ``[start, end)``, the last one of what is left.
    `records` are the messages of the run's own topics in it, each ``[key, queue offset, value]``.
    Where the log begins within the epoch, since its first files are deleted, `begun` is the byte at
    which the epoch began.
    """

    node: str
    set: str
    id: int | None
    epoch: int
    start: int
    end: int
    last: bool  # the newest epoch of this replica
    digests: tuple[str, ...]
    records: tuple[tuple[int, int, Any], ...] = ()
    begun: int | msgspec.UnsetType = msgspec.UNSET


class Share(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What a broker may take of its partition, as it is set up.

    At rest it is `threshold` of the `part`. It looks every `every_ms`, from `first_ms` after its
    start on. A file of its log has `file_bytes`, and so many are made `ahead`. What is younger than
    `reserved_ms` goes for no other reason.
    """

    part: float
    threshold: float
    every_ms: int
    first_ms: int
    file_bytes: int
    ahead: int
    reserved_ms: int


class DiskView(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker's machine has of it: the files of its log and queues, at full size.

    `used` are their bytes, `made` those of all that there ever were: in each folder up to the end
    of the newest. `start` is the byte of the log with which the oldest file begins, `end` where the
    newest ends. The `partition` has so many bytes, full or not.
    """

    node: str
    set: str
    used: int
    made: int
    start: int
    end: int
    partition: int
    share: Share


T = TypeVar("T", ControllerView, ReplicaView, RouteView, ReplicaLog, DiskView)


# What was decoded last, by the identity of the value, which is held here so that it stays its own.
# Equal answers share one value where a table was read, and several checkers ask for the same ones.
_decoded: dict[int, tuple[Any, Any]] = {}
_DECODED_MAX = 1024
_LONG = 8  # epochs; shorter lists are converted as a whole


def decoded(op: Op, kind: type[T]) -> T:
    """The value of an `ok` completion.

    Raises:
        HistoryError: it has another shape.
    """
    before = _decoded.get(id(op.value))
    if before is not None and before[0] is op.value and type(before[1]) is kind:
        return before[1]
    try:
        view = _replica(op.value) if kind is ReplicaView else msgspec.convert(op.value, kind)
    except msgspec.ValidationError as error:
        raise HistoryError(f"value of {op.index} is no {kind.__name__}: {error}") from None
    if len(_decoded) >= _DECODED_MAX:
        _decoded.clear()
    _decoded[id(op.value)] = op.value, view
    return view


# The last list of epochs of each broker, and its views.
_lists: dict[str, tuple[list[Any], tuple[EpochView, ...]]] = {}


def _replica(value: Any) -> Any:
    """A broker's answer; epochs that it shares with its last one are converted once
    (`maxq.histories.text.Grown`)."""
    node, epochs = (value.get("node"), value.get("epochs")) if type(value) is dict else (None, None)
    if type(node) is not str or type(epochs) is not list or len(epochs) < _LONG:
        return msgspec.convert(value, ReplicaView)
    before, views = _lists.get(node, ([], ()))
    same = max(min(len(before), len(epochs)) - 1, 0)
    if not all(map(is_, before[:same], epochs)):
        same = 0
    try:
        rest = msgspec.convert({**value, "epochs": epochs[same:]}, ReplicaView)
    except msgspec.ValidationError:
        return msgspec.convert(value, ReplicaView)  # names the place in the whole list
    view = msgspec.structs.replace(rest, epochs=views[:same] + rest.epochs)
    if len(_lists) >= _DECODED_MAX:
        _lists.clear()
    _lists[node] = epochs, view.epochs
    return view


def refused(op: Op) -> bool:
    """Whether a lock was asked for that another client has: it is not granted, which is what it is
    there for, and no failure."""
    return op.type == "fail" and op.f in (ACQUIRE, RENEW) and op.error == NOT_GRANTED


def encoded(
    view: ControllerView | ReplicaView | RouteView | ReplicaLog | DiskView | Grant,
) -> dict[str, Any]:
    """A view as the value of an operation: plain values."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(view))
    return plain
