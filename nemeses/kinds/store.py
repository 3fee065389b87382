"""Accidents with stores at rest.

wipe        of a node that is down: its store is removed. ended: only of a node that does not run
            any more since its store was damaged
copy-store  of a node that is down: its store is replaced by a copy of another one's, as an operator
            does who clones a machine. from: whose, a node or a part such as ``master``; where no
            other node plays that part, nothing is done
cut-file    of a node that is down: a file is cut. path: of the file, below the store; to: bytes
            that are left; or at: which share of what is written, such as 0.5
flip-bit    of a node that is down: a bit of a file flips. path: of the file, below the store; bit:
            counted from its beginning, from its end if negative; or at, as above

The fault *damage* kills a broker, has one of these accidents with its store, and starts it again.
A broker that refuses its store gets an empty one and copies another's log, as an operator would
have it; one that has made the damage good keeps its store. Controllers are not struck: one that has
lost its votes permanently needs an operator's decision (docs/security.md).
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import get_args

from maxq.harness.contracts.cluster import Killable, NothingThere, Part, Tamperable
from maxq.harness.contracts.environment import Capability
from maxq.nemeses.bag import Bag
from maxq.nemeses.kind import ActKind, Args, Drawing, Fit, Kind, Step, on_each
from maxq.nemeses.kinds.process import KILL_ACT, START, one_of
from maxq.nemeses.stage import Stage, Told, Verb, told

STRUCK: tuple[Part, ...] = ("master", "slave", "slave", "sync-state-set-slave")
FLIP, COPY, CUT = "flip-bit", "copy-store", "cut-file"
DAMAGES = (FLIP, FLIP, FLIP, COPY, COPY, CUT)
COPIED: tuple[Part, ...] = ("master", "master", "slave")
LOG = "commitlog/00000000000000000000"
FILES = (
    LOG, LOG, LOG, "logWatermark", "epochFileCheckpoint", "brokerIdentity", "config/topics.json",
    "consumequeue/maxq-queue/0/00000000000000000000",
)  # fmt: skip
APART_S = 0.5  # between the acts of an operator
SHARE_MAX = 0.9999  # of a file, where it is damaged at the latest
REFUSED_S = (12, 25)  # until a broker that has refused its store gets an empty one


def _stopped(stage: Stage, args: Args) -> Fit:
    return lambda node: not stage.up(node)


def _wipeable(stage: Stage, args: Args) -> Fit:
    if args.get("ended"):
        return lambda node: node in stage.ended
    return _stopped(stage, args)


async def _copy(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    stores, done = stage.cluster.offers(Tamperable), {}
    for node in nodes:
        source = await _source(stage, node, str(args["from"]))
        if source is not None:
            done[node] = told(await stores.copy_store(node, source))
    return done


async def _cut(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    stores, path = stage.cluster.offers(Tamperable), str(args["path"])
    to = args.get("to", args.get("at"))
    return await _changed(nodes, lambda node: stores.cut_file(node, path, to))


async def _flip(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    stores, path = stage.cluster.offers(Tamperable), str(args["path"])
    bit = args.get("bit", args.get("at"))
    return await _changed(nodes, lambda node: stores.flip_bit(node, path, bit))


async def _changed(nodes: Sequence[str], change: Verb) -> Told:
    """What was done to the nodes whose stores have such a file, with anything in it."""
    done = {}
    for node in nodes:
        with contextlib.suppress(NothingThere):
            done[node] = told(await change(node))
    return done


async def _source(stage: Stage, node: str, of: str) -> str | None:
    """Whose store is copied: a node by name, or the first of a part of the same broker set."""
    if of in stage.nodes:
        return of
    home = stage.nodes[node].broker_set
    playing = await stage.cluster.playing(of)  # type: ignore[arg-type]
    return next((n for n in playing if n != node and stage.nodes[n].broker_set == home), None)


def _complaint(args: Args, nodes: Sequence[str]) -> str:
    of = args.get("from")
    known = of in nodes or of in get_args(Part)
    return "" if known else f"copy-store is from a node or a part, not from {of!r}"


def _no_place(name: str) -> Callable[[Args, Sequence[str]], str]:
    def complaint(args: Args, nodes: Sequence[str]) -> str:
        path, given = args.get("path"), [args[key] for key in (name, "at") if key in args]
        whole = name in args and type(args[name]) is int
        share = "at" in args and isinstance(args["at"], float) and 0 <= args["at"] < 1
        if isinstance(path, str) and path and len(given) == 1 and (whole or share):
            return ""
        return f"it needs the path of a file, and {name} or a share of it (at: 0.5)"

    return complaint


def _accidents(drawing: Drawing) -> Iterator[Sequence[Step]]:
    rng = drawing.rng
    struck, damages = Bag(rng, STRUCK), Bag(rng, DAMAGES)
    sources, files = Bag(rng, COPIED), Bag(rng, FILES)
    while True:
        f = damages.next()
        args = {"from": sources.next()} if f == COPY else _damaged(files.next(), drawing)
        yield (
            Step("kill", who=one_of(struck)),
            Step(f, APART_S, of=0, args=args),
            Step("start", APART_S, of=0),
            Step("wipe", rng.randint(*REFUSED_S), of=0, args={"ended": True}),
            Step("start", APART_S, of=0),
        )


def _damaged(path: str, drawing: Drawing) -> dict[str, object]:
    return {"path": path, "at": min(round(drawing.rng.random(), 4), SHARE_MAX)}


STORE = Kind(
    name="damage",
    about="a broker's store becomes a copy of another's, or a file of it is cut or flipped",
    acts=(
        KILL_ACT,
        START,
        ActKind(
            f="wipe", needs=frozenset({Capability.KILL}), fit=_wipeable,
            do=on_each(Killable, lambda cluster, args: cluster.wipe, alone=True), alone=True,
        ),
        ActKind(
            f=COPY, needs=frozenset({Capability.KILL}), fit=_stopped, do=_copy, alone=True,
            complaint=_complaint,
        ),
        ActKind(
            f=CUT, needs=frozenset({Capability.KILL}), fit=_stopped, do=_cut, alone=True,
            complaint=_no_place("to"),
        ),
        ActKind(
            f=FLIP, needs=frozenset({Capability.KILL}), fit=_stopped, do=_flip, alone=True,
            complaint=_no_place("bit"),
        ),
    ),
    rounds=_accidents,
    asked_only=True,
    whole=True,
)  # fmt: skip
