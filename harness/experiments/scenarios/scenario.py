"""Scenarios: schedules that are known to show a bug on one release and not on another.

A trial is one run of a scenario's schedule on a target, with its faults or without. Trials are kept
in a journal, so that a command that was cut off goes on. A scenario is *shown* when it was bad on
the bad target in at least three of at most ten trials, in none of as many on the good one, and in
none on the bad one without its faults. A trial says nothing whose cluster did not come up, whose
harness was too late itself to see it, or in which none of the claims in question could be judged;
one that is interrupted does not count.
"""

from collections.abc import Callable, Collection
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from maxq.checkers.core.titles import titled
from maxq.checkers.evidence.verdicts import late_harness
from maxq.checkers.judgement.names import signatures as signatures_found
from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import EnvironmentLost
from maxq.harness.contracts.plugins import current as current_plugins
from maxq.harness.experiments.engine import JOURNAL, run_missing
from maxq.harness.experiments.journal import append, resumed
from maxq.harness.experiments.scenarios import kept_scenario
from maxq.harness.report.measures import quantile
from maxq.harness.run.judging import every_checker
from maxq.harness.run.process.signals import Stop
from maxq.harness.run.replay import Rate, options_for, signatures
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule.format import SEND, Act, Known, Schedule, ScheduleError, digest_of, read
from maxq.harness.schedule.reductions import with_options
from maxq.histories.aliases import current
from maxq.histories.columns.timings import timings_of
from maxq.histories.fault_facts import BUILT_IN

FOLDER = Path(__file__).parents[2] / "schedule" / "upstream"
SHOWN_MIN, TRIALS_MAX = 3, 10
Came = Literal["bad", "clean", "failed"]
Way = Literal["bad", "good", "control"]


def _prepares(act: Act) -> bool:
    """Whether an act strikes no node."""
    return BUILT_IN.effect(act.f) == "none"


class Scenario(msgspec.Struct, frozen=True):
    """A schedule and what it is known to show."""

    name: str
    script: Schedule
    known: Known

    def schedule(self, way: Way) -> Schedule:
        """What is run: as it is, with what differs where it is good, or without its faults."""
        if way == "good":
            return with_options(self.script, **self.known.instead)
        if way == "control":
            kept = tuple(act for act in self.script.acts if _prepares(act))
            return msgspec.structs.replace(self.script, acts=kept)
        return self.script

    @property
    def differing(self) -> str:
        """Which options are other ones where it is good; of keys of configuration, those alone."""
        words, usual = [], self.script.header.options.get("keys", {})
        for name, value in sorted(self.known.instead.items()):
            keys = value.items() if name == "keys" else ()
            words += [f"{k} {v}" for k, v in sorted(keys) if usual.get(k) != v]
            words += [] if name == "keys" else [f"{name} {value}"]
        return ", ".join(words)

    @property
    def has_faults(self) -> bool:
        """Whether it has any."""
        return self.schedule("control") != self.script


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run: `digest` is of the schedule that it followed, `seen` what it showed."""

    target: str
    environment: str
    came: Came
    seen: tuple[str, ...] = ()
    run: str = ""
    digest: str = ""
    error: str = ""


class Tally(msgspec.Struct, frozen=True):
    """How often it was bad, and how many trials said anything."""

    bad: int
    trials: int

    def __str__(self) -> str:
        return str(Rate(self.bad, self.trials))


def names() -> list[str]:
    """The scenarios that come with Max-Q."""
    return sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def scenario_of(name: str) -> Scenario:
    """A scenario by its name, or a schedule's file that says what it is known to show.

    Raises:
        ScheduleError: there is none, or it is known to show what no checker finds.
    """
    path = FOLDER / f"{current(name)}.jsonl"
    if not path.exists():
        path = Path(name)
        if not path.is_file():
            if name in kept_scenario.names():
                raise ScheduleError(f"scenario {name!r} shows what is kept, and no known bug")
            near = get_close_matches(name, [*names(), *kept_scenario.names()], n=1)
            meant = f", did you mean {near[0]!r}?" if near else ""
            raise ScheduleError(
                f"no scenario {name!r}{meant or '; `maxq list scenarios` has them'}"
            )
    script = read(path)
    if script.header.known is None:
        raise ScheduleError(f"{path}: its header does not say what it is known to show")
    wrong = complaint(script.header.known)
    if wrong:
        raise ScheduleError(f"{path}: {wrong}")
    return Scenario(path.stem, script, script.header.known)


def complaint(known: Known) -> str:
    """What of `shows` no checker can find, so that every run would be clean; empty if all can be
    found."""
    checkers = [f"{checker.name}:" for checker in every_checker()]
    for shown in known.shows:
        checker, colon, _ = shown.partition(":")
        word, there = (
            (checker + colon, checkers)
            if colon
            else (shown, [*signatures_found(), *current_plugins().signatures])
        )
        if word not in there:
            [nearest] = get_close_matches(word, there, n=1, cutoff=0.0)
            return f"it is known to show {shown!r}, which no checker finds; nearest: {nearest!r}"
    return ""


def came_to(judged: Judged, known: Known) -> tuple[Came, tuple[str, ...]]:
    """Whether a run showed what is looked for, and all that it showed."""
    seen = list(signatures(judged))
    counts = {
        f"{verdict.checker}:{name}"
        for verdict in judged.results.verdicts
        for name, count in verdict.counts.items()
        if count
    }
    wanted = [s for s in known.shows if s in seen or s in counts]
    seen += [s for s in wanted if s in counts]
    if known.slower_ms:
        of_sends = [k.latencies() for k in timings_of(judged.stored.history).kinds if k.f == SEND]
        middle = quantile(of_sends[0], 0.5) if of_sends else None
        if middle is None:
            return "failed", tuple(seen)
        seen.append(f"half of the sends took {middle / 1e6:.0f} ms or longer")
        wanted += ["slow"] if middle >= known.slower_ms * 1_000_000 else []
    if wanted:
        return "bad", tuple(seen)
    blind = _unjudged(judged, known)
    return ("failed", (*seen, blind)) if blind else ("clean", tuple(seen))


def _unjudged(judged: Judged, known: Known) -> str:
    """Why a run says nothing of what is looked for; empty: it does. A harness that was late leaves
    claims open that go by time; what needs no verdict, counts and times, could be anything then."""
    claims = {one.partition("/")[0] for one in known.shows}
    if not claims or not all("/" in one for one in known.shows):
        return late_harness(judged.stored.history)
    said = judged.results.claims
    unknown = all(c not in said or said[c].status == "not judged" for c in claims)
    return f"not judged: {titled(sorted(claims))}" if unknown else ""


class Trials:
    """The trials of a scenario, done and to be done.

    Args:
        scenario: which.
        folder: of the journal and of the runs.
        environment: where.
        say: called with a line for each trial.
        base_image: of the docker engine.
    """

    def __init__(
        self,
        scenario: Scenario,
        folder: Path,
        *,
        environment: str,
        say: Callable[[str], None] = lambda text: None,
        base_image: str = "",
    ) -> None:
        self.scenario = scenario
        self.say = say
        self._digests: dict[Way, str] = {}
        self._folder = folder
        self._environment = environment
        self._around = RunContext(base_image=base_image, stop=Stop(at_once=True))
        folder.mkdir(parents=True, exist_ok=True)
        self.done = resumed(folder / JOURNAL, Trial)

    def tally(self, target: str, *, way: Way = "bad") -> Tally:
        """What trials on a target came to so far."""
        came = [t.came for t in self.of(target, way=way)]
        return Tally(came.count("bad"), len(came) - came.count("failed"))

    def of(self, target: str, *, way: Way = "bad") -> list[Trial]:
        """The trials of this schedule on a target."""
        digest = self._digest(way=way)
        return [
            t
            for t in self.done
            if (t.target, t.environment, t.digest) == (target, self._environment, digest)
        ]

    def more(self, target: str, enough: Callable[[Tally], bool], *, way: Way = "bad") -> Tally:
        """Run trials on a target until there are enough, or too many of them failed.

        Raises:
            KeyboardInterrupt: one was interrupted; it does not count.
        """

        def next_target(_: Collection[str]) -> str | None:
            failed = [t for t in self.of(target, way=way) if t.came == "failed"]
            done = enough(self.tally(target, way=way)) or len(failed) >= TRIALS_MAX
            return None if done else target

        perform = partial(self._run, way=way)
        for _, trial in run_missing(next_target, perform, self._folder, inline=True):
            self._keep(trial, way)
        return self.tally(target, way=way)

    def _digest(self, *, way: Way) -> str:
        if way not in self._digests:
            script = self.scenario.schedule(way)
            header = msgspec.structs.replace(script.header, known=None, name="")
            self._digests[way] = digest_of(msgspec.structs.replace(script, header=header))
        return self._digests[way]

    def _run(self, target: str, *, way: Way) -> Trial:
        script = self.scenario.schedule(way)
        options = options_for(script, self._environment, target=target)
        context = msgspec.structs.replace(self._around, script=script)
        trial = Trial(
            target=target,
            environment=self._environment,
            came="failed",
            digest=self._digest(way=way),
        )
        try:
            judged = run_test(options, self._folder / "runs", quiet=True, context=context)
        except (SetupFailed, EnvironmentLost) as error:
            return msgspec.structs.replace(trial, error=f"{error}"[:300])
        came, seen = came_to(judged, self.scenario.known)
        run = str(judged.stored.path)
        return msgspec.structs.replace(trial, came=came, seen=seen, run=run)

    def _keep(self, trial: Trial, way: Way) -> None:
        self.done.append(trial)
        append(self._folder / JOURNAL, trial)
        how = " without its faults" if way == "control" else ""
        what = ", ".join(trial.seen) or trial.error or "nothing"
        self.say(f"{self.scenario.name} on {trial.target}{how}: {trial.came} ({what})  {trial.run}")


# Is it shown?


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What the trials of a scenario came to."""

    name: str
    known: Known
    differing: str = ""  # options of the good one that are other ones
    bad: Tally
    good: Tally
    control: Tally | None  # on the bad target without its faults; None where it has none

    @property
    def holds(self) -> bool:
        """Whether it is shown."""
        return (
            self.bad.bad >= SHOWN_MIN
            and self.good.trials >= min(self.bad.trials, TRIALS_MAX)
            and not self.good.bad
            and (self.control is None or (self.control.trials > 0 and not self.control.bad))
        )

    @property
    def said(self) -> str:
        """A row of a table."""
        control = "-" if self.control is None else str(self.control)
        upstream = self.known.report or "-"
        good = f"{self.known.good} {self.differing}".strip()
        return (
            f"| {self.name} | {upstream} | {self.known.bad} | {self.bad} | {good} "
            f"| {self.good} | {control} | {'shown' if self.holds else 'not shown'} |"
        )


HEAD = (
    "| scenario | upstream | bad | bad in | good | bad in | bad without faults in | |",
    "|---|---|---|---|---|---|---|---|",
)


def controls(bad: int) -> int:
    """How many trials without faults so many trials on the bad target need."""
    return max(1, bad // SHOWN_MIN)


def ahead(trials: Trials, *, times: int) -> tuple[int, int]:
    """How many trials of a scenario are done, and how many it can become at most; arguments as
    `show_scenario`."""
    known = trials.scenario.known
    bad = trials.tally(known.bad)
    on_bad = bad.trials if bad.bad >= SHOWN_MIN else max(times, bad.trials)
    good = trials.tally(known.good, way="good")
    on_good = good.trials if good.bad else max(on_bad, good.trials)
    done, most = bad.trials + good.trials, on_bad + on_good
    if trials.scenario.has_faults:
        control = trials.tally(known.bad, way="control")
        done += control.trials
        most += control.trials if control.bad else max(controls(on_bad), control.trials)
    return done, most


def so_far(trials: Trials) -> str:
    """What a scenario's trials came to so far, in a few words."""
    known = trials.scenario.known
    bad, good = trials.tally(known.bad), trials.tally(known.good, way="good")
    words = [f"bad in {bad.bad} of {bad.trials} on {known.bad}"] if bad.trials else []
    words += [f"in {good.bad} of {good.trials} on {known.good}"] if good.trials else []
    return f"{trials.scenario.name}: {', '.join(words)}" if words else trials.scenario.name


def show_scenario(trials: Trials, *, times: int) -> Shown:
    """Run what is missing until a scenario is shown, or surely not.

    Args:
        trials: of the scenario.
        times: of how many trials on the bad target three must be bad; as many on the good one as
            that took, and a third of them without faults.
    """
    known, differing = trials.scenario.known, trials.scenario.differing

    def enough(tally: Tally) -> bool:
        return tally.bad >= SHOWN_MIN or tally.trials >= times

    bad = trials.more(known.bad, enough)
    good = trials.more(known.good, lambda t: t.bad > 0 or t.trials >= bad.trials, way="good")
    control = None
    if trials.scenario.has_faults:
        wanted = controls(bad.trials)
        control = trials.more(known.bad, lambda t: t.bad > 0 or t.trials >= wanted, way="control")
    return Shown(
        name=trials.scenario.name,
        known=known,
        differing=differing,
        bad=bad,
        good=good,
        control=control,
    )
