"""How much a run's verdict could have called: wrong answers are planted in it, one at a time.

*Valid* says that nothing was found, not that anything could have been. So each wrong answer is
written into the recorded run at one of its places after the other, the claim's checker judges the
history again, and the share of places at which it finds something more than in the run is the power
of that verdict. Of many places a sample is tried, evenly over the run.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from maxq.checkers.core.api import Checker, Context, Verdict
from maxq.checkers.core.claims import BY_ID
from maxq.checkers.core.keyed import Event, Keyed
from maxq.checkers.judgement.piecewise.dealt import LARGE
from maxq.checkers.power import of_messages, of_nodes
from maxq.checkers.power.wrong import Changes, Plant, Wrong, planted
from maxq.histories.history import History
from maxq.histories.op import HistoryError

WRONGS: Sequence[Wrong] = (*of_messages.WRONGS, *of_nodes.WRONGS)
SAMPLE_MAX = 200
EACH_S = 2.0  # no further place of one wrong answer is tried after so long
TIMED = frozenset(("S14b", "S13b", "N5"))  # judged by how long something lasted
WEAK = 0.1  # a share below which a verdict says little
# Claims about which no wrong answer is planted, each with why.
UNPLANTED: Mapping[str, str] = {
    "S8b": "lists of epochs of whole logs; single answers about them are planted under S8 and S8c",
    "S10": "readings that are lost are planted under S6",
    "S11b": "a log that grows by itself looks like one that clients write to, but at rest",
    "S13d": "no single answer breaks it: a set has to refuse every send of a quiet period",
    "S15": "that a process has ended is seen by the run itself, which no answer can hide",
    "S16": "what is planted under S6, S11 and S12 breaks it too",
    "S17": "only a run with a learner has a place for it",
    "S18": "no single answer breaks it: everybody must have answered for a while",
    **dict.fromkeys(
        ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9", "B10", "B11", "B12", "B14"),
        "only a run with brokers in containers has a place for it",
    ),
    "B13": "only a run in which a log gets old has a place for it",
    "A8": "only whole logs show which copies there are, and no single answer about one",
    **dict.fromkeys(
        (
            *("A1", "A2", "A3", "A4", "A5", "A6", "A11", "A12", "P1", "P2", "P3", "P4", "P5", "P6"),
            *("P7", "P8", "N2", "N3", "N4", "N8", "N12"),
        ),
        "only a pair whose master is away has a place for it",
    ),
    "N7": "only a run in which connections were reset has a place for it",
    "N9": "no single answer breaks it: a name server's table must stay another one",
    "N11": "only a run in which a name server was started has a place for it",
    "L6": "no single answer breaks it: several requests in a row must fail",
    "L7": "only a set that has lost its majority has a place for it",
    **dict.fromkeys(("L8", "L9"), "only a lock that is left alone for a lease has a place for it"),
    "E1": "only what no read has shows it, and no single answer",
    "E3": "only what no read has shows it, and no single answer",
    **dict.fromkeys(("E2", "E5"), "only a run with delayed messages has a place for it"),
    **dict.fromkeys(("E4", "E6", "E7"), "only what no read has shows it, and no single answer"),
    **dict.fromkeys(("E8", "E9"), "only a run with transactions has a place for it"),
    "L1": "a second grant is planted under L2",
    "L3": "only a run whose brokers are not in strict mode has a place for it",
    "L4": "only a run whose brokers are not in strict mode has a place for it",
    "L10": "only a run with ordered consumers has a place for it",
}
NO_PLACE = "this run has no place for it"
NO_TIME = "no fault and no calm of this run lasted longer than the claim's bound"
NO_WITNESS = "no other answer of this run contradicts it"
ADVICE = "--time-limit, --interval and --quiet-period give bounds the time to pass"


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one wrong answer: at how many `places` of the run it could stand, at how many it
    was `tried`, and at how many of these it was `called`, by which claims."""

    claim: str
    wrong: str
    places: int
    tried: int
    called: int
    by: dict[str, int] = {}

    @property
    def share(self) -> float | None:
        """Of those tried, how many were called; None where nothing could be tried."""
        return self.called / self.tried if self.tried else None

    @property
    def weak(self) -> bool:
        """Whether a claim that is kept says little: hardly anything would have been called."""
        return self.share is None or self.share < WEAK

    @property
    def why(self) -> str:
        """Why so little was called; empty where it was not little."""
        if not self.weak:
            return ""
        if not self.places:
            return NO_PLACE
        known = BY_ID.get(self.claim)
        timed = self.claim in TIMED or (known is not None and known.undisturbed)
        return NO_TIME if timed else NO_WITNESS


def power_of(
    history: History,
    checkers: Sequence[Checker],
    context: Context,
    *,
    clock: Callable[[], float],
    each_s: float = EACH_S,
) -> Iterator[Power]:
    """Plant every wrong answer that these checkers could call.

    Args:
        history: of the run.
        checkers: that judged it.
        context: how it was set up.
        clock: seconds that this process has worked.
        each_s: how many of them each wrong answer has.
    """
    by_name = {checker.name: checker for checker in checkers}
    judges: dict[str, _Judge] = {}
    for wrong in WRONGS:
        checker = by_name.get(wrong.checker)
        if checker is not None and wrong.claims[0] not in context.absent:
            judge = judges.get(wrong.checker)
            if judge is None:
                judge = judges[wrong.checker] = _judge_of(checker, history, context)
            plants = list(wrong.plants(history, context))
            yield _tried(wrong, plants, judge, clock, clock() + each_s)


def _tried(
    wrong: Wrong, plants: Sequence[Plant], judge: "_Judge", clock: Callable[[], float], until: float
) -> Power:
    by: Counter[str] = Counter()
    called = tried = 0
    for plant in spread(plants):
        if tried and clock() > until:
            break
        claims = judge.called(plant.changes()) & {*wrong.claims, "S16"}
        by.update(claims)
        called += bool(claims)
        tried += 1
    return Power(
        claim=wrong.claims[0],
        wrong=wrong.name,
        places=len(plants),
        tried=tried,
        called=called,
        by=dict(sorted(by.items())),
    )


def spread(plants: Sequence[Plant]) -> Iterator[Plant]:
    """At most `SAMPLE_MAX` of them, so ordered that any first part lies evenly over the run."""
    count = min(len(plants), SAMPLE_MAX)
    chosen = [plants[n * len(plants) // count] for n in range(count)]
    bits = max(count - 1, 1).bit_length()
    order = sorted(range(count), key=lambda n: f"{n:0{bits}b}"[::-1])
    return (chosen[n] for n in order)


class _Judge:
    """Judges a history again in which some operations are changed."""

    def __init__(self, checker: Checker, history: History, context: Context) -> None:
        self._checker = checker
        self._history = history
        self._context = context
        self._before = _found(checker.check(history, context))

    def called(self, changes: Changes) -> frozenset[str]:
        """The claims of which more is found than in the run."""
        verdict = self._checker.check(planted(self._history, changes), self._context)
        return _more(_found(verdict), self._before)


class _KeyedJudge(_Judge):
    """The same of a check by keys: only the keys of changed operations are judged again."""

    def __init__(self, checker: Keyed[Any, Any, Any], history: History, context: Context) -> None:
        self._keyed = checker
        self._history = history
        self._context = context
        self._known = checker.prepare(history, context)
        self._dealt: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
        for event in (self._event(op) for op in history.clients if op.f in checker.reads):
            for key, row in checker.rows(event, self._known):
                self._dealt[key].append((event.op.index, row))
        self._results = {
            key: checker.judge(key, [row for _, row in rows], self._known)
            for key, rows in sorted(self._dealt.items())
        }
        self._before = _found(self._concluded(history, self._known, self._results))

    def _concluded(self, history: History, known: Any, results: Mapping[Any, Any]) -> Verdict:
        return self._keyed.conclude(history, self._context, known, results)

    def _event(self, op: Any, history: History | None = None) -> Event:
        history = history or self._history
        if op.type == "invoke":
            return Event(op, None, history.completion(op) is None)
        return Event(op, history.invocation(op), False)

    def called(self, changes: Changes) -> frozenset[str]:
        """The claims of which more is found than in the run."""
        history = planted(self._history, changes)
        if any(op.f not in LARGE for op in changes.values()):  # the small part is known to all
            return _more(_found(self._keyed.check(history, self._context)), self._before)
        try:
            return self._by_keys(history, changes)
        except HistoryError:
            return frozenset()

    def _by_keys(self, history: History, changes: Changes) -> frozenset[str]:
        check, known = self._keyed, self._known
        news: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
        touched: set[Any] = set()
        for at, op in changes.items():
            touched |= {key for key, _ in check.rows(self._event(self._history[at]), known)}
            for key, row in check.rows(self._event(op, history), known):
                touched.add(key)
                news[key].append((at, row))
        results = dict(self._results)
        for key in touched:
            kept = [pair for pair in self._dealt.get(key, ()) if pair[0] not in changes]
            rows = sorted([*kept, *news[key]], key=lambda pair: pair[0])
            results.pop(key, None)
            if rows:
                results[key] = check.judge(key, [row for _, row in rows], known)
        results = dict(sorted(results.items()))
        return _more(_found(self._concluded(history, known, results)), self._before)


def _judge_of(checker: Checker, history: History, context: Context) -> _Judge:
    if isinstance(checker, Keyed):
        try:
            return _KeyedJudge(checker, history, context)
        except HistoryError:
            pass  # what it says of values that cannot be read is its verdict
    return _Judge(checker, history, context)


Found = Counter[tuple[str, str]]


def _found(verdict: Verdict) -> Found:
    return Counter({
        (each.claim, name): count
        for each in verdict.claim_verdicts for name, count in each.found.items()
    }) + Counter((a.claim, a.name) for a in verdict.anomalies)  # fmt: skip


def _more(now: Found, before: Found) -> frozenset[str]:
    return frozenset(claim for (claim, name), n in now.items() if n > before[claim, name])


def power_rows(powers: Sequence[Power]) -> list[dict[str, Any]]:
    """As plain values."""
    return [{**msgspec.to_builtins(p), "share": p.share, "why": p.why} for p in powers]


def weakly(powers: Iterable[Power]) -> list[str]:
    """The claims of which less than a tenth of what was planted was called, in order of claims."""
    best: dict[str, float] = {}
    for power in powers:
        best[power.claim] = max(best.get(power.claim, 0.0), power.share or 0.0)
    order = {claim: number for number, claim in enumerate(BY_ID)}
    return sorted((c for c, share in best.items() if share < WEAK),
                  key=lambda c: order.get(c, len(order)))  # fmt: skip
