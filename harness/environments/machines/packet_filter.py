"""Cuts, losses and detours as nftables rules: text that replaces a machine's, and what they caught.

Cuts and losses are two tables, each with one chain on the input hook, so that a machine can lose
what it is sent while what it sends still leaves: `maxq` has the cuts, `maxq_loss` the losses, so
that one changes without the other. Cuts come first: a loss sees what no cut has caught. A ruleset
replaces its table in one transaction: no packet meets half of it, and counters begin at zero.
nftables and not iptables, because an ordinary user's namespace may not take the lock file of
iptables; its `numgen` and not the queue discipline netem, which many kernels of containers lack.

Detours are the third table: where a run has slow ways, each machine's own connections to ports of
others go to proxies of it (`maxq.harness.environments.machines.proxies`). A proxy reaches the other
machine at an alias, a documentation address (RFC 5737) that never leaves the machine, so that what
it connects to is not led back to it; packets with `PAST` take no detour. What replaces these rules
leaves the chain, or established connections would lose their way, and the counters.
Pure: text in, text out.

Rules for those who edit it: this module also runs inside containers, so it imports nothing but the
standard library at run time.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxq.harness.contracts.environment import Cut, Loss

TABLE, LOSS_TABLE = "maxq", "maxq_loss"
NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")  # of a source: it becomes the comment of its rules
DETOURS, CHAIN = "maxq_links", "output"
ALIASES = "192.0.2"  # of 192.0.2.0/24, by the number of a machine
PAST = 0x6D617871  # the mark of packets that go straight
BLOCK = re.compile(r"[0-9.]{7,15}(/[0-9]{1,2})?")


def ruleset(cuts: Sequence["Cut"], spared: int = 0) -> str:
    """What `nft -f -` must read to have these cuts and no others.

    Args:
        cuts: which.
        spared: a TCP port that no rule touches, here or at the other end; 0: none.

    Raises:
        ValueError: a source or a block that is no name, no block of addresses.
    """
    rules = [rule for cut in cuts for rule in _rules(cut)]
    return _table(TABLE, "cut", 0, _but_for(spared, rules))


def loss_ruleset(losses: Sequence["Loss"], spared: int = 0) -> str:
    """What `nft -f -` must read to have these losses and no others; likewise.

    Raises:
        ValueError: a source or a block that is no name, no block of addresses; an impossible share.
    """
    rules = [rule for loss in losses for rule in _loss_rules(loss)]
    return _table(LOSS_TABLE, "loss", 10, _but_for(spared, rules))


def _but_for(spared: int, rules: list[str]) -> list[str]:
    # Both ways: this machine may also be one on the way to another that is reached at this port.
    ways = [f"tcp {end} {spared} accept" for end in ("dport", "sport")]
    return ways + rules if spared and rules else rules


def _table(table: str, chain: str, priority: int, rules: Sequence[str]) -> str:
    # `delete` fails where no table is, `add` succeeds where one is: both together always work.
    lines = [f"add table inet {table}", f"delete table inet {table}"]
    if rules:
        lines += [
            f"table inet {table} {{",
            f" chain {chain} {{",
            f"  type filter hook input priority {priority}; policy accept;",
            *(f"  {rule}" for rule in rules),
            " }",
            "}",
        ]
    return "\n".join(lines) + "\n"


def _from(what: str, source: str, block: str) -> tuple[str, str]:
    """What matches packets of a source, and the comment that names it."""
    if NAME.fullmatch(source) is None:
        raise ValueError(f"a {what}'s source is no name of a machine: {source!r}")
    if BLOCK.fullmatch(block) is None:
        raise ValueError(f"a {what}'s block is no block of addresses: {block!r}")
    return f"ip saddr {block}", f'comment "{source}"'


def _ends(ports: Sequence[int]) -> list[str]:
    """What matches packets of connections to these ports, of either machine; none: all packets."""
    listed = ", ".join(map(str, ports))
    return [f" tcp {end} {{ {listed} }}" for end in ("dport", "sport")] if ports else [""]


def _rules(cut: "Cut") -> list[str]:
    source, comment = _from("cut", cut.source, cut.block)
    found = []
    for end in _ends(cut.ports):
        drop = f"{source}{end} counter drop {comment}"
        # Where both sides cut each other with resets, each must still hear the other's resets:
        # without the first rule B, whose packet A answers with a reset, would drop it and wait in
        # silence.
        resets = [
            f"{source}{end} tcp flags & rst == rst accept",
            f"{source}{end} meta l4proto tcp counter reject with tcp reset {comment}",
        ]
        found += [*resets, drop] if cut.reset else [drop]
    return found


def _loss_rules(loss: "Loss") -> list[str]:
    """The first counter counts what comes, the second what is dropped of it."""
    source, comment = _from("loss", loss.source, loss.block)
    if not 1 <= loss.percent <= (100 if loss.ports else 99):
        raise ValueError(f"a loss's share is none of 1 to 99 percent: {loss.percent}")
    # nft refuses what is always true.
    chance = f"numgen random mod 100 < {loss.percent} " if loss.percent < 100 else ""
    return [f"{source}{end} counter {chance}counter drop {comment}" for end in _ends(loss.ports)]


def alias(number: int) -> str:
    """The alias of the machine of a number, 1 to 255."""
    return f"{ALIASES}.{number}"


def detours(
    addresses: Mapping[str, tuple[str, str]], listeners: Mapping[tuple[str, int], int]
) -> str:
    """What `nft -f -` must read to have these detours and no others.

    Args:
        addresses: by name, of the other machines: the alias and the address of each.
        listeners: at which port here a proxy listens, by name and port of a machine.

    Raises:
        ValueError: a name that is none.
    """
    table = f"ip {DETOURS}"
    lines = [
        f"add table {table}",
        f"add chain {table} {CHAIN} {{ type nat hook output priority -100; policy accept; }}",
        f"flush chain {table} {CHAIN}",
        f"add rule {table} {CHAIN} meta mark {PAST} accept",
    ]
    for nick, address in addresses.values():
        lines.append(f"add rule {table} {CHAIN} ip daddr {nick} dnat to {address}")
    for (name, port), here in listeners.items():
        if NAME.fullmatch(name) is None:
            raise ValueError(f"a detour's end is no name of a machine: {name!r}")
        counter, address = f"to-{name}.{port}", addresses[name][1]
        lines.append(f"add counter {table} {counter}")
        lines.append(f"add rule {table} {CHAIN} ip daddr {address} tcp dport {port} "
                     f"counter name {counter} redirect to :{here}")  # fmt: skip
    return "\n".join(lines) + "\n"


def redirected(listing: str) -> dict[str, int]:
    """How many connections each detour has led, as ``name.port``, from ``nft -j list counters``."""
    counters = (item.get("counter", {}) for item in json.loads(listing)["nftables"])
    return {
        counter["name"].removeprefix("to-"): counter["packets"]
        for counter in counters
        if counter.get("table") == DETOURS
    }


NOTHING = ruleset(()) + loss_ruleset(())  # takes both tables out


def caught(listing: str) -> dict[str, int]:
    """Packets that each cut has caught, by source, from ``nft -j list ruleset inet``."""
    counts: dict[str, int] = {}
    for source, packets in _counters(listing, TABLE):
        counts[source] = counts.get(source, 0) + sum(packets)
    return counts


def lost(listing: str) -> dict[str, tuple[int, int]]:
    """Packets that each loss has dropped, and of how many that came, by source; likewise."""
    counts: dict[str, tuple[int, int]] = {}
    for source, (came, drops) in _counters(listing, LOSS_TABLE):
        before = counts.get(source, (0, 0))
        counts[source] = before[0] + drops, before[1] + came
    return counts


def _counters(listing: str, table: str) -> Iterator[tuple[str, list[int]]]:
    """The source of each rule of a table, and what its counters show, in order."""
    for item in json.loads(listing)["nftables"]:
        rule: dict[str, Any] = item.get("rule", {})
        source = rule.get("comment")
        if rule.get("table") == table and source is not None:
            yield source, [e["counter"]["packets"] for e in rule["expr"] if "counter" in e]
