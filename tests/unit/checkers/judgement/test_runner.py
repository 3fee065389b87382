"""Composition, crashes, exit codes, and the two checkers that every run has."""

import json
from typing import Any

import pytest
from history_recorder import Recorder

from maxq.checkers.core.api import Anomaly, ClaimVerdict, Context, Status, Valid, Verdict
from maxq.checkers.core.stats import Stats
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.judgement.fault_proof import FaultProof
from maxq.checkers.judgement.runner import check_all, exit_code
from maxq.histories.history import Breach, History
from maxq.histories.op import NEMESIS, Op


class _Says:
    """A checker of S6 and S10 that always says the same, or raises."""

    def __init__(self, name: str, s6: Status | Exception, s10: Status = "kept") -> None:
        self.name = name
        self.claims = ("S6", "S10")
        self._s6, self._s10 = s6, s10

    def check(self, history: History, context: Context) -> Verdict:
        if isinstance(self._s6, Exception):
            raise self._s6
        found = {"S6": self._s6, "S10": self._s10}
        return Verdict(
            checker=self.name,
            claim_verdicts=tuple(
                ClaimVerdict(claim=c, status=s, why=f"why {s}") for c, s in found.items()
            ),
            anomalies=tuple(
                Anomaly(claim=c, name="x", signature=c, ops=(), story="", detail={0: 1})  # type: ignore[dict-item]
                for c, s in found.items()
                if s == "broken"
            ),
        )


@pytest.mark.parametrize(
    ("says", "valid", "code"),
    [
        (("kept", "kept"), True, 0),
        (("kept", "not promised"), True, 0),
        (("kept", "no occasion"), True, 0),
        (("not judged", "kept"), "unknown", 2),
        (("not judged", "broken"), False, 1),
        ((ValueError("x"), "kept"), "unknown", 2),
        (("no occasion", "no occasion"), "unknown", 2),
    ],
)
def test_the_worst_claim_decides(says: tuple[Any, Any], valid: Valid, code: int) -> None:
    results = check_all(Recorder().history, [_Says("a", *says)], Context())
    assert (results.valid, results.exit_code) == (valid, code)
    assert bool(results.whys) is (valid == "unknown")


def test_a_violation_beside_a_crash_is_told() -> None:
    checkers = [_Says("a", ValueError("x")), _Says("b", "broken")]
    results = check_all(Recorder().history, checkers, Context())
    assert (results.valid, [v.checker for v in results.verdicts]) == (False, ["a", "b"])


def test_one_claim_that_is_not_judged_leaves_the_others_standing() -> None:
    results = check_all(Recorder().history, [_Says("a", "kept", "not judged")], Context())
    assert (results.valid, results.of("kept"), results.of("not judged")) == (
        "unknown",
        ("S6",),
        ("S10",),
    )
    assert results.whys == (
        "not judged: no message disappears that was read (S10), since why not judged",
    )


def test_what_a_run_is_there_for_must_have_had_an_occasion() -> None:
    checkers = [_Says("a", "no occasion")]
    assert check_all(Recorder().history, checkers, Context()).valid is True
    results = check_all(Recorder().history, checkers, Context(purpose=("S6",)))
    assert results.valid == "unknown"
    assert results.whys[0].startswith(
        "not judged: no acknowledged message lost (S6), since the run is for it"
    )
    assert results.advice
    missing = check_all(Recorder().history, checkers, Context(purpose=("L1",)))
    assert missing.whys == (
        "not judged: a lock is granted once in a lease (L1), since no checker looked at it",
    )
    absent = check_all(Recorder().history, checkers, Context(purpose=("L1",), absent=("L1",)))
    assert absent.valid is True


def test_where_nobody_judged_anything_nothing_is_valid() -> None:
    """A history in which nobody did anything: counts and proofs alone are no evidence."""
    empty = Recorder().history
    results = check_all(empty, [Stats(), FaultProof()], Context())
    assert results.valid == "unknown"
    assert results.whys == ("no operation by any client",)
    assert check_all(empty, [_Says("a", "kept"), FaultProof()], Context()).valid is True


def test_a_crash_is_told_with_its_traceback() -> None:
    results = check_all(Recorder().history, [_Says("a", ValueError("seven"))], Context())

    (verdict,) = results.verdicts
    assert verdict.reason.startswith("the checker crashed:\nTraceback")
    assert "ValueError: seven" in verdict.reason


def test_nobody_judges_a_history_that_is_not_wellformed() -> None:
    """Vector E7: with repeated indices a checker may answer valid."""
    op = Op("invoke", 0, "send", None, None, 0, 0)
    results = check_all(History([op, op]), [_Says("a", "kept")], Context())

    assert (results.valid, results.exit_code) == ("unknown", 2)
    assert results.verdicts[0].reason == "W1 at op 0: another operation has index 0 (2 breaches)"
    assert [b.rule for b in results.breaches] == ["W1", "W3"]


def test_warnings_spoil_nothing() -> None:
    r = Recorder()
    r.crash(0)
    r.send(0, 1, 0)
    results = check_all(r.history, [_Says("a", "kept")], Context())

    assert results.valid is True
    text = "process 0 goes on after an info completion"
    assert results.breaches == (Breach("W6", 2, text, True), Breach("W6", 3, text, True))


def test_claims_are_told_apart() -> None:
    results = check_all(Recorder().history, [_Says("a", "broken", "not promised")], Context())

    plain = results.to_json()
    assert plain["claims"] == {"S6": "broken", "S10": "not promised"}
    assert json.loads(json.dumps(plain))["verdicts"][0]["anomalies"][0]["detail"] == {"0": 1}
    assert [a.claim for a in results.broken] == ["S6"]


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


def test_stats_counts_every_kind() -> None:
    r = Recorder()
    assert Stats().check(r.history, Context()).gate == "no operation by any client"
    r.fault("kill", b1=True)
    r.crash(2)
    r.send(0, 1, 0)
    r.poll(1, op_type="fail")
    verdict = Stats().check(r.history, Context())
    assert (verdict.valid, verdict.gate) == (True, "")
    assert verdict.counts == {
        "crash.info": 1,
        "crash.invoke": 1,
        "poll.fail": 1,
        "poll.invoke": 1,
        "send.invoke": 1,
        "send.ok": 1,
    }


def test_a_history_that_is_cut_short_is_the_one_reason() -> None:
    checker = _Says("a", "not judged")
    cut = check_all(Recorder().history, [checker], Context(ended=False))
    assert cut.whys == (
        "not judged: no acknowledged message lost (S6) and no message disappears that was read "
        "(S10), since the history is cut short: the run did not come to its end",
    )
    whole = check_all(Recorder().history, [checker], Context(ended=True))
    assert "(S6), since why not judged" in "".join(whole.whys)


def test_a_checker_that_crashed_is_said_to_of_a_cut_history_too() -> None:
    cut = check_all(Recorder().history, [_Says("a", ValueError("x"))], Context(ended=False))
    assert "the checker crashed" in cut.whys[0]
    assert "the history is cut short" in cut.whys[0]
