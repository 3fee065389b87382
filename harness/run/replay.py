"""Schedules as runs: what a schedule's header says of the options, and its repetition.

A run of the simulator repeats exactly, since all that it draws is keyed by its schedule and seed.
On real machines the same schedule meets other moments, so it is repeated several times, and a rate
is what is reported.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from maxq.checkers.core.api import Anomaly
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.nearest import nearest
from maxq.harness.contracts.plugins import current
from maxq.harness.contracts.target import plan
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.run_plan import workloads
from maxq.harness.run.stored_run import Judged, options_of, run_test
from maxq.harness.schedule.format import (
    SCHEDULE,
    Act,
    Call,
    Load,
    Schedule,
    ScheduleError,
    ns,
    read,
)
from maxq.harness.schedule.from_history import as_performed, as_recorded
from maxq.harness.schedule.options import Options
from maxq.harness.schedule.reductions import with_options
from maxq.harness.targets.rocketmq.releases import excluded, misplaced, not_driven, spelled
from maxq.histories.fault_facts import CHANGE_SETTINGS, RELEASE
from maxq.histories.store import CONFIG, open_run
from maxq.nemeses.kinds.process import settings_in
from maxq.reference import mutants
from maxq.reference.config import keys_known

LATE_S = 0.25  # of an act that is performed at the time of another run
Z_95 = 1.96  # of the normal distribution, for an interval of 95 %


class NotRepeated(Exception):
    """The run's schedule does not show the anomaly again."""


class Rate(msgspec.Struct, frozen=True):
    """`hits` of `runs`, with Wilson's interval of 95 %."""

    hits: int
    runs: int

    @property
    def interval(self) -> tuple[float, float]:
        """Between which shares the true one is likely to be. Source: Wilson 1927."""
        if not self.runs:
            return 0.0, 1.0
        p, n, z = self.hits / self.runs, self.runs, Z_95
        middle = p + z * z / (2 * n)
        width = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        scale = 1 + z * z / n
        return max(0.0, (middle - width) / scale), min(1.0, (middle + width) / scale)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.hits} of {self.runs} ({low:.0%} to {high:.0%})"


def script_of(path: Path, *, performed: bool = False) -> tuple[Schedule, Options | None]:
    """The schedule of a run's folder, with the run's options; or of a file, which has none. A
    seeded bug of the run is in its schedule's header, too.

    Args:
        path: of the folder, or of the file.
        performed: what was done in the run, at its times and to its nodes, instead of what was
            asked for.

    Raises:
        ScheduleError, HistoryError: there is none.
    """
    if not path.is_dir():
        if performed:
            raise ScheduleError(f"{path}: only the folder of a run says what was performed")
        return read(path), None
    if performed:
        stored = open_run(path, allow_truncated=True)
        options = options_of(stored)
        return as_recorded(stored.history, options), options
    script = read(path / SCHEDULE)
    if not (path / CONFIG).exists():
        return script, None
    options = options_of(open_run(path, allow_truncated=True))
    if options.existing is not None:
        raise ScheduleError(
            f"{path}: it was a run on cluster {options.existing.cluster}, which Max-Q did not "
            f"start: `{options.command()}` tests it again"
        )
    return with_options(script, mutant=options.mutant or None), options


def options_for(script: Schedule, environment: str = "", **more: Any) -> Options:
    """The options of a run that a schedule drives.

    Args:
        script: the schedule.
        environment: where; empty: where its header says, else simulated.
        more: fields that are set whatever the header says.

    Raises:
        ScheduleError: the header's options are none.
    """
    given = {
        "environment": "simulated",
        **script.header.options,
        **more,
        "seed": script.header.seed,
        "time_limit_ns": ns(script.header.length),
        "scripted": True,
        "scheduled": script.counts(),
    }
    # What was asked for also says how the cluster is set up; written schedules ask for their acts.
    given |= {"later": _later(script), "changed": _changed(script)}
    given.setdefault("nemesis", tuple(dict.fromkeys(act.f for act in script.acts)) or ("none",))
    if environment:
        given["environment"] = environment
    strange = sorted(given.keys() - set(Options.__struct_fields__))
    if strange:
        raise ScheduleError(
            f"header: no option {strange[0]!r}{nearest(strange[0], Options.__struct_fields__)}"
        )
    try:
        options = msgspec.convert(given, Options)
    except msgspec.ValidationError as error:
        raise ScheduleError(f"header: {error}") from None
    _possible(script, options)
    return options


def _later(script: Schedule) -> tuple[str, ...]:
    """The targets that acts of a schedule start nodes as.

    Raises:
        ScheduleError: there is no such release.
    """
    found = []
    for act in script.acts:
        if RELEASE in act.args:
            try:
                found.append(spelled(str(act.args[RELEASE])))
            except ValueError as error:
                raise ScheduleError(f"{act.id}: {error}") from None
    return tuple(dict.fromkeys(found))


def _changed(script: Schedule) -> tuple[tuple[str, str], ...]:
    """The settings that acts of a schedule give nodes, as those of a role: which node that will be
    may be found out when an act strikes."""
    found = []
    for act in script.acts:
        if act.f == CHANGE_SETTINGS:
            try:
                wanted = settings_in(act.args)
            except ValueError as error:
                raise ScheduleError(f"{act.id}: {error}") from None
            found += [(f"{role.value}:{key}", value) for key, value in wanted.items()
                      for role in Role if key in keys_known(role.value)]  # fmt: skip
    return tuple(dict.fromkeys(found))


def _possible(script: Schedule, options: Options) -> None:
    """Whether there is everything that a schedule names: what is not would be left out in silence.

    Raises:
        ScheduleError: there is not.
    """
    for name in options.workload:
        if name not in workloads():
            raise ScheduleError(f"header: no workload {name!r}{nearest(name, workloads())}")
    timed: list[Load | Call] = [*script.loads, *script.calls]
    for item in timed:
        if item.workload not in options.workload:
            raise ScheduleError(
                f"{item.id}: the run has no workload {item.workload!r}, it has: "
                f"{', '.join(options.workload)}"
            )
    if options.mutant and options.mutant not in mutants.names():
        raise ScheduleError(
            f"header: no mutant {options.mutant!r}{nearest(options.mutant, mutants.names())}"
        )
    try:
        nodes = [node.name for node in plan(options.topology)]
        why = misplaced(options.releases, nodes) or not_driven(options.components)
        why = why or excluded(
            options.targets, options.environment, options.mutant, current().targets
        )
    except ValueError as error:
        why = str(error)
    if why:
        raise ScheduleError(f"header: {why}")
    if options.pinned > options.concurrency:
        raise ScheduleError("header: more threads are pinned than there are")


def repeat(
    script: Schedule, options: Options, root: Path, *, times: int, quiet: bool, context: RunContext
) -> Iterator[Judged]:
    """Run a schedule again and again, each time in a folder of its own. In the simulator the first
    repetition has the schedule's own seed and the others seeds of their own. One of several that is
    interrupted is none, and the last."""
    for number in range(times):
        seed = script.header.seed if number == 0 else other_seed(script.header.seed, number)
        again = with_seed(script, seed)
        chosen = msgspec.structs.replace(options, seed=seed)
        judged = run_test(
            chosen, root, quiet=quiet, context=msgspec.structs.replace(context, script=again)
        )
        if times > 1 and context.stop.asked:
            return
        yield judged


def other_seed(seed: int, number: int) -> int:
    """The seed of another repetition."""
    return (seed + number * 1_000_003) % 2**63


def with_seed(script: Schedule, seed: int) -> Schedule:
    """The same schedule under other latencies, time-outs and torn lengths."""
    return msgspec.structs.replace(script, header=msgspec.structs.replace(script.header, seed=seed))


def late(script: Schedule, judged: Judged, after_s: float = LATE_S) -> list[tuple[Act, float]]:
    """The acts of a schedule of times that began later than they should, each with how much (s);
    what was never done is infinitely late. At the end of the main part all is healed anyway."""
    end = script.header.length - after_s
    begun = {act.id: act.done for act in as_performed(script, judged.stored.history).acts}
    found = []
    for act in script.acts:
        done = begun.get(act.id)
        by = math.inf if done is None else done.at - act.when.at
        if not act.when.after and act.when.at < end and by > after_s:
            found.append((act, by))
    return found


def signatures(judged: Judged) -> Sequence[str]:
    """What a run showed: its anomalies, each kind once; not what is only measured."""
    return list(dict.fromkeys(a.signature for a in gravest_first(judged.results.broken)))


def gravest_first(found: Iterable[Anomaly]) -> list[Anomaly]:
    """Lost messages before everything else, as verdicts say them."""
    return sorted(found, key=lambda anomaly: not anomaly.name.startswith("lost"))
