"""Composition, crashes, exit codes, and the two checkers that every run has."""

import json
from typing import Any

import pytest
from history_recorder import Recorder

from checkers.api import Anomaly, Context, Valid, Verdict
from checkers.faults import Fault, FaultProof, faults
from checkers.runner import check_all, claim_verdicts, exit_code
from checkers.stats import Stats
from histories.history import Breach, History
from histories.op import NEMESIS, Op


class _Says:
    """A checker that always says the same, or raises."""

    def __init__(self, name: str, valid: Valid | Exception, accused: str = "") -> None:
        self.name = name
        self.claims = ("S6", "S10")
        self._valid = valid
        self._accused = accused

    def check(self, history: History, context: Context) -> Verdict:
        if isinstance(self._valid, Exception):
            raise self._valid
        found = [
            Anomaly(claim=c, name="x", signature=c, ops=(), story="", detail={0: 1})  # type: ignore[dict-item]
            for c in (self._accused,)
            if c
        ]
        return Verdict(
            checker=self.name, claims=self.claims, valid=self._valid, anomalies=tuple(found)
        )


@pytest.mark.parametrize(
    ("says", "valid", "code"),
    [
        ((True, True), True, 0),
        ((True, "unknown"), "unknown", 2),
        (("unknown", False), False, 1),
        ((ValueError("x"), True), "unknown", 2),
        ((ValueError("x"), False), False, 1),
        ((), "unknown", 2),
    ],
)
def test_the_worst_verdict_wins(says: tuple[Any, ...], valid: Valid, code: int) -> None:
    checkers = [_Says(str(i), v) for i, v in enumerate(says)]

    results = check_all(Recorder().history, checkers, Context())
    assert (results.valid, results.exit_code) == (valid, code)
    assert [v.checker for v in results.verdicts] == [c.name for c in checkers]


def test_where_no_claim_was_judged_nothing_is_valid() -> None:
    """A history in which nobody did anything: stats and proofs alone are no evidence."""
    empty = Recorder().history
    results = check_all(empty, [Stats(), FaultProof()], Context())
    assert all(not v.claims for v in results.verdicts)
    assert results.valid == "unknown"
    assert check_all(empty, [_Says("a", True), FaultProof()], Context()).valid is True


def test_a_crash_is_told_with_its_traceback() -> None:
    results = check_all(Recorder().history, [_Says("a", ValueError("seven"))], Context())

    (verdict,) = results.verdicts
    assert verdict.reason.startswith("the checker crashed:\nTraceback")
    assert "ValueError: seven" in verdict.reason


def test_nobody_judges_a_history_that_is_not_wellformed() -> None:
    """Vector E7: with repeated indices a checker may answer valid."""
    op = Op("invoke", 0, "send", None, None, 0, 0)
    results = check_all(History([op, op]), [_Says("a", True)], Context())

    assert (results.valid, results.exit_code) == ("unknown", 2)
    assert results.verdicts[0].reason == "W1 at op 0: index 0 after 0 (2 breaches)"
    assert [b.rule for b in results.breaches] == ["W1", "W3"]


def test_warnings_spoil_nothing() -> None:
    r = Recorder()
    r.crash(0)
    r.send(0, 1, 0)
    results = check_all(r.history, [_Says("a", True)], Context())

    assert results.valid is True
    text = "process 0 goes on after an info completion"
    assert results.breaches == (Breach("W6", 2, text, True), Breach("W6", 3, text, True))


def test_claims_are_told_apart() -> None:
    results = check_all(Recorder().history, [_Says("a", False, "S6"), _Says("b", True)], Context())

    assert claim_verdicts(results) == {"S6": False, "S10": "unknown"}
    plain = results.to_json()
    assert plain["claims"] == {"S6": False, "S10": "unknown"}
    assert json.loads(json.dumps(plain))["verdicts"][0]["anomalies"][0]["detail"] == {"0": 1}


def test_a_violation_is_never_masked_by_a_crash() -> None:
    assert exit_code([True, False, "unknown"], crashed=True) == 1
    assert exit_code([True, "unknown"], crashed=True) == 255
    assert exit_code([True, "unknown"]) == 2
    assert exit_code([True]) == 0
    assert exit_code([]) == 2


def test_a_fault_needs_proof() -> None:
    r = Recorder()
    assert FaultProof().check(r.history, Context()).valid is True
    r.fault("kill", b1=True, b2=True)
    r.fault("start", b1=True)
    assert FaultProof().check(r.history, Context()).valid is True
    assert faults(r.history)[0] == Fault(
        f="kill",
        process=NEMESIS,
        begun=0,
        ended=1,
        begun_ns=0,
        ended_ns=1_000_000_000,
        nodes=("b1", "b2"),
        request="one",
        result={"b1": {"holds": True}, "b2": {"holds": True}},
        holds=True,
    )

    r.fault("cut", b1=True, b2=False)
    r.fault("pause")
    r.begin(NEMESIS, "kill", "one")
    verdict = FaultProof().check(r.history, Context())
    assert verdict.valid == "unknown"
    assert verdict.counts == {"faults": 5, "without-proof": 3}
    assert verdict.reason == (
        "a fault without proof: cut at op 4 does not hold on b2; pause at op 6 names no node; "
        "kill at op 8 never completed"
    )


def test_many_faults_without_proof_are_counted() -> None:
    r = Recorder()
    for _ in range(7):
        r.fault("kill")

    assert FaultProof().check(r.history, Context()).reason.endswith("names no node and 2 more")


def test_stats_wants_every_kind_to_succeed_once() -> None:
    """Vectors T1 and T2, ours: unknown."""
    r = Recorder()
    assert Stats().check(r.history, Context()).reason == "no operation by any client"
    r.fault("kill", b1=True)
    r.crash(2)
    r.send(0, 1, 0)
    r.poll(1, op_type="fail")
    verdict = Stats().check(r.history, Context())
    assert (verdict.valid, verdict.reason) == ("unknown", "no poll ever succeeded")
    assert verdict.counts == {
        "crash.info": 1,
        "crash.invoke": 1,
        "poll.fail": 1,
        "poll.invoke": 1,
        "send.invoke": 1,
        "send.ok": 1,
    }

    r.poll(1, (0, 1))
    assert Stats().check(r.history, Context()).valid is True
    context = Context(ok_ops_min={"send": 2, "lock": 1})
    assert Stats().check(r.history, context).reason == (
        "only 0 ok lock, 1 needed; only 1 ok send, 2 needed"
    )
