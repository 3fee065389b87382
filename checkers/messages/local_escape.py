"""Where a delayed message went that a slave of a container could not store.

The slave acts for a master that is gone, and stores what is due at a master of its own container,
if one can take it (B12); another set is asked only if none can. A delivered message names the set
that stored it. Judged is one that the master had acknowledged, and that was read from another set
in the quiet period right after the master went. The whole set had been undisturbed since before the
send, so nobody else stored it; the masters in the slave's container, the slave and the name servers
for the recovery bound before that period, and in it.

Claim: B12 (docs/spec/acting-master.md 2.6).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from maxq.checkers.core.api import Context
from maxq.checkers.core.promises import ACTS, unfulfilled
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.quiescence import Lull, Undisturbed, calm
from maxq.checkers.messages.awaited import PAIR_OF
from maxq.histories.history import History


class Escape(NamedTuple):
    """A quiet period in which the slave of a set acts beside masters of other sets: from when on
    (index) its set had been undisturbed, and the sets of those masters."""

    lull: Lull
    set: str
    since: int
    local: frozenset[str]


def escapes(history: History, context: Context) -> Iterator[Escape]:
    """The quiet periods in which a slave had a usable master beside it, and another set had one
    elsewhere."""
    if unfulfilled((ACTS,), context.settings or {}):
        return
    acts = [act for act in faults(history) if act.kind != "question"]
    undisturbed = Undisturbed(acts)
    ended = {act.ended: act for act in acts if act.ended is not None}
    namesrvs = [node for node in undisturbed.named if node.startswith("n")]
    for lull in calm(history):
        act = ended.get(lull.time.at)
        for name, nodes in sorted(context.broker_sets.items()):
            gone = len(nodes) == PAIR_OF and lull.state.gone.intersection(nodes) == {nodes[0]}
            if act is None or nodes[0] not in act.nodes or not gone:
                continue
            masters = {n: s[0] for n, s in context.broker_sets.items()
                       if n != name and s[0] not in lull.state.gone}  # fmt: skip
            inside = next((c for c in context.containers.values() if nodes[1] in c), ())
            local = {n for n, master in masters.items() if master in inside}
            beside = [nodes[1], *(masters[n] for n in local), *namesrvs]
            since = _since(undisturbed, nodes, act)
            if since is None or not 0 < len(local) < len(masters):
                continue
            if _ready(undisturbed, beside, act, lull, context.recovery_ns):
                yield Escape(lull, name, since, frozenset(local))


def _since(undisturbed: Undisturbed, nodes: Sequence[str], act: Fault) -> int | None:
    """Since when a set had been undisturbed until an act; None: it was not."""
    span = undisturbed.of(nodes).at(act.begun - 1)
    return None if span is None or span.until != act.begun else span.at


def _ready(
    undisturbed: Undisturbed, nodes: Sequence[str], act: Fault, lull: Lull, bound_ns: int
) -> bool:
    """Whether nodes were undisturbed for the bound before an act and in the quiet period after."""
    span = undisturbed.of(nodes).at(act.begun)
    rested = span is not None and (span.at < 0 or act.begun_ns - span.at_ns >= bound_ns)
    return rested and span is not None and span.until >= lull.time.until
