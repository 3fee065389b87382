"""Evidence: the answers that a verdict rests on, declared when a run begins and ticked off in it.

The first operation of a history is the invocation of ``run``, by the process of that name: its
value lists the evidence of the run. Its completion is the last operation: the run ended. In between
each piece of evidence is ticked off by an answer; which one is decided in
``maxq.checkers.judgement.grounds``. A history that was cut off, or in which such an answer is
missing, is no evidence for a verdict on the claims that rest on it.

A piece of evidence is ``[kind, what …]``; `SAID` says what each kind is:

    final-read   key, broker set, node     node: the replica made master; None: the present master
    replica-log  node
    controller, namesrv, broker   node
    recovery
    probe, lock  key, broker set
    consumer-offset  thread of the workload offsets

It declares as well the facts of the run's faults that are not built in
(``maxq.histories.fault_facts``), if there are any; older versions ignore them.

What is permanently gone is ticked off by the recorded reason: a node that the wait for recovery
found to have ended by itself cannot answer, nor can a broker set that has no other.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from maxq.histories import aliases, fault_facts
from maxq.histories.fault_facts import BUILT_IN, FaultFacts, Kinds
from maxq.histories.op import HistoryError, Op

RUN = "run"  # process and operation
GROUNDS, FAULTS, STOPPED = "grounds", "faults", "stopped"

FINAL_READ, REPLICA_LOG_READ = "final-read", "replica-log"
CONTROLLER, NAMESRV, BROKER = "controller", "namesrv", "broker"
RECOVERY, PROBE, LOCK, CONSUMER_OFFSET = "recovery", "probe", "lock", "consumer-offset"
SAID: dict[str, str] = {
    FINAL_READ: "after the last disturbance a queue is read from its first offset to its "
    "confirmed end, from the master or from each replica made master",
    REPLICA_LOG_READ: "every epoch of a replica's log is read from its disk",
    CONTROLLER: "a controller is asked a last time and answers (that it does not lead is an "
    "answer, if another one leads)",
    NAMESRV: "a name server is asked a last time and answers",
    BROKER: "a broker is asked a last time and answers",
    RECOVERY: "the wait for recovery after the last heal is over",
    PROBE: "a queue is probed after the last heal, to success or beyond the bound",
    LOCK: "a lock is granted to two clients, one after the other, at the end",
    CONSUMER_OFFSET: "a client asks once more for the consumer offsets that it had committed, "
    "after a fail-over that nothing disturbed",
}
KINDS = tuple(SAID)

Ground = tuple[Any, ...]  # the kind, and what of it


def declaration(grounds: Iterable[Ground], facts: Sequence[FaultFacts] = ()) -> Op:
    """The first operation of a history; `facts` are of faults that are not built in."""
    value: dict[str, Any] = {GROUNDS: [list(ground) for ground in grounds]}
    if facts:
        value[FAULTS] = fault_facts.plain(facts)
    return Op("info", RUN, RUN, value)


def conclusion(*, stopped: bool) -> Op:
    """The last operation of a history; `stopped`: the main part was cut short on request."""
    return Op("info", RUN, RUN, {STOPPED: stopped})


def declared(begun: Op) -> tuple[Ground, ...]:
    """The grounds that a history's first operation lists.

    Raises:
        HistoryError: its value has another shape.
    """
    try:
        grounds = tuple(_current(ground) for ground in begun.value[GROUNDS])
    except (TypeError, KeyError):
        raise HistoryError(f"value of {begun.index} declares no evidence") from None
    for ground in grounds:
        if not ground or ground[0] not in KINDS:
            raise HistoryError(
                f"value of {begun.index} declares evidence of no kind: {ground!r:.100}"
            )
    return grounds


def _current(ground: Sequence[Any]) -> Ground:
    """A ground under today's name of its kind."""
    return tuple(aliases.GROUNDS.get(what, what) for what in ground[:1]) + tuple(ground[1:])


def kinds_of(begun: Op | None) -> Kinds:
    """The kinds of faults of a history: the built-in ones, and what its first operation, if it has
    one, declares beside them."""
    value = None if begun is None else begun.value
    return BUILT_IN.with_(fault_facts.read(value.get(FAULTS)) if isinstance(value, dict) else ())
