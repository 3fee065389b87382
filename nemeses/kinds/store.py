"""Accidents with stores at rest, which only written schedules have.

wipe        of a node that is down: its store is removed
copy-store  of a node that is down: its store is replaced by a copy of another one's, as an operator
            does who clones a machine. from: whose, a node or a part such as ``master``
cut-file    of a node that is down: a file is cut. path: of the file, below the store; to: bytes
            that are left
flip-bit    of a node that is down: a bit of a file flips. path: of the file, below the store; bit:
            counted from its beginning, from its end if negative
"""

from collections.abc import Sequence
from typing import get_args

from harness.contracts.cluster import Killable, Part, Tamperable
from harness.contracts.environment import Capability
from nemeses.kind import ActKind, Args, Fit, Kind, on_each
from nemeses.stage import Stage, Told, told


def _stopped(stage: Stage, args: Args) -> Fit:
    return lambda node: not stage.up(node)


async def _copy(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    stores, done = stage.cluster.offers(Tamperable), {}
    for node in nodes:
        source = await _source(stage, node, str(args["from"]))
        if source is None:
            done[node] = {"holds": False, "reason": f"no other node is {args['from']}"}
        else:
            done[node] = told(await stores.copy_store(node, source))
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


def _no_length(args: Args, nodes: Sequence[str]) -> str:
    path, to = args.get("path"), args.get("to")
    if isinstance(path, str) and path and isinstance(to, int) and to >= 0:
        return ""
    return f"cut-file needs the path of a file and its new length, not {path!r} and {to!r}"


def _no_bit(args: Args, nodes: Sequence[str]) -> str:
    path, bit = args.get("path"), args.get("bit")
    if isinstance(path, str) and path and isinstance(bit, int):
        return ""
    return f"flip-bit needs the path of a file and a bit of it, not {path!r} and {bit!r}"


STORE = Kind(
    name="store",
    acts=(
        ActKind(
            f="wipe", needs=frozenset({Capability.KILL}), fit=_stopped,
            do=on_each(Killable, lambda cluster, args: cluster.wipe),
        ),
        ActKind(
            f="copy-store", needs=frozenset({Capability.KILL}), fit=_stopped, do=_copy,
            complaint=_complaint,
        ),
        ActKind(
            f="cut-file", needs=frozenset({Capability.KILL}), fit=_stopped, complaint=_no_length,
            do=on_each(
                Tamperable,
                lambda cluster, args: lambda node: cluster.cut_file(
                    node, str(args["path"]), int(args["to"])
                ),
            ),
        ),
        ActKind(
            f="flip-bit", needs=frozenset({Capability.KILL}), fit=_stopped, complaint=_no_bit,
            do=on_each(
                Tamperable,
                lambda cluster, args: lambda node: cluster.flip_bit(
                    node, str(args["path"]), int(args["bit"])
                ),
            ),
        ),
    ),
)  # fmt: skip
