"""Cuts as text for nftables, and what nftables says of them."""

import json

import pytest

from harness.contracts.environment import Cut
from harness.environments.machines.packet_filter import caught, ruleset

B1 = Cut(source="b0-1", block="198.18.0.16/28")
C0 = Cut(source="c0", block="198.18.0.32/28", reset=True)


def test_a_ruleset_replaces_the_whole_table() -> None:
    assert ruleset([B1, C0]) == (
        "add table inet maxq\n"
        "delete table inet maxq\n"
        "table inet maxq {\n"
        " chain cut {\n"
        "  type filter hook input priority 0; policy accept;\n"
        '  ip saddr 198.18.0.16/28 counter drop comment "b0-1"\n'
        "  ip saddr 198.18.0.32/28 tcp flags & rst == rst accept\n"
        "  ip saddr 198.18.0.32/28 meta l4proto tcp counter reject with tcp reset"
        ' comment "c0"\n'
        '  ip saddr 198.18.0.32/28 counter drop comment "c0"\n'
        " }\n"
        "}\n"
    )


def test_no_cuts_leave_no_table() -> None:
    assert ruleset([]) == "add table inet maxq\ndelete table inet maxq\n"


@pytest.mark.parametrize(
    "cut",
    [
        Cut(source='b" accept', block=B1.block),
        Cut(source="", block=B1.block),
        Cut(source="b0-1", block="0.0.0.0/0; accept"),
    ],
)
def test_what_is_no_name_or_block_gets_into_no_rule(cut: Cut) -> None:
    with pytest.raises(ValueError, match="a cut's"):
        ruleset([cut])


def rule(table: str, source: str | None, packets: int) -> dict[str, object]:
    comment = {} if source is None else {"comment": source}
    expr = [{"match": {}}, {"counter": {"packets": packets, "bytes": 0}}, {"drop": None}]
    return {"rule": {"family": "inet", "table": table, "chain": "cut", "expr": expr, **comment}}


def test_packets_are_summed_by_source_and_other_tables_do_not_count() -> None:
    items = [{"metainfo": {}}, {"table": {"name": "maxq"}}, rule("maxq", "b0-1", 3)]
    items += [rule("maxq", "b0-1", 4), rule("maxq", "c0", 0), rule("maxq", None, 9)]
    items += [rule("other", "b0-1", 100)]
    assert caught(json.dumps({"nftables": items})) == {"b0-1": 7, "c0": 0}
