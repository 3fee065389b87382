"""Faults of a pair around the return of a broker, a master in most cases.

A master is away for longer than name servers wait for it, so that a slave acts; what its return
meets is not sound either: a slave that is down, has copied nothing for a while or does not hear it,
a name server that has just started, broker sets that take nothing. One fault after the other as
`maxq.harness.sampling.draw` draws them rarely is in effect at the moment of a return. Here each
round is a broker that is away and comes back, with none to two companions, of which most begin
before the return and outlast it. Then the cluster mostly has the time to recover in.

Every draw is keyed by the number of the round and by what it is for. Times are in milliseconds.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.keyed_draws import Keyed
from maxq.harness.contracts.target import Node
from maxq.harness.sampling.factors import Row
from maxq.harness.sampling.faults import LASTING_MS, REST_MS, Fault
from maxq.harness.schedule.format import Act, When, Who
from maxq.histories.fault_facts import ADD_WRITE, KILL, PAUSE, RESTART, WIPE_WRITE

AROUND = frozenset(("crash", "hang", "cut"))  # kinds that a master can be away by
PART, BACK = 70, 85  # of a hundred: in how much of a run rounds may begin, and should be over
MOST = 8  # rounds
SLAVES = 20  # of a hundred rounds: a slave is away instead of a master
# How long it is away: not for long enough to be missed, until a slave acts, for much longer.
AWAY_MS = ((500, 6_000), (10_000, 25_000), (10_000, 25_000), LASTING_MS, LASTING_MS)
COMPANIONS = (0, 1, 1, 2)
# By what kinds of faults a companion is there, else by the one that it is called; one is an order.
BY = {
    "slaves": ("crash", "hang"), "others": ("crash", "hang"), "namesrv": ("crash", "hang"),
    "parted": ("cut",), "unheard": ("cut",), "closed": (),
}  # fmt: skip
OF_MASTERS = ("slaves", "others", "closed")  # only beside a master that is away
# When a companion strikes: it outlasts the return; is over just before it; is there for about as
# long as the broker is away; was there before that one went, and is over before it is back, as
# slaves whose tables are old.
Span = Literal["across", "just over", "along", "before"]
USUALLY: tuple[Span, ...] = ("across", "across", "just over", "along")
TIMES: dict[str, tuple[Span, ...]] = {
    "slaves": ("across", "across", "along", "before"),
    "others": ("across", "along"),
    "namesrv": ("across", "just over", "just over", "along"),
}
LEAD_MS = (20, 8_000)
OLD_MS = (10_000, 30_000)  # for how long such a slave has been away when its master goes
LASTS_MS = (1_000, 45_000)
AMISS_MS = 8_000  # by how much others begin and end after the broker
RESTED = 75  # of a hundred rounds: the cluster is left alone afterwards
GAP_MS = (1_000, 8_000)


Struck = tuple[str, str, dict[str, Any]]  # an act, its heal, and what it takes


class Round(NamedTuple):
    """Of which broker set a broker goes, its slave or its master; how long after the end of the
    round before (an act's id), and for how long."""

    home: str
    of_slave: bool
    before: str
    gap: int
    away: int


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
        at, struck = 0, 0
        until = length * PART // 100
        most = MOST * (1 + max(COMPANIONS)) if self._most is None else self._most
        while (at < until or self._unseen) and self._number < MOST and struck < most:
            home = self._draws.choice([*self._sets], *self._key("set"))
            before = f"f{self._number - 1}.h" if self._number else ""
            gap = self._gap()
            away = self._away(length * BACK // 100 - at - gap)
            of = Round(home, self._of_slave(), before, gap, away)
            at += of.gap + of.away
            yield from self._goes(of)
            names = self._companions(of)[: most - struck - 1]
            for place, name in enumerate(names):
                yield from self._companion(f"f{self._number}{'ab'[place]}", name, of)
            struck += 1 + len(names)
            self._number += 1

    def _key(self, *what: int | str) -> tuple[int | str, ...]:
        return ("return", self._number, *what)

    def _of_slave(self) -> bool:
        return self._draws.chance(SLAVES, *self._key("of slave"))

    def _gap(self) -> int:
        """Since the return before."""
        rested = self._number > 0 and self._draws.chance(RESTED, *self._key("rested"))
        return self._draws.between(*(REST_MS if rested else GAP_MS), *self._key("gap"))

    def _away(self, room: int) -> int:
        """How long a broker is away, which is to be back within the run if it can be."""
        spans = [span for span in AWAY_MS if span[1] <= room] or AWAY_MS[:1]
        span = self._draws.choice(spans, *self._key("how long"))
        return self._draws.between(*span, *self._key("away"))

    def _goes(self, of: Round) -> Iterator[Act]:
        """It goes and returns."""
        strike, begin = f"f{self._number}", When(after=of.before, at=of.gap / 1000)
        end = When(after=strike, at=of.away / 1000)
        part, place = ("slave", 1) if of.of_slave else ("master", 0)
        f, heal, args = self._struck("master", cut=True)
        who = Who(part=part, nodes=self._sets[of.home][place : place + 1])
        yield Act(id=strike, f=f, when=begin, who=who, args=args)
        yield Act(id=f"{strike}.h", f=heal, when=end, who=Who(of=strike))

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

    def _companions(self, of: Round) -> list[str]:
        """What there is beside a broker that is away."""
        names = [name for name, by in BY.items() if {*by} & {*self._kinds}]
        names += [kind for kind in self._kinds if kind not in AROUND]
        if len(self._sets) > 1:
            names.append("closed")
        if of.of_slave:
            names = [name for name in names if name not in OF_MASTERS]
        names = self._draws.shuffled(names, *self._key("which"))
        several = self._draws.choice(COMPANIONS, *self._key("companions"))
        unseen, chosen = set(self._unseen), list[str]()
        for _ in range(min(max(several, 1) if unseen else several, len(names))):
            lacking = [name for name in names if unseen.intersection(BY.get(name, (name,)))]
            chosen.append((lacking or names)[0])
            names.remove(chosen[-1])
            unseen.difference_update(BY.get(chosen[-1], (chosen[-1],)))
        return chosen

    def _companion(self, name: str, what: str, of: Round) -> Iterator[Act]:
        when, heals = self._span(name, what, of)
        if len(by := BY.get(what, (what,))) == 1:
            self._unseen.discard(by[0])
        if what not in BY:
            yield from self._other(name, what, when)
            return
        who, (strike, heal, args) = self._amiss(what, of.home)
        yield Act(id=name, f=strike, when=when, who=who, args=args)
        yield Act(id=f"{name}.h", f=heal, when=heals, who=Who(of=name))

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

    def _span(self, name: str, what: str, of: Round) -> tuple[When, When]:
        """When a companion begins, and when it is over."""
        draws, goes = self._draws, f"f{self._number}"
        how = draws.choice(TIMES.get(what, USUALLY), *self._key(what, "how"))
        lead = min(draws.log_uniform(*LEAD_MS, *self._key(what, "lead")), of.away)
        match how:
            case "before":
                old = draws.between(*OLD_MS, *self._key(what, "old"))
                over = draws.below(of.away, *self._key(what, "over"))
                begins = When(after=of.before, at=max(of.gap - old, 0) / 1000)
                return begins, When(after=goes, at=over / 1000)
            case "across":
                begin, lasts = of.away - lead, self._lasts(what)
            case "just over":
                begin = max(of.away - lead - self._lasts(what), 0)
                lasts = max(of.away - lead - begin, 0)
            case _:
                begin = draws.below(AMISS_MS, *self._key(what, "begin"))
                end = of.away + draws.between(-AMISS_MS, AMISS_MS, *self._key(what, "end"))
                lasts = max(end - begin, GAP_MS[0])
        return When(after=goes, at=begin / 1000), When(after=name, at=lasts / 1000)

    def _lasts(self, what: str) -> int:
        """For how long a companion is there, in half of all cases beyond the bounds of claims."""
        long = self._draws.chance(50, *self._key(what, "long"))
        draw = self._draws.between if long else self._draws.log_uniform
        return draw(*(LASTING_MS if long else LASTS_MS), *self._key(what, "lasts"))

    def _other(self, name: str, kind: str, when: When) -> Iterator[Act]:
        """A fault of another kind, as runs of other aims have it."""
        number = 10 * (self._number + 1) + (name[-1] == "b")
        strike, *heals = Fault(
            self._draws, self._row, number, f"f{self._number}", self._nodes, within=True
        ).of(kind)
        yield Act(id=strike.id, f=strike.f, when=when, who=strike.who, args=strike.args)
        yield from heals
