"""The first screen's rows: how many, when, who had acknowledged, and by which fault."""

import msgspec
import pytest

from maxq.checkers.core.api import Anomaly, ClaimVerdict, Harm, Verdict
from maxq.checkers.judgement.digest import ELSEWHERE, NO_FAULT, NO_TIME, digest, known_lines, named
from maxq.checkers.judgement.runner import Results
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, Op

S = 1_000_000_000


def history() -> History:
    def op(kind: str, who: object, f: str, value: object, at: int, **ext: object) -> Op:
        return Op(kind, who, f, value, time=at, ext=ext or None)  # type: ignore[arg-type]

    replica = {"node": "b0-1", "address": "a:1"}
    ops = [
        op("info", NEMESIS, "kill", "kill1", 2 * S),
        op("info", NEMESIS, "kill", {"b0-0": {"holds": True}}, 3 * S),
        op("invoke", 1, "observe-replica", {"node": "b0-1"}, 4 * S),
        op("ok", 1, "observe-replica", replica, 4 * S),
        op("invoke", 0, "acquire", 0, 5 * S),
        op("ok", 0, "acquire", 0, 5 * S, broker="a:1"),
        op("info", NEMESIS, "pause", "pause1", 9 * S),
        op("info", NEMESIS, "pause", {"b0-0": {"holds": True}}, 9 * S),
    ]
    return History([Op(o.type, o.process, o.f, o.value, o.error, n, o.time, o.ext)
                    for n, o in enumerate(ops)])  # fmt: skip


def judged(*verdicts: Verdict) -> Results:
    return Results(valid=False, verdicts=verdicts)


def loss(lost: int, **more: object) -> Harm:
    return Harm(kind="loss", title="", story="", lost=lost, set="b0", node="b0-0", epoch=3,
                first_ns=4 * S, last_ns=5 * S, **more)  # type: ignore[arg-type]  # fmt: skip


def test_a_loss_says_how_many_of_how_many_who_when_and_why() -> None:
    found = Verdict(
        checker="durability",
        claim_verdicts=(ClaimVerdict(claim="S6", status="broken", found={"lost-write": 7}),),
        anomalies=(lost_write(),),
        harms=(loss(7, acts=(0,), elected=4, ops=(5,)),),
        counts={"lost": 7, "acknowledged": 90},
    )
    (row,) = digest(history(), judged(found))
    assert row.text() == (
        "7 acknowledged messages lost; of 90 acknowledged; acknowledged by b0-0, master of b0 in "
        "epoch 3; 4.00 s to 5.00 s; blamed: kill b0-0 at 3.00 s"
    )
    assert (row.broken, row.nodes, row.after) == (
        True, ("b0-0",), "gone with the election of epoch 4",
    )  # fmt: skip


def lost_write() -> Anomaly:
    return Anomaly(claim="S6", name="lost-write", signature="S6/x", ops=(5,), story="")


def anomaly(**detail: object) -> Anomaly:
    return Anomaly(claim="L1", name="granted-too-soon", signature="L1/x", ops=(5,), story="",
                   detail=dict(detail))  # fmt: skip


def locks(*anomalies: Anomaly, found: int) -> Results:
    verdict = ClaimVerdict(
        claim="L1", status="broken", found={"granted-too-soon": found}, occasions=40
    )
    return judged(Verdict(checker="locks", claim_verdicts=(verdict,), anomalies=anomalies))


def test_a_finding_without_blame_names_the_last_fault_before_it_and_who_answered() -> None:
    (row,) = digest(history(), locks(anomaly(), found=1))
    assert (row.who, row.when, row.share) == ("answered by b0-1", "5.00 s", "of 40 cases")
    assert row.cause == "none is blamed; the last before: kill b0-0 at 3.00 s"


def test_the_end_is_open_where_not_all_of_it_is_reported() -> None:
    (row,) = digest(history(), locks(anomaly(), found=9))
    assert (row.found, row.when) == (9, "from 5.00 s on")


def test_nothing_is_blamed_where_no_fault_came_before() -> None:
    quiet = History([op for op in history().ops if op.is_client])
    (row,) = digest(quiet, locks(anomaly(), found=1))
    assert row.cause == NO_FAULT


@pytest.mark.parametrize(
    ("struck", "of", "cause"),
    [
        ("b0-0", "b1", ELSEWHERE),
        ("n0", "", ELSEWHERE),
        ("c0", "b1", "none is blamed; the last before: kill c0 at 3.00 s"),
        ("b1-1", "b1", "none is blamed; the last before: kill b1-1 at 3.00 s"),
    ],
)
def test_a_fault_elsewhere_is_not_said_to_be_none(struck: str, of: str, cause: str) -> None:
    killed = [
        msgspec.structs.replace(op, value={struck: {"holds": True}})
        if not op.is_client and op.f == "kill" and isinstance(op.value, dict) else op
        for op in history().ops
    ]  # fmt: skip
    found = msgspec.structs.replace(anomaly(), detail={"set": of} if of else {})
    (row,) = digest(History(killed), locks(found, found=1))
    assert row.cause == cause


def test_of_a_finding_without_a_time_nobody_knows_which_fault_came_before() -> None:
    timeless = [msgspec.structs.replace(op, time=-1) if op.is_client else op
                for op in history().ops]  # fmt: skip
    (row,) = digest(History(timeless), locks(anomaly(), found=1))
    assert row.cause == NO_TIME


def test_what_is_broken_stands_before_what_is_not_promised() -> None:
    measured = Verdict(
        checker="durability",
        claim_verdicts=(ClaimVerdict(claim="S6", status="not promised", found={"lost-write": 7}),),
        anomalies=(lost_write(),),
        harms=(loss(7, ops=(5,)),),
    )
    broken = locks(anomaly(), found=1).verdicts
    rows = digest(history(), judged(measured, *broken))
    assert [row.broken for row in rows] == [True, False]
    assert rows[1].share == "not promised"


def test_a_story_names_brokers_and_leaves_addresses_that_nobody_has() -> None:
    story = "granted by 198.18.0.80:10911, then by 198.18.0.9:10911"
    assert named(story, {"198.18.0.80:10911": "b0-0"}) == (
        "granted by b0-0, then by 198.18.0.9:10911"
    )


def test_what_is_known_of_a_finding_stands_with_it_and_of_how_many() -> None:
    two = anomaly(), msgspec.structs.replace(anomaly(), signature="L1/y")

    def known(found: Anomaly) -> str:
        return "known: RocketMQ #1 (what)" if found.signature == "L1/y" else ""

    (row,) = digest(history(), locks(*two, found=2), known)
    assert row.known == ("1 of 2 known: RocketMQ #1 (what)",)
    assert row.text().endswith("; 1 of 2 known: RocketMQ #1 (what)")
    (row,) = digest(history(), locks(two[1], found=1), known)
    assert list(known_lines([row])) == [
        "known: RocketMQ #1 (what): a lock is granted once in a lease (L1)"
    ]
    lost = msgspec.structs.replace(row, claims=("MINE", "S6"))
    (line,) = known_lines([row, lost])
    assert line.endswith(
        ": no acknowledged message lost (S6), a lock is granted once in a lease (L1) and MINE"
    )


def test_what_is_known_of_a_loss_is_told_by_what_shows_it() -> None:
    found = Verdict(checker="durability", anomalies=(lost_write(),), harms=(loss(7, ops=(5,)),),
                    claim_verdicts=(ClaimVerdict(claim="S6", status="broken"),))  # fmt: skip
    (row,) = digest(history(), judged(found), lambda a: f"known: {a.name}")
    assert row.known == ("known: lost-write",)
