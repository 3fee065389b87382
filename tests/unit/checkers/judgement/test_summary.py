"""A verdict in words: what stands first, what was lost, and when a valid one is only so far."""

import re
from typing import Any

import pytest
from profiles import under

from maxq.checkers.core.api import ClaimVerdict, Context, Status, Valid, Verdict
from maxq.checkers.core.titles import TITLES, titled
from maxq.checkers.judgement.names import ANOMALIES
from maxq.checkers.judgement.phrases import PHRASES, said
from maxq.checkers.judgement.runner import Results
from maxq.checkers.judgement.summary import (
    FAIL_ON,
    besides,
    fails_on,
    headline,
    loss,
    notes,
    nothing_lost,
    table,
    word,
)

SAFE, DEFAULT = under("P-SAFE", purpose=("S13", "S6", "L1")), under("P-DEFAULT")


def results(
    valid: Valid,
    *claims: ClaimVerdict,
    whys: tuple[str, ...] = (),
    gate: str = "",
    **counts: int,
) -> Results:
    verdict = Verdict(checker="durability", claim_verdicts=claims, counts=counts, gate=gate)
    return Results(valid=valid, verdicts=(verdict,), whys=whys)


def verdict(claim: str, status: Status, **found: int) -> ClaimVerdict:
    names = {name.replace("_", "-"): n for name, n in found.items()}
    return ClaimVerdict(claim=claim, status=status, why=f"why {claim}", found=names)


def test_the_first_word_is_the_verdict() -> None:
    assert [word(results(v)) for v in (True, False, "unknown")] == ["valid", "INVALID", "unknown"]


@pytest.mark.parametrize(
    ("lost", "of", "said"),
    [
        (0, 10, ""),
        (1, 200, "1 of 200 acknowledged messages (less than 1 %) was lost"),
        (443, 1839, "443 of 1,839 acknowledged messages (24 %) were lost"),
        (3, 0, "3 of 0 acknowledged messages (100 %) were lost"),
    ],
)
def test_what_was_lost_is_said_with_its_share(lost: int, of: int, said: str) -> None:
    assert loss(results(True, verdict("S6", "kept"), lost=lost, acknowledged=of)) == said


@pytest.mark.parametrize(
    ("status", "lost", "said"),
    [
        ("kept", 0, "none of 40 acknowledged messages was lost"),
        ("not promised", 0, "none of 40 acknowledged messages was lost"),
        ("not judged", 0, "not judged whether acknowledged messages were lost (why S6)"),
        ("broken", 2, ""),
    ],
)
def test_that_nothing_was_lost_is_said_where_it_was_looked_at(
    status: Status, lost: int, said: str
) -> None:
    assert nothing_lost(results(True, verdict("S6", status), lost=lost, acknowledged=40)) == said


def test_what_was_done_to_users_stands_before_the_claims_that_say_so() -> None:
    one = results(False, verdict("S4", "broken", sync_state_set_forked=1), verdict("S6", "kept"))
    assert headline(one, SAFE) == ("INVALID: One SyncStateSet epoch had two SyncStateSets (S4).")
    both = results(
        False,
        verdict("S6", "broken", lost_write=2),
        verdict("S9", "broken", missing_in_replica=2),
        lost=2,
        acknowledged=100,
    )
    assert headline(both, SAFE) == (
        "INVALID: 2 of 100 acknowledged messages (2 %) were lost (S6). "
        f"{said('missing-in-replica', 2)[:1].upper()}{said('missing-in-replica', 2)[1:]} (S9)."
    )


def test_a_loss_that_breaks_nothing_stands_behind_what_is_broken() -> None:
    mixed = results(
        False,
        verdict("S5", "broken", two_masters=1),
        verdict("L1", "broken", granted_too_soon=30),
        verdict("S6", "not promised", lost_write=2),
        lost=2,
        acknowledged=100,
    )
    assert headline(mixed, SAFE) == (
        "INVALID: One master epoch had two masters (S5); 30 times a queue's lock was granted again "
        "within its lease (L1). 2 of 100 acknowledged messages (2 %) were lost."
    )


def test_every_anomaly_has_plain_words() -> None:
    assert PHRASES.keys() == ANOMALIES.keys()
    for name, (one, many) in PHRASES.items():
        assert "{n}" in many, name
        assert "{n}" not in one, name
        assert said(name, 1) == one
        assert said(name, 1200).startswith(many.partition("{n}")[0] + "1,200")


def test_a_valid_run_says_how_much_was_kept() -> None:
    kept = [verdict("S6", "kept"), verdict("S13", "kept")]
    assert headline(results(True, *kept), SAFE) == (
        "valid: all 2 claims that this run tested were kept."
    )
    spared = [verdict("S7", "no occasion"), verdict("S14b", "not promised")]
    assert headline(results(True, *kept, *spared), SAFE) == (
        "valid: all 2 claims that this run tested were kept; 1 was not covered and 1 is not "
        "promised."
    )
    counted = results(True, *kept, *spared[:1], lost=0, acknowledged=1550)
    assert headline(counted, SAFE) == (
        "valid: none of 1,550 acknowledged messages was lost. All 2 claims that this run tested "
        "were kept; 1 was not covered."
    )
    assert besides(counted, SAFE) == ""
    lossless = results(True, *kept, verdict("S10", "not promised", truncation=2), lost=0,
                       acknowledged=50)  # fmt: skip
    assert besides(lossless, SAFE) == "none of 50 acknowledged messages was lost"


def test_a_broken_claim_never_stands_as_a_number_alone() -> None:
    """However many are broken, and where a finding has no words of its own."""
    every = [verdict(c, "broken", **{f"kind{n}": 1}) for n, c in enumerate(TITLES)]
    for count in range(1, len(every) + 1):
        text = headline(results(False, *every[:count]), SAFE)
        outside = re.sub(r"\([^()]*\)", "", text)
        assert not re.search(r"\b[SAPNBOEL]\d", outside), text
    assert headline(results(False, verdict("S6", "broken")), SAFE) == (
        "INVALID: Broken promise: no acknowledged message lost (S6)."
    )


def lossy(**more: int) -> Results:
    found = {"lost_write": 17, **more}
    return results(True, verdict("S6", "not promised", **found), lost=17, acknowledged=170)


def test_a_loss_that_is_not_promised_against_is_said_all_the_same() -> None:
    assert headline(lossy(), DEFAULT) == (
        "valid: 17 of 170 acknowledged messages (10 %) were lost; the settings do not promise to "
        "keep them. Nothing that P-DEFAULT promises was broken."
    )
    assert headline(lossy(truncation=1200), DEFAULT).endswith(
        "keep them. Also measured, and not promised: 1,200 messages that were read disappeared. "
        "Nothing that P-DEFAULT promises was broken."
    )


def test_who_promises_is_a_profile_or_what_was_set_beside_it() -> None:
    set_ = under("P-ALL", by_hand=("broker:allAckInSyncStateSet", "broker:slaveTimeout"))
    assert "these settings promise (P-ALL with broker:allAckInSyncStateSet=true)" in (
        headline(lossy(), set_)
    )
    assert "Nothing that the run promises was broken" in headline(lossy(), Context())


def test_what_was_lost_is_not_said_twice() -> None:
    """Where S6 is not what was measured, the loss is told with what is broken."""
    measured = results(
        True,
        verdict("S6", "kept"),
        verdict("S10", "not promised", truncation=3),
        lost=17,
        acknowledged=170,
    )
    assert headline(measured, DEFAULT).startswith(
        "valid: measured, and not promised: 3 messages that were read disappeared."
    )


def unsure(*claims: str, **more: Any) -> Results:
    of = ("S6", "S13", "L1", "S7")
    claim_verdicts = [verdict(c, "not judged" if c in claims else "kept") for c in of]
    return results("unknown", *claim_verdicts, whys=tuple(f"why {c}" for c in claims), **more)


def test_a_run_that_answers_what_it_is_there_for_is_valid_so_far() -> None:
    assert headline(unsure("S7"), SAFE) == (
        "unknown: all 3 claims that this run tested were kept. Why S7."
    )


@pytest.mark.parametrize("claims", [("S6",), ("S13",), ("S6", "S7"), ("S6", "L1")])
def test_a_run_that_does_not_is_unknown(claims: tuple[str, ...]) -> None:
    """Losses and service are what everybody asks for."""
    assert headline(unsure(*claims), SAFE).startswith(f"unknown: why {claims[0]}")


def test_what_spoils_the_whole_run_leaves_it_unknown() -> None:
    assert headline(unsure("S7", gate="no fault held"), SAFE).startswith("unknown: ")
    assert headline(results("unknown", whys=("nothing",)), SAFE) == "unknown: nothing."


def test_an_unknown_run_says_what_it_measured() -> None:
    r = results("unknown", verdict("S11", "not promised", duplicate=2), whys=("no poll",))
    assert headline(r, DEFAULT) == (
        "unknown: no poll. Measured, and not promised: 2 messages are in a queue twice."
    )


@pytest.mark.parametrize(
    ("which", "names"),
    [("", set()), ("loss", {"lost-write"}), ("stale", {"truncation"}),
     ("any", {"lost-write", "truncation", "two-masters"})],
)  # fmt: skip
def test_a_command_may_fail_on_what_is_only_measured(which: str, names: set[str]) -> None:
    measured = lossy(truncation=1, two_masters=1)
    assert set(fails_on(measured, which)) == names
    assert which in ("", *FAIL_ON)
    kept = results(True, verdict("S6", "kept"))
    broken = results(False, verdict("S6", "broken", lost_write=1))
    assert not fails_on(kept, which)
    assert not fails_on(broken, which), "that fails by itself"


def test_keys_of_which_nobody_knows_what_they_promise_are_named() -> None:
    known = ("broker:inSyncReplicas", "b0-1:inSyncReplicas", "c0:enableElectUncleanMaster")
    assert notes(results(True), under("P-ALL", by_hand=known)) == ()
    [note] = notes(results(True), under("P-ALL", by_hand=(*known, "n0:odd", "broker:strange")))
    assert "broker:strange and namesrv:odd" in note


def test_what_is_to_be_read_first_stands_first() -> None:
    r = results(
        False,
        verdict("S3", "no occasion"),
        verdict("S4", "kept"),
        verdict("S5", "not promised"),
        verdict("S6", "not promised", lost_write=1),
        verdict("S7", "not judged"),
        verdict("S13", "broken", not_writable=1),
    )
    assert [claim for claim, _ in table(r)] == ["S13", "S7", "S6", "S5", "S4", "S3"]


def test_it_is_said_that_a_run_ended_early() -> None:
    """A verdict on 20 s must not read like one on the hour that was asked for."""
    part = Context(part="20 s of 3600 s were run")
    results = Results(valid=True, verdicts=())
    assert headline(results, part).endswith(" Only 20 s of 3600 s were run.")
    assert "Only" not in headline(results, Context())


def test_claims_are_called_by_words() -> None:
    assert titled(["S6"]) == "no acknowledged message lost (S6)"
    assert titled(["S6", "S15", "N1", "N9"]) == (
        "no acknowledged message lost (S6), nodes keep running (S15) and 2 more (N1, N9)"
    )
    assert titled(["of-a-plug-in"]) == "of-a-plug-in"


def test_a_run_that_put_nothing_to_the_test_says_so() -> None:
    """ "All 0 claims were kept" would read like a success."""
    said = headline(Results(valid=True, verdicts=()), Context())
    assert said == "valid: nothing was broken, and nothing was put to the test."
