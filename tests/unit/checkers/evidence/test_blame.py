"""Whom an anomaly that is no loss is blamed on: each kind of damage has a cause of its own."""

from typing import Any

from cluster_recorder import Trio

from maxq.checkers.evidence.blame import Blamer
from maxq.histories.op import NEMESIS


class Run(Trio):
    """The trio, blamed."""

    def struck(self, f: str, node: str) -> int:
        return self.act(f, {node: {"holds": True}})

    def blamed(self, claim: str, ops: tuple[int, ...], **detail: Any) -> tuple[int, ...]:
        return Blamer(self.history).of(claim, ops, {"set": "b0", **detail})

    def shown(self, process: int, f: str) -> int:
        self.begin(process, f, None)
        return self.end("ok", process, f, None, node="b0")


def deposed() -> tuple[Run, int, int]:
    """b0-0 is cut off and then killed, and b0-1 elected; with where the two acts begin."""
    r = Run()
    apart = r.cut("b0-0", "b0-1", "b0-2", "c0")
    killed = r.struck("kill", "b0-0")
    r.elected("b0-1", 2)
    r.struck("start", "b0-0")
    r.act("stop-partition", {"b0-0": {"holds": True}})
    return r, apart, killed


def test_logs_that_part_where_an_epoch_begins_were_parted_when_the_master_before_was_deposed() -> (
    None
):
    """And by what had kept the elected replica from copying its end."""
    r, apart, killed = deposed()
    r.struck("kill", "b0-2")
    last = len(r.ops) - 1
    found = r.blamed("S8", (last - 1, last), epoch=2, **{"at-start": True})
    assert found == (apart, killed)


def test_what_began_an_empty_epoch_before_is_blamed_too() -> None:
    """Of a reign that wrote nothing no log has a begin."""
    r = Run()
    first = r.struck("kill", "b0-0")
    r.elected("b0-1", 2)
    second = r.struck("kill", "b0-1")
    r.elected("b0-2", 3)
    r.broker("b0-2", 3, (1, 0, 200), (3, 200, 300), leads=True)
    last = len(r.ops) - 1
    found = r.blamed("S8", (last - 1, last), epoch=3, **{"at-start": True})
    assert found == (first, second)


def test_logs_that_part_within_an_epoch_were_parted_by_their_master_that_forgot() -> None:
    """Nobody else could be elected then: one slept, one was cut off."""
    r = Run()
    slept = r.struck("pause", "b0-2")
    lost = r.begin(NEMESIS, "power-loss", "power")
    r.end("info", NEMESIS, "power-loss", {"b0-0": {"holds": True}})
    apart = r.cut("b0-1", "b0-0", "b0-2")
    r.struck("start", "b0-0")
    r.struck("resume", "b0-2")
    r.act("stop-partition", {"b0-1": {"holds": True}})
    r.struck("pause", "b0-1")
    last = len(r.ops) - 1
    found = r.blamed("S8", (last - 1, last), epoch=1, **{"at-start": False})
    assert found == (slept, lost, apart)


def test_an_epoch_that_begins_elsewhere_is_blamed_on_the_restart_of_its_teller() -> None:
    r, _, killed = deposed()
    r.struck("kill", "b0-2")
    other = r.broker("b0-0", 1, (1, 0, 200), (2, 210, 300))
    r.struck("kill", "b0-0")
    assert r.blamed("S8c", (0, other), nodes=["b0-1", "b0-0"]) == (killed,)


def test_a_message_that_gives_way_went_with_the_reign_in_which_it_was_shown() -> None:
    r = Run()
    apart = r.cut("b0-0", "b0-1", "b0-2", "c0")
    shown = r.shown(1, "poll")
    r.elected("b0-1", 2)
    r.struck("kill", "b0-2")  # nearer to the end, and harmless
    sent = r.shown(2, "send")
    assert r.blamed("S11", (shown, sent)) == (apart,)
    assert r.blamed("S10", (shown, r.shown(1, "poll"))) == (apart,)


def test_a_message_that_comes_back_came_with_a_restart() -> None:
    r, apart, _ = deposed()
    sent = r.shown(2, "send")
    again = r.struck("kill", "b0-0")
    r.struck("start", "b0-0")
    shown = r.shown(1, "poll")
    first, second = r.blamed("S11", (sent, shown))
    assert second == again
    assert first > apart, "what ended the reign before: the most direct act, which is the kill"


def test_without_epochs_the_most_direct_act_is_blamed() -> None:
    r = Run()
    first = len(r.ops) - 1
    r.struck("pause", "b0-1")
    killed = r.struck("kill", "b0-1")
    r.cut("b0-2", "b0-0")
    last = r.shown(1, "poll")
    assert r.blamed("S9b", (first, last)) == (killed,)
    assert r.blamed("S9b", (first, last), set="b1") == ()
    assert r.blamed("L1", (first, last)) == ()


def test_what_never_came_is_blamed_on_what_first_struck_its_set_after_it_was_taken() -> None:
    """Not on what was over before, on another set, or on what is less direct than a kill."""
    r = Run()
    r.struck("kill", "b0-1")
    r.struck("start", "b0-1")
    taken = r.shown(1, "send-half")
    r.struck("kill", "b1-0")
    r.struck("pause", "b0-1")
    killed = r.struck("kill", "b0-0")
    r.struck("start", "b0-0")
    r.struck("kill", "b0-0")

    def blamed(claim: str, kind: str) -> tuple[int, ...]:
        return Blamer(r.history).of(claim, (taken - 1, taken), {"set": "b0"}, kind=kind)

    assert blamed("E4", "half-lost") == (killed,)
    assert blamed("E1", "delayed-lost") == (killed,)
    assert blamed("E1", "delayed-late") == ()


def test_what_never_came_though_nothing_struck_its_set_is_blamed_on_nothing() -> None:
    r = Run()
    taken = r.shown(1, "send-half")
    r.struck("kill", "b1-0")
    found = Blamer(r.history).of("E7", (taken - 1, taken), {"set": "b0"}, kind="half-unsettled")
    assert found == ()
