"""Kill, stop, restart, replace the release, pause: what can happen to a node's process.

`kill` ends it as SIGKILL does, `stop` as SIGTERM does; both complete when its process is gone and
its port refuses, and `start` brings it back on its store. `restart` ends it cleanly and starts it
again at once, as an operator does who rolls out a setting. A node that does not end when it is
asked to is killed in the end; the completion says ``forced``. `pause` holds it as SIGSTOP does: it
keeps its connections and its beliefs, and does not know when it goes on that time has passed.

`replace-release` restarts a node as another release, which its answers must show. `start` takes a
`release` as well: between the stop and such a start other acts can change the store.
`change-settings` restarts it with other settings (`settings`, by RocketMQ's keys), its role among
them, which its own answer must show.

A disk that is full or frozen may have ended its node: `start` starts that one again too, and no
other that has ended by itself. Names follow Jepsen's packages: kill, start; pause, resume.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle

from maxq.harness.contracts.cluster import Killable, Part, Pausable, Proof, Replaceable
from maxq.harness.contracts.environment import Capability, Role
from maxq.harness.schedule.format import Who
from maxq.harness.targets import known_keys
from maxq.harness.targets.rocketmq.releases import REFERENCE, spelled
from maxq.histories.fault_facts import CHANGE_SETTINGS, RELEASE, REPLACE_RELEASE, SETTINGS
from maxq.nemeses.bag import Bag
from maxq.nemeses.kind import ActKind, Args, Drawing, Fit, Kind, Step, on_each, running
from maxq.nemeses.stage import Stage, Told

# Masters most of all, since it is their death that can lose messages; one named twice is drawn
# twice as often.
KILLED: tuple[Part, ...] = (
    *("master", "master", "master", "slave", "sync-state-set-slave"),
    *("controller-leader", "namesrv"),
)
PAUSED: tuple[Part, ...] = ("master", "master", "sync-state-set-slave", "controller-leader")
REPLACED: tuple[Part, ...] = ("slave", "slave", "master", "namesrv")  # controllers share one log
SEVERAL: tuple[Part, ...] = ("broker", "controller")
DOWN_S = 1.5
PAUSED_S = 5.0  # beyond the 3 s after which a silent broker counts as dead


async def _start(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    if RELEASE not in args:
        return await stage.each(stage.cluster.offers(Killable).start, nodes)
    release, releases = spelled(str(args[RELEASE])), stage.cluster.offers(Replaceable)
    return await stage.each(lambda node: releases.start_as(node, release), nodes)


async def _replace(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    release, releases = spelled(str(args[RELEASE])), stage.cluster.offers(Replaceable)
    return await stage.each(lambda node: releases.replace_release(node, release), nodes)


async def _change_settings(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    releases, wanted = stage.cluster.offers(Replaceable), settings_in(args)
    return await stage.each(lambda node: releases.change_settings(node, wanted), nodes)


def settings_in(args: Args) -> dict[str, str]:
    """The settings that an act gives, by RocketMQ's keys.

    Raises:
        ValueError: it gives none, or they are no plain values.
    """
    given = args.get(SETTINGS)
    if not isinstance(given, dict) or not given:
        raise ValueError(
            f'it needs settings, such as {SETTINGS}: {{"flushDiskType": "SYNC_FLUSH"}}'
        )
    strange = [key for key, value in given.items() if not isinstance(value, str)]
    if strange:
        raise ValueError(f"{SETTINGS}: the value of {strange[0]} is no text")
    return dict(given)


def _no_settings(args: Args, nodes: Sequence[str]) -> str:
    try:
        wanted = settings_in(args)
    except ValueError as error:
        return str(error)
    whys = (min((known_keys.fault(f"{role.value}:{key}")
                 or known_keys.value_fault(f"{role.value}:{key}", value) for role in Role), key=len)
            for key, value in wanted.items())  # fmt: skip
    return next(filter(None, whys), "")


def _no_release(args: Args, nodes: Sequence[str]) -> str:
    try:
        spelled(str(args[RELEASE]))
    except KeyError:
        return f"it needs a release, such as {RELEASE}: 5.1.1"
    except ValueError as error:
        return str(error)
    return ""


async def restart(cluster: Killable, node: str) -> Proof:
    """Stop a node cleanly and start it at once."""
    stopped = await cluster.stop(node)
    started = await cluster.start(node)
    seen = {"stopped": stopped.seen, "started": started.seen, **stopped.forced}
    return Proof(stopped.holds and started.holds, seen)


def _down(stage: Stage, args: Args) -> Fit:
    return lambda node: not (stage.up(node) or stage.removed(node)) and stage.writable(node)


def _stoppable(stage: Stage, args: Args) -> Fit:
    return lambda node: stage.up(node) and stage.writable(node)


def _restartable(stage: Stage, args: Args) -> Fit:
    awake = (stage.up, stage.writable)
    return lambda node: all(be(node) for be in awake) and not stage.paused(node)


def _awake(stage: Stage, args: Args) -> Fit:
    return lambda node: stage.up(node) and not stage.paused(node)


KILL_ACT = ActKind(
    f="kill", needs=frozenset({Capability.KILL}), fit=running,
    do=on_each(Killable, lambda cluster, args: cluster.kill),
)  # fmt: skip
STOP_ACT = ActKind(
    f="stop", needs=frozenset({Capability.KILL}), fit=_stoppable,
    do=on_each(Killable, lambda cluster, args: cluster.stop),
)  # fmt: skip
START = ActKind(
    f="start", needs=frozenset({Capability.RESTART}), fit=_down, back=True,
    do=_start, complaint=lambda args, nodes: _no_release(args, nodes) if RELEASE in args else "",
)  # fmt: skip


def one_of(bag: Bag[Part]) -> Who:
    """A node that plays the part that comes next."""
    return Who(part=bag.next())


def held(strike: Step, heal: str, hold_s: float) -> tuple[Step, Step]:
    """A strike, and its heal after a while."""
    return strike, Step(heal, hold_s, of=0)


def _killings(drawing: Drawing) -> Iterator[Sequence[Step]]:
    """One node; each fourth time most of the brokers or controllers."""
    parts, several = drawing.bag(KILLED), drawing.bag(SEVERAL)
    holds = drawing.holds(DOWN_S)
    for group in cycle((False, False, False, True)):
        who, hold_s = one_of(parts), DOWN_S
        if group:
            part = several.next()
            who = Who(part=part, count=drawing.some(part, majority=True))
        else:
            hold_s = holds.next()
        yield held(Step("kill", who=who), "start", hold_s)


def _stops(drawing: Drawing) -> Iterator[Sequence[Step]]:
    parts, holds = drawing.bag(KILLED), drawing.holds(DOWN_S)
    while True:
        yield held(Step("stop", who=one_of(parts)), "start", holds.next())


def _restarts(drawing: Drawing) -> Iterator[Sequence[Step]]:
    """What a restart could not start is started afterwards."""
    parts = drawing.bag(KILLED)
    while True:
        yield held(Step("restart", who=one_of(parts)), "start", DOWN_S)


def _replacements(drawing: Drawing) -> Iterator[Sequence[Step]]:
    """A node after the other becomes one of the run's releases, each in turn."""
    parts = drawing.bag(REPLACED)
    for release in cycle(drawing.releases or (REFERENCE,)):
        args = {RELEASE: release}
        strike = Step(REPLACE_RELEASE, who=one_of(parts), args=args)
        yield held(strike, "start", DOWN_S)


def _pauses(drawing: Drawing) -> Iterator[Sequence[Step]]:
    """One node; each third time some of the brokers or controllers."""
    parts, several = drawing.bag(PAUSED), drawing.bag(SEVERAL)
    holds = drawing.holds(PAUSED_S)
    for group in cycle((False, False, True)):
        who, hold_s = one_of(parts), PAUSED_S
        if group:
            part = several.next()
            who = Who(part=part, count=drawing.some(part, majority=False))
        else:
            hold_s = holds.next()
        yield held(Step("pause", who=who), "resume", hold_s)


KILL = Kind(
    name="kill",
    about="a node is killed (SIGKILL) and started again; each fourth time most of its role",
    acts=(
        KILL_ACT,
        START,
    ),
    rounds=_killings,
)  # fmt: skip
STOP = Kind(
    name="stop",
    about="a node is asked to end (SIGTERM) and started again",
    acts=(
        STOP_ACT,
        START,
    ),
    rounds=_stops,
)  # fmt: skip
RESTART = Kind(
    name="restart",
    about="a node ends in good order and starts at once",
    acts=(
        ActKind(
            f="restart", needs=frozenset({Capability.KILL, Capability.RESTART}), fit=_restartable,
            do=on_each(Killable, lambda cluster, args: partial(restart, cluster)),
        ),
        START,
    ),
    rounds=_restarts,
)  # fmt: skip
REPLACE = Kind(
    name=REPLACE_RELEASE,
    about="a node goes on as another of the run's releases",
    acts=(
        ActKind(
            f=REPLACE_RELEASE, needs=frozenset({Capability.KILL, Capability.RESTART}),
            fit=_restartable, do=_replace, complaint=_no_release,
        ),
        START,
    ),
    rounds=_replacements,
    asked_only=True,
)  # fmt: skip
CHANGE = Kind(
    name=CHANGE_SETTINGS,
    about="a node goes on with other settings, as its schedule says",
    acts=(
        ActKind(
            f=CHANGE_SETTINGS, needs=frozenset({Capability.KILL, Capability.RESTART}),
            fit=_restartable, do=_change_settings, complaint=_no_settings,
        ),
        START,
    ),
)  # fmt: skip
PAUSE = Kind(
    name="pause",
    about="a node is paused (SIGSTOP) for 5 s, a pair's mostly for 12; each third time several "
    "of its role",
    acts=(
        ActKind(
            f="pause", needs=frozenset({Capability.PAUSE}), fit=_awake,
            do=on_each(Pausable, lambda cluster, args: cluster.pause),
        ),
        ActKind(
            f="resume", needs=frozenset({Capability.PAUSE}), back=True,
            fit=lambda stage, args: stage.paused,
            do=on_each(Pausable, lambda cluster, args: cluster.resume),
        ),
    ),
    rounds=_pauses,
)  # fmt: skip
