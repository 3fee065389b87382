"""What nodes' logs show of known causes, and whether it fits an anomaly.

A line that stands anywhere in a run proves nothing of its harm: most runs have those of several
causes. So each cause is a list of `Trace`, each with its node, its time and the bytes that it is
about, and an anomaly is of a cause only if one of them fits: the same node or set, bytes that the
anomaly may be about, and a time at which it could bring the harm about. Where a line has no offset
(a set that shrinks) another line of the same node must: where it cut its log later.

Wordings are those of 5.5.0; see `detectors`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from maxq.checkers.core.api import Anomaly
from maxq.checkers.core.promises import CLEAN
from maxq.harness.known.detectors import ASKED, CHANGED, CUT, ENTRIES, RUNNING, STARTED
from maxq.harness.known.harm import END, Clock, Harm, Scene
from maxq.harness.known.marks import (
    LEAVES,
    LOCAL,
    NEW_HA_ADDRESS,
    NO_IDENTITY,
    NO_NUMBER,
    OPEN,
    cut_to,
    last_end,
    new_ha_address,
)
from maxq.harness.known.pair_marks import NOT_COPIED, PAIR_MARKS, UNQUOTED
from maxq.harness.known.run_artifacts import CONTROLLER, Event, RunArtifacts

SLACK_NS = 50_000_000  # lines are written a bit later than what they report
WAITS_NS = 3_000_000_000  # a send, for its acknowledgements
SLAVE = "Begin to change to slave"
APPEND_FAILED, REFUSED, DIALS = "append failed", "current leader is:", "connect to master"
NO_TOPIC = "TOPIC_NOT_EXIST"
ATTRIBUTES = "only add attribute is supported while creating topic"  # a slave's, of a copy
MARKS = (
    *PAIR_MARKS, CUT, STARTED, RUNNING, LOCAL, ASKED, CHANGED, *LEAVES, NEW_HA_ADDRESS, DIALS,
    APPEND_FAILED, REFUSED, NO_NUMBER, NO_IDENTITY, ATTRIBUTES,
)  # fmt: skip
WITH_TRACES = (NO_NUMBER, UNQUOTED, ATTRIBUTES)
_LEADER = re.compile(r"current leader is:\{(\d+)\}, not \{(\d+)\}")


class Trace(NamedTuple):
    """Something that a node wrote. It lasted from `at_ns` to `until_ns`; `epoch` and `low` are of
    an entry of a list, or `low` and `high` of the bytes that it is about."""

    node: str
    at_ns: int
    until_ns: int = END
    low: int = 0
    high: int = END
    epoch: int = 0


Timed = Sequence[tuple[int, str]]  # when (ns of the run), and what


class Traces:
    """A run's logs, by cause.

    Args:
        artifacts: of the run.
    """

    def __init__(self, artifacts: RunArtifacts) -> None:
        self.artifacts = artifacts
        self.scene = Scene(artifacts.history)
        self.settings = artifacts.settings
        self.pair = artifacts.pair
        clock = Clock(artifacts.zero_wall_ms, artifacts.logs)
        self._logs = {
            node: list(self._timed(clock, log)) for node, log in sorted(artifacts.logs.items())
        }
        # Whether there are logs whose times are known: what they do not show was not.
        self.logged = clock.known

    def _timed(self, clock: Clock, log: Sequence[Event]) -> Iterator[tuple[int, str]]:
        """What of a log known causes are looked for in; nothing where its time is unknown."""
        for event in log:
            if any(mark in event.text for mark in MARKS):
                at_ns = clock.ns(event.at)
                if at_ns is not None:
                    # Traces behind a line go with it only where they are looked for.
                    whole = any(mark in event.text for mark in WITH_TRACES)
                    yield at_ns, event.text if whole else event.text.split("\n")[0]

    def each(self, harm: Harm) -> Iterator[tuple[str, Timed]]:
        """The logs of an anomaly's set: of the nodes that it names, if it names any."""
        for node, log in self._logs.items():
            named = node in harm.nodes or not harm.nodes
            if named and node[0] != CONTROLLER and self.scene.set_of(node) == harm.set:
                yield node, log

    def every_line(self) -> Iterator[tuple[int, str]]:
        """What all nodes wrote of known causes."""
        return (line for log in self._logs.values() for line in log)

    def log_of(self, node: str) -> Timed:
        """What a node wrote of known causes."""
        return self._logs.get(node, [])

    def refused_ns(self, broker_id: int | None) -> list[int]:
        """When controllers refused a broker a set, since another one led by then."""
        return [
            at_ns
            for node, log in self._logs.items()
            if node[0] == CONTROLLER
            for at_ns, text in log
            if (found := _LEADER.search(text)) and int(found[2]) == broker_id
        ]


# What was cut off comes back (#10666).


def returned(run: Traces, node: str, log: Timed) -> Iterator[Trace]:
    """Starts after which a replica has more than before, where it had been cut and nothing was
    copied since: when it was last seen before its log still ended at the cut."""
    cut, cut_ns, began_ns = -1, -1, -1
    for at_ns, text in log:
        if CUT in text:
            cut, cut_ns, began_ns = cut_to(text), at_ns, -1
        elif STARTED in text and cut >= 0:
            began_ns = at_ns
        elif LOCAL in text and began_ns >= 0:
            end = last_end(text)
            if cut < end < OPEN and run.scene.end_between(node, cut_ns, began_ns) == cut:
                yield Trace(node, at_ns, low=cut, high=end)
            cut, began_ns = -1, -1


def _comes_back(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    return any(
        harm.since_ns < t.at_ns <= harm.until_ns and harm.touches(t.low, t.high)
        for node, log in run.each(harm)
        if node != harm.by
        for t in returned(run, node, log)
    )


# A master that is deposed acknowledges alone.


def shrunk(run: Traces, node: str) -> Iterator[Trace]:
    """Sets that a broker took for its own and that controllers did not grant: they refused, as
    another one led by then, or it ended before they answered. From when it counted by such a set
    until it knew that it did not lead."""
    refused = run.refused_ns(run.scene.id_of(node))
    asked_ns, alone_ns = -1, END
    for at_ns, text in [*run.log_of(node), (END, STARTED)]:
        if asked_ns >= 0 and (CHANGED in text or STARTED in text):
            granted = CHANGED in text
            if not granted or any(asked_ns - SLACK_NS <= no_ns <= at_ns for no_ns in refused):
                yield Trace(node, asked_ns, min(at_ns, alone_ns + WAITS_NS))
            asked_ns = -1
        elif ASKED in text and asked_ns < 0:
            asked_ns, alone_ns = at_ns, END
        elif SLAVE in text and asked_ns >= 0:
            alone_ns = min(at_ns, alone_ns)


def _acknowledged_alone(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    if not harm.by:
        return False
    alone = any(t.at_ns - SLACK_NS <= harm.since_ns <= t.until_ns for t in shrunk(run, harm.by))
    # It may follow its successor later than another message was seen in the place of this one.
    return alone and any(
        harm.since_ns < at_ns and cut_to(text) < harm.high
        for at_ns, text in run.log_of(harm.by)
        if CUT in text
    )


# A list of epochs that is ahead of its log.


def ahead(run: Traces, node: str, log: Timed) -> Iterator[Trace]:
    """From a handshake with a list whose last entry begins behind the log's end to the next one
    with another list: all that the log lacks."""
    begun: Trace | None = None
    for at_ns, text in log:
        if LOCAL not in text:
            continue
        if begun is not None:
            yield begun._replace(until_ns=at_ns)
            begun = None
        if last_end(text) == OPEN:
            begun = Trace(node, at_ns, low=run.scene.end_between(node, 0, at_ns) or 0)
    if begun is not None:
        yield begun


def _lacks_bytes(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    return any(
        t.at_ns <= harm.until_ns and harm.since_ns <= t.until_ns and harm.touches(t.low, t.high)
        for node, log in run.each(harm)
        if node != harm.by
        for t in ahead(run, node, log)
    )


# Two masters under one entry.


def _one_entry(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    entries = _entries(anomaly)
    of_set = harm._replace(nodes=frozenset())  # the new master need not be one of those that part
    for _, log in run.each(of_set):
        for at_ns, text in log:
            found = ENTRIES.findall(text) if APPEND_FAILED in text else []
            if len(found) == 2 and at_ns <= harm.until_ns:
                (new, _), (last, start) = ((int(e), int(s)) for e, s in found)
                if last < new and (last, start) in entries:
                    return True
    return False


def _entries(anomaly: Anomaly) -> set[tuple[int, int]]:
    """Epoch and start of the entries that an anomaly is about."""
    match anomaly.detail:
        case {"epoch": int(epoch), "start": int(start)}:
            return {(epoch, start)}
        case {"epochs": [*lists]}:
            return {(e[0], e[1]) for e in lists if isinstance(e, list | tuple)}
    return set()


# Others.


def _stays(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    return any(
        since_ns <= harm.until_ns <= until_ns + SLACK_NS
        for _, log in run.each(harm)
        for since_ns, until_ns in _stayed(run, log)
    )


def _stayed(run: Traces, log: Timed) -> Iterator[tuple[int, int]]:
    """When a slave did not connect to the master that it had learnt."""
    wanted, since_ns = "", 0
    for at_ns, text in [*log, (END, STARTED)]:
        if wanted and any(t in text for t in (*LEAVES, f"{DIALS} {wanted}")):
            yield since_ns, at_ns
            wanted = ""
        if NEW_HA_ADDRESS in text:
            wanted, since_ns = new_ha_address(text), at_ns


def _does_not_start(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    """A start that failed so is the last thing that a node wrote until the harm was certain."""
    for _, log in run.each(harm):
        failed = False
        for at_ns, text in log:
            if at_ns <= harm.until_ns:
                failed = NO_NUMBER in text or (failed and RUNNING not in text)
        if failed:
            return True
    return False


def _lost_identity(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    return any(
        at_ns <= harm.until_ns and NO_IDENTITY in text
        for _, log in run.each(harm)
        for at_ns, text in log
    )


def _unclean(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    return run.settings.get(CLEAN.key) == "true"


def of_sets(run: Traces, anomaly: Anomaly, harm: Harm) -> Iterator[tuple[str, Timed]]:
    """The logs of an anomaly's set, whichever nodes it names; of those that answered it, where it
    names no set."""
    names = {harm.set} if harm.set else run.scene.sets_of(anomaly)
    harms = [harm._replace(nodes=frozenset(), set=name) for name in sorted(names)]
    return (each for one in harms for each in run.each(one))


def offsets_not_read(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    """A slave could not read its master's consumer offsets before the harm was certain."""
    return any(
        at_ns <= harm.until_ns and NOT_COPIED in text and UNQUOTED in text
        for _, log in of_sets(run, anomaly, harm)
        for at_ns, text in log
    )


def attributes_not_copied(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    """A slave of the set gave up copying topics, since one has attributes, before the harm was
    certain; and who was not served was told that there is no such topic."""
    errors = run.scene.errors(anomaly)
    return (not errors or NO_TOPIC in errors) and any(
        at_ns <= harm.until_ns and ATTRIBUTES in text
        for _, log in of_sets(run, anomaly, harm)
        for at_ns, text in log
    )


def _by_two(run: Traces, anomaly: Anomaly, harm: Harm) -> bool:
    """Whoever grants alone grants what another one has granted; who has forgotten a grant is one
    broker."""
    return len(run.scene.brokers_of(anomaly)) > 1


Tie = Callable[[Traces, Anomaly, Harm], bool]
TIES: dict[str, Tie] = {
    "truncation-comes-back": _comes_back,
    "deposed-master-shrinks": _acknowledged_alone,
    "list-ahead-of-log": _lacks_bytes,
    "epoch-entry-refused": _one_entry,
    "stays-with-deposed-master": _stays,
    "epoch-file-empty": _does_not_start,
    "identity-empty": _lost_identity,
    "elects-from-outside": _unclean,
    "each-grants-alone": _by_two,
    "slave-cannot-read-offsets": offsets_not_read,
    "attributes-not-copied": attributes_not_copied,
}
