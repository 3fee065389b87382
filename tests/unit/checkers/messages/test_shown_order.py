"""What a consumer is shown of one producer comes in the order in which it was sent."""

from typing import Any

from both_ways import compared
from history_recorder import Recorder

from maxq.checkers.core.api import Context
from maxq.checkers.messages.durability import Durability


def found(recorder: Recorder) -> dict[str, Any]:
    return {a.name: a for a in Durability().check(recorder.history, Context()).anomalies}


def sent(*processes: int) -> Recorder:
    """A message of each process, 0 the first; nobody knows at which offsets."""
    recorder = Recorder()
    for value, process in enumerate(processes):
        recorder.send(process, value)
    return recorder


def test_two_messages_that_changed_places_are_named_without_offsets() -> None:
    recorder = sent(0, 0, 1)
    recorder.poll(2, (None, 1), (None, 2), (None, 0))
    (one,) = found(recorder).values()
    assert (one.signature, one.ops) == ("S12/order", (1, 3, 7))
    assert one.detail == {"key": 0, "values": [0, 1], "producer": 0, "writer": 1, "reader": 7}
    assert "was shown value 0 after 1, although process 0 sent it before" in one.story


def test_messages_of_two_producers_have_no_order() -> None:
    recorder = sent(0, 1)
    recorder.poll(2, (None, 1), (None, 0))
    assert not found(recorder)


def test_what_is_shown_again_says_nothing() -> None:
    recorder = sent(0, 0)
    recorder.poll(2, (None, 0), (None, 1), (None, 0))
    recorder.poll(3, (None, 0))
    assert "order" not in found(recorder)


def test_a_consumer_that_seeks_begins_anew() -> None:
    recorder = sent(0, 0)
    recorder.assign(2, 0)
    recorder.poll(2, (None, 1))
    recorder.assign(2, 0, seek=True)
    recorder.poll(2, (None, 0))
    assert "order" not in found(recorder)


def test_what_offsets_show_is_said_once() -> None:
    recorder = Recorder()
    recorder.send(0, 10, 1)
    recorder.send(0, 11, 0)
    recorder.poll(1, (0, 11), (1, 10))
    assert found(recorder).keys() == {"nonmonotonic-send"}


def test_a_message_without_a_place_between_them_hides_nothing() -> None:
    """Neither from rows nor from arrays: upstream compares neighbours only."""
    recorder = Recorder()
    recorder.send(0, 10, 1)
    recorder.send(0, 11, op_type="info")
    recorder.send(0, 12, 0)
    recorder.poll(1, (0, 12), (1, 10))
    assert found(recorder).keys() == {"order"}
    assert compared(Durability(), [(recorder.history, Context())])["blamed"] == 1


def test_what_follows_a_transaction_is_later_than_all_of_it() -> None:
    recorder = Recorder()
    texts = [["send", 0, value] for value in (0, 1, 2)]
    recorder.op("ok", 0, "txn", texts, texts)
    recorder.send(0, 3)
    recorder.poll(1, (None, 0), (None, 1), (None, 2), (None, 3))
    assert "order" not in found(recorder)
