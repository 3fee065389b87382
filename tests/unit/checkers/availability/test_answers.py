"""Times without success, and what clients were answered in them."""

from typing import Any

import pytest

from maxq.checkers.availability.answers import KINDS, Answers, answer_of
from maxq.checkers.core.api import Anomaly, ClaimVerdict, Context, Stretch, Verdict
from maxq.checkers.judgement.digest import digest
from maxq.checkers.judgement.runner import check_all
from maxq.checkers.judgement.stretches import NONE, long_ones, said
from maxq.checkers.judgement.summary import headline
from maxq.histories.grounds import PROBE, declaration
from maxq.histories.history import History
from maxq.histories.op import Op

SECOND = 1_000_000_000
SETS = {0: "b0", 1: "b1", 2: "b0"}


def history(
    *attempts: tuple[float, float, Any], f: str = "send", sets: dict[int, str] | None = None
) -> History:
    """Attempts of one client each: begun at, over at (s), and the error; None: ok. With `sets` an
    attempt is of the queue of its number, modulo how many there are."""
    events: list[tuple[float, Op]] = []
    for who, (begun, over, error) in enumerate(attempts):
        key = who % len(sets) if sets else 0
        value = [["send", key, who]]
        ext = {"node": sets[key]} if sets and error is None else None
        kind: Any = "ok" if error is None else "fail"
        events.append((begun, Op("invoke", who, f, value)))
        events.append((over, Op(kind, who, f, value, error, ext=ext)))
    ops = [declaration((PROBE, key, name) for key, name in (sets or {}).items())]
    ops += [op for _, op in sorted(events, key=lambda e: e[0])]
    times = [0.0, *sorted(at for at, _ in events)]
    return History(
        Op(op.type, op.process, op.f, op.value, op.error, index, round(at * SECOND), op.ext)
        for index, (op, at) in enumerate(zip(ops, times, strict=True))
    )


def stretches(of: History) -> tuple[Stretch, ...]:
    return check_all(of, [Answers()], Context()).stretches


def test_a_stretch_is_named_by_its_most_frequent_answers_in_order() -> None:
    weak = [(n, n + 0.5, ["FLUSH_SLAVE_TIMEOUT", ""]) for n in range(2, 7)]
    refused = [(n / 10, n / 10 + 0.01, ["SYSTEM_ERROR", "in-sync replicas not enough"])
               for n in range(65, 465)]  # fmt: skip
    [found] = stretches(history((0, 1, None), *weak, *refused, (46, 47, None)))
    assert said(found) == (
        "for 44 s no send was SEND_OK: 5 FLUSH_SLAVE_TIMEOUT, then 400 'in-sync replicas not "
        "enough'"
    )
    assert long_ones([found])[0].endswith(" (from 2.00 s on)")


def test_other_answers_are_counted_and_those_that_alternate_do_not_follow_each_other() -> None:
    errors = ["no-route", ["TOPIC_NOT_EXIST", "topic[a] not exist"], "timeout"]
    tries = [(n, n + 0.5, errors[n % 2 if n < 9 else 2]) for n in range(10)]
    [found] = stretches(history(*tries))
    assert said(found) == (
        "for 9.5 s no send was SEND_OK: 5 no route to a broker and 4 TOPIC_NOT_EXIST; 1 other"
    )


def test_no_stretch_is_where_nobody_asked_or_a_failure_was_alone() -> None:
    assert not stretches(history((0, 1, None), (60, 61, None)))
    assert not stretches(history((0, 1, None), (59.5, 60, "no-route"), (60, 61, None)))


def test_a_failure_that_began_before_a_success_counts_from_that_on() -> None:
    [found] = stretches(history((0, 9, "timeout"), (5, 6, None)))
    assert (found.from_ns, found.until_ns) == (6 * SECOND, 9 * SECOND)


def test_a_lock_that_another_has_is_an_answer_of_a_cluster_that_works() -> None:
    tries: list[tuple[float, float, Any]] = [(n, n + 0.5, "not-granted") for n in range(20)]
    assert not stretches(history(*tries, f="acquire"))
    lost: list[tuple[float, float, Any]] = [(n, n + 0.5, "timeout") for n in range(20)]
    [found] = stretches(history(*lost, f="acquire"))
    assert said(found) == "for 20 s no request for a lock was answered: 20 no answer in time"


def test_a_set_that_serves_does_not_hide_one_that_does_not() -> None:
    tries: list[tuple[float, float, Any]] = [
        (n, n + 0.5, "timeout" if SETS[n % 3] == "b1" and n > 1 else None) for n in range(30)
    ]
    [found] = stretches(history(*tries, sets=SETS))
    assert said(found).startswith("for 24 s no send of broker set b1 was SEND_OK: 9 no answer")


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("timeout", "no answer in time"),
        (["TimeoutError", ""], "no answer in time"),
        (["not-sent", "cannot connect to 10.0.0.3:10911: refused"], "no connection"),
        (["TOPIC_NOT_EXIST", "topic[maxq-queue] not exist"], "TOPIC_NOT_EXIST"),
        (["SYSTEM_ERROR", ""], "SYSTEM_ERROR"),
        (["SYSTEM_BUSY", "[TIMEOUT_CLEAN_QUEUE]broker busy, period in queue: 210ms"],
         "'[TIMEOUT_CLEAN_QUEUE]broker busy'"),
        (["RESPONSE_2150", "slots of 17 are full"], "'slots of N are full'"),
        ("indeterminate: KeyError", "indeterminate"),
        (None, "no reason given"),
        ([], "no reason given"),
    ],
)  # fmt: skip
def test_answers_by_name(error: Any, name: str) -> None:
    assert answer_of(error) == name


def test_each_kind_that_is_looked_at_has_words() -> None:
    assert NONE.keys() == KINDS


class Broken:
    """Finds that nothing was taken, from operation 3 on."""

    name, claims = "broken", ("S13",)

    def check(self, history: History, context: Context) -> Verdict:
        anomaly = Anomaly(claim="S13", name="not-writable", signature="S13/not-writable", ops=(3,),
                          story="Nothing was taken.", detail={"set": "b0"})  # fmt: skip
        verdict = ClaimVerdict(claim="S13", status="broken", found={"not-writable": 1})
        return Verdict(checker=self.name, anomalies=(anomaly,), claim_verdicts=(verdict,))


def test_a_finding_that_nothing_was_taken_says_what_was_answered() -> None:
    gone = (["TOPIC_NOT_EXIST", "topic[a] not exist"],) * 470
    tries = [(n / 10, n / 10 + 0.05, error) for n, error in enumerate(gone)]
    of = history(*tries)
    results = check_all(of, [Broken(), Answers()], Context())
    [anomaly] = results.broken
    assert anomaly.story == (
        "Nothing was taken. For 47 s no send was SEND_OK: 470 TOPIC_NOT_EXIST."
    )
    assert headline(results, Context()) == (
        "INVALID: A broker set took no messages although everything was healed: 470 "
        "TOPIC_NOT_EXIST (S13)."
    )
    [row] = digest(of, results)
    assert row.what.endswith("healed: 470 TOPIC_NOT_EXIST")


@pytest.mark.parametrize("f", sorted(KINDS - {"send", "poll"}))
def test_a_success_at_one_set_ends_the_time_without_success_of_other_kinds(f: str) -> None:
    """Their failures do not say which set they asked, and their successes do."""
    attempts = [(n, n + 0.5, "no-route" if n % 2 else None) for n in range(20)]
    assert stretches(history(*attempts, f=f, sets=SETS)) == ()
