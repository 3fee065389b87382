"""Faults of a pair around the return of a master.

A master is away for longer than name servers wait for it, so that a slave acts; what its return
meets is not sound either: a slave that is down or does not hear it, a name server that has just
started, broker sets that take nothing. One fault after the other as `maxq.harness.sampling.draw`
draws them rarely is in force at the moment of a return. Here each round is a master that is away
and comes back, with none to two companions, of which most begin before the return and outlast it.
Then the cluster mostly has the time to recover in.

Every draw is keyed by the number of the round and by what it is for. Times are in milliseconds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.keyed_draws import Keyed
from maxq.harness.contracts.target import Node
from maxq.harness.sampling.factors import Row
from maxq.harness.sampling.faults import LASTING_MS, REST_MS, Fault
from maxq.harness.schedule.format import Act, When, Who
from maxq.histories.fault_facts import ADD_WRITE, KILL, PAUSE, RESTART, WIPE_WRITE

AROUND = frozenset(("crash", "hang", "cut"))  # kinds that a master can be away by
PART = 70  # of a hundred: in how much of a run rounds may begin
MOST = 8  # rounds
# How long a master is away: not for long enough to be missed, until a slave acts, for much longer.
AWAY_MS = ((500, 6_000), (10_000, 25_000), (10_000, 25_000), LASTING_MS, LASTING_MS)
COMPANIONS = (0, 0, 1, 2)
# By what kinds of faults a companion is there, else by the one that it is called; one is an order.
BY = {
    "slaves": ("crash", "hang"), "others": ("crash", "hang"), "namesrv": ("crash", "hang"),
    "parted": ("cut",), "unheard": ("cut",), "closed": (),
}  # fmt: skip
ACROSS, JUST_OVER = 55, 20  # of a hundred companions: they outlast the return; are over before it
LEAD_MS = (20, 8_000)
LASTS_MS = (1_000, 45_000)
AMISS_MS = 8_000  # by how much others begin and end after the master
RESTED = 75  # of a hundred rounds: the cluster is left alone afterwards
GAP_MS = (1_000, 8_000)


Struck = tuple[str, str, dict[str, Any]]  # an act, its heal, and what it takes


class Returns:
    """The rounds of a run.

    Args:
        draws: of the run.
        row: its factors; of `AROUND` one at least is on.
        nodes: of the cluster.
        kinds: of faults that are on.
        most: so many acts that strike, each kind once before one of them twice; None: as many as
            there is time for.
    """

    def __init__(
        self,
        draws: Keyed,
        row: Row,
        nodes: Sequence[Node],
        kinds: Sequence[str],
        *,
        most: int | None = None,
    ) -> None:
        self._draws = draws
        self._row = row
        self._kinds = tuple(kinds)
        self._nodes = tuple(nodes)
        self._most = most
        brokers = [n for n in nodes if n.role is Role.BROKER]
        self._sets = {
            name: tuple(n.name for n in brokers if n.broker_set == name)
            for name in sorted({n.broker_set for n in brokers})
        }
        self._namesrvs = tuple(n.name for n in nodes if n.role is Role.NAMESRV)
        self._number = 0
        self._unseen = set(kinds) if most is not None else set[str]()

    def acts(self, length: int) -> Iterator[Act]:
        """All of them.

        Args:
            length: of the run, in ms.
        """
        before, at, struck = "", 0, 0
        until = length * PART // 100
        most = MOST * (1 + max(COMPANIONS)) if self._most is None else self._most
        while (at < until or self._unseen) and self._number < MOST and struck < most:
            home = self._draws.choice([*self._sets], *self._key("set"))
            away = self._away()
            at += away + (gap := self._gap())
            yield from self._master(home, When(after=before, at=gap / 1000), away)
            names = self._companions()[: most - struck - 1]
            for place, name in enumerate(names):
                yield from self._companion(f"f{self._number}{'ab'[place]}", name, home, away)
            before, struck = f"f{self._number}.h", struck + 1 + len(names)
            self._number += 1

    def _key(self, *what: int | str) -> tuple[int | str, ...]:
        return ("return", self._number, *what)

    def _gap(self) -> int:
        """Since the return before."""
        rested = self._number > 0 and self._draws.chance(RESTED, *self._key("rested"))
        return self._draws.between(*(REST_MS if rested else GAP_MS), *self._key("gap"))

    def _away(self) -> int:
        """How long its master is away."""
        span = self._draws.choice(AWAY_MS, *self._key("how long"))
        return self._draws.between(*span, *self._key("away"))

    def _master(self, home: str, begin: When, away: int) -> Iterator[Act]:
        """It goes and returns."""
        strike, after = f"f{self._number}", When(after=f"f{self._number}", at=away / 1000)
        f, heal, args = self._struck("master", cut=True)
        who = Who(part="master", nodes=self._sets[home][:1])
        yield Act(id=strike, f=f, when=begin, who=who, args=args)
        yield Act(id=f"{strike}.h", f=heal, when=after, who=Who(of=strike))

    def _struck(self, what: str, *, cut: bool) -> Struck:
        """How nodes go away."""
        ways = [k for k in ("crash", "hang", "cut") if k in self._kinds and (cut or k != "cut")]
        way = self._draws.choice([w for w in ways if w in self._unseen] or ways,
                                 *self._key(what, "way"))  # fmt: skip
        self._unseen.discard(way)
        match way:
            case "crash":
                f = self._row["crash"]
                return (KILL if f == RESTART else f), "start", {}
            case "hang":
                return PAUSE, "resume", {}
        # From name servers alone it still has its slaves, and must give way nevertheless.
        alone = self._draws.chance(50, *self._key(what, "from namesrvs"))
        return self._cut("namesrvs" if alone else "")

    def _cut(self, peers: str | Sequence[str]) -> Struck:
        """A cut from some, or from all others."""
        args: dict[str, Any] = {"from": peers} if peers else {}
        if self._row["cut"] != "both":
            args["ways"] = self._row["cut"]
        if self._row["cut-packets"] == "reset":
            args["reset"] = True
        return "start-partition", "stop-partition", args

    # Companions.

    def _companions(self) -> list[str]:
        """What there is beside a master that is away."""
        names = [name for name, by in BY.items() if {*by} & {*self._kinds}]
        names += [kind for kind in self._kinds if kind not in AROUND]
        if len(self._sets) > 1:
            names.append("closed")
        names = self._draws.shuffled(names, *self._key("which"))
        several = self._draws.choice(COMPANIONS, *self._key("companions"))
        unseen, chosen = set(self._unseen), list[str]()
        for _ in range(max(several, 1) if unseen else several):
            lacking = [name for name in names if unseen.intersection(BY.get(name, (name,)))]
            chosen.append((lacking or names)[0])
            names.remove(chosen[-1])
            unseen.difference_update(BY.get(chosen[-1], (chosen[-1],)))
        return chosen

    def _companion(self, name: str, what: str, home: str, away: int) -> Iterator[Act]:
        begin, lasts = self._span(what, away)
        when = When(after=f"f{self._number}", at=begin / 1000)
        if len(by := BY.get(what, (what,))) == 1:
            self._unseen.discard(by[0])
        if what not in BY:
            yield from self._other(name, what, when)
            return
        who, (strike, heal, args) = self._amiss(what, home)
        yield Act(id=name, f=strike, when=when, who=who, args=args)
        after = When(after=name, at=lasts / 1000)
        yield Act(id=f"{name}.h", f=heal, when=after, who=Who(of=name))

    def _amiss(self, what: str, home: str) -> tuple[Who, Struck]:
        """Whom a companion strikes, and how."""
        master, *slaves = self._sets[home]
        match what:
            case "parted":
                return Who(nodes=(master,)), self._cut(slaves)
            case "unheard":
                one = self._draws.choice(self._namesrvs, *self._key("which namesrv"))
                return Who(nodes=(one,)), self._cut([
                    self._draws.choice((master, *slaves), *self._key("by whom"))
                ])  # fmt: skip
            case "closed":
                other = self._draws.choice([s for s in self._sets if s != home], *self._key(what))
                return Who(nodes=self._sets[other][:1]), (WIPE_WRITE, ADD_WRITE, {})
        return self._down(what, home), self._struck(what, cut=False)

    def _down(self, what: str, home: str) -> Who:
        """Who goes away as well."""
        match what:
            case "slaves":
                slaves = self._sets[home][1:]
                some = self._draws.choice((slaves[:1], slaves), *self._key("slaves"))
                return Who(part="slave", nodes=tuple(some))
            case "others":
                others = tuple(of[0] for name, of in self._sets.items() if name != home)
                some = self._draws.choice((others[:1], others), *self._key("others"))
                return Who(part="master", nodes=some)
        return Who(
            part="namesrv", nodes=(self._draws.choice(self._namesrvs, *self._key("namesrv")),)
        )

    def _span(self, what: str, away: int) -> tuple[int, int]:
        """When a companion begins, after the master went, and how long it lasts."""
        how = self._draws.below(100, *self._key(what, "how"))
        lead = min(self._draws.log_uniform(*LEAD_MS, *self._key(what, "lead")), away)
        lasts = self._draws.log_uniform(*LASTS_MS, *self._key(what, "lasts"))
        if how < ACROSS:
            return away - lead, lasts
        if how < ACROSS + JUST_OVER:
            begin = max(away - lead - lasts, 0)
            return begin, max(away - lead - begin, 0)
        begin = self._draws.below(AMISS_MS, *self._key(what, "begin"))
        end = away + self._draws.between(-AMISS_MS, AMISS_MS, *self._key(what, "end"))
        return begin, max(end - begin, GAP_MS[0])

    def _other(self, name: str, kind: str, when: When) -> Iterator[Act]:
        """A fault of another kind, as runs of other aims have it."""
        number = 10 * (self._number + 1) + (name[-1] == "b")
        strike, *heals = Fault(
            self._draws, self._row, number, f"f{self._number}", self._nodes, within=True
        ).of(kind)
        yield Act(id=strike.id, f=strike.f, when=when, who=strike.who, args=strike.args)
        yield from heals
