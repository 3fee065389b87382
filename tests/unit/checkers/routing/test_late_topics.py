"""Topics that came into being during a run: which of them a master had forgotten."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from maxq.checkers.core.api import Context
from maxq.checkers.routing.late_topics import LateTopics
from maxq.histories.history import History
from maxq.histories.observed import CREATE_TOPIC, FIND_TOPIC, FORGOTTEN_TOPIC, NEW_TOPIC
from maxq.histories.op import Op

# What befalls one topic: it is made or sent to, or its master is asked and knows it or not.
EVENTS = (
    "made", "not made", "sent", "sent again", "knows", "does not know", "nobody says", "unread",
    "refused",
)  # fmt: skip
LACKS = ("does not know", "unread")


def op_of(event: str, key: int) -> Op:
    topic: dict[str, Any] = {"key": key, "topic": "t", "node": "b0"}
    sent = [["send", key, [0, 1]]]
    match event:
        case "made" | "not made":
            return Op("ok" if event == "made" else "info", 1, CREATE_TOPIC, topic)
        case "sent":
            return Op("ok", 1, "send", sent, ext={NEW_TOPIC: True})
        case "sent again":
            return Op("ok", 1, "send", sent)
        case "nobody says":
            return Op("fail", 1, FIND_TOPIC, topic, error="no-route")
        case "unread" | "refused":
            ext = {FORGOTTEN_TOPIC: key} if event == "unread" else None
            return Op("fail", 1, "poll", [["poll"]], error=["TOPIC_NOT_EXIST", ""], ext=ext)
    known = {"b0-0": event == "knows", "b0-1": event != "knows"}
    return Op("ok", 1, FIND_TOPIC, {**topic, "master": "b0-0", "known": known})


@given(st.lists(st.lists(st.sampled_from(EVENTS), max_size=6), max_size=4))
def test_a_topic_is_forgotten_if_it_was_there_and_its_master_does_not_know_it(
    topics: list[list[str]],
) -> None:
    ops: list[Op] = []
    made = forgotten = 0
    for key, events in enumerate(topics):
        for event in events:
            done = op_of(event, key)
            ops += [Op("invoke", 1, done.f, done.value), done]
        said = [e for e in events if e in ("made", "sent", "knows", *LACKS)]
        there = bool(said) and said[0] not in LACKS
        made += there
        forgotten += there and bool(set(LACKS).intersection(said))
    numbered = [Op(o.type, o.process, o.f, o.value, index=n, time=n, error=o.error, ext=o.ext)
                for n, o in enumerate(ops)]  # fmt: skip
    counts = LateTopics().check(History(numbered), Context()).counts
    assert counts == {"made": made, "forgotten": forgotten}
