"""How often something happened in a run of brokers without controllers, as logs and answers show.

As `detectors`, in the wordings of 5.5.0, which 5.1.1 and 5.3.3 share where nothing else is said:
read in the constants of its classes and in logs of runs.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from maxq.harness.known.detectors import Detector
from maxq.harness.known.pair_marks import (
    ACTS,
    ALONE,
    BLOCKED,
    BOOTED,
    MIN_CHANGED,
    PUT_FAILED,
    THEIRS,
    reversals,
)
from maxq.harness.known.run_artifacts import DAY_S, Event, RunArtifacts, seconds
from maxq.histories.observed import OBSERVE_ROUTE, RouteView, decoded

DESTROYED = "the broker's channel destroyed, submit the unregister request at once"
EXPIRED = "The broker channel expired"
GONE = "unregisterBroker, remove from brokerLiveTable OK"
NO_ADDRESS = "unregisterBroker, remove addr from brokerAddrTable Failed"
EMPTY = "unregisterBroker, remove name from brokerAddrTable OK"
REDUCED = "unregisterBroker, remove addr from brokerAddrTable OK"
LAST_OF_CLUSTER = "unregisterBroker, remove cluster from clusterAddrTable"
LEFT = re.compile(r"Update master address from \S+ to null")
HA_ADDRESS = "update master ha address"
STARTS = "start service, min broker id is"
SOON_S = 1.0  # a name server evicts whose connection ended in no time
STALE = 3  # lines of one address that stays
_ADDRESS = re.compile(r"brokerAddr=([0-9.:]+)")
_MIN = re.compile(r"old: (\d+)-\S+ new (\d+)-")


def namesrv(text: str, also: str = "") -> Detector:
    """Something that name servers write."""
    found = re.compile(also)
    return per_namesrv(
        lambda log: sum(text in e.text and found.search(e.text) is not None for e in log)
    )


def per_namesrv(count: Callable[[Sequence[Event]], int]) -> Detector:
    """A count of each name server's log, added up."""
    return lambda artifacts: sum(count(log) for log in artifacts.namesrvs())


# Eviction.


def said_goodbye(log: Sequence[Event]) -> int:
    """Brokers that were removed since they asked for it: no connection had ended, and none had
    been silent."""
    count, cause_s = 0, -1.0 * DAY_S
    for at, text in log:
        if DESTROYED in text or EXPIRED in text:
            cause_s = seconds(at)
        elif GONE in text:
            count += not 0 <= (seconds(at) - cause_s) % DAY_S <= SOON_S
    return count


def stale_entries(log: Sequence[Event]) -> int:
    """Addresses that were found silent again and again, and not removed in between."""
    silent: Counter[str] = Counter()
    stale = set[str]()
    for _, text in log:
        found = _ADDRESS.search(text)
        if found is None:
            continue
        if EXPIRED in text:
            silent[found[1]] += 1
            if silent[found[1]] >= STALE:
                stale.add(found[1])
        elif GONE in text or "new broker registered" in text:
            silent[found[1]] = 0
    return len(stale)


def shown_acting(artifacts: RunArtifacts) -> int:
    """Times that a name server began to show a broker set whose master it does not have, as one
    that is only read from."""
    count, before = 0, dict[str, frozenset[str]]()
    for op in artifacts.history.of_f(OBSERVE_ROUTE):
        if op.type == "ok":
            view = decoded(op, RouteView)
            acting = frozenset(view.acting)
            count += len(acting - before.get(view.node, frozenset()))
            before[view.node] = acting
    return count


# Detection and transition.


def changed_to(what: str) -> Detector:
    """Changes of the smallest id that a slave saw by asking: to the ``master``'s, to one of another
    slave (``other``), or to its ``own``, as what follows shows."""
    return lambda artifacts: sum(_changes(log)[what] for log in artifacts.brokers())


def _changes(log: Sequence[Event]) -> Counter[str]:
    """Each change, by the smallest id after it and by whether special services began."""
    found: Counter[str] = Counter()
    for event, after in pairwise([*_of(log, MIN_CHANGED, ACTS), Event("", "")]):
        change = _MIN.search(event.text)
        if change is not None:
            master, acts = change[2] == "0", ACTS in after.text
            found["master" if master else "own" if acts else "other"] += 1
    return found


def _of(log: Sequence[Event], *texts: str) -> Iterator[Event]:
    return (e for e in log if any(text in e.text for text in texts))


def left_master(log: Sequence[Event]) -> int:
    """Times that a slave forgot the address of a master that had gone."""
    return sum(LEFT.search(e.text) is not None for e in log)


def dialled(log: Sequence[Event]) -> int:
    """Returns of a master after which a slave took its HA address."""
    count, back = 0, False
    for _, text in log:
        change = _MIN.search(text) if MIN_CHANGED in text else None
        if change is not None:
            back = change[2] == "0"
        elif back and HA_ADDRESS in text:
            count, back = count + 1, False
    return count


# Reverse synchronization.


def taken(what: str) -> Detector:
    """Members of whom a returning master took `OFFSETS`, `PROGRESS` or `CHECKPOINT`."""
    return lambda artifacts: sum(
        sum(THEIRS in e.text and what in e.text for e in log) for log in artifacts.brokers()
    )


def kept(what: str) -> Detector:
    """Members whose version was older than a returning master's, so that it kept its own."""
    return lambda artifacts: sum(
        not any(what in text for text in said)
        for log in artifacts.brokers()
        for said in reversals(e.text for e in log)
    )


def returned_alone(log: Sequence[Event]) -> int:
    """Starts after the first by which a master came online while nobody was there."""
    starts, alone, count = 0, False, 0
    for _, text in log:
        starts += BOOTED in text
        if ALONE in text:
            alone = starts > 1
        elif STARTS in text:
            count += alone and f"{STARTS} 0," in text
            alone = False
    return count


def blocked(log: Sequence[Event]) -> int:
    """Whether a broker failed so often to move delayed messages that others had to wait."""
    return int(sum(PUT_FAILED in e.text for e in log) >= BLOCKED)


# The escape of delayed and half messages.


def moved(sent: str, read: str) -> Detector:
    """Messages that were sent to one broker set and read from another one."""

    def count(artifacts: RunArtifacts) -> int:
        history = artifacts.history
        home = {
            op.value[0]: (op.ext or {}).get("node")
            for op in history.of_f(sent)
            if op.type == "ok" and isinstance(op.value, list | tuple)
        }
        seen = {
            (message, str((op.ext or {}).get("node")))
            for op in history.of_f(read)
            if op.type == "ok" and isinstance(op.value, list | tuple)
            for message in op.value
            if not isinstance(message, list)
        }
        return sum(home.get(m) is not None and home[m] != node for m, node in seen)

    return count
