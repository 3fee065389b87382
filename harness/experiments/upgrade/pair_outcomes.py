"""What happened to a pair whose master was gone twice: killed and started, then paused and resumed.

From what observers saw in a run: whether the slave says that it acts (28), what a name server shows
clients of the broker set meanwhile (106, 105), and when the master is listed again. Times are from
the fault, or from the start of the master, to the end of the first answer that says so, in ms: an
upper bound, as observers ask several times a second.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from maxq.checkers.evidence.faults import Fault
from maxq.checkers.evidence.observations import Sighting, replica_sightings, sightings
from maxq.harness.experiments.upgrade.plans import BACK, GONE, HELD, RELEASED
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_ROUTE, RouteView, T

MASTER_ROLE = "0"
# Whom a name server shows while the master is gone: the slave as if it were the master, the slave
# as a slave, of a set without a master, or the master all the same.
Shown = Literal["slave as master", "slave alone", "master"]
SHOWN: dict[Shown, str] = {
    "slave as master": "routes show it as the master",
    "slave alone": "routes show it as a slave without a master",
    "master": "routes go on showing the master",
}


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """A master that was gone. `acted_ms` is None where its slave did not act, or, if it was not
    `heard`, did not answer meanwhile."""

    acted_ms: float | None
    heard: bool = True
    shown: Shown = "master"


class PairOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """`killed`, then back after `back_ms`, None if it was not listed any more; then `paused`, None
    if the run was over before it was resumed."""

    killed: Absence
    back_ms: float | None
    paused: Absence | None = None

    @property
    def acts(self) -> bool:
        """Whether the slave acted for the master that was killed, until that was back."""
        return self.killed.acted_ms is not None and self.back_ms is not None

    @property
    def words(self) -> str:
        """In sentences, without the last one's end."""
        back = "The master does not come back"
        if self.back_ms is not None:
            back = f"The master is back {_seconds(self.back_ms)} after its start"
        said = [f"master killed: {_said(self.killed)}", back]
        return ". ".join(said + ([f"Master paused: {_said(self.paused)}"] if self.paused else []))


class Span(NamedTuple):
    """How long a master was gone, in ns of the history's clock."""

    begun_ns: int
    ended_ns: int


def _said(absence: Absence) -> str:
    if not absence.heard:
        return f"the slave does not answer, {SHOWN[absence.shown]}"
    if absence.acted_ms is None:
        return f"the slave does not act, {SHOWN[absence.shown]}"
    return f"the slave acts after {_seconds(absence.acted_ms)}, {SHOWN[absence.shown]}"


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.1f} s"


def pair_outcome(
    history: History, done: Mapping[str, Fault], broker_set: str = "b0"
) -> PairOutcome | None:
    """What a run's history says; None where the master was not killed and started.

    Args:
        history: of the run.
        done: its faults and heals by the names of their acts.
        broker_set: whose master is gone.
    """
    if not {GONE, BACK} <= done.keys():
        return None
    replicas = [s for s in replica_sightings(history) if s.view.set == broker_set]
    routes = sightings(history, OBSERVE_ROUTE, RouteView)
    slaves = {s.view.address for s in replicas if s.view.node != f"{broker_set}-0"}
    killed = _span(done[GONE], done[BACK])
    paused = None
    if {HELD, RELEASED} <= done.keys():
        paused = _span(done[HELD], done[RELEASED])

    def absence(span: Span) -> Absence:
        told = [s for s in _during(replicas, span) if s.view.address in slaves]
        acted = next((s for s in told if s.view.acting is True), None)
        seen = [_shown(s.view, broker_set, slaves) for s in _during(routes, span)]
        return Absence(
            acted_ms=None if acted is None else (acted.at_ns - span.begun_ns) / 1e6,
            heard=bool(told),
            shown=next((name for name in SHOWN if name in seen), "master"),
        )

    started = killed.ended_ns
    back = next(
        (
            s.at_ns
            for s in routes
            if s.begun_ns >= started
            and (paused is None or s.at_ns < paused.begun_ns)
            and s.view.sets.get(broker_set, {}).get(MASTER_ROLE) not in (None, *slaves)
        ),
        None,
    )
    return PairOutcome(
        killed=absence(killed),
        back_ms=None if back is None else (back - started) / 1e6,
        paused=None if paused is None else absence(paused),
    )


def _span(fault: Fault, heal: Fault) -> Span:
    return Span(fault.begun_ns, heal.begun_ns)


def _during(seen: Sequence[Sighting[T]], span: Span) -> Iterator[Sighting[T]]:
    return (s for s in seen if s.begun_ns >= span.begun_ns and s.at_ns < span.ended_ns)


def _shown(view: RouteView, broker_set: str, slaves: set[str]) -> Shown:
    """Whom clients are shown of a set: by the route of a topic, where that differs from the table,
    else by the table."""
    listed = view.sets.get(broker_set, {})
    for routes in view.shown.values():
        listed = routes.get(broker_set, listed)
    master = listed.get(MASTER_ROLE)
    if master is None:
        return "slave alone"
    return "slave as master" if master in slaves else "master"
