"""Cuts as nftables rules: the text that replaces a machine's rules, and what they caught.

One table, `maxq`, with one chain on the input hook, so that a machine can lose what it is sent
while what it sends still leaves. A ruleset replaces the table in one transaction: no packet meets
half of it, and counters begin at zero. nftables and not iptables, because an ordinary user's
namespace may not take the lock file of iptables. Pure: text in, text out.

Rules for those who edit it: this module also runs inside containers, so it imports nothing but the
standard library at run time.
"""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.contracts.environment import Cut

TABLE = "maxq"
NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")  # of a source: it becomes the comment of its rules
BLOCK = re.compile(r"[0-9.]{7,15}(/[0-9]{1,2})?")


def ruleset(cuts: Sequence["Cut"]) -> str:
    """What `nft -f -` must read to have these cuts and no others.

    Raises:
        ValueError: a source or a block that is no name, no block of addresses.
    """
    # `delete` fails where no table is, `add` succeeds where one is: both together always work.
    lines = [f"add table inet {TABLE}", f"delete table inet {TABLE}"]
    if cuts:
        rules = [rule for cut in cuts for rule in _rules(cut)]
        lines += [
            f"table inet {TABLE} {{",
            " chain cut {",
            "  type filter hook input priority 0; policy accept;",
            *(f"  {rule}" for rule in rules),
            " }",
            "}",
        ]
    return "\n".join(lines) + "\n"


def _rules(cut: "Cut") -> list[str]:
    if NAME.fullmatch(cut.source) is None:
        raise ValueError(f"a cut's source is no name of a machine: {cut.source!r}")
    if BLOCK.fullmatch(cut.block) is None:
        raise ValueError(f"a cut's block is no block of addresses: {cut.block!r}")
    source, comment = f"ip saddr {cut.block}", f'comment "{cut.source}"'
    drop = f"{source} counter drop {comment}"
    if not cut.reset:
        return [drop]
    # Where both sides cut each other with resets, each must still hear the other's resets: without
    # the first rule B, whose packet A answers with a reset, would drop it and wait in silence.
    return [
        f"{source} tcp flags & rst == rst accept",
        f"{source} meta l4proto tcp counter reject with tcp reset {comment}",
        drop,
    ]


def caught(listing: str) -> dict[str, int]:
    """Packets that each cut has caught, by source, from ``nft -j list ruleset inet``."""
    counts: dict[str, int] = {}
    for item in json.loads(listing)["nftables"]:
        rule = item.get("rule", {})
        source = rule.get("comment")
        if rule.get("table") != TABLE or source is None:
            continue
        packets = sum(e["counter"]["packets"] for e in rule["expr"] if "counter" in e)
        counts[source] = counts.get(source, 0) + packets
    return counts
