"""What goes on around clients in a round: questions of observers, a fail-over, planted answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from maxq.workloads.generated.asked.marks import Mark
from maxq.workloads.generated.columns.rows import Act
from maxq.workloads.generated.nodes.cluster import (
    ANSWER_NS,
    OUTAGE_NS,
    REPLICAS,
    Cluster,
    Ends,
    failing,
    killing,
    starting,
)
from maxq.workloads.generated.nodes.state_plants import STATES, Told

KILL_NS, START_NS, DOWN_NS = 1_000_000, 50_000_000, 5_000_000
NOTICED_NS = 10_000_000_000  # by then name servers have noticed that a broker is gone
LOOK = ""  # as a kind: a sweep in which nothing is planted
FAIL_OVERS = frozenset(("master-outside-set", "dead-broker-listed", "node-does-not-start"))
ELECTED_AT, ASKED_AT, AGAIN_AT = 0.5, 0.6, 0.8  # of an outage


class Wanted(NamedTuple):
    """A planted answer: of which kind, and when."""

    kind: str
    at_ns: int
    number: int  # of what is to be planted


class Strike(NamedTuple):
    """A fail-over: of which set, when its master is killed and the next one elected, and what is
    planted in it, by kind."""

    set: int
    cut: int
    elected: int
    planted: Mapping[str, int]


class Framed(NamedTuple):
    """The acts of a round, what was planted with them, by number, and what had no place; when the
    new master was elected (-1), and when all is over."""

    acts: list[Act]
    marks: dict[int, Mark]
    elected: int
    over: int


class Frame:
    """Asks and strikes.

    Args:
        cluster: whose nodes they are.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._kills = 0
        self._quiet = 0  # until when observers are busy

    def round(
        self,
        start: int,
        cut: int,
        struck: int,
        ends: Callable[[int], Ends],
        wanted: Sequence[Wanted],
    ) -> Framed:
        """Perform one.

        Args:
            start: when it begins.
            cut: when the master of a set is killed; -1: never.
            struck: that set.
            ends: where logs end, if the new master is elected at a time.
            wanted: what to plant into answers.
        """
        acts: list[Act] = []
        marks: dict[int, Mark] = {}
        elected = cut + int(OUTAGE_NS * ELECTED_AT) if cut >= 0 else -1
        self._sweep(acts, marks, start, ends(-1), None)
        left = sorted(
            (w for w in wanted if w.kind in STATES or w.kind == LOOK), key=lambda w: w.at_ns
        )
        struck_by = {w.kind: w.number for w in wanted if w.kind in FAIL_OVERS}
        if cut >= 0:
            width = self.width
            while left and max(left[0].at_ns, self._quiet) + width < cut:
                self._sweep(acts, marks, left[0].at_ns, ends(-1), left.pop(0))
            strike = Strike(struck, cut, elected, struck_by)
            self._fail_over(acts, marks, strike, ends)
        for want in left:
            self._sweep(acts, marks, want.at_ns, ends(elected), want)
        return Framed(acts, marks, elected, self._quiet)

    @property
    def width(self) -> int:
        """How long a sweep takes."""
        return 2_000_000 + 20_000 * 4 * len(self.cluster.brokers)

    def _sweep(
        self,
        acts: list[Act],
        marks: dict[int, Mark],
        at: int,
        ends: Ends,
        want: Wanted | None,
    ) -> None:
        at = max(at, self._quiet)
        sweep = self.cluster.sweep(at, ends)
        self._quiet = sweep.over + 1
        if want is not None and want.kind != LOOK:
            told = Told(self.cluster, sweep)
            mark = STATES[want.kind](told)
            if mark is not None:
                marks[want.number] = mark._replace(acts=tuple(a + len(acts) for a in mark.acts))
            self._quiet = max(self._quiet, told.over + 1)
            acts += [*sweep.acts, *told.more]
            return
        acts += sweep.acts

    def _ask(self, acts: list[Act], at: int) -> None:
        at = max(at, self._quiet)
        found = self.cluster.ask_controllers(at)
        acts += found
        self._quiet = at + self.width

    def _fail_over(
        self,
        acts: list[Act],
        marks: dict[int, Mark],
        strike: "Strike",
        ends: Callable[[int], Ends],
    ) -> None:
        of_set, cut = self.cluster.sets[strike.set], strike.cut
        planted = strike.planted
        self._kills += 1
        name, killed = f"kill{self._kills}", of_set.master
        successor = of_set.successor()
        outside = planted.get("master-outside-set")
        if outside is not None and self._quiet + self.width < cut:
            of_set.change(members=tuple(sorted({killed + 1, successor + 1})))
            self._ask(acts, self._quiet)
            successor = next(n for n in range(REPLICAS) if n not in (killed, successor))
        else:
            outside = None
        acts.append(killing(of_set.nodes[killed], name, cut, cut + KILL_NS, 1))
        of_set.down.add(killed)
        of_set.elect(successor, ends(-1)(strike.set, cut))
        self._ask(acts, cut + int(OUTAGE_NS * ASKED_AT))
        if outside is not None:
            marks[outside] = Mark(-1, acts=(len(acts) - 1,), set=of_set.name)
        of_set.grow()
        self._ask(acts, cut + int(OUTAGE_NS * AGAIN_AT))
        acts.append(self.cluster.ask_route(self._quiet))  # in which the killed node is missing
        self._quiet += ANSWER_NS + 1
        back = cut + OUTAGE_NS + DOWN_NS
        if (number := planted.get("dead-broker-listed")) is not None:
            sweep = self.cluster.sweep(max(cut + NOTICED_NS, self._quiet), ends(strike.elected))
            routes = sweep.value(sweep.route)["sets"][of_set.name]
            routes[str(killed + 1)] = of_set.addresses[killed]
            marks[number] = Mark(-1, acts=(len(acts) + sweep.route,), set=of_set.name)
            # Else nobody could tell later whether it has registered again.
            acts += [*sweep.acts, self.cluster.ask_route(sweep.over + 1)]
            self._quiet = sweep.over + ANSWER_NS + 2
            back = self._quiet + 1
        number, once = planted.get("node-does-not-start"), ("no start", of_set.nodes[killed])
        if number is not None and once not in self.cluster.used:
            self.cluster.used.add(once)
            marks[number] = Mark(-1, acts=(len(acts),), set=of_set.name)
            acts.append(failing(of_set.nodes[killed], name, back, back + START_NS))
            back += START_NS + 1
        acts.append(starting(of_set.nodes[killed], name, back, back + START_NS, 2))
        of_set.down.remove(killed)
        of_set.grow()
        self._sweep(acts, marks, back + START_NS + 1, ends(strike.elected), None)
