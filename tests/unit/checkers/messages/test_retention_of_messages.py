"""What is old may be deleted, and is no loss; what is younger may not (B13)."""

import pytest
from cluster_recorder import Trio
from profiles import under

from maxq.checkers.core.api import Verdict
from maxq.checkers.messages.durability import Durability
from maxq.checkers.messages.retention import Retention

SENT = 10  # messages, at offsets 0 to 9, of which those before YOUNG got old
YOUNG = 4


def sent() -> Trio:
    r = Trio()
    for offset in range(SENT):
        r.send(0, 100 + offset, offset, node="b0")
    return r


def trim(r: Trio, young: int = YOUNG, *, key: int = 0) -> int:
    proof = {"holds": True, "start": 0, "aged-to": 1 << 16, "files": 1, "young": [[key, young]]}
    return r.act("trim", {"b0-0": proof})


def reread(r: Trio, first: int, process: int = 1, *, end: int = SENT, to: int = SENT) -> int:
    """A reader begins at the first offset, is given messages from `first` on, and comes to the
    end that a broker confirms."""
    r.assign(process, 0, seek=True)
    r.poll(process, *((at, 100 + at) for at in range(first, to)))
    return r.poll(process, end={0: end})


def both(r: Trio) -> tuple[Verdict, Verdict]:
    return (
        Durability().check(r.history, under("P-SAFE")),
        Retention().check(r.history, under("P-SAFE")),
    )


def broken(r: Trio) -> dict[str, dict[str, int]]:
    return {
        v.claim: v.found for verdict in both(r) for v in verdict.claim_verdicts
        if v.status == "broken"
    }  # fmt: skip


@pytest.mark.parametrize("first", [0, 2, YOUNG])
def test_what_is_old_may_be_gone_or_not(first: int) -> None:
    r = sent()
    trim(r)
    reread(r, first)
    durability, retention = both(r)
    assert durability.of("broken") == ()
    assert {"S6", "S11"} <= set(durability.of("kept"))
    assert retention.of("kept") == ("B13",)
    assert retention.counts == {"logs-aged": 1, "young-messages": SENT - YOUNG}


def test_what_is_young_may_not_be_gone() -> None:
    r = sent()
    at = trim(r)
    end = reread(r, YOUNG + 2)
    assert broken(r) == {"S6": {"lost-write": 2}, "B13": {"deleted-early": 1}}
    [found] = both(r)[1].anomalies
    assert found.detail == {
        "key": 0, "set": "b0", "young": YOUNG, "first": YOUNG + 2, "trim": at, "missing": 2,
        "values": [104, 105],
    }  # fmt: skip
    assert end in found.ops
    assert found.acts == (at,)
    assert f"got old at op {at}" in found.story


def test_a_queue_of_which_nothing_is_left_to_read() -> None:
    r = sent()
    trim(r)
    reread(r, SENT)
    assert broken(r)["B13"] == {"deleted-early": 1}


def test_what_was_lost_before_it_got_old_is_lost() -> None:
    """A reader went past messages before anybody might delete them."""
    r = sent()
    r.assign(2, 0, seek=True)
    r.poll(2, (0, 100), (3, 103))
    trim(r)
    reread(r, YOUNG)
    assert broken(r)["S6"] == {"lost-write": 2}
    assert broken(r)["S11"] == {"int-poll-skip": 1}


def after_an_unclean_election() -> Trio:
    """A message of which a reader had another one at the same offset, before it was acknowledged;
    then it is deleted for its age."""
    r = Trio()
    r.send(0, 100, 0, node="b0")
    r.poll(2, (0, 100), (1, 999))
    r.send(0, 999, 1, op_type="info")
    for offset in range(1, SENT):
        r.send(0, 100 + offset, offset, node="b0")
    return r


def test_who_read_what_stood_there_before_did_not_go_past_it() -> None:
    r = after_an_unclean_election()
    r.poll(2, (2, 102), (3, 103))
    trim(r)
    r.poll(2, *((at, 100 + at) for at in range(YOUNG, SENT)))
    assert "lost-write" not in {a.name for a in both(r)[0].anomalies}
    s = after_an_unclean_election()
    s.poll(3, (1, 999), (2, 102))  # and a reader found the other one later: this one was cut off
    trim(s)
    s.poll(3, *((at, 100 + at) for at in range(YOUNG, SENT)))
    assert "lost-write" in {a.name for a in both(s)[0].anomalies}


def test_a_reader_is_moved_on_where_its_next_message_was_deleted() -> None:
    r = sent()
    r.assign(2, 0, seek=True)
    r.poll(2, (0, 100), (1, 101))
    trim(r)
    r.poll(2, *((at, 100 + at) for at in range(YOUNG, SENT)))
    reread(r, YOUNG)
    assert broken(r) == {}
    r.poll(2, (9, 109))
    s = sent()
    s.assign(2, 0, seek=True)
    s.poll(2, (0, 100), (1, 101))
    trim(s)
    s.poll(2, *((at, 100 + at) for at in range(YOUNG + 1, SENT)))
    reread(s, YOUNG)
    assert broken(s)["S11"] == {"poll-skip": 1}, "one of those that it missed was young"


def test_what_was_never_read_and_is_old_leaves_no_doubt() -> None:
    r = sent()
    trim(r)
    r.assign(1, 0)
    r.poll(1, *((at, 100 + at) for at in range(YOUNG, SENT)))
    assert both(r)[0].counts.get("unseen") is None


def test_a_log_that_ends_sooner_is_cut_and_not_old() -> None:
    """Also below what may be deleted: its end never comes back."""
    r = sent()
    reread(r, 0)
    trim(r)
    reread(r, 0, end=2, to=2)
    assert broken(r)["S10"]["truncation"] == SENT - 2
    assert broken(r)["S6"]["lost-tail"] == SENT - 2


def test_without_a_log_that_got_old_there_is_no_occasion() -> None:
    r = sent()
    reread(r, 2)
    assert both(r)[1].of("no occasion") == ("B13",)
    assert broken(r)["S6"] == {"lost-write": 2}
    s = sent()
    trim(s)
    assert both(s)[1].of("not judged") == ("B13",)


def test_a_proof_of_another_shape_leaves_the_claims_not_judged() -> None:
    r = sent()
    r.act("trim", {"b0-0": {"holds": True, "aged-to": 1, "young": [[0]]}})
    reread(r, 0)
    assert both(r)[1].of("not judged") == ("B13",)
    assert "is no proof" in both(r)[1].reason


def test_a_message_whose_first_place_no_reader_began_before() -> None:
    """A poll that failed showed it at an earlier offset, too; the only reader began behind that."""
    r = sent()
    trim(r)
    r.assign(1, 0)
    r.poll(1, (YOUNG, 100 + YOUNG), (YOUNG + 1, 101 + YOUNG))
    r.poll(2, (1, 109), op_type="fail")
    durability, _ = both(r)
    assert durability.counts["hidden-loss"] == 1
    assert "S6" in durability.of("not judged")
