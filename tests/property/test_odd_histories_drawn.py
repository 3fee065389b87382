"""Whatever the values of a history and the details of its anomalies are, the first screen is said
and drawn, and a run is followed."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from report_evidence import call, evidence, fault, numbered

from maxq.checkers.core.api import Anomaly, ClaimVerdict, Verdict
from maxq.checkers.judgement.digest import digest, faults_in_short
from maxq.checkers.judgement.runner import Results
from maxq.harness.report.page import render
from maxq.harness.run.process.live import Live
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, Op

S = 1_000_000_000
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
KEYS = st.sampled_from(
    ["node", "set", "id", "address", "sets", "from", "epochs", "b0", "holds", "x"]
)
ODD = st.recursive(
    PLAIN, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=8
)
DETAILS = st.dictionaries(
    st.sampled_from(["set", "id", "owners", "nodes", "node", "epoch", "key", "processes"]), ODD
)


def usual() -> list[Op]:
    sets = {"b0": {"master": 1, "master_address": "", "master_epoch": 1, "sync_state_set": [1],
                   "sync_state_set_epoch": 1, "replicas": {"1": "x"}}}  # fmt: skip
    replica = {"node": "b0-0", "set": "b0", "address": "x", "id": 1, "leads": True,
               "epochs": [[1, 0, 5]], "end": 5, "confirmed": None}  # fmt: skip
    cut = {"c0": {"holds": True, "from": {"b0-0": "gone"}}}
    return numbered(
        [
            *call(9, "observe-controller", 1, {"node": "c0", "sets": sets}, asked={"node": "c0"}),
            *call(8, "observe-replica", 1, replica, asked={"node": "b0-0"}),
            *fault("kill", 2, "b0-1"),
            Op("info", NEMESIS, "start-partition", "p", time=3 * S),
            Op("info", NEMESIS, "start-partition", cut, time=3 * S),
            *call(0, "send", 4, [["send", 0, [0, 7]]], ext={"broker": "x", "node": "b0"}),
            *call(1, "acquire", 5, 0, ext={"broker": "x"}),
            *fault("start", 6, "b0-1"),
        ]
    )


@settings(max_examples=150, deadline=None)
@given(
    changed=st.dictionaries(st.integers(0, 13), st.tuples(ODD, ODD), max_size=4),
    details=st.lists(DETAILS, min_size=1, max_size=3),
    cited=st.lists(st.integers(-1, 20), max_size=4),
)
def test_odd_values_are_said_and_drawn(
    changed: dict[int, tuple[Any, Any]], details: list[dict[str, Any]], cited: list[int]
) -> None:
    ops = usual()
    for at, (value, ext) in changed.items():
        op = ops[at]
        more = {"broker": ext, "who": ext, "args": ext}
        ops[at] = Op(op.type, op.process, op.f, value, ext, op.index, op.time, more)
    anomalies = tuple(
        Anomaly(claim="S1", name="duplicate-id", signature="x", ops=tuple(cited), story="x",
                detail=detail)
        for detail in details
    )  # fmt: skip
    status = ClaimVerdict(claim="S1", status="broken", found={"duplicate-id": len(details)})
    results = Results(
        valid=False,
        verdicts=(Verdict(checker="c", claim_verdicts=(status,), anomalies=anomalies),),
    )
    history, live = History(ops), Live(["b0"])
    assert all(row.text() for row in digest(history, results))
    faults_in_short(history)
    for op in ops:
        live.take(op)
    assert live.now().line()
    assert "could not be drawn" not in render(evidence(ops, results))
