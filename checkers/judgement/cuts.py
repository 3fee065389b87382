"""Who was cut from whom: the links of a partition, and the fewest words for them.

A link is one-way: `source`'s packets do not reach `destination`. ``a ⇸ b`` is one link, ``a ⇹ b``
a pair of both ways.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from maxq.checkers.evidence.acts import Act
from maxq.checkers.evidence.faults import Fault

ONE_WAY, BOTH_WAYS = "⇸", "⇹"
NAMED_MAX = 3  # nodes on one side that are named; of more only the number


class Link(NamedTuple):
    """Packets of `source` do not reach `destination`."""

    source: str
    destination: str


def links_of(result: Any) -> tuple[Link, ...]:
    """The links that a completed partition names: a map from each node to the sources that it
    does not hear, under ``from``. Anything else names none."""
    found: set[Link] = set()
    for node, proof in result.items() if isinstance(result, dict) else ():
        sources = proof.get("from") if isinstance(proof, dict) else None
        if isinstance(sources, dict | list | tuple):
            found.update(Link(str(source), str(node)) for source in sources)
    return tuple(sorted(found))


def described(links: Iterable[Link]) -> str:
    """Links in few words: ``b0-0 ⇸ 6 nodes``, ``c2 ⇹ b0-1``; empty where there are none."""
    every = set(links)
    if not every:
        return ""
    nodes = sorted({node for link in every for node in link})
    for node in nodes:  # one node is an end of all of them, the commonest shape
        if all(node in link for link in every):
            return _around(node, every)
    sides = _sides(nodes, every)
    if sides is not None:
        ways = {(s, d) for a in sides[0] for b in sides[1] for s, d in ((a, b), (b, a))}
        if ways == every:
            return f"{_named(sides[0])} {BOTH_WAYS} {_named(sides[1])}"
    return f"{len(every)} links between {len(nodes)} nodes"


def _around(node: str, links: set[Link]) -> str:
    out = sorted(d for s, d in links if s == node)
    into = sorted(s for s, d in links if d == node)
    if out == into:
        return f"{node} {BOTH_WAYS} {_named(out)}"
    said = [f"{node} {ONE_WAY} {_named(out)}"] if out else []
    said += [f"{_named(into)} {ONE_WAY} {node}"] if into else []
    return ", ".join(said)


def _sides(nodes: Sequence[str], links: set[Link]) -> tuple[list[str], list[str]] | None:
    """Two groups, of which nobody hears the other: those that the first node still hears, and
    the others."""
    first = nodes[0]
    others = [n for n in nodes if (first, n) in links and (n, first) in links]
    mine = [n for n in nodes if n not in others]
    if not others:
        return None
    return (mine, others) if len(mine) <= len(others) else (others, mine)


def _named(nodes: Sequence[str]) -> str:
    return " ".join(nodes) if len(nodes) <= NAMED_MAX else f"{len(nodes)} nodes"


def short_name(fault: Fault) -> str:
    """The name of a fault for a strip of a timeline."""
    return (fault.facts.short if fault.facts is not None else "") or fault.f


def _named_of(act: Act) -> str:
    nodes = {node for link in links_of(act.fault.result) for node in link}
    return _named(sorted(nodes))


def in_short(act: Act) -> str:
    """An act in a few words: what, and whom it struck: ``kill b0-0``, ``cut b0-0 ⇸ 6 nodes``."""
    links = described(links_of(act.fault.result)) if act.effect == "cut" else ""
    victims = links or _named([str(n) for n in act.nodes])
    irregular = links[:1].isdigit()  # no node is in its words, so its shape's name says more
    shape = str(act.fault.args.get("shape", "")) if irregular else ""
    victims = f"{shape}, {_named_of(act)}" if shape else victims
    return " ".join(part for part in (short_name(act.fault), victims) if part)
