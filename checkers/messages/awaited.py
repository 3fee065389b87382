"""Messages that come later, at whatever broker set: reads of all queues, and where all were read.

A message that waits at a master that is gone comes at another set. So who looks for it reads every
queue of every set, and only once each of them was read to its end after a time is it known that the
message did not come by then.

A delayed message that a slave of a container could not store goes to a master of its own container,
if one can take it (B12, docs/spec/acting-master.md 2.6); another set is asked only if none can. A
delivered message names the set that stored it. Judged is one that the master had acknowledged, and
that was read from another set in the quiet period right after the master went. The whole set had
been undisturbed since before the send, so nobody else stored it; the masters in the slave's
container, the slave and the name servers for the recovery bound before that period, and in it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from maxq.checkers.core.api import Context
from maxq.checkers.core.promises import ACTS, ESCAPES, unfulfilled
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.quiescence import Lull, Undisturbed, calm
from maxq.histories.fault_facts import AWAIT_RECOVERY
from maxq.histories.history import History
from maxq.histories.op import HistoryError, Op

GRACE_NS = 10_000_000_000  # after all is as it should be, a message that is due has come
PAIR_OF = 2  # replicas of a set whose slave has what was acknowledged, whoever it is


class Read(NamedTuple):
    """A read of a queue: indices and times of begin and end, and whether it reached the end."""

    queue: int
    begun: int
    begun_ns: int
    op: Op
    ended: bool

    @property
    def gap(self) -> bool:
        """Whether the broker had deleted what was not read yet."""
        return says(self.op, "gap")

    @property
    def values(self) -> list[int]:
        """The messages that it found."""
        return [number(v) for v in self.op.value] if isinstance(self.op.value, list) else []


def read_of(start: Op, op: Op) -> Read:
    """A completed read."""
    return Read(number(start.value), start.index, start.time, op, says(op, "end"))


def number(value: object) -> int:
    """A value that has to be a number.

    Raises:
        HistoryError: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise HistoryError(f"no number: {value!r:.80}")
    return value


def says(op: Op, key: str) -> bool:
    """Whether an operation's ext has a key."""
    return bool((op.ext or {}).get(key))


def all_are_read(history: History, reads: Sequence[Read], due_ns: int, grace_ns: int) -> bool:
    """Whether at the end, so long after a time and after all had recovered, every queue was read to
    its end, and nothing had been deleted before it was read."""
    looks = [op for op in history.nemesis if op.f == AWAIT_RECOVERY]
    if not looks or not reads or any(read.gap for read in reads):
        return False
    settled = max(due_ns, looks[-1].time) + grace_ns
    ended = {read.queue for read in reads if read.ended and read.begun_ns >= settled}
    return ended == {read.queue for read in reads}


def acted_for(lull: Lull, context: Context) -> Iterator[str]:
    """The sets of two of which only the master is gone, while another set runs as a whole, all name
    servers do and nobody is doubtful or cut off; none where settings have nobody move messages."""
    if unfulfilled((ACTS, ESCAPES), context.settings or {}):
        return
    s, sets = lull.state, context.broker_sets
    known = not (s.doubtful or s.cuts or lull.time.doubt)
    if not known or any(node.startswith("n") for node in s.gone):
        return
    whole = {name for name, nodes in sets.items() if not s.gone & set(nodes)}
    for name, nodes in sorted(sets.items()):
        if len(nodes) == PAIR_OF and s.gone & set(nodes) == {nodes[0]} and whole - {name}:
            yield name


def all_read(reads: Sequence[Read], lull: Lull, by_ns: int) -> Read | None:
    """The read of a lull with which every queue was read to its end after a time."""
    queues = {read.queue for read in reads}
    for read in reads:
        inside = lull.time.holds(read.begun, read.op.index)
        if inside and read.ended and read.begun_ns >= by_ns:
            queues.discard(read.queue)
            if not queues:
                return read
    return None


# By a slave in a container.


class Escape(NamedTuple):
    """A quiet period in which the slave of a set acts beside masters of other sets: from when on
    (index) its set had been undisturbed, and the sets of those masters."""

    lull: Lull
    set: str
    since: int
    local: frozenset[str]


def escapes(history: History, context: Context) -> Iterator[Escape]:
    """The quiet periods in which a slave had a usable master beside it, and another set had one
    elsewhere."""
    if unfulfilled((ACTS,), context.settings or {}):
        return
    acts = [act for act in faults(history) if act.kind != "question"]
    undisturbed = Undisturbed(acts)
    ended = {act.ended: act for act in acts if act.ended is not None}
    namesrvs = [node for node in undisturbed.named if node.startswith("n")]
    for lull in calm(history):
        act = ended.get(lull.time.at)
        for name, nodes in sorted(context.broker_sets.items()):
            gone = len(nodes) == PAIR_OF and lull.state.gone.intersection(nodes) == {nodes[0]}
            if act is None or nodes[0] not in act.nodes or not gone:
                continue
            masters = {n: s[0] for n, s in context.broker_sets.items()
                       if n != name and s[0] not in lull.state.gone}  # fmt: skip
            inside = next((c for c in context.containers.values() if nodes[1] in c), ())
            local = {n for n, master in masters.items() if master in inside}
            beside = [nodes[1], *(masters[n] for n in local), *namesrvs]
            since = _since(undisturbed, nodes, act)
            if since is None or not 0 < len(local) < len(masters):
                continue
            if _ready(undisturbed, beside, act, lull, context.recovery_ns):
                yield Escape(lull, name, since, frozenset(local))


def _since(undisturbed: Undisturbed, nodes: Sequence[str], act: Fault) -> int | None:
    """Since when a set had been undisturbed until an act; None: it was not."""
    span = undisturbed.of(nodes).at(act.begun - 1)
    return None if span is None or span.until != act.begun else span.at


def _ready(
    undisturbed: Undisturbed, nodes: Sequence[str], act: Fault, lull: Lull, bound_ns: int
) -> bool:
    """Whether nodes were undisturbed for the bound before an act and in the quiet period after."""
    span = undisturbed.of(nodes).at(act.begun)
    rested = span is not None and (span.at < 0 or act.begun_ns - span.at_ns >= bound_ns)
    return rested and span is not None and span.until >= lull.time.until
