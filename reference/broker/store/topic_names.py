"""Topic names: which are RocketMQ's own, which belong to groups, which are legal.

Source: RocketMQ ``TopicValidator``.
"""

import re

DEFAULT_TOPIC = "TBW102"
RETRY_PREFIX, DLQ_PREFIX = "%RETRY%", "%DLQ%"
TOPIC_CHARS_MAX, RETRY_TOPIC_CHARS_MAX = 127, 255
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"  # where delayed messages wait
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"  # where half messages wait
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"  # which of them wait no more
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"  # those that were never ended
# System topics that clients may not send to; RocketMQ's TopicValidator.
FORBIDDEN_TOPICS = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC, GIVEN_UP_TOPIC, "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"}
)

SYSTEM_TOPICS = FORBIDDEN_TOPICS | {DEFAULT_TOPIC, "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC"}
SYSTEM_PREFIX = "rmq_sys_"


def name_fault(topic: str) -> str | None:
    """Why a topic name is illegal; None if it is not."""
    retry = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    longest = RETRY_TOPIC_CHARS_MAX if retry else TOPIC_CHARS_MAX
    if not topic.strip():
        return "The specified topic is blank."
    if not _NAME.fullmatch(topic):
        return "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    if len(topic) > longest:
        return f"The specified topic is longer than topic max length {longest}."
    return None


def is_system_topic(topic: str) -> bool:
    """Whether a topic belongs to RocketMQ itself."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)
