"""Pre-online: when a pair's master that is back is shown.

A master that returns is isolated until it has taken what its slaves have (it says so of itself).

- P1: no name server lists it meanwhile. An answer that lists it counts if an earlier one of the
  same name server, asked for after the last act on the master, or while it was dead before that
  act, did not, and the master, which has said nothing else since that act, says after it that it is
  isolated.
- P2: it does not stay isolated. Judged in calm times, from a bound on: three evictions (a dead
  member is listed for one, and waited for without success for two) and for each slave the time in
  which it must dial. Not where a slave's log is longer: such a one holds its master back, by
  design.
- P3: nor although a cut parts it from a slave. The same bound, in a time in which nothing but
  brokers is cut off from one another, so that name servers go on listing the slave, and every slave
  that runs was asked where its log ends.

- P8: a slave that has started is not listed before it copies the log of a master that is. Judged
  after an act that starts it, until the next act, whatever cuts are in effect between brokers: they
  keep it from copying. It counts if all name servers listed the master all the while, and one did
  not list the slave at first, then did, and the slave, asked after that, has not copied yet.

Which offsets it knows: `maxq.checkers.replication.pairs.pair_offsets`. Claims: P1 to P3, P8
(docs/spec/acting-master.md 8.4), of brokers without controllers.
"""

from collections import defaultdict

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.evidence.active_faults import State
from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.observations import NEVER, Sighting, replica_sightings, sightings
from maxq.checkers.evidence.quiescence import Interval, Lull, Undisturbed, lulls
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.history import History
from maxq.histories.observed import (
    MASTER_ROLE,
    OBSERVE_ROUTE,
    ReplicaView,
    RouteView,
)
from maxq.histories.op import HistoryError

Said = Sighting[ReplicaView]
ARRIVED_NS = 1_000_000_000  # by which what a dead master sent has come, or never will
DIALS_NS = 10_000_000_000  # in which a slave must copy from who announced itself to it
EVICTIONS = 3
EMPTY = Interval(NEVER, NEVER)


class PreOnline:
    """The checker. See the module's text."""

    name = "pre-online"
    claims = ("P1", "P2", "P3", "P8")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            return rule(self, history, context, _Judge(history, context).case())
        except HistoryError as error:
            return unreadable(self, error)


class _Judge:
    """What a history says, taken apart once for all claims."""

    def __init__(self, history: History, context: Context) -> None:
        self._history = history
        self._context = context
        self._masters = {name: nodes[0] for name, nodes in sorted(context.broker_sets.items())}
        self._set_of = {n: name for name, nodes in context.broker_sets.items() for n in nodes}
        self._acts = faults(history)
        self._undisturbed = Undisturbed(self._acts)
        self._said: dict[str, list[Said]] = defaultdict(list)
        for s in replica_sightings(history):
            if isinstance(s.view.isolated, bool):
                self._said[s.view.node].append(s)
        self._routes = sightings(history, OBSERVE_ROUTE, RouteView)
        self._namesrvs = sorted({s.view.node for s in self._routes})
        self._case = Case(judged=dict.fromkeys(PreOnline.claims, 0))

    def case(self) -> Case:
        for name, master in self._masters.items():
            self._shown(name, master)
        self._late()
        self._started()
        self._case.counts = {f"answers-{c}": n for c, n in self._case.judged.items()}
        return self._case

    def _note(self, claim: str, found: Found | None) -> None:
        self._case.judged[claim] += 1
        if found is not None:
            self._case.found.append(found)

    # P1: listed.

    def _shown(self, name: str, master: str) -> None:
        for span in self._undisturbed.of((master, *self._namesrvs)):
            dead = self._dead(master, span)
            views = [s for s in self._said.get(master, ()) if span.holds(s.begun, s.at)]
            until = next((s.begun for s in views if s.view.isolated is False), NEVER)
            isolated = [s for s in views if s.view.isolated is True and s.at < until]
            if span.at < 0 or not isolated:
                continue
            for namesrv in self._namesrvs:
                own = [s for s in self._routes if s.view.node == namesrv]
                answers = [s for s in own if span.holds(s.begun, s.at)]
                known = answers + [s for s in own if dead.holds(s.begun, s.at)
                                   and s.begun_ns >= dead.at_ns]  # fmt: skip
                gone = min((s.at for s in known if not _lists(s, name)), default=NEVER)
                if gone == NEVER:
                    continue
                listed = next((s for s in answers if s.begun > gone and _lists(s, name)), None)
                wrong = listed is not None and isolated[-1].begun > listed.at
                found = _listed(name, listed, isolated[-1]) if listed and wrong else None
                self._note("P1", found)

    def _dead(self, master: str, span: Interval) -> Interval:
        """The time from a master's death, when all that it sent has come, into a span that begins
        with its start; empty if a name server was struck or cut off from it meanwhile."""
        acts = [a for a in self._acts if master in a.nodes and a.begun < span.at]
        if len(acts) < 2 or acts[-1].ended != span.at or not acts[-1].may_start:
            return EMPTY
        death, start = acts[-2:]
        quiet = self._undisturbed.of(self._namesrvs, (master,)).at(start.begun)
        over = death.ended is not None and death.brings_down and death.holds
        if not over or quiet is None or not quiet.holds(death.begun, span.at):
            return EMPTY
        arrived_ns = (death.ended_ns or 0) + ARRIVED_NS
        return Interval(death.ended or 0, arrived_ns, span.until, span.until_ns)

    # P2, P3: how long.

    def _late(self) -> None:
        for lull in lulls(self._history):
            state = lull.state
            namesrvs = state.gone.intersection(self._namesrvs)
            if state.doubtful or namesrvs or lull.time.doubt:
                continue
            for name, master in self._masters.items():
                claim = "P2" if not state.cuts else "P3" if self._parted(name, state) else ""
                if claim and master not in state.gone:
                    self._late_in(claim, lull, name, master)

    def _parted(self, name: str, state: State) -> bool:
        """Whether cuts part a set's master from a slave that runs, and nobody from name servers."""
        master, *slaves = self._context.broker_sets[name]
        of_brokers = all(node in self._set_of for pair in state.cuts for node in pair)
        return of_brokers and any(
            {(master, slave), (slave, master)} & state.cuts for slave in slaves
            if slave not in state.gone
        )  # fmt: skip

    def _late_in(self, claim: str, lull: Lull, name: str, master: str) -> None:
        time, slaves = lull.time, self._context.broker_sets[name][1:]
        bound_ns = EVICTIONS * self._context.eviction_ns + len(slaves) * DIALS_NS
        mine, *others = (
            [s for s in self._said.get(node, ()) if time.holds(s.begun, s.at)]
            for node in (master, *slaves)
        )
        late = [s for s in mine if s.begun_ns >= time.at_ns + bound_ns]
        running = [of for node, of in zip(slaves, others, strict=True)
                   if node not in lull.state.gone]  # fmt: skip
        if not late or (claim == "P3" and not all(running)):
            return
        longest = max((s.view.end for of in others for s in of), default=0)
        wrong = next((s for s in late if s.view.isolated is True), None)
        if wrong is None or longest <= wrong.view.end:
            stays = _stays if claim == "P2" else _waits
            self._note(claim, stays(name, wrong, bound_ns) if wrong is not None else None)

    # P8: slaves.

    def _started(self) -> None:
        by_end = {act.ended: act for act in faults(self._history) if act.ended is not None}
        for lull in lulls(self._history):
            state, act = lull.state, by_end.get(lull.time.at)
            away = state.gone | state.doubtful
            cut_off = {node for pair in state.cuts for node in pair}
            known = away.isdisjoint(self._namesrvs) and cut_off <= self._set_of.keys()
            if act is None or not act.may_start or not known or lull.time.doubt:
                continue
            for name, (master, *slaves) in self._context.broker_sets.items():
                for slave in (n for n in slaves if n in act.nodes and n not in away):
                    if master not in away and master not in act.nodes:
                        self._joins(name, slave, lull.time)

    def _joins(self, name: str, slave: str, time: Interval) -> None:
        """Whether a slave that has just started is listed before it copies."""
        role = str(self._context.broker_sets[name].index(slave))
        answers = [s for s in self._routes if time.holds(s.begun, s.at)]
        masterless = next((s.begun for s in answers if not _lists(s, name)), NEVER)
        answers = [s for s in answers if s.at < masterless]
        said = [s for s in self._said.get(slave, ()) if time.holds(s.begun, s.at)]
        copies = next((s.begun for s in said if s.view.copying is not False), NEVER)
        if {s.view.node for s in answers} != set(self._namesrvs):
            return
        for namesrv in self._namesrvs:
            own = [s for s in answers if s.view.node == namesrv]
            gone = next((s.at for s in own if not _lists(s, name, role)), NEVER)
            listed = next((s for s in own if s.begun > gone and _lists(s, name, role)), None)
            asked = [s for s in said if listed is not None and s.begun > listed.at]
            if listed is not None and asked and isinstance(asked[0].view.copying, bool):
                wrong = asked[0].at < copies
                self._note("P8", _joined(name, listed, asked[0]) if wrong else None)


def _lists(s: Sighting[RouteView], name: str, role: str = MASTER_ROLE) -> bool:
    return role in s.view.sets.get(name, {})


# In words.


def _listed(name: str, listed: Sighting[RouteView], said: Said) -> Found:
    master, namesrv = said.view.node, listed.view.node
    text = (
        f"Broker set {name}: {namesrv} lists {master}, its master (op {listed.at}), which says "
        f"later that it is isolated (op {said.at}). Clients are sent to it before it has what "
        "its slaves have."
    )
    detail = {"set": name, "node": master, "namesrv": namesrv}
    return Found("P1", "isolated-listed", (listed.at, said.at), text, detail)


def _stays(name: str, said: Said, bound_ns: int) -> Found:
    text = (
        f"Broker set {name}: {said.view.node}, its master, runs, undisturbed for longer than "
        f"{bound_ns / 1e9:g} s, and is isolated (op {said.at}): nobody can send to it."
    )
    detail = {"set": name, "node": said.view.node}
    return Found("P2", "stays-isolated", (said.at,), text, detail)


def _waits(name: str, said: Said, bound_ns: int) -> Found:
    text = (
        f"Broker set {name}: {said.view.node}, its master, runs and is isolated (op {said.at}). "
        f"It is cut off from a slave, and undisturbed otherwise for longer than "
        f"{bound_ns / 1e9:g} s. Nobody can send to it for as long as the cut lasts."
    )
    detail = {"set": name, "node": said.view.node}
    return Found("P3", "waits-for-unreachable", (said.at,), text, detail)


def _joined(name: str, listed: Sighting[RouteView], said: Said) -> Found:
    slave, namesrv = said.view.node, listed.view.node
    text = (
        f"Broker set {name}: {namesrv} lists {slave}, a slave that has started (op {listed.at}). "
        f"Asked after that, it does not copy its master's log yet (op {said.at}). Were the "
        "master lost now, who is shown in its place would lack what it had."
    )
    detail = {"set": name, "node": slave, "namesrv": namesrv}
    return Found("P8", "uncopied-listed", (listed.at, said.at), text, detail)
