"""What a broker checks before it stores or reads: pure, in RocketMQ's order, with its codes."""

from collections.abc import Container
from typing import Any

import msgspec
import pytest

from maxq.reference.broker.messages import pull, send
from maxq.reference.broker.messages.refusal import Refusal
from maxq.reference.names import topic_name_fault
from maxq.reference.records import PhyOffset, QueueOffset
from maxq.reference.wire import property as props
from maxq.reference.wire.bodies import SubscriptionData, SubscriptionGroupConfig
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.headers import PullRequest, SendRequest
from maxq.reference.wire.message import BatchElement, QueueUnit, encode_batch, tags_code
from maxq.reference.wire.route import TopicConfig

SITUATION = send.Situation(
    role="master", configured_slave=False, in_sync_count=1, in_sync_count_min=1, body_bytes_max=100
)
ADDITIONS = {props.UNIQ_KEY: "U", props.MSG_REGION: "R", props.TRACE_ON: "true", props.CLUSTER: "c"}
TOPIC = TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=4)


def header(**more: Any) -> SendRequest:
    base = SendRequest(
        topic="T",
        producer_group="p",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=7,
    )
    return msgspec.structs.replace(base, **more)


def text(**properties: str) -> str:
    return props.encode(properties).decode()


def accept(
    h: SendRequest,
    body: bytes = b"x",
    *,
    situation: send.Situation = SITUATION,
    topic: TopicConfig = TOPIC,
    groups: Container[str] | None = None,
) -> send.Accepted | Refusal:
    return send.accept(
        h,
        body,
        topic,
        situation,
        queue_id=h.queue_id,
        groups=groups,
        additions=ADDITIONS,
        levels=(1000, 5000),
        born_host=bytes(8),
        store_host=bytes(8),
    )


def accepted(h: SendRequest, body: bytes = b"x", **more: Any) -> send.Accepted:
    got = accept(h, body, **more)
    assert isinstance(got, send.Accepted), got
    return got


def code_of(got: send.Accepted | Refusal | None) -> int:
    return got.code if isinstance(got, Refusal) else 0


# --- send --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "slave", "code"),
    [("master", True, 0), ("slave", False, 2), ("fenced", True, 2), ("fenced", False, 14)],
)
def test_roles_that_take_no_message(role: str, slave: bool, code: int) -> None:
    """A slave rejects with 2, a fenced master with 14; nothing is stored.

    docs/spec/remoting.md 6.2
    """
    situation = msgspec.structs.replace(SITUATION, role=role, configured_slave=slave)
    assert code_of(send.role_fault(situation)) == code


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("T", 0), ("%RETRY%g", 0), ("a|b_c-9", 0), ("x" * 127, 0), ("%RETRY%" + "x" * 248, 0),
        ("", 29), (" ", 29), ("a.b", 29), ("../x", 29), ("x" * 128, 29), ("Ä", 29), ("a\n", 29),
        ("%RETRY%" + "x" * 249, 29),
        ("SCHEDULE_TOPIC_XXXX", 16), ("RMQ_SYS_TRANS_HALF_TOPIC", 16),
    ],
)  # fmt: skip
def test_topic_names(topic: str, code: int) -> None:
    """An illegal name is 29, a system topic 16 (docs/spec/remoting.md 2.4)."""
    assert code_of(send.topic_fault(topic)) == code


@pytest.mark.parametrize(
    ("h", "body", "why"),
    [
        (header(), b"", "body is empty"),
        (header(), bytes(101), "101 bytes, at most 100"),
        (header(properties=text(DELAY="soon")), b"x", "delay level 'soon' is no number"),
        (header(properties=text(TIMER_DELAY_SEC="3")), b"x", "timer"),
        (header(properties=text(TIMER_DELAY_MS="3")), b"x", "timer"),
        (header(properties=text(TIMER_DELIVER_MS="3")), b"x", "timer"),
        (header(sys_flag=4), b"x", "in a transaction by its sysFlag only"),
        (header(sys_flag=8, properties=text(TRAN_MSG="true")), b"x", "an ended transaction"),
        (header(properties=text(TRAN_MSG="true", DELAY="1")), b"x", "cannot be delayed"),
        (header(batch=True, properties=text(TRAN_MSG="true")), b"x", "half message in a batch"),
        (
            header(batch=True),
            encode_batch([BatchElement(body=b"x", properties=props.encode({"TRAN_MSG": "true"}))]),
            "in a batch: a half message",
        ),
        (header(batch=True, properties=text(DELAY="1")), b"x", "a batch cannot be delayed"),
        (header(batch=True), b"x", "batch element"),
        (header(batch=True), encode_batch([BatchElement(body=b"x")])[:-1], "batch element"),
        (header(properties="k\x01" + "v" * 40_000), b"x", "properties too long"),
        (
            header(batch=True),
            encode_batch([BatchElement(body=b"x", properties=props.encode({"DELAY": "1"}))]),
            "in a batch: a batch cannot be delayed",
        ),
        (
            header(batch=True),
            encode_batch([BatchElement(body=b"x", properties=b"k\x01v\0")]),
            "in a batch: properties end in a zero byte",
        ),
    ],
)
def test_what_is_not_done_here_is_refused_as_illegal(h: SendRequest, body: bytes, why: str) -> None:
    """13, before anything is stored (docs/spec/remoting.md 6.2)."""
    got = accept(h, body)
    assert isinstance(got, Refusal)
    assert got.code == ResponseCode.MESSAGE_ILLEGAL
    assert got.remark.startswith("the message is illegal")
    assert why in got.remark


def test_a_batch_to_a_retry_topic_is_refused() -> None:
    """13 (docs/spec/remoting.md 2.4)."""
    retry = msgspec.structs.replace(TOPIC, topic_name="%RETRY%g")
    got = accept(header(topic="%RETRY%g", batch=True), encode_batch([BatchElement(body=b"x")]),
                 topic=retry)  # fmt: skip
    assert code_of(got) == ResponseCode.MESSAGE_ILLEGAL


def test_a_retry_topic_needs_its_group() -> None:
    """26, where groups do not come into being on demand (docs/spec/remoting.md 2.4)."""
    retry = msgspec.structs.replace(TOPIC, topic_name="%RETRY%g")
    h = header(topic="%RETRY%g")
    assert code_of(accept(h, topic=retry, groups=())) == 26
    assert code_of(accept(h, topic=retry, groups=("g",))) == 0
    assert code_of(accept(h, topic=retry, groups=None)) == 0


@pytest.mark.parametrize(("queue_id", "code"), [(-1, 29), (0, 0), (3, 0), (4, 29)])
def test_queue_ids_are_below_the_larger_queue_number(queue_id: int, code: int) -> None:
    """queueId < max(read, write), else 29 (docs/spec/remoting.md 2.4)."""
    assert code_of(accept(header(queue_id=queue_id))) == code


def test_in_sync_replicas_are_counted_before_the_append() -> None:
    """Code 1 with its remark, unless the sender does not wait (docs/spec/remoting.md 6.1)."""
    few = msgspec.structs.replace(SITUATION, in_sync_count_min=2)
    got = accept(header(), situation=few)
    assert isinstance(got, Refusal)
    assert (got.code, got.remark) == (1, "in-sync replicas not enough: 1 < 2")
    assert code_of(accept(header(properties=text(WAIT="false")), situation=few)) == 0
    # The content is judged before: an illegal message is illegal in every situation.
    assert code_of(accept(header(), b"", situation=few)) == 13


def test_what_is_stored_of_a_single_message() -> None:
    """The broker adds its properties, keeps the client's UNIQ_KEY, drops a POP_CK.

    docs/spec/remoting.md 2.4
    """
    got = accepted(header(properties=text(KEYS="k", POP_CK="p", MSG_REGION="liar"), sys_flag=1))
    (m,) = got.messages
    assert m.property_map() == {**ADDITIONS, "KEYS": "k"}
    assert (m.topic, m.flag, m.sys_flag, m.body) == ("T", 7, 1, b"x")
    assert got.transaction_id == "U"
    own = accepted(header(properties=text(UNIQ_KEY="mine")))
    assert own.messages[0].property_map()["UNIQ_KEY"] == "mine"
    assert own.transaction_id == "mine"


def test_what_is_stored_of_a_batch() -> None:
    """The elements' own properties and flags, as 5.4.0 and later; field m alone decides.

    docs/spec/remoting.md 5.6
    """
    elements = [
        BatchElement(body=b"1", properties=props.encode({"k": "v"}), flag=3),
        BatchElement(body=b"2"),
    ]
    got = accepted(header(batch=True, properties=text(UNIQ_KEY="all")), encode_batch(elements))
    assert [(m.body, m.properties, m.flag) for m in got.messages] == [
        (b"1", b"k\x01v\x02", 3),
        (b"2", b"", 0),
    ]
    assert got.transaction_id == "all"
    assert len(accepted(header(), encode_batch(elements)).messages) == 1


def test_topics_made_by_a_first_send() -> None:
    """From TBW102 only, while it may be inherited; min(asked, its queues), perm 6.

    docs/spec/remoting.md 2.4
    """
    template = TopicConfig(topic_name="TBW102", perm=7, read_queue_nums=8, write_queue_nums=8)
    made = send.created_topic(header(topic="N", default_topic_queue_nums=16), {"TBW102": template})
    assert made == TopicConfig(topic_name="N", perm=6, read_queue_nums=8, write_queue_nums=8)
    few = send.created_topic(header(topic="N", default_topic_queue_nums=-5), {"TBW102": template})
    assert few is not None
    assert few.write_queue_nums == 1
    assert send.created_topic(header(topic="N"), {}) is None
    plain = msgspec.structs.replace(template, perm=6)
    assert send.created_topic(header(topic="N"), {"TBW102": plain}) is None
    other = send.created_topic(header(topic="N", default_topic="T"), {"T": template})
    assert other is None


def test_name_faults_are_texts() -> None:
    """A blank, an illegal and a long name each say so (docs/spec/remoting.md 2.14)."""
    assert topic_name_fault("T") is None
    assert "blank" in (topic_name_fault("") or "")
    assert "illegal" in (topic_name_fault("a b") or "")
    assert "longer" in (topic_name_fault("a" * 128) or "")


# --- pull --------------------------------------------------------------------------------------


def pull_header(**more: Any) -> PullRequest:
    base = PullRequest(
        topic="T",
        consumer_group="g",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=pull.SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
    )
    return msgspec.structs.replace(base, **more)


GROUP = SubscriptionGroupConfig(group_name="g")
KNOWN = SubscriptionData(topic="T", sub_string="A", sub_version=5)


@pytest.mark.parametrize(
    ("h", "more", "code"),
    [
        (pull_header(), {}, 0),
        (pull_header(), {"group": None, "topic": None}, 26),
        (
            pull_header(),
            {"group": msgspec.structs.replace(GROUP, consume_enable=False), "topic": None},
            16,
        ),
        (pull_header(queue_id=9), {"topic": None}, 17),
        (pull_header(queue_id=9), {"topic": msgspec.structs.replace(TOPIC, perm=2)}, 16),
        (pull_header(queue_id=2, expression_type="SQL92"), {}, 29),
        (pull_header(queue_id=-1), {}, 29),
        (pull_header(expression_type="SQL92"), {}, 1),
        (pull_header(expression_type=""), {}, 0),
        (pull_header(sys_flag=pull.SUBSCRIPTION | pull.CLASS_FILTER), {}, 1),
        (pull_header(sys_flag=0), {"known": None}, 24),
        (pull_header(sys_flag=0, sub_version=6), {}, 25),
        (pull_header(sys_flag=0, sub_version=5), {}, 0),
    ],
)
def test_pulls_are_refused_in_order(h: PullRequest, more: dict[str, Any], code: int) -> None:
    """Group, topic, queue, filter, subscription; each with its code (docs/spec/remoting.md 2.7)."""
    settings: dict[str, Any] = {"group": GROUP, "topic": TOPIC, "known": KNOWN, **more}
    assert code_of(pull.fault(h, **settings)) == code


UNITS = [
    (QueueOffset(at), QueueUnit(physical_offset=PhyOffset(at * 100), size=100,
                                tags_code=tags_code("A" if at % 2 else None)))
    for at in range(10)
]  # fmt: skip


def find(offset: int, *, end: int = 10, first: int = 0, **more: Any) -> pull.Found:
    units = [u for u in UNITS if offset <= u[0] < end]
    settings: dict[str, Any] = {"count_max": 32, "codes": None, **more}
    return pull.find(offset, (QueueOffset(first), QueueOffset(end)), units, **settings)


@pytest.mark.parametrize(
    ("offset", "first", "end", "code", "next_offset", "remark"),
    [
        (0, 0, 0, 19, 0, "NO_MESSAGE_IN_QUEUE"),
        (5, 0, 0, 21, 0, "NO_MESSAGE_IN_QUEUE"),
        (-1, 0, 0, 21, 0, "NO_MESSAGE_IN_QUEUE"),
        (-1, 0, 10, 21, 0, "OFFSET_TOO_SMALL"),
        (2, 3, 10, 21, 3, "OFFSET_TOO_SMALL"),
        (10, 0, 10, 19, 10, "OFFSET_OVERFLOW_ONE"),
        (11, 0, 10, 21, 10, "OFFSET_OVERFLOW_BADLY"),
        (2**62, 0, 10, 21, 10, "OFFSET_OVERFLOW_BADLY"),
        (9, 0, 10, 0, 10, "FOUND"),
        (0, 0, 10, 0, 10, "FOUND"),
    ],
)
def test_offsets_and_their_corrections(
    offset: int, first: int, end: int, code: int, next_offset: int, remark: str
) -> None:
    """19 at the end, 21 outside with the corrected offset (docs/spec/remoting.md 2.7)."""
    got = find(offset, first=first, end=end)
    assert (got.code, got.next_offset, got.remark) == (code, next_offset, remark)


def test_tag_filter_skips_and_moves_on() -> None:
    """By Java's hash of the tag; 20 with the advanced offset if nothing is left.

    docs/spec/remoting.md 2.7
    """
    some = find(0, codes=pull.wanted_codes("A || B"))
    assert [u.physical_offset for u in some.units] == [100, 300, 500, 700, 900]
    none = find(0, codes=pull.wanted_codes("B"))
    assert (none.code, none.remark, none.next_offset) == (20, "NO_MATCHED_MESSAGE", 10)
    assert pull.wanted_codes("*") is None
    assert pull.wanted_codes(" ") is None
    assert pull.wanted_codes(None) is None
    assert pull.wanted_codes("||") == frozenset()


@pytest.mark.parametrize(("wanted", "got"), [(1, 1), (3, 3), (0, 1), (-5, 1), (99, 10)])
def test_counts_are_bounded_and_one_always_fits(wanted: int, got: int) -> None:
    """As many as asked for, 32 at most, one at least (docs/spec/remoting.md 2.7)."""
    assert len(find(0, count_max=wanted).units) == got


def test_bytes_and_scans_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """256 KiB an answer, but always one message; a bounded scan a pull.

    docs/spec/remoting.md 2.7
    """
    big = [(QueueOffset(i), QueueUnit(physical_offset=PhyOffset(i), size=200_000))
           for i in range(3)]  # fmt: skip
    got = pull.find(0, (QueueOffset(0), QueueOffset(3)), big, count_max=32, codes=None)
    assert (len(got.units), got.next_offset) == (1, 1)
    monkeypatch.setattr(pull, "SCAN_MAX", 4)
    skipped = find(0, codes=frozenset({12345}))
    assert (skipped.code, skipped.next_offset) == (20, 4)


@pytest.mark.parametrize(("more", "moved"), [
    ({"WAIT": "false"}, False), ({"WAIT": "false", "REAL_TOPIC": "T"}, True),
    ({"REAL_TOPIC": "T"}, False),
])  # fmt: skip
def test_what_an_acting_slave_moves_is_known_and_taken_with_one_copy(
    more: dict[str, str], moved: bool
) -> None:
    few = msgspec.structs.replace(SITUATION, in_sync_count=1, in_sync_count_min=2)
    got = accept(header(properties=text(**more)), situation=few)
    assert (code_of(got) == 0) == (more.get("WAIT") == "false")
    assert (isinstance(got, send.Accepted) and got.moved) == moved
