"""Which faults a loss needs: tried, not guessed, where the run is simulated.

The run is written down as a schedule of acts, each fault with its heals, and repeated without some
of them: halves, then single acts, until none can go. What is left is *enough* for the loss, and
each of it is needed within it; it need not be the only such set, so the whole run is repeated
without it as well. One loss is looked for and not any: messages that the same broker acknowledged,
of those that the repetition with all acts lost. A finding of another kind is looked for by its
name, its broker set and its messages; where it names none, it must be proven at about the same
time.

A repetition performs the same acts and calls at the same times, on other draws of the network than
the run had; where it does not show the finding at all, nothing can be tried, and that is said.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice

import msgspec

from maxq.checkers.core.api import Harm
from maxq.checkers.evidence.acts import Act as Past
from maxq.checkers.evidence.acts import acts_of
from maxq.checkers.evidence.observations import listed
from maxq.checkers.evidence.story import Storyteller
from maxq.harness.experiments.simulate import simulated
from maxq.harness.run.explained import Explained
from maxq.harness.run.process.workers import processes
from maxq.harness.run.replay import options_for, other_seed, with_seed
from maxq.harness.run.stored_run import Judged
from maxq.harness.schedule.format import SCHEDULE, Act, Schedule, Who, read
from maxq.harness.schedule.from_history import as_recorded
from maxq.harness.schedule.options import Options
from maxq.harness.schedule.reductions import family, without_families
from maxq.histories.fault_facts import BUILT_IN
from maxq.histories.history import History

BUDGET = 25  # repetitions, those under other seeds among them
SEEDS = 5
APART_NS = 5_000_000_000  # of two findings that are called one and the same
JOBS = 2  # repetitions at a time
PARTS = frozenset(("master", "slave", "sync-state-set-slave", "controller-leader"))


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of a repetition: of a loss `values` by acknowledging broker; what it is blamed on,
    as families of acts, and in words."""

    kind: str
    broker_set: str
    node: str
    at_ns: int  # when it was proven
    lost: int
    values: tuple[object, ...]
    blamed: tuple[str, ...]
    title: str
    told: str

    def alike(self, other: "Shown") -> bool:
        """Whether it is of the same kind, of the same broker set."""
        return (self.kind, self.broker_set) == (other.kind, other.broker_set)

    def same(self, other: "Shown") -> bool:
        """Whether this is the finding that was looked for in another repetition."""
        if not self.alike(other):
            return False
        if self.values and other.values:
            return self.node == other.node and not set(self.values).isdisjoint(other.values)
        return abs(self.at_ns - other.at_ns) <= APART_NS


def repeated(script: Schedule) -> list[Shown]:
    """What a schedule shows."""
    run = simulated(script, options_for(script, "simulated"))
    acts = {act.begun: act for act in acts_of(run.history)}
    teller = Storyteller(run.history)
    return [_shown(run.history, harm, acts, teller) for harm in run.results.findings]


def _shown(history: History, harm: Harm, acts: dict[int, Past], teller: Storyteller) -> Shown:
    blamed = [acts[at] for at in harm.acts if at in acts]
    told = "; and ".join(f"the {teller.act(act)}" for act in blamed)
    return Shown(
        kind=harm.kind,
        broker_set=harm.set,
        node=harm.node,
        at_ns=max((history[at].time for at in harm.ops), default=-1),
        lost=harm.lost,
        values=harm.values,
        blamed=tuple(str(history[at].value).partition(".")[0] for at in harm.acts),
        title=harm.title,
        told=harm.title + (f", blamed on {told}" if told else ""),
    )


class Trials:
    """Repetitions of one run, so many at a time; each set of acts is tried once. To be closed.

    Args:
        script: all of it.
        jobs: repetitions at a time.
        budget: repetitions in all.
        say: told of each.
    """

    def __init__(
        self, script: Schedule, *, jobs: int, budget: int, say: Callable[[str], None]
    ) -> None:
        self.script = script
        # A heal of its own name in a written schedule stays: without its fault it heals nothing.
        strikes = (act for act in script.acts if not BUILT_IN.heals(act.f))
        self.names = tuple(dict.fromkeys(family(act) for act in strikes))
        self.runs = 0
        self._jobs, self._budget, self._say = jobs, budget, say
        self._known: dict[frozenset[str], list[Shown]] = {}
        self._end = ExitStack()
        self._pool = self._end.enter_context(processes(jobs))

    def close(self) -> None:
        """End the workers."""
        self._end.close()

    @property
    def left(self) -> int:
        """How many repetitions may still be made."""
        return self._budget - self.runs

    def only(self, names: Collection[str]) -> Schedule:
        """The run with these acts and no others."""
        return without_families(self.script, [n for n in self.names if n not in names])

    def shown(self, sets: Sequence[frozenset[str]]) -> list[list[Shown]]:
        """What the run shows with each of these sets of acts."""
        new = list(dict.fromkeys(s for s in sets if s not in self._known))
        for names, found in zip(new, self._repeated(new), strict=True):
            self._known[names] = found
            self.runs += 1
            self._say(
                f"repetition {self.runs} of at most {self._budget}, with {len(names)} of "
                f"{len(self.names)} acts"
            )
        return [self._known[names] for names in sets]

    def _repeated(self, sets: Sequence[frozenset[str]]) -> Iterator[list[Shown]]:
        return self._pool.map(repeated, [self.only(names) for names in sets])

    def tried(self, sets: Iterable[frozenset[str]]) -> bool:
        """Whether nothing is left to be learnt from these sets."""
        return all(names in self._known for names in sets)

    def first(self, sets: Iterable[frozenset[str]], target: Shown) -> frozenset[str] | None:
        """The first set with which the finding is shown."""
        waiting = iter(sets)
        while batch := list(islice(waiting, self._jobs)):
            if len([names for names in batch if names not in self._known]) > self.left:
                return None
            for names, shown in zip(batch, self.shown(batch), strict=True):
                if any(one.same(target) for one in shown):
                    return names
        return None

    def rate(self, names: Collection[str], target: Shown, seeds: int) -> tuple[int, int]:
        """How often a finding of the kind is shown by the broker set under other seeds."""
        script = by_role(self.only(names))
        numbers = range(1, seeds + 1)
        scripts = [with_seed(script, other_seed(script.header.seed, n)) for n in numbers]
        found = list(self._pool.map(repeated, scripts))
        self.runs += seeds
        self._say(f"{seeds} more under other seeds, with {len(names)} acts")
        hits = sum(any(one.alike(target) for one in shown) for shown in found)
        return hits, seeds


def by_role(script: Schedule) -> Schedule:
    """The same on whoever plays the part then that a node played when it was struck: under another
    seed another broker leads."""
    return msgspec.structs.replace(script, acts=tuple(map(_by_role, script.acts)))


def _by_role(act: Act) -> Act:
    roles = {} if act.done is None else act.done.nodes
    grudge = act.args.get("grudge")
    if grudge is None:
        parts = {roles.get(node, "") for node in act.who.nodes}
        if len(parts) != 1 or not parts <= PARTS:
            return act
        who = Who(part=parts.pop(), count=len(act.who.nodes))
        return msgspec.structs.replace(act, who=who)
    edges = [(to, source) for to, sources in grudge.items() for source in sources]
    for node, role in roles.items():
        if role in PARTS and edges and all(node in edge for edge in edges):
            return _cut_of(act, node, role, edges)
    return act


def _cut_of(act: Act, node: str, role: str, edges: Sequence[tuple[str, str]]) -> Act:
    """A cut that is all about one node, by the part that it played."""
    deaf, unheard = ({e for e in edges if e[at] == node} for at in (0, 1))
    ways = "both" if deaf and unheard else "in" if deaf else "out"
    others = sorted({n for edge in edges for n in edge} - {node})
    brokers = [n for n in others if "-" in n]
    far: object = [n for n in others if n not in brokers]
    if brokers and len(brokers) == len(others):
        far = "brokers"
    elif brokers:
        far = "rest"
    args = {k: v for k, v in act.args.items() if k != "grudge"}
    return msgspec.structs.replace(
        act, who=Who(part=role), args={**args, "from": far, "ways": ways}
    )


def reduced(
    trials: Trials, target: Shown, blamed: frozenset[str] | None
) -> tuple[frozenset[str], bool]:
    """A small set of acts that still shows a finding, and whether none of it can go.

    Args:
        trials: who repeats.
        target: what must be shown.
        blamed: acts that are tried first; None: nobody has an idea.
    """
    guesses = [frozenset[str](), *([blamed] if blamed else [])]
    best = trials.first(guesses, target)
    if best is None:
        best = _halved(trials, target, frozenset(trials.names))
    while best and trials.left > 0:
        singles = [best - {name} for name in sorted(best)]
        smaller = trials.first(singles, target)
        if smaller is None:
            return best, trials.tried(singles)
        best = smaller
    return best, not best


def _halved(trials: Trials, target: Shown, best: frozenset[str]) -> frozenset[str]:
    """Delta debugging: parts of the acts, then all but a part, then smaller parts."""
    parts = 2
    while len(best) > 1 and trials.left > 0:
        names = [n for n in trials.names if n in best]
        size = -(-len(names) // parts)
        pieces = [frozenset(names[i : i + size]) for i in range(0, len(names), size)]
        others = [best - piece for piece in pieces] if len(pieces) > 2 else []
        found = trials.first([*pieces, *others], target)
        if found is not None:
            best, parts = found, max(parts - 1, 2) if found in others else 2
        elif parts >= len(names):
            break
        else:
            parts = min(parts * 2, len(names))
    return best


def explain(
    history: History,
    options: Options,
    harms: Sequence[Harm],
    *,
    jobs: int,
    budget: int = BUDGET,
    say: Callable[[str], None] = lambda text: None,
    guess: bool = True,
    script: Schedule | None = None,
) -> list[Explained]:
    """Try which acts of a simulated run its findings need.

    Args:
        history: of the run.
        options: how it was set up.
        harms: the findings, in the order in which they are tried.
        jobs: repetitions at a time.
        budget: repetitions in all.
        say: told how far it is.
        guess: whether the acts that the history blames are tried first.
        script: the schedule that drove the run, if one did. A finding that hangs on an event comes
            back only if acts strike by events again, as it says, and not at the recorded times.
    """
    acts = {act.begun: act for act in acts_of(history)}
    teller = Storyteller(history)
    wanted = [_shown(history, harm, acts, teller) for harm in harms]
    found = _explain(as_recorded(history, options), wanted, jobs, budget, say, guess=guess)
    missing = [one for one, done in zip(wanted, found, strict=True) if done.why == NOT_AGAIN]
    if script is None or not missing:
        return found
    again = iter(_explain(script, missing, jobs, budget, say, guess=guess))
    return [next(again) if done.why == NOT_AGAIN else done for done in found]


def _explain(
    script: Schedule,
    wanted: Sequence[Shown],
    jobs: int,
    budget: int,
    say: Callable[[str], None],
    *,
    guess: bool,
) -> list[Explained]:
    trials = Trials(script, jobs=jobs, budget=budget, say=say)
    try:
        [base] = trials.shown([frozenset(trials.names)])
        return [_explained(trials, base, one, guess=guess) for one in wanted]
    finally:
        trials.close()


def _explained(trials: Trials, base: Sequence[Shown], wanted: Shown, *, guess: bool) -> Explained:
    alike = [one for one in base if one.same(wanted)]
    target = max(alike, key=lambda one: one.lost, default=None)
    if target is None:
        return Explained(finding=wanted.title, why=NOT_AGAIN)
    if trials.left <= 0:
        return Explained(finding=wanted.title, why="not tried: no repetition was left")
    before = trials.runs
    done = _tried(trials, target, frozenset(target.blamed) if guess else None)
    return msgspec.structs.replace(done, runs=trials.runs - before)


NOT_AGAIN = "the repetition of the run does not show it, so nothing can be left out"


def _tried(trials: Trials, target: Shown, blamed: frozenset[str] | None) -> Explained:
    every = frozenset(trials.names)
    enough, whole = reduced(trials, target, blamed)
    gone: bool | None = None
    instead: list[str] = []
    rate = None
    if enough and trials.left > 0:
        [shown] = trials.shown([every - enough])
        gone = not any(one.same(target) for one in shown)
        instead = [one.told for one in shown if one.alike(target)]
    if trials.left >= SEEDS:
        rate = trials.rate(enough, target, SEEDS)
    by_family = {family(act): act for act in reversed(trials.script.acts)}
    return Explained(
        finding=target.title,
        blamed=tuple(sorted(target.blamed)),
        enough=tuple(sorted(enough)),
        acts=tuple(_told(by_family[name]) for name in trials.names if name in enough),
        reduced=whole,
        gone=gone,
        instead=tuple(instead),
        rate=rate,
        of=len(every),
    )


def _told(act: Act) -> str:
    """An act of a recorded run in words; times are of its main part."""
    nodes = sorted(act.who.nodes or act.args.get("grudge", ()))
    return f"{act.f} of {listed(nodes)} at {act.when.at:.3f} s of the main part"


def _driven_by(judged: Judged) -> Schedule | None:
    path = judged.stored.path / SCHEDULE
    return read(path) if judged.options.scripted and path.is_file() else None


def with_causes(judged: Judged, say: Callable[[str], None]) -> Judged:
    """A judged run with the faults that its findings need, tried, and stored with the verdict.

    Raises:
        ValueError: the run was not simulated, so that it cannot be repeated without a fault.
    """
    if judged.options.environment != "simulated":
        raise ValueError(
            f"--explain repeats a run without some of its faults, which only simulated runs allow; "
            f"this one is of {judged.options.environment}"
        )
    found = explain(
        judged.stored.history, judged.options, judged.results.findings, jobs=JOBS, say=say,
        script=_driven_by(judged),
    )  # fmt: skip
    told = msgspec.structs.replace(judged, explained=tuple(found))
    told.save(whole=False)
    return told.with_report()
