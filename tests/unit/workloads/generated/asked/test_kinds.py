"""The kinds that can be planted, and docs/anomalies.md."""

import re
from pathlib import Path

from maxq.checkers.messages.durability import CLAIMS
from maxq.workloads.generated.asked.kinds import KINDS, LEFT_OUT, WORKLOADS, help_lines
from maxq.workloads.generated.clients.locks import TOO_SOON
from maxq.workloads.generated.clients.offsets import REGRESSED
from maxq.workloads.generated.clients.queue_plants import AFTER, BEFORE
from maxq.workloads.generated.nodes.frame import FAIL_OVERS
from maxq.workloads.generated.nodes.state_plants import SETTLED, STATES

PAGE = Path(__file__).parents[5] / "docs" / "anomalies.md"


def documented() -> set[str]:
    rows = [row for row in PAGE.read_text().splitlines() if row.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_each_documented_kind_can_be_planted_or_has_a_reason() -> None:
    assert documented() == {*KINDS, *LEFT_OUT}
    assert not KINDS.keys() & LEFT_OUT.keys()
    assert all(LEFT_OUT.values())


def test_names_are_names_of_anomalies() -> None:
    for kind in KINDS.values():
        assert {*kind.allowed, *kind.symptoms} <= documented()
        assert kind.name in kind.allowed
        assert kind.workloads <= {*WORKLOADS}


def test_each_kind_has_a_planter() -> None:
    planters = {*BEFORE, *AFTER, *STATES, *SETTLED, *FAIL_OVERS, *TOO_SOON, REGRESSED}
    at_ends = {k.name for k in KINDS.values() if k.where in ("begin", "end")}
    assert planters | at_ends == {*KINDS}
    assert {*CLAIMS} <= {*BEFORE, *AFTER, *LEFT_OUT}


def test_help_says_all() -> None:
    text = "\n".join(help_lines())
    assert all(f"  {name} " in text for name in (*KINDS, *LEFT_OUT))
