"""How often something happened in a run, as far as it shows from outside.

A detector counts over `RunArtifacts`. Most look for one line of a log; the others follow a node's
log in order, where only what came before shows what a line means, or look at what observers
recorded. Wordings are those of 5.5.0, read in its source and in logs of runs.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import msgspec

from maxq.harness.known.run_artifacts import Event, RunArtifacts, once
from maxq.histories.observed import (
    OBSERVE_CONTROLLER,
    OBSERVE_REPLICA,
    ControllerView,
    EpochView,
    ReplicaView,
    decoded,
)
from maxq.histories.op import Op

Detector = Callable[[RunArtifacts], int]
STARTED = "Load AutoSwitch HA Service"
RUNNING = "change state to: RUNNING"
NOTIFIED = "Receive notifyBrokerRoleChanged request"
CAUGHT_UP = "has caught up, slaveMaxOffset"
ASKED = "Notify the syncStateSet has been changed into"
CHANGED = "SyncStateSet changed from"
POINT = "truncateOffset is"
CUT = "truncate dirty files to"
_EPOCH = re.compile(r"masterEpoch=(\d+)|new Epoch:(\d+)|newMasterEpoch=(\d+)")
_SETS = re.compile(r"\[([^\]]*)\]")
ENTRIES = re.compile(r"epoch=(\d+), startOffset=(\d+)")
_CAUGHT_UP = re.compile(r"The slave (\d+) .*confirmOffset: (\d+), epoch: (\d+)")


class Line(msgspec.Struct, frozen=True):
    """How many events of brokers, or decisions of controllers, have a text and match a pattern."""

    text: str
    also: str = ""
    by_controllers: bool = False

    def __call__(self, artifacts: RunArtifacts) -> int:
        if self.by_controllers:
            return artifacts.decided(self.count)
        return sum(self.count(log) for log in artifacts.brokers())

    def count(self, log: Sequence[Event]) -> int:
        """In one log."""
        also = re.compile(self.also)
        return sum(self.text in e.text and also.search(e.text) is not None for e in log)


def broker(text: str, also: str = "") -> Line:
    """Something that brokers write."""
    return Line(text, also)


def controller(text: str, also: str = "") -> Line:
    """Something that controllers write."""
    return Line(text, also, by_controllers=True)


def decision(name: str, code: int, also: str = "") -> Line:
    """The result of a request, by its name with DLedger and its code with jRaft."""
    asked = rf"(run event {name}, get the result|request code {code} success with result)"
    return controller(" result ControllerResult{", f"{asked}.*{also}")


def per_broker(count: Callable[[Sequence[Event]], int]) -> Detector:
    """A count of each broker's log, added up."""
    return lambda artifacts: sum(count(log) for log in artifacts.brokers())


def per_controller(count: Callable[[Sequence[Event]], int]) -> Detector:
    """A count of controllers' logs."""
    return lambda artifacts: artifacts.decided(count)


# Applications for an id.

_APPLIED = re.compile(
    r"ApplyBrokerIdEvent\{.*brokerName='([^']*)'.*registerCheckCode='([^']*)', newBrokerId=(\d+)"
)
_REFUSED = re.compile(r"ApplyBrokerIdResponseHeader\{.*brokerName='([^']*)'")
_APPLY = decision("applyBrokerId", 1013)
FIRST, SET_UNKNOWN, NEW, AGAIN, TAKEN = "first", "set unknown", "new", "again", "taken"


def applied(what: str) -> Detector:
    """Applications for an id that came to one of `FIRST` and the others."""
    return lambda artifacts: _applications(artifacts)[what]


def _applications(artifacts: RunArtifacts) -> Counter[str]:
    """What each came to. Leaders change, and each knows what all before it have applied."""
    reported = [e for log in artifacts.controllers() for e in log if _APPLY.count([e])]
    if artifacts.back_end == "jraft":  # each controller writes it
        reported = list(once(sorted(reported)))
    found: Counter[str] = Counter()
    codes: dict[str, dict[str, str]] = {}  # set, id, check code
    for event in sorted(reported):
        asked, refused = _APPLIED.search(event.text), _REFUSED.search(event.text)
        if asked is not None:
            name, code, number = asked.groups()
            ids = codes.setdefault(name, {})
            known = AGAIN if number in ids else NEW if ids else FIRST
            ids[number] = code
            found[known] += 1
        elif refused is not None:
            found[TAKEN if refused[1] in codes else SET_UNKNOWN] += 1
    return found


def no_candidate(log: Sequence[Event]) -> int:
    """Elections at the request of a broker or an operator that found no candidate. Of a set that
    they do not know controllers answer the same, and do not write that it failed."""
    failed = controller("Failed to elect a new master for broker").count(log)
    no_event = r"events=\[\], response=ElectMasterResponseHeader\{masterBrokerId=null"
    return min(failed, decision("electMaster", 1002, no_event).count(log))


# Roles.


def by_poll(role: str) -> Detector:
    """Changes to a role by a broker that was running and had been notified of no such epoch."""
    return per_broker(lambda log: _polled(log, f"Begin to change to {role}"))


def _polled(log: Sequence[Event], begin: str) -> int:
    running, notified, count = False, set[str](), 0
    for _, text in log:
        if STARTED in text or RUNNING in text:
            running, notified = RUNNING in text, set()
        elif NOTIFIED in text:
            notified.add(_epoch(text))
        elif begin in text and running and _epoch(text) not in notified:
            count += 1
    return count


def _epoch(text: str) -> str:
    found = _EPOCH.search(text)
    return next((g for g in found.groups() if g), "") if found else ""


# Truncation and epoch lists.


def cut_at_handshake(log: Sequence[Event]) -> int:
    """Handshakes in which a slave really cut its log, and not its masters' doing before them."""
    return _after_point(log, CUT)


def went_on(log: Sequence[Event]) -> int:
    """Handshakes that found a point from which a slave went on."""
    return _after_point(log, "change state to TRANSFER")


def _after_point(log: Sequence[Event], text: str) -> int:
    """How often something was written after a point was found and before the next handshake."""
    found, count = False, 0
    for event in log:
        if POINT in event.text:
            found = True
        elif found and text in event.text:
            found, count = False, count + 1
        elif "Receive handshake" in event.text or STARTED in event.text:
            found = False
    return count


def reloaded(log: Sequence[Event]) -> int:
    """Starts after the first in which a slave's first handshake had entries of its file."""
    starts, fresh, count = 0, False, 0
    for _, text in log:
        if STARTED in text:
            starts, fresh = starts + 1, True
        elif fresh and "local epoch entries is [EpochEntry" in text:
            count, fresh = count + (starts > 1), False
        elif fresh and "Slave local epochCache is empty" in text:
            fresh = False
    return count


def append_refused(*, by_epoch: bool) -> Detector:
    """Entries that a list refused: since its last one has as high an epoch, or begins as late."""

    def count(log: Sequence[Event]) -> int:
        lines = [e.text for e in log if "append failed" in e.text]
        pairs = [ENTRIES.findall(text) for text in lines]
        return sum((int(p[1][0]) >= int(p[0][0])) == by_epoch for p in pairs if len(p) == 2)

    return per_broker(count)


def _lists(
    artifacts: RunArtifacts,
) -> Iterator[tuple[tuple[EpochView, ...], tuple[EpochView, ...]]]:
    """Each broker's list, and the one that it reported next."""
    by_node: dict[str, list[tuple[EpochView, ...]]] = {}
    for op in artifacts.history.of_f(OBSERVE_REPLICA):
        if op.type == "ok":
            view = decoded(op, ReplicaView)
            by_node.setdefault(view.node, []).append(view.epochs)
    for _, lists in sorted(by_node.items()):
        yield from pairwise(lists)


def entries_added(artifacts: RunArtifacts) -> int:
    """Times that a broker's list had got longer."""
    return sum(_last(after) > _last(before) for before, after in _lists(artifacts))


def suffix_cut(artifacts: RunArtifacts) -> int:
    """Times that a list had lost its last entry, to none or to another of the same number."""
    return sum(bool(b) and (b[-1].epoch, b[-1].start) not in _keys(a) for b, a in _lists(artifacts))


def prefix_cut(artifacts: RunArtifacts) -> int:
    """Times that a list had lost its first entry, and not its last."""
    return sum(
        bool(b)
        and (b[0].epoch, b[0].start) not in _keys(a)
        and (b[-1].epoch, b[-1].start) in _keys(a)
        for b, a in _lists(artifacts)
    )


def _last(entries: Sequence[EpochView]) -> int:
    return entries[-1].epoch if entries else -1


def _keys(entries: Sequence[EpochView]) -> set[tuple[int, int]]:
    return {(e.epoch, e.start) for e in entries}


# Acknowledgements.


def acknowledged(profile: str) -> Detector:
    """Acknowledged sends of a run under a profile."""
    return lambda r: r.history.totals["send", "ok"] if r.profile == profile else 0


def acknowledged_by(*, alone: bool) -> Detector:
    """Acknowledged sends under a profile that waits for all, while controllers knew the master to
    be alone in its set, or not: one and the same set, reported before and after."""

    def count(artifacts: RunArtifacts) -> int:
        if artifacts.profile not in ("P-SAFE", "P-ALL", "P-UNCLEAN"):
            return 0
        sizes = _Sizes(artifacts)
        pairs = ((o, artifacts.history.invocation(o)) for o in artifacts.history.of_f("send"))
        found = [sizes.of(i, o) for o, i in pairs if o.type == "ok" and i is not None]
        return sum(size > 0 and (size == 1) == alone for size in found)

    return count


class _Sizes:
    """How big the SyncStateSet of each broker set was, when controllers said so."""

    def __init__(self, artifacts: RunArtifacts) -> None:
        self._reported: dict[str, list[tuple[int, int, int]]] = {}  # time, epoch of the set, size
        for op in artifacts.history.of_f(OBSERVE_CONTROLLER):
            if op.type == "ok":
                for name, view in decoded(op, ControllerView).sets.items():
                    reported = (op.time, view.sync_state_set_epoch, len(view.sync_state_set))
                    self._reported.setdefault(name, []).append(reported)

    def of(self, invoked: Op, completed: Op) -> int:
        """Its size during a send; 0: it changed, or is unknown."""
        reported = self._reported.get(str((completed.ext or {}).get("node", "")), [])
        before = bisect_right(reported, (invoked.time,)) - 1
        after = bisect_right(reported, (completed.time,))
        if before < 0 or after >= len(reported) or reported[before][1] != reported[after][1]:
            return 0
        return reported[before][2]


def confirmed_back(log: Sequence[Event]) -> int:
    """Times that a master had less confirmed than before in the same epoch, where it takes a slave
    into its set."""
    found = [_CAUGHT_UP.search(e.text) for e in log if CAUGHT_UP in e.text]
    reported = [(int(m[3]), int(m[2])) for m in found if m]
    return sum(a[0] == b[0] and a[1] < b[1] for b, a in pairwise(reported))


# The SyncStateSet.


def _sets(log: Sequence[Event]) -> Iterator[tuple[str, list[set[str]], str]]:
    """What a master did to its set, in order: the kind of line, the sets in it, and its text."""
    for _, text in log:
        for kind in (CAUGHT_UP, ASKED, CHANGED, "Begin to change to master"):
            if kind in text:
                line = text.partition("\n")[0]
                yield kind, [set(s.split(", ")) - {""} for s in _SETS.findall(line)], line


def expanded_again(log: Sequence[Event]) -> int:
    """Slaves that were to be taken in once more before the set had changed."""
    count, asked = 0, set[str]()
    for kind, _, line in _sets(log):
        if kind == CHANGED:
            asked = set()
        elif kind == CAUGHT_UP and (found := _CAUGHT_UP.search(line)):
            count += found[1] in asked
            asked.add(found[1])
    return count


def shrunk_by_disconnect(log: Sequence[Event]) -> int:
    """Sets that were asked for not because a slave had caught up: one had gone."""
    kinds = [kind for kind, _, _ in _sets(log) if kind in (CAUGHT_UP, ASKED)]
    return sum(k == ASKED and b != CAUGHT_UP for b, k in pairwise([ASKED, *kinds]))


def shrunk_by_time(log: Sequence[Event]) -> int:
    """Sets that became smaller while all members ran: one had been behind for too long."""
    count, asked, before = 0, list[set[str]](), ""
    for kind, sets, _ in _sets(log):
        if kind == ASKED:
            asked += sets
        elif kind == CHANGED and len(sets) == 2:
            old, new = sets
            count += new < old and new not in asked and before != "Begin to change to master"
            asked = []
        before = kind
    return count


def reported(log: Sequence[Event]) -> int:
    """Sets that a master got from controllers as it had asked: not with its role."""
    kinds = [kind for kind, _, _ in _sets(log)]
    return sum(
        k == CHANGED and b not in ("", "Begin to change to master")
        for b, k in pairwise(["", *kinds])
    )


def adopted(size: str) -> Detector:
    """Sets of one member (``one``), or of more, that a master took over."""

    def count(log: Sequence[Event]) -> int:
        found = [sets[-1] for kind, sets, _ in _sets(log) if kind == CHANGED and sets]
        return sum((len(members) == 1) == (size == "one") for members in found)

    return lambda r: sum(map(count, r.brokers())) if r.profile in _ALL_ACK else 0


_ALL_ACK = ("P-SAFE", "P-ALL", "P-UNCLEAN")
