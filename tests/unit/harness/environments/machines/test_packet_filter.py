"""Cuts, losses and detours as text for nftables, and what nftables says of them."""

import json

import pytest

from maxq.harness.contracts.environment import Cut, Loss
from maxq.harness.environments.machines.packet_filter import (
    alias,
    caught,
    detours,
    loss_ruleset,
    lost,
    redirected,
    ruleset,
)

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


def test_a_port_is_spared_before_any_rule() -> None:
    for rules in (ruleset([B1], 22), loss_ruleset([Loss("b0-1", B1.block, 30)], 22)):
        lines = [line.strip() for line in rules.splitlines()]
        hook = next(at for at, line in enumerate(lines) if line.startswith("type filter"))
        assert lines[hook + 1 : hook + 3] == ["tcp dport 22 accept", "tcp sport 22 accept"]
    assert ruleset([], 22) == ruleset([])


def test_losses_have_a_table_of_their_own_behind_that_of_the_cuts() -> None:
    assert loss_ruleset([Loss(source="b0-1", block=B1.block, percent=30)]) == (
        "add table inet maxq_loss\n"
        "delete table inet maxq_loss\n"
        "table inet maxq_loss {\n"
        " chain loss {\n"
        "  type filter hook input priority 10; policy accept;\n"
        "  ip saddr 198.18.0.16/28 counter numgen random mod 100 < 30 counter drop"
        ' comment "b0-1"\n'
        " }\n"
        "}\n"
    )
    assert loss_ruleset([]) == "add table inet maxq_loss\ndelete table inet maxq_loss\n"


def test_a_loss_of_some_ports_is_of_either_end_and_counted_together() -> None:
    lines = loss_ruleset([Loss("b0-1", B1.block, 100, (10912, 10913))]).splitlines()
    rest = 'counter counter drop comment "b0-1"'
    assert [line.strip() for line in lines if "saddr" in line] == [
        f"ip saddr {B1.block} tcp dport {{ 10912, 10913 }} {rest}",
        f"ip saddr {B1.block} tcp sport {{ 10912, 10913 }} {rest}",
    ]
    rules = [
        {"rule": {"table": "maxq_loss", "comment": "b0-1",
                  "expr": [{"counter": {"packets": n}} for n in counts]}}
        for counts in ((7, 5), (2, 1))
    ]  # fmt: skip
    assert lost(json.dumps({"nftables": rules})) == {"b0-1": (6, 9)}


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (Loss(source='b" accept', block=B1.block, percent=1), "a loss's source"),
        (Loss(source="b0-1", block="0.0.0.0/0; accept", percent=1), "a loss's block"),
        (Loss(source="b0-1", block=B1.block, percent=0), "a loss's share"),
        (Loss(source="b0-1", block=B1.block, percent=100), "a loss's share"),
        (Loss(source="b0-1", block=B1.block, percent=101, ports=(9,)), "a loss's share"),
    ],
)
def test_what_is_no_loss_gets_into_no_rule(loss: Loss, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        loss_ruleset([loss])


def rule(table: str, source: str | None, packets: int) -> dict[str, object]:
    comment = {} if source is None else {"comment": source}
    expr = [{"match": {}}, {"counter": {"packets": packets, "bytes": 0}}, {"drop": None}]
    return {"rule": {"family": "inet", "table": table, "chain": "cut", "expr": expr, **comment}}


def test_packets_are_summed_by_source_and_other_tables_do_not_count() -> None:
    items = [{"metainfo": {}}, {"table": {"name": "maxq"}}, rule("maxq", "b0-1", 3)]
    items += [rule("maxq", "b0-1", 4), rule("maxq", "c0", 0), rule("maxq", None, 9)]
    items += [rule("other", "b0-1", 100)]
    assert caught(json.dumps({"nftables": items})) == {"b0-1": 7, "c0": 0}


def test_a_loss_counts_what_came_and_what_it_dropped() -> None:
    expr = [
        {"match": {}}, {"counter": {"packets": 40, "bytes": 0}}, {"match": {"left": "numgen"}},
        {"counter": {"packets": 13, "bytes": 0}}, {"drop": None},
    ]  # fmt: skip
    loss = {"rule": {"table": "maxq_loss", "comment": "b0-1", "expr": expr}}
    listing = json.dumps({"nftables": [rule("maxq", "b0-1", 7), loss]})
    assert lost(listing) == {"b0-1": (13, 40)}
    assert caught(listing) == {"b0-1": 7}


def test_detours_replace_the_chain_and_leave_established_connections_their_way() -> None:
    assert detours({"b0-1": (alias(2), "198.18.0.32")}, {("b0-1", 10912): 40_001}) == (
        "add table ip maxq_links\n"
        "add chain ip maxq_links output { type nat hook output priority -100; policy accept; }\n"
        "flush chain ip maxq_links output\n"
        "add rule ip maxq_links output meta mark 1835104369 accept\n"
        "add rule ip maxq_links output ip daddr 192.0.2.2 dnat to 198.18.0.32\n"
        "add counter ip maxq_links to-b0-1.10912\n"
        "add rule ip maxq_links output ip daddr 198.18.0.32 tcp dport 10912 "
        "counter name to-b0-1.10912 redirect to :40001\n"
    )
    with pytest.raises(ValueError, match="a detour's end is no name of a machine"):
        detours({"b; accept": (alias(2), "198.18.0.32")}, {("b; accept", 1): 2})


def test_what_detours_have_led_is_told_by_name_and_port() -> None:
    counters = [
        {"table": "maxq_links", "name": "to-b0-1.10912", "packets": 7, "bytes": 420},
        {"table": "another", "name": "to-b0-1.10911", "packets": 9, "bytes": 540},
    ]
    listing = [{"metainfo": {"version": "1"}}, *({"counter": each} for each in counters)]
    assert redirected(json.dumps({"nftables": listing})) == {"b0-1.10912": 7}
