"""Durability beyond the vectors: the final drain, faults, doubt, profiles, stories, bounds."""

from typing import Any

import pytest
from history_recorder import Recorder
from profiles import settings

from maxq.checkers.core.api import Context, Valid, Verdict
from maxq.checkers.core.listing import LISTED_MAX
from maxq.checkers.evidence.story import Storyteller
from maxq.checkers.messages.durability import ALLOWED, CLAIMS, NO_PROOF, Durability
from maxq.harness.contracts.target import Profile
from maxq.histories.op import NEMESIS

NAMES = {*CLAIMS, *ALLOWED, *NO_PROOF}


def _judge(recorder: Recorder, **context: Any) -> Verdict:
    return Durability().check(recorder.history, Context(**context))


def _found(verdict: Verdict) -> dict[str, int]:
    return {name: n for name, n in verdict.counts.items() if name in NAMES}


def _drain(
    r: Recorder, process: int, *messages: tuple[int, int], end: int, seek: bool = True
) -> None:
    r.assign(process, 0, seek=seek)
    if messages:
        r.poll(process, *messages)
    r.poll(process, end={0: end})


def _three() -> Recorder:
    r = Recorder()
    for v, o in ((10, 0), (11, 1), (12, 2)):
        r.send(0, v, o, node="b1", epoch=3, ack="stored")
    return r


def test_a_cut_tail_is_lost() -> None:
    """S6: nobody read past it, but the reader was at the confirmed end."""
    r = _three()
    _drain(r, 1, (0, 10), (1, 11), end=2)

    verdict = _judge(r)
    assert (verdict.valid, _found(verdict)) == (False, {"lost-tail": 1, "unseen": 1})
    (lost,) = verdict.anomalies
    assert (lost.claim, lost.ops) == ("S6", (5, 11))
    assert lost.detail == {
        "key": 0,
        "value": 12,
        "offset": 2,
        "index": 2,
        "writer": 5,
        "end": 2,
        "reader": 11,
    }


def test_the_whole_log_may_be_gone() -> None:
    r = _three()
    _drain(r, 1, end=0)

    verdict = _judge(r)
    assert (verdict.valid, _found(verdict)) == (False, {"lost-tail": 3, "unseen": 1})


@pytest.mark.parametrize("seek", [True, False])
def test_a_complete_drain_proves_a_correct_log(seek: bool) -> None:
    r = _three()
    r.poll(2, (0, 10))
    _drain(r, 1, (0, 10), (1, 11), (2, 12), end=3, seek=seek)

    assert _judge(r).valid is True


def test_seen_once_and_gone_in_the_end_is_lost_and_truncated() -> None:
    """S6 and S10: what a consumer saw stays, what was acknowledged is in the final log."""
    r = _three()
    r.poll(2, (0, 10), (1, 11), (2, 12))
    r.fault("kill", b1=True)
    _drain(r, 1, (0, 10), (1, 11), end=2)

    verdict = _judge(r)
    assert (verdict.valid, _found(verdict)) == (False, {"lost-tail": 1, "truncation": 1})
    cut = next(a for a in verdict.anomalies if a.name == "truncation")
    assert cut.claim == "S10"
    assert cut.detail == {"key": 0, "value": 12, "offset": 2, "reader": 7, "later": 15, "end": 2}


def test_a_hole_in_the_middle_of_the_final_log() -> None:
    """The log has grown past what a consumer had seen, and the drain lacks it."""
    r = _three()
    r.poll(2, (0, 10), (1, 11), (2, 12))
    _drain(r, 1, (0, 10), (2, 12), end=3)

    verdict = _judge(r)
    assert verdict.valid is False
    assert _found(verdict) == {"lost-tail": 1, "truncation": 1, "int-poll-skip": 1}


def test_another_message_at_a_seen_offset() -> None:
    """S11 and S10, whether or not the newer message was acknowledged."""
    r = _three()
    r.poll(2, (2, 12))
    r.send(3, 13, 2)
    r.assign(2, 0)
    r.poll(4, (2, 13))

    verdict = _judge(r)
    assert verdict.valid is False
    names = _found(verdict)
    assert names["inconsistent-offsets"] == names["truncation"] == 1
    cut = next(a for a in verdict.anomalies if a.name == "truncation")
    assert "later value 13 stood there" in cut.story


def test_a_later_drain_that_has_it_is_believed() -> None:
    """A first drain from a lagging replica proves no loss."""
    r = _three()
    _drain(r, 1, (0, 10), (1, 11), end=2)
    _drain(r, 2, (0, 10), (1, 11), (2, 12), end=3)

    assert _judge(r).valid is True


@pytest.mark.parametrize("elected", [True, False])
def test_each_replica_that_was_made_master_must_have_it(elected: bool) -> None:
    """Where replicas are made master in turn, what one of them lacks is lost on it; without that
    the later drain is believed."""
    r = _three()
    _drain(r, 1, (0, 10), (1, 11), end=2)
    if elected:
        r.fault("elect-master", b1=True)
    _drain(r, 2, (0, 10), (1, 11), (2, 12), end=3)
    verdict = _judge(r)
    assert (verdict.valid is False) == elected
    assert verdict.counts.get("lost-tail", 0) == elected


def test_a_drain_by_two_at_a_time_proves_for_both() -> None:
    """What the drain that began last lacks but another, still running, delivers is there."""
    r = _three()
    r.assign(1, 0, seek=True)
    r.assign(2, 0, seek=True)
    r.poll(2, (0, 10), (1, 11), end={0: 3})
    r.poll(1, (0, 10), (1, 11), (2, 12), end={0: 3})

    assert _judge(r).valid is True


def test_an_end_under_a_fault_proves_nothing() -> None:
    """An isolated old master confirms the end of its own log."""
    r = _three()
    r.begin(NEMESIS, "cut", "one")
    _drain(r, 1, (0, 10), (1, 11), end=2)
    r.end("info", NEMESIS, "cut", {"b1": {"holds": True}})

    verdict = _judge(r)
    assert (verdict.valid, _found(verdict)) == ("unknown", {"unseen": 1})
    assert verdict.reason.startswith("unseen: 1 acknowledged messages were never polled")
    assert (verdict.of("not judged"), verdict.anomalies) == (("S6",), ())


def test_an_end_under_a_fault_that_never_ended_proves_nothing() -> None:
    r = _three()
    r.begin(NEMESIS, "cut", "one")
    _drain(r, 1, (0, 10), (1, 11), end=2)

    assert _judge(r).valid == "unknown"


def test_what_nobody_acknowledged_is_truncated_but_not_lost() -> None:
    """S10 without S6."""
    r = _three()
    r.send(3, 13, op_type="info")
    r.poll(2, (0, 10), (1, 11), (2, 12), (3, 13))
    _drain(r, 1, (0, 10), (1, 11), (2, 12), end=3)

    assert _found(_judge(r)) == {"truncation": 1}


def test_one_poll_with_two_messages_at_an_offset_truncates_nothing() -> None:
    r = _three()
    r.send(3, 13, 2)
    r.poll(2, (0, 10), (1, 11), (2, 12), (2, 13))

    assert _found(_judge(r)) == {"inconsistent-offsets": 1}


def test_an_end_asked_for_before_the_acknowledgement_proves_nothing() -> None:
    r = Recorder()
    r.send(0, 10, 0)
    r.assign(1, 0, seek=True)
    r.begin(1, "poll", [["poll"]])
    r.send(0, 11, 1)
    r.end("ok", 1, "poll", [["poll", {0: [[0, 10]]}]], end={0: 1})

    assert _judge(r).valid == "unknown"


def test_a_message_sent_while_the_last_drain_ran() -> None:
    """The end was asked for after its acknowledgement, so the drain must have it."""
    r = Recorder()
    r.send(0, 10, 0)
    r.assign(1, 0, seek=True)
    r.poll(1, (0, 10))
    r.send(0, 11, 1)
    before = len(r.ops)
    r.poll(1, end={0: 1})

    verdict = _judge(r)
    assert (verdict.valid, _found(verdict)) == (False, {"lost-tail": 1, "unseen": 1})
    del r.ops[before:]
    r.poll(1, (1, 11), end={0: 2})
    assert _judge(r).valid is True


@pytest.mark.parametrize(("start", "valid"), [(0, False), (2, "unknown")])
def test_a_reader_that_began_in_the_middle_has_passed_nothing_before(
    start: int, valid: Valid
) -> None:
    """Without this a consumer that resumes makes a correct system look guilty."""
    r = _three()
    r.assign(1, 0)
    r.poll(1, *((0, 10), (2, 12))[start // 2 :])
    r.poll(1, end={0: 3})

    verdict = _judge(r)
    assert verdict.valid == valid
    assert ("lost-write" in _found(verdict)) == (valid is False)


def test_an_acknowledgement_without_offset_is_judged_by_the_end() -> None:
    r = Recorder()
    r.send(0, 10, 0)
    r.send(0, 11)
    r.poll(1, (0, 10), end={0: 1})
    assert _found(_judge(r)) == {"lost-tail": 1, "unseen": 1}

    r = Recorder()
    r.send(0, 10, 0)
    r.send(0, 11)
    _drain(r, 1, (0, 10), end=1, seek=False)
    assert _judge(r).valid == "unknown"


def test_an_uncertain_seek_proves_nothing() -> None:
    r = _three()
    r.op("info", 1, "assign", [0], [0], **{"seek-to-beginning?": True})
    r.op("fail", 2, "assign", [0], [0], **{"seek-to-beginning?": True})
    r.poll(2, (2, 12), end={0: 3})
    r.poll(1, (2, 12), end={0: 3})  # a recorder that reuses process numbers (W6)

    assert _judge(r).valid == "unknown"


def test_an_unanswered_assignment_of_unknown_keys_forgets_everything() -> None:
    r = _three()
    r.poll(1, (0, 10), (1, 11), (2, 12))
    r.op("info", 1, "assign", None, None)
    r.poll(1, (0, 10))

    assert _judge(r).valid is True


def test_an_open_send_may_have_happened() -> None:
    r = Recorder()
    r.begin(0, "send", [["send", 0, 10]])
    r.begin(3, "poll", [["poll"]])
    r.poll(1, (0, 10))

    verdict = _judge(r)
    assert (verdict.valid, _found(verdict)) == (True, {})


def test_a_corrupt_payload_is_a_phantom() -> None:
    """S11, and once per payload. The reader that failed counts too."""
    r = _three()
    r.poll(1, (0, "corrupt:ff"), op_type="info")
    r.poll(2, (0, "corrupt:ff"), (1, 11), (2, 12))

    verdict = _judge(r)
    assert verdict.valid is False
    assert _found(verdict)["phantom"] == 1
    phantom = next(a for a in verdict.anomalies if a.name == "phantom")
    assert (phantom.signature, phantom.ops) == ("S11/phantom", (7,))
    held = next(a for a in verdict.anomalies if a.name == "inconsistent-offsets")
    assert held.detail["values"] == [10, "corrupt:ff"]


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda r: None, "no send that is known to have happened; no ok poll"),
        (lambda r: r.poll(1), "no send that is known to have happened"),
        (lambda r: r.send(0, 1, 0, "info"), "no send that is known to have happened; no ok poll"),
        (lambda r: (r.send(0, 1, 0), r.poll(1, op_type="fail")), "no ok poll; unseen: 1"),
    ],
)
def test_no_evidence_is_unknown(build: Any, reason: str) -> None:
    r = Recorder()
    build(r)

    verdict = _judge(r)
    assert verdict.valid == "unknown"
    assert verdict.reason.startswith(reason)


def test_too_little_load_is_unknown() -> None:
    r = _three()
    r.poll(1, (0, 10), (1, 11), (2, 12))

    assert _judge(r, ok_ops_min={"send": 3, "poll": 1, "acquire": 9}).valid is True
    verdict = _judge(r, ok_ops_min={"send": 4})
    assert (verdict.valid, verdict.reason) == ("unknown", "only 3 ok send, 4 needed")


@pytest.mark.parametrize(
    ("profile", "status"),
    [("P-SAFE", "broken"), ("P-ALL", "broken"), ("P-NUM", "not promised"),
     ("P-DEFAULT", "not promised"), ("P-UNCLEAN", "not promised")],
)  # fmt: skip
def test_a_loss_that_settings_do_not_exclude_is_measured(profile: Profile, status: str) -> None:
    r = _three()
    _drain(r, 1, (0, 10), (1, 11), end=2)

    verdict = _judge(r, settings=settings(profile))
    assert _found(verdict) == {"lost-tail": 1, "unseen": 1}
    [s6] = [each for each in verdict.claim_verdicts if each.claim == "S6"]
    assert (s6.status, s6.found) == (status, {"lost-tail": 1})
    if status == "not promised":
        assert (verdict.valid, verdict.reason) == (True, "lost-tail 1")


def test_a_loss_that_the_runs_own_faults_suspend_is_a_measurement() -> None:
    """S6 under a loss of power with nothing synced; where brokers sync it is promised."""
    r = _three()
    r.fault("power-loss", b1=True)
    _drain(r, 1, (0, 10), (1, 11), end=2)
    synced = settings("P-SAFE", broker__flushDiskType="SYNC_FLUSH")
    verdict = _judge(r, settings=settings("P-SAFE"))
    assert (verdict.valid, verdict.counts["lost-tail"]) == (True, 1)
    assert verdict.of("not promised") == ("S6", "S10", "S11", "S12")
    assert _judge(r, settings=synced).valid is False
    r.poll(1, (2, 99))
    phantom = _judge(r, settings=settings("P-SAFE"))
    assert phantom.of("broken") == ("S16",), "that is nobody's loss"


def test_a_phantom_is_wrong_under_any_profile() -> None:
    r = _three()
    r.poll(1, (0, 10), (1, 11), (2, 12), (3, 99))

    assert _judge(r, settings=settings("P-UNCLEAN")).of("broken") == ("S16",)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda r: r.op("ok", 0, "poll", [["poll"]], [["poll", {"0": []}]]), "W9: value of 1"),
        (lambda r: r.op("ok", 0, "poll", [["poll"]], 7), "W9: value of 1"),
        (lambda r: r.op("ok", 0, "assign", None, None), "W9: value of 1 is no list of keys"),
        (lambda r: r.op("ok", 0, "assign", ["a"], ["a"]), "W9: value of 1 is no list of keys"),
        (lambda r: r.poll(0, end=3), "W9: end of 1 is no map"),
        (lambda r: r.poll(0, end={"0": 3}), "W9: end of 1 holds '0': 3"),
        (lambda r: (r.send(0, 1, 0), r.send(1, 1, 1)), "W10: value 1 of key 0 is sent by 1 and 3"),
    ],
)
def test_malformed_values_are_unknown(build: Any, reason: str) -> None:
    """Rules W9 and W10: never true."""
    r = Recorder()
    build(r)

    verdict = _judge(r)
    assert verdict.valid == "unknown"
    assert verdict.reason.startswith(reason)


def test_many_anomalies_are_counted_and_some_told() -> None:
    r = Recorder()
    for v in range(LISTED_MAX + 20):
        r.send(0, v, v)
    r.poll(1, (0, 0), (LISTED_MAX + 19, LISTED_MAX + 19))

    verdict = _judge(r)
    assert verdict.counts["lost-write"] == LISTED_MAX + 18
    told = [a.name for a in verdict.anomalies]
    assert told.count("lost-write") == LISTED_MAX
    assert told.count("int-poll-skip") == 1


def test_keys_are_judged_apart() -> None:
    r = Recorder()
    r.send(0, 10, 0)
    r.send(0, 10, 0, key=1)
    r.send(0, 11, 1, key=1)
    r.poll(1, (0, 10))
    r.poll(1, (1, 11), key=1)

    verdict = _judge(r)
    assert {(a.name, a.detail["key"]) for a in verdict.anomalies} == {("lost-write", 1)}


def test_the_story_names_node_time_offset_and_faults() -> None:
    r = Recorder()
    r.fault("cut", b2=True)
    r.send(0, 10, 0, node="b1", epoch=3, ack="stored")
    r.send(0, 11, 1, node="b1", epoch=3, ack="stored")
    r.fault("kill", b1=True)
    r.poll(1, (0, 10), node="b2")
    r.send(0, 12, 2)
    r.poll(1, (2, 12), node="b2")

    verdict = _judge(r)
    lost = next(a for a in verdict.anomalies if a.name == "lost-write")
    assert lost.ops == (1, 5, 13)  # the fault before the send, the send, the poll that passed it
    assert lost.story == (
        "b1 (epoch 3, grade stored) acknowledged value 11 of queue 0 at offset 1, at 5.000 s "
        "(op 5). No ok poll ever returned it, although reading went on past its place. "
        "Op 13: ok poll by process 1, at 13.000 s, answered by b2. "
        "The last fault before op 5 was the cut of b2 at 1.000 s (op 1). Nothing undid it. "
        "The next after it was the kill of b1 at 7.000 s (op 7). Nothing undid it."
    )
    skip = next(a for a in verdict.anomalies if a.name == "poll-skip")
    assert skip.story.startswith("Queue 0: value 12 came right after 10, past 11. Op 9: ok poll")


def test_the_story_tells_heals_with_their_faults_and_no_questions() -> None:
    """A restart, a wait for recovery and an inspection are no faults."""
    r = Recorder()
    r.fault("inspect", b1=True)
    r.fault("kill", b1=True, b2=False)
    r.fault("start", nobody=True)
    r.fault("start", b1=True)
    r.send(0, 10, 0)
    r.begin(NEMESIS, "stop-partition", None)
    r.end("info", NEMESIS, "stop-partition", "network healed")
    r.begin(NEMESIS, "start-partition", "one")
    r.end("info", NEMESIS, "start-partition", "one")
    r.fault("await-recovery", cluster=True)

    teller = Storyteller(r.history)
    assert teller.around(9) == (
        "The last fault before op 9 was the kill of b1 and b2 at 3.000 s (op 3), which no probe "
        "could prove. The start of b1 at 7.000 s (op 7) undid it. The next after it was the "
        "start-partition at 13.000 s (op 13). Nothing undid it."
    )
    assert teller.around(0).startswith("There was no fault before op 0. The next after it was")
    assert " None came after it. Also in effect then: the kill of b1" in teller.around(15)


def test_a_fault_elsewhere_is_not_told_as_none() -> None:
    r = Recorder()
    r.fault("kill", **{"b0-0": True})
    r.send(0, 10, 0)
    r.fault("kill", **{"b2-0": True})
    teller = Storyteller(r.history)
    assert teller.around(3, "S6", "b1") == "No fault struck broker set b1."
    assert teller.around(3, "S6", "b2").startswith("No fault before op 3 struck broker set b2. The")
    assert teller.around(3, "S6", "b0").endswith(". None after it struck broker set b0.")


def test_every_name_can_be_told() -> None:
    """Stories are made for what is rare; a missing template would be found too late."""
    teller = Storyteller(Recorder().history)
    assert teller.around(0) == "There was no fault."
    from maxq.checkers.evidence import story

    assert set(CLAIMS) == {*story._SAID, *story._ALREADY}
