"""Copies: a pair's master acknowledges what is on as many logs as the settings say, and nobody else
acknowledges anything.

A slave's log only grows. So a slave that was asked after an acknowledgement, and whose log ended
before the message then, did not have it when it was acknowledged. Where so many slaves are found to
have lacked it that fewer logs are left than must have it, the master acknowledged too soon. A
message is looked at if every slave of its set was asked later; offsets are bytes of the commit log.

Sets judged one by one, and not at all where a slave's log was seen to get shorter.

Claims: A4, A8 (docs/spec/acting-master.md 8.3), of brokers without controllers.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.elements import node_of
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.core.promises import copies
from maxq.checkers.evidence.observations import Sighting, replica_sightings
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.history import History
from maxq.histories.observed import ReplicaView

Said = Sighting[ReplicaView]


class Acked(NamedTuple):
    """An acknowledged message: its completion, its first byte, and the queue."""

    at: int
    byte: int
    broker: object


class Slaves(NamedTuple):
    """What each slave of each set said, in order of the questions, and how many copies a message
    must have."""

    said: Mapping[str, Mapping[str, Sequence[Said]]]
    needed: int
    replicas: Mapping[str, int]
    addresses: frozenset[str]  # of brokers that never said that they lead


class SetCopies(NamedTuple):
    """What was found of one set, and how many messages were looked at."""

    found: list[Found]
    looked: int
    answers: int = 0


class Copies(KeyedChecker):
    """The checker. See the module's text."""

    name = "copies"
    claims = ("A4", "A8")
    reads = frozenset(("send",))

    def prepare(self, history: History, context: Context) -> Slaves:
        said: dict[str, dict[str, list[Said]]] = defaultdict(lambda: defaultdict(list))
        # A master that has just started may not lead yet, and is no slave for that.
        masters = {nodes[0] for nodes in context.broker_sets.values()}
        for s in sorted(replica_sightings(history), key=lambda s: s.begun):
            if not s.view.leads and s.view.node not in masters:
                said[s.view.set][s.view.node].append(s)
        plain = {name: dict(of) for name, of in said.items()}
        replicas = {name: len(nodes) for name, nodes in context.broker_sets.items()}
        views = [s.view for s in replica_sightings(history)]
        led = {v.address for v in views if v.leads or v.node in masters}
        slaves = {v.address for v in views} - led
        needed = copies(context.settings or {})
        return Slaves(plain, needed, replicas, frozenset(slaves))

    def rows(self, event: Event, known: Slaves) -> Iterator[tuple[str, Acked]]:
        op = event.op
        byte = (op.ext or {}).get("byte")
        if op.type == "ok" and isinstance(byte, int):
            ext = op.ext or {}
            yield str(node_of(ext)), Acked(op.index, byte, ext.get("broker"))

    def judge(
        self, key: str, rows: Sequence[Acked], known: Slaves, more: object = None
    ) -> SetCopies:
        taken = [_taken(key, m) for m in rows if m.broker in known.addresses]
        copied = self._copied(key, rows, known)
        return SetCopies([*taken, *copied.found], copied.looked, len(rows))

    def _copied(self, key: str, rows: Sequence[Acked], known: Slaves) -> SetCopies:
        slaves = known.said.get(key, {})
        slaves_of_set = known.replicas.get(key, 0) - 1
        shrunk = any(
            b.view.end < a.view.end and b.begun > a.at
            for said in slaves.values()
            for a, b in pairwise(said)
        )
        if known.needed < 2 or len(slaves) < slaves_of_set or slaves_of_set < 1 or shrunk:
            return SetCopies([], 0)
        found: list[Found] = []
        looked = 0
        for m in rows:
            later = [s for s in (_next(said, m.at) for said in slaves.values()) if s is not None]
            if len(later) < slaves_of_set:
                continue
            looked += 1
            lacking = [s for s in later if s.view.end <= m.byte]
            if 1 + slaves_of_set - len(lacking) < known.needed:
                found.append(_uncopied(key, m, lacking, known.needed))
        return SetCopies(found, looked)

    def conclude(
        self,
        history: History,
        context: Context,
        known: Slaves,
        results: Mapping[str, SetCopies],
    ) -> Verdict:
        case = Case(found=[f for of in results.values() for f in of.found])
        looked = sum(of.looked for of in results.values())
        case.judged = {"A4": sum(of.answers for of in results.values()), "A8": looked}
        case.counts = {"messages-looked-at": looked}
        return rule(self, history, context, case)


def _taken(name: str, m: Acked) -> Found:
    said = (
        f"Broker set {name}: {m.broker}, a slave, acknowledged a message (op {m.at}). Its log is a "
        "copy of its master's, and now differs from it."
    )
    detail = {"set": name, "broker": m.broker, "byte": m.byte}
    return Found("A4", "slave-took-message", (m.at,), said, detail)


def _next(said: Sequence[Said], at: int) -> Said | None:
    """What a slave said first when it was asked after an operation."""
    place = bisect_left(said, at, key=lambda s: s.begun)
    return said[place] if place < len(said) else None


def _uncopied(name: str, m: Acked, lacking: Sequence[Said], needed: int) -> Found:
    ends = ", ".join(f"{s.view.node} ended at byte {s.view.end} (op {s.at})" for s in lacking)
    said = (
        f"Broker set {name}: the master acknowledged the message at byte {m.byte} (op {m.at}), "
        f"which must be on {needed} logs then. Asked after that, {ends}. Had the master been lost, "
        "an acknowledged message would have been."
    )
    detail = {
        "set": name,
        "broker": m.broker,
        "byte": m.byte,
        "ends": {s.view.node: s.view.end for s in lacking},
        "needed": needed,
    }
    return Found("A8", "acknowledged-uncopied", (m.at, *(s.at for s in lacking)), said, detail)
