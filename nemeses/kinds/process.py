"""Kill, stop, restart, pause: what can happen to a node's process.

`kill` ends it as SIGKILL does, `stop` as SIGTERM does; both complete when its process is gone and
its port refuses, and `start` brings it back on its store. `restart` ends it cleanly and starts it
again at once, as an operator does who rolls out a setting. A node that does not end when it is
asked to is killed in the end; the completion says ``forced``. `pause` holds it as SIGSTOP does: it
keeps its connections and its beliefs, and does not know when it goes on that time has passed.
`replace-release` stops a node and starts it on its store as another release: that which `to` names,
or of two that a run has the other one; with `wipe` on no store.

A disk that is full or frozen may have ended its node: `start` starts that one again too, and no
other that has ended by itself. Names follow Jepsen's packages: kill, start; pause, resume.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle

from harness.contracts.cluster import Killable, Part, Pausable, Proof, Upgradable
from harness.contracts.environment import Capability
from harness.schedule.format import Who
from histories.fault_facts import REPLACE_RELEASE
from nemeses.bag import Bag
from nemeses.kind import ActKind, Args, Drawing, Fit, Kind, Step, on_each, running
from nemeses.stage import Stage, Verb

# Masters most of all, since it is their death that can lose messages; one named twice is drawn
# twice as often.
KILLED: tuple[Part, ...] = (
    *("master", "master", "master", "slave", "sync-state-set-slave"),
    *("controller-leader", "namesrv"),
)
PAUSED: tuple[Part, ...] = ("master", "master", "sync-state-set-slave", "controller-leader")
SEVERAL: tuple[Part, ...] = ("broker", "controller")
DOWN_S = 1.5
PAUSED_S = 5.0  # beyond the 3 s after which a silent broker counts as dead


async def restart(cluster: Killable, node: str) -> Proof:
    """Stop a node cleanly and start it at once."""
    stopped = await cluster.stop(node)
    started = await cluster.start(node)
    seen = {"stopped": stopped.seen, "started": started.seen, **stopped.forced}
    return Proof(stopped.holds and started.holds, seen)


def _down(stage: Stage, args: Args) -> Fit:
    return lambda node: not stage.up(node) and stage.writable(node)


def _stoppable(stage: Stage, args: Args) -> Fit:
    return lambda node: stage.up(node) and stage.writable(node)


def _restartable(stage: Stage, args: Args) -> Fit:
    awake = (stage.up, stage.writable)
    return lambda node: all(be(node) for be in awake) and not stage.paused(node)


def _replaceable(stage: Stage, args: Args) -> Fit:
    """One that is down as well: it is another release when it starts."""
    return lambda node: stage.writable(node) and not stage.paused(node)


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
    do=on_each(Killable, lambda cluster, args: cluster.start),
)  # fmt: skip


def one_of(bag: Bag[Part]) -> Who:
    """A node that plays the part that comes next."""
    return Who(part=bag.next())


def held(strike: Step, heal: str, hold_s: float) -> tuple[Step, Step]:
    """A strike, and its heal after a while."""
    return strike, Step(heal, hold_s, of=0)


def _killings(drawing: Drawing) -> Iterator[Sequence[Step]]:
    """One node; each fourth time most of the brokers or controllers."""
    parts, several = Bag(drawing.rng, KILLED), Bag(drawing.rng, SEVERAL)
    for group in cycle((False, False, False, True)):
        who = one_of(parts)
        if group:
            part = several.next()
            who = Who(part=part, count=drawing.some(part, majority=True))
        yield held(Step("kill", who=who), "start", DOWN_S)


def _stops(drawing: Drawing) -> Iterator[Sequence[Step]]:
    parts = Bag(drawing.rng, KILLED)
    while True:
        yield held(Step("stop", who=one_of(parts)), "start", DOWN_S)


def _restarts(drawing: Drawing) -> Iterator[Sequence[Step]]:
    """What a restart could not start is started afterwards."""
    parts = Bag(drawing.rng, KILLED)
    while True:
        yield held(Step("restart", who=one_of(parts)), "start", DOWN_S)


def _replaced(cluster: Upgradable, args: Args) -> Verb:
    to, wipe = str(args.get("to", "")), bool(args.get("wipe"))
    return partial(cluster.replace_release, target=to, wipe=wipe)


def _replacements(drawing: Drawing) -> Iterator[Sequence[Step]]:
    """One node after the other, in a drawn order, as in a rolling upgrade; then the way back."""
    names = [node.name for node in drawing.nodes if not node.spare]
    drawing.rng.shuffle(names)
    for name in cycle(names):
        yield held(Step(REPLACE_RELEASE, who=Who(nodes=(name,))), "start", DOWN_S)


def _pauses(drawing: Drawing) -> Iterator[Sequence[Step]]:
    """One node; each third time some of the brokers or controllers."""
    parts, several = Bag(drawing.rng, PAUSED), Bag(drawing.rng, SEVERAL)
    for group in cycle((False, False, True)):
        who = one_of(parts)
        if group:
            part = several.next()
            who = Who(part=part, count=drawing.some(part, majority=False))
        yield held(Step("pause", who=who), "resume", PAUSED_S)


KILL = Kind(
    name="kill",
    acts=(
        KILL_ACT,
        START,
    ),
    rounds=_killings,
)  # fmt: skip
STOP = Kind(
    name="stop",
    acts=(
        STOP_ACT,
        START,
    ),
    rounds=_stops,
)  # fmt: skip
RESTART = Kind(
    name="restart",
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
    acts=(
        ActKind(
            f=REPLACE_RELEASE, needs=frozenset({Capability.KILL, Capability.RESTART}),
            fit=_replaceable, do=on_each(Upgradable, _replaced),
        ),
        START,
    ),
    rounds=_replacements,
    asked_only=True,
)  # fmt: skip
PAUSE = Kind(
    name="pause",
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
