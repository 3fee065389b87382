"""Upgrades as experiments: which releases work together, and what a way from one to the next keeps.

A *case* is a cluster of one or two releases and what operators do to it, as a schedule: the
combinations that RocketMQ's documents list for brokers and controllers before and after 5.1.1, the
upgrade that they prescribe, and a rolling upgrade between neighbouring releases in both directions,
one node at a time under load. What the documents call impossible is started all the same; that it
never comes up is what was seen, and no failure of the harness. Runs are kept in a journal, so that
a command that was cut off goes on.

Source: apache/rocketmq, persistent_unique_broker_id.md, "Upgrade" and "Compatibility".
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from checkers.evidence.faults import faults
from checkers.evidence.verdicts import late_harness
from harness.cluster.deployment import SetupFailed
from harness.contracts.environment import EnvironmentLost
from harness.contracts.nearest import nearest
from harness.contracts.target import Profile
from harness.experiments.engine import JOURNAL, run_missing
from harness.experiments.journal import append, resumed
from harness.run.run_context import RunContext
from harness.run.stored_run import Judged, run_test
from harness.schedule.format import EVERYBODY, SEND, Act, Header, Load, Schedule, When, Who
from harness.schedule.options import Options
from harness.targets.mixed import parse_release
from harness.targets.rocketmq.releases import REFERENCE
from histories.fault_facts import REMOVE_EPOCHS, REPLACE_RELEASE

BEFORE_IDS = "5.1.0"
AFTER_IDS = ("5.1.1", REFERENCE)
# Of which every component is to be had, but for the newest; neighbours differ by one step.
WHOLE = ("5.0.0", "5.1.0", "5.1.1", "5.1.4", "5.2.0", "5.3.3", "5.4.0", "5.5.0", "5.5.1")
OURS = ((REFERENCE, "5.5.0"), (REFERENCE, "5.1.1"))
PROFILES: tuple[Profile, ...] = ("P-SAFE", "P-DEFAULT")
SEED = 1
BOTH_RUN, NOT_UP = "normal operation, and masters switch", "brokers cannot be brought up"
GOES_ON = "normal operation without a switch; a broker that is restarted cannot be brought up"
NOTHING = "-"


class Case(NamedTuple):
    """One cell. `said` is what the documents say of it; `brokers` and `controllers` for people."""

    name: str
    table: str
    brokers: str
    controllers: str
    said: str
    options: Options
    script: Schedule


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a case: in a few words what was seen, and where it is."""

    case: str
    came: str
    run: str = ""


def cases() -> tuple[Case, ...]:
    """All there are, in the order of the page."""
    documented = (case for new in AFTER_IDS for p in PROFILES for case in _documented(new, p))
    steps = [*pairwise(WHOLE), *OURS]
    ways = [way for old, new in steps for way in ((old, new), (new, old))]
    rolling = (_rolling(old, new, p) for old, new in ways for p in PROFILES)
    return (*documented, *rolling)


def chosen(names: Collection[str]) -> tuple[Case, ...]:
    """The cases of these names, or whose names begin so; ``all`` are all.

    Raises:
        ValueError: there is none; names the nearest.
    """
    known = cases()
    found: dict[str, Case] = {}
    for name in names:
        of = [c for c in known if name == "all" or c.name == name or c.name.startswith(f"{name}/")]
        if not of:
            kinds = {c.name.partition("/")[0] for c in known}
            words = sorted({*kinds, *(c.name for c in known)})
            raise ValueError(f"no case {name!r}{nearest(name, words)}; there are: all, "
                             f"{', '.join(sorted(kinds))}")  # fmt: skip
        found |= {c.name: c for c in of}
    return tuple(found.values())


# What operators do.


def _documented(new: str, profile: Profile) -> Iterator[Case]:
    """The table of 5.1.0 and 5.1.1, and the way from the one to the other."""
    old = BEFORE_IDS
    master = _act("k", "kill", 12, Who(part="master"))
    switch = (master, _act("s", "start", 18, Who(of="k"), after="k"))
    controllers = Who(nodes=("c0",))
    anew = _act("c", REPLACE_RELEASE, 5, controllers, to=new, wipe=True)
    later = (_act("k", "kill", 20, Who(part="master"), after="c"),
             _act("s", "start", 18, Who(of="k"), after="k"))  # fmt: skip
    slave = _act("r", "restart", 15, Who(part="slave"), after="c")
    rows = (
        ("old-old", old, old, BOTH_RUN, switch, 45),
        ("old-controllers", new, old, NOT_UP, switch, 45),
        ("new-controllers", old, new, GOES_ON, (anew, *later), 60),
        ("new-controllers-restart", old, new, GOES_ON, (anew, slave), 45),
        ("new-new", new, new, BOTH_RUN, switch, 45),
        ("documented", f"{old} to {new}", f"{old} to {new}", BOTH_RUN, _procedure(new), 75),
    )
    for kind, brokers, controllers_, said, acts, length in rows:
        if kind == "old-old" and new != AFTER_IDS[0]:
            continue  # it has no new release
        begun_new = kind in ("old-controllers", "new-new")
        changes = any(act.f == REPLACE_RELEASE for act in acts)
        yield _case(
            f"{kind}/{new}/{_short(profile)}", "5.1.1", brokers, controllers_, said, acts, length,
            target=new if begun_new else old, profile=profile, next_release=new if changes else "",
            releases={"controller": old} if kind == "old-controllers" else {},
        )  # fmt: skip


def _procedure(new: str) -> tuple[Act, ...]:
    """Controllers anew; brokers stopped, slaves first; no epoch files; the old master first."""
    slaves, master = Who(of="s1"), Who(of="s2")
    return (
        _act("c", REPLACE_RELEASE, 5, Who(nodes=("c0",)), to=new, wipe=True),
        _act("s1", "stop", 8, Who(part="slave", count=EVERYBODY), after="c"),
        _act("s2", "stop", 3, Who(part="master"), after="s1"),
        _act("e1", REMOVE_EPOCHS, 2, slaves, after="s2"),
        _act("e2", REMOVE_EPOCHS, 0.1, master, after="e1"),
        _act("r1", REPLACE_RELEASE, 0.1, slaves, after="e2", to=new),
        _act("r2", REPLACE_RELEASE, 0.1, master, after="r1", to=new),
        _act("t2", "start", 0.1, master, after="r2"),
        _act("t1", "start", 15, slaves, after="t2"),
    )


def _rolling(old: str, new: str, profile: Profile) -> Case:
    """Name server, controller, brokers: each stopped, and started as the other release."""
    acts = []
    for at, node in enumerate(("n0", "c0", "b0-2", "b0-1", "b0-0")):
        after = f"u{at - 1}" if at else ""
        who = Who(nodes=(node,))
        acts.append(_act(f"u{at}", REPLACE_RELEASE, 10, who, after=after, to=new))
    return _case(
        f"rolling/{old}/{new}/{_short(profile)}", "rolling", f"{old} to {new}", f"{old} to {new}",
        NOTHING, acts, 130, target=old, profile=profile, next_release=new, releases={},
    )  # fmt: skip


def _act(id_: str, f: str, at: float, who: Who, *, after: str = "", **args: object) -> Act:
    if "to" in args:
        args["to"] = parse_release(str(args["to"]))
    return Act(id=id_, f=f, when=When(after=after, at=at), who=who, args=args)


def _case(
    name: str, table: str, brokers: str, controllers: str, said: str, acts: Sequence[Act],
    length: float, *, target: str, profile: Profile, next_release: str, releases: dict[str, str],
) -> Case:  # fmt: skip
    options = Options(
        environment="local", seed=SEED, workload=("queue",), controllers=1, profile=profile,
        nemesis=tuple(dict.fromkeys(act.f for act in acts)), scripted=True,
        time_limit_ns=round(length * 1e9), target=parse_release(target),
        releases={who: parse_release(of) for who, of in releases.items()},
        next_release=parse_release(next_release) if next_release else "",
    )  # fmt: skip
    loads = (Load(id="w", until=length, rate=20.0), Load(id="r", f="poll", until=length, rate=4.0))
    script = Schedule(header=Header(name=name, length=length, seed=SEED), loads=loads,
                      acts=tuple(acts))  # fmt: skip
    return Case(name, table, brokers, controllers, said, options, script)


def _short(profile: Profile) -> str:
    return profile.removeprefix("P-").lower()


# Runs.


class Upgrades:
    """The runs of cases, done and to be done.

    Args:
        folder: of the journal and of the runs.
        environment: where nodes run: local or docker.
        base_image: of the docker engine.
        say: called with a line for each run.
    """

    def __init__(
        self, folder: Path, *, environment: str, base_image: str, say: Callable[[str], None]
    ) -> None:
        self._folder, self._environment, self._say = folder, environment, say
        self._context = RunContext(base_image=base_image)
        folder.mkdir(parents=True, exist_ok=True)
        self.done = resumed(folder / JOURNAL, Seen)

    def of(self, case: Case) -> list[Seen]:
        """The runs of a case so far."""
        return [seen for seen in self.done if seen.case == case.name]

    def run(self, wanted: Sequence[Case], *, times: int, budget_ns: int | None) -> bool:
        """Run cases until each has so many runs, those with the fewest first; whether all have.

        Raises:
            KeyboardInterrupt: a run was interrupted; it does not count.
        """

        def next_case(_: Collection[Case]) -> Case | None:
            missing = [c for c in wanted if len(self.of(c)) < times]
            return min(missing, key=lambda c: len(self.of(c)), default=None)

        for case, seen in run_missing(
            next_case, self._run, self._folder, inline=True, budget_ns=budget_ns
        ):
            self.done.append(seen)
            append(self._folder / JOURNAL, seen)
            self._say(f"{case.name}: {seen.came}  {seen.run}")
        return all(len(self.of(c)) >= times for c in wanted)

    def _run(self, case: Case) -> Seen:
        options = msgspec.structs.replace(case.options, environment=self._environment)
        context = msgspec.structs.replace(self._context, script=case.script)
        try:
            judged = run_test(options, self._folder / "runs", quiet=True, context=context)
        except SetupFailed as error:
            return Seen(case=case.name, came=f"never came up: {_first(str(error))}")
        except EnvironmentLost as error:
            return Seen(case=case.name, came=f"no run: {_first(str(error))}")
        if context.stop.asked:
            raise KeyboardInterrupt
        return Seen(case=case.name, came=came_to(judged), run=str(judged.stored.path))


def came_to(judged: Judged) -> str:
    """A run in a few words: what broke, what was not judged, how much was acknowledged, how much of
    it after the last fault, and which faults did not take."""
    results, history = judged.results, judged.stored.history
    broken = sorted({a.claim for a in results.broken})
    acts = [f for f in faults(history) if history.kinds.kind(f.f) == "fault" and f.nodes]
    last = max((f.ended or f.begun for f in acts), default=0)
    acked = [op.index for op in history.clients if op.f == SEND and op.type == "ok"]
    late = sum(index > last for index in acked)
    words = "valid" if results.valid is True else "unknown"
    words = f"INVALID ({', '.join(broken)})" if broken else words
    unproven = [f"{f.f} of {', '.join(f.nodes)} did not take" for f in acts if not f.holds]
    slow = late_harness(history)
    parts = (words, f"{len(acked)} acknowledged, {late} of them after the last fault", *unproven)
    return "; ".join([*parts, *([slow] if slow else [])])


def _first(text: str) -> str:
    """The first statement of an error."""
    return text.partition(";")[0][:200]
