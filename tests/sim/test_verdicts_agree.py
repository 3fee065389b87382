"""A verdict does not deny what was found: mutants under every profile, seeds that alternate.

In small; ``python -m benchmarks.verdicts`` has every mutant under every profile with five seeds.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from benchmarks.verdicts import PROFILES, Said, contradictions, every, say
from maxq.checkers.core.api import Anomaly, ClaimVerdict, Status, Verdict
from maxq.checkers.judgement.runner import Results

STRIDE = 331  # shares no factor with the number of profiles or of mutants


@pytest.fixture(scope="module")
def said() -> Sequence[Said]:
    return [say(options) for options in every(range(1, 6))[::STRIDE]]


def test_no_claim_is_kept_of_which_something_was_found(said: Sequence[Said]) -> None:
    assert [line for run in said for line in run.wrong] == []
    assert "failed" not in {run.verdict for run in said}


def test_something_was_found(said: Sequence[Said]) -> None:
    """Of nothing nothing could be denied."""
    assert {run.profile for run in said} == set(PROFILES)
    found = sum((Counter(run.found) for run in said), Counter[str]())
    assert found["broken"] > 1
    assert found["not promised"] > 1
    assert not found["kept"]


ANOMALY = Anomaly(claim="S6", name="lost-write", signature="S6/lost-write", ops=(1,), story="x")
KEPT = ClaimVerdict(claim="S6", status="kept")


def found_of(status: Status) -> ClaimVerdict:
    """Something was found, and the claim came to this all the same."""
    return ClaimVerdict(claim="S6", status=status, found={"x": 1})


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(
            checker="a", claim_verdicts=(ClaimVerdict(claim="S6", status="kept", found={"x": 1}),)
        ),
        Verdict(
            checker="a",
            claim_verdicts=(ClaimVerdict(claim="S6", status="no occasion", found={"x": 1}),),
        ),
        Verdict(checker="a", claim_verdicts=(KEPT,), anomalies=(ANOMALY,)),
        Verdict(checker="durability", claim_verdicts=(KEPT,), counts={"lost-write": 1}),
        Verdict(checker="a", anomalies=(ANOMALY,)),
    ],
)
def test_what_is_denied_is_noticed(verdict: Verdict) -> None:
    assert len([*contradictions(Results(valid=True, verdicts=(verdict,)))]) == 1
    broken = (ClaimVerdict(claim="S6", status="broken", found={"lost-write": 1}),)
    agrees = msgspec.structs.replace(verdict, claim_verdicts=broken)
    assert not [*contradictions(Results(valid=False, verdicts=(agrees,)))]
