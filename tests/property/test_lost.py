"""No number without its ground: of everything that a checker may say of messages."""

from typing import get_args

from hypothesis import example, given
from hypothesis import strategies as st

from maxq.checkers.core.api import ClaimVerdict, Status, Verdict
from maxq.checkers.judgement.lost import NOT_JUDGED, lost_in

STATUSES = st.sampled_from(get_args(Status))
WHYS = st.sampled_from(("", "unseen: 7 were never polled", "no ok poll; too few sends"))


@st.composite
def claim(draw: st.DrawFn, name: str) -> ClaimVerdict:
    status, why = draw(STATUSES), draw(WHYS)
    return ClaimVerdict(claim=name, status=status, why=why, doubt=draw(WHYS))


KEPT = (ClaimVerdict(claim="S6", status="kept"), ClaimVerdict(claim="S10", status="kept"))


@example(claims=KEPT, there={0, 1}, counts={"read": 1, "lost": 1, "gone": 0})
@given(
    claims=st.tuples(claim("S6"), claim("S10")),
    there=st.sets(st.sampled_from((0, 1))),
    counts=st.dictionaries(
        st.sampled_from(("lost", "acknowledged", "gone", "read", "never-read", "unseen")),
        st.integers(0, 3),
    ),
)
def test_nought_is_said_only_of_what_was_looked_at(
    claims: tuple[ClaimVerdict, ClaimVerdict], there: set[int], counts: dict[str, int]
) -> None:
    """S6: whoever reads "0" may rely on every acknowledged message having been looked for."""
    verdict = Verdict(
        checker="durability",
        claim_verdicts=tuple(claims[n] for n in sorted(there)),
        counts=counts,
    )
    found = lost_in([verdict])
    by_name = {c.claim: c for c in verdict.claim_verdicts}
    s6 = by_name.get("S6")
    whole = s6 is not None and s6.status != "not judged" and not s6.doubt
    if found.lost == 0 or found.gone == 0:
        assert whole
        assert counts.get("acknowledged")
    if found.gone == 0:
        assert by_name["S10"].status != "not judged"
        assert counts.get("read")
    if counts.get("lost"):
        assert found.lost == counts["lost"], "what was found is said, whatever else was not"
        assert found.of.startswith("at least") or whole
    assert (found.lost is None) == found.of.startswith(NOT_JUDGED)
    assert (found.lost is None) == found.said.startswith("losses not judged")
    assert found.plain()["lost"] == found.lost
    assert found.sentence.startswith(NOT_JUDGED) or found.lost is not None or not found.sentence


def test_without_a_checker_there_is_no_number() -> None:
    assert lost_in([]).plain()["lost"] is None
    assert lost_in([]).number == ""
