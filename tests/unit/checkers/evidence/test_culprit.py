"""Who took a message away: the election without it, and what was done to whom it matters."""

from typing import Any

import msgspec
from cluster_recorder import Trio

from maxq.checkers.core.api import Context
from maxq.checkers.evidence.acts import acts_of
from maxq.checkers.evidence.culprit import Blame, Chronicle, Lost
from maxq.checkers.evidence.harms import charged, findings, losses
from maxq.checkers.evidence.story import Storyteller
from maxq.checkers.messages.durability import Durability


class Story(Trio):
    """Of which b0-0 leads in epoch 1 and has written 200 bytes."""

    def acknowledged(self, value: int, byte: int | None, by: str = "b0-0") -> int:
        ext: dict[str, Any] = {} if byte is None else {"byte": byte}
        return self.send(0, value, value, node="b0", broker=f"{by}:1", **ext)

    def blame(self, writer: int) -> Blame:
        ext = self.ops[writer].ext or {}
        lost = Lost(writer, "b0", ext["broker"], ext.get("byte"))
        return Chronicle(self.history).blame(lost)


def begun(blame: Blame) -> list[int]:
    return [act.begun for act in blame.acts]


def test_a_deposed_master_is_blamed_on_what_deposed_it() -> None:
    """Not on a name server's change of address, nor on what came later."""
    r = Story()
    cut = r.cut("b0-0", "c0", "c1")
    r.act("change-address", {"n0": {"holds": True}})
    r.elected("b0-1", 2)
    writer = r.acknowledged(1, 300)
    r.broker("b0-1", 2, (1, 0, 200), (2, 200, 400), leads=True)
    r.fault("kill", **{"b0-0": True})
    blame = r.blame(writer)
    assert begun(blame) == [cut]
    assert (blame.node, blame.epoch) == ("b0-0", 1)
    assert blame.fatal is not None
    assert (blame.fatal.epoch, blame.fatal.elected) == (2, "b0-1")


def test_a_master_that_others_did_not_hear_was_struck_by_the_cut() -> None:
    """The proof of a cut is with those who do not hear."""
    r = Story()
    value = {c: {"holds": True, "from": {"b0-0": 3}} for c in ("c0", "c1", "c2")}
    cut = r.act("start-partition", value)
    r.act("power-loss", {"c0": {"holds": True}})
    r.elected("b0-1", 2)
    writer = r.acknowledged(1, 300)
    r.broker("b0-1", 2, (1, 0, 200), (2, 200, 400), leads=True)
    assert begun(r.blame(writer)) == [cut]


def test_what_kept_the_elected_replica_from_copying_is_blamed_too() -> None:
    r = Story()
    apart = r.cut("b0-1", "b0-0", "b0-2")
    writer = r.acknowledged(1, 300)
    killed = len(r.ops)
    r.fault("kill", **{"b0-0": True})
    r.elected("b0-1", 2)
    r.broker("b0-1", 2, (1, 0, 200), (2, 200, 400), leads=True)
    assert begun(r.blame(writer)) == [apart, killed]


def test_what_kept_a_holder_from_being_elected_is_blamed_too() -> None:
    """b0-2 had copied the message, and controllers did not hear of it."""
    r = Story()
    writer = r.acknowledged(1, 300)
    r.broker("b0-2", 3, (1, 0, 400))
    apart = r.cut("b0-2", "c0", "c1", "c2")
    killed = len(r.ops)
    r.fault("kill", **{"b0-0": True})
    r.elected("b0-1", 2)
    r.broker("b0-1", 2, (1, 0, 200), (2, 200, 400), leads=True)
    assert begun(r.blame(writer)) == [apart, killed]


def test_a_broker_that_forgets_by_itself_is_blamed_on_its_restart() -> None:
    """No later epoch begins before the message."""
    r = Story()
    writer = r.acknowledged(1, 150)
    killed = len(r.ops)
    r.fault("kill", **{"b0-0": True})
    r.fault("start", **{"b0-0": True})
    r.broker("b0-0", 1, (1, 0, 200), (2, 200, 300), leads=True)
    blame = r.blame(writer)
    assert (blame.fatal, begun(blame)) == (None, [killed])


def test_an_epoch_that_was_copied_later_is_not_taken_for_the_acknowledging_one() -> None:
    r = Story()
    r.elected("b0-1", 2)
    writer = r.acknowledged(1, 300)
    r.broker("b0-1", 2, (1, 0, 200), (2, 200, 400), leads=True)
    r.elected("b0-0", 3)
    r.broker("b0-0", 1, (1, 0, 200), (2, 200, 400), (3, 400, 500), leads=True)
    assert r.blame(writer).epoch == 1


def test_the_act_after_which_nobody_saw_the_master_lead_is_the_cause() -> None:
    """Controllers name a master until they elect the next one, so a later cut ended no reign; it
    kept the master, which held the message and was back, from being elected again."""
    r = Story()
    writer = r.acknowledged(1, 300)
    lost_power = len(r.ops)
    r.act("power-loss", {"b0-0": {"holds": True}, "b0-1": {"holds": True}})
    r.fault("start", **{"b0-0": True, "b0-1": True})
    r.elected("b0-0", 1)  # as controllers still say
    cut = r.cut("b0-0", "c0", "c1")
    r.elected("b0-1", 2)
    r.broker("b0-1", 2, (1, 0, 200), (2, 200, 400), leads=True)
    assert begun(r.blame(writer)) == [lost_power, cut]


def test_what_kept_a_deposed_master_from_hearing_of_it_is_blamed_too() -> None:
    """What deposed it was over when it acknowledged."""
    r = Story()
    held = len(r.ops)
    r.fault("pause", **{"b0-0": True})
    r.elected("b0-1", 2)
    deaf = len(r.ops)
    r.act("power-loss", {"c0": {"holds": True}, "c1": {"holds": True}})
    r.fault("resume", **{"b0-0": True})
    writer = r.acknowledged(1, 300)
    r.broker("b0-1", 2, (1, 0, 200), (2, 200, 400), leads=True)
    assert begun(r.blame(writer)) == [held, deaf]


def test_the_first_of_all_masters_had_been_made_master_by_nothing() -> None:
    """It would lead as well if neither the act that deposed it nor the next had been done."""
    r = Story()
    for node, epoch in (("b0-1", 2), ("b0-0", 3)):
        r.fault("kill", **{f"b0-{epoch - 2}": True})
        r.fault("start", **{f"b0-{epoch - 2}": True})
        r.elected(node, epoch)
    r.broker("b0-0", 1, (1, 0, 100), (2, 100, 200), (3, 200, 300), leads=True)
    writer = r.acknowledged(1, 300)
    cut = r.cut("b0-0", "c0", "c1")
    r.elected("b0-1", 4)
    r.broker("b0-1", 2, (1, 0, 100), (2, 100, 200), (3, 200, 300), (4, 300, 400), leads=True)
    blame = r.blame(writer)
    assert (begun(blame), blame.risen) == ([cut], ())


def test_what_is_taken_on_a_copy_of_a_store_is_lost_with_it() -> None:
    """And the copy needed a broker that was down."""
    r = Story()
    killed = len(r.ops)
    r.fault("kill", **{"b0-0": True})
    copied = r.act("copy-store", {"b0-0": {"holds": True}})
    r.fault("start", **{"b0-0": True})
    writer = r.acknowledged(1, 150)
    r.fault("kill", **{"b0-0": True})
    r.act("wipe", {"b0-0": {"holds": True}})
    assert begun(r.blame(writer)) == [killed, copied]


def test_an_epoch_that_was_begun_since_is_not_taken_for_the_acknowledging_one() -> None:
    """Nobody saw b0-0 lead again before its log was cut below the message, and it led anew."""
    r = Story()
    cut = r.cut("b0-0", "c0", "c1")
    writer = r.acknowledged(1, 300)
    r.elected("b0-1", 2)
    r.broker("b0-1", 2, (1, 0, 200), (2, 200, 250), leads=True)
    r.elected("b0-0", 3)
    r.broker("b0-0", 1, (1, 0, 200), (2, 200, 250), (3, 250, 400), leads=True)
    blame = r.blame(writer)
    assert (blame.epoch, begun(blame)) == (1, [cut])


def test_without_a_place_in_the_log_no_election_is_blamed() -> None:
    r = Story()
    writer = r.acknowledged(1, None)
    r.elected("b0-1", 2)
    r.broker("b0-1", 2, (1, 0, 200), (2, 200, 400), leads=True)
    blame = r.blame(writer)
    assert (blame.fatal, blame.acts) == (None, ())


# Acts.


def test_a_fault_and_its_heal_are_one_act() -> None:
    """A heal that a schedule gives to one act ends no other; an address may change by a restart."""
    r = Story()
    r.act("kill", {"b0-0": {"holds": True}})
    r.act("change-address", {"b0-0": {"holds": True, "started": {"code": None}}})
    r.act("start-partition", {"c0": {"holds": True, "from": {"c1": 3}}})
    r.act("stop-partition", {"c0": {"holds": True}}, who={"of": "other"})
    kill, moved, cut = acts_of(r.history)
    assert kill.over("b0-0") == moved.fault.ended
    assert (cut.end_ns(), cut.parts("c1", "c0"), cut.parts("c0", "c2")) == (None, True, False)
    told = Storyteller(r.history).act(cut)
    assert told.startswith("start-partition of c0, which did not hear c1 at ")
    assert told.endswith(", never undone")


# One loss once.


def lossy() -> Story:
    """Two reigns that lost: two messages of b0-0 in epoch 1, one of b0-1 in epoch 2."""
    r = Story()
    r.assign(1, 0)
    r.cut("b0-0", "c0", "c1")
    r.elected("b0-1", 2)
    r.acknowledged(1, 300)
    r.acknowledged(2, 320)
    r.broker("b0-1", 2, (1, 0, 200), (2, 200, 310), leads=True)
    r.acknowledged(3, 330, by="b0-1")
    r.fault("kill", **{"b0-1": True})
    r.elected("b0-2", 3)
    r.broker("b0-2", 3, (1, 0, 200), (2, 200, 310), (3, 310, 400), leads=True)
    for value in (11, 12, 13, 14):
        offset = value - 10
        r.send(2, value, offset, node="b0", broker="b0-2:1", byte=300 + value)
    r.poll(1, *((v - 10, v) for v in (11, 12, 13, 14)), node="b0", broker="b0-2:1")
    return r


def test_a_loss_of_which_no_message_is_reported_breaks_its_claim_all_the_same() -> None:
    """Of many losses a checker reports so many; the others' harms are broken promises as well."""
    verdict = Durability().check(lossy().history, Context())
    few = msgspec.structs.replace(verdict, anomalies=verdict.anomalies[:1])
    found = findings([few], {each.claim: each.status for each in verdict.claim_verdicts})
    assert [(harm.broken, "S6" in harm.claims) for harm in found[:2]] == [(True, True)] * 2
    spared = findings([few], {"S6": "not promised", "S11": "not promised"})
    assert [harm.broken for harm in spared] == [False] * len(spared)


def test_messages_lost_by_one_broker_and_election_are_one_finding() -> None:
    r = lossy()
    verdict = Durability().check(r.history, Context())
    first, second = verdict.harms
    assert (first.node, first.epoch, first.elected, first.lost) == ("b0-0", 1, 2, 2)
    assert (second.node, second.epoch, second.elected, second.lost) == ("b0-1", 2, 3, 1)
    assert first.title == "2 acknowledged messages lost by b0-0"
    assert "b0-1 was master by then, elected in epoch 2" in first.story
    assert "Blamed: the start-partition of b0-0, which did not hear c0 and c1" in first.story
    assert "b0-2 was elected in epoch 3" in second.story
    assert "Blamed: the kill of b0-1" in second.story

    statuses = {each.claim: each.status for each in verdict.claim_verdicts}
    told = findings([verdict], statuses)
    assert [(h.kind, h.broken) for h in told] == [("loss", True), ("loss", True)]
    assert told[0].symptoms == {"S11 inconsistent-offsets": 2, "S6 lost-write": 2}
    assert told[1].symptoms == {"S11 inconsistent-offsets": 1, "S6 lost-write": 1}
    assert sum(charged(told).values()) == verdict.counts["lost"] == 3


def test_what_is_blamed_on_nothing_is_charged_to_nothing() -> None:
    r = Story()
    writer = r.acknowledged(1, None)
    [harm] = losses(r.history, {writer: ["S6 lost-write"]})
    assert charged([harm]) == {-1: 1}
    assert "Nothing that was done" in harm.story
    [unknown] = losses(r.history, {10**6: []})
    assert (unknown.node, unknown.lost) == ("", 1)
