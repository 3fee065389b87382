"""A12: slaves have their master's topics before a run begins; what lacks one is a finding."""

import pytest
from history_recorder import Recorder

from maxq.checkers.core.api import Context
from maxq.checkers.core.promises import MODE, PAIR
from maxq.checkers.judgement.phrases import PHRASES
from maxq.checkers.replication.pairs.slave_topics import SlaveTopics
from maxq.histories.fault_facts import KNOW_TOPICS
from maxq.histories.op import NEMESIS

CONTEXT = Context(settings={MODE: PAIR})
LACKS = {"holds": False, "topic": "t", "answer": "TOPIC_NOT_EXIST: no topic"}


def looked(**slaves: object) -> Recorder:
    r = Recorder()
    r.begin(NEMESIS, KNOW_TOPICS, None)
    r.end("info", NEMESIS, KNOW_TOPICS, slaves)
    return r


def test_where_nobody_lacks_a_topic_nothing_is_noted() -> None:
    assert SlaveTopics().check(Recorder().history, CONTEXT).of("no occasion") == ("A12",)


@pytest.mark.parametrize("attributes", ["", "+message.type=NORMAL"])
def test_a_slave_that_lacks_one_breaks_it_and_says_why(attributes: str) -> None:
    r = looked(one={**LACKS, "attributes": attributes}, other={"holds": True})
    verdict = SlaveTopics().check(r.history, CONTEXT)
    assert verdict.valid is False
    [found] = verdict.anomalies
    assert found.detail == {"node": "one", "topic": "t", "attributes": attributes}
    assert ("with attributes" in PHRASES[found.name][0]) is bool(attributes)
    assert "TOPIC_NOT_EXIST" in found.story


def test_what_never_came_to_an_end_shows_nothing() -> None:
    r = Recorder()
    r.begin(NEMESIS, KNOW_TOPICS, None)
    assert SlaveTopics().check(r.history, CONTEXT).valid == "unknown"
