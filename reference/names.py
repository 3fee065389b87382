"""What topics, groups, brokers, clusters and files of queues may be called. Pure.

A name of a client becomes other names: a group brings its retry topic and its topic of dead letters
along, and a topic becomes a folder. So a name is judged by the longest that it can become, where a
request brings it; and the folder of a topic is safe whatever the name, since a log may hold records
of another writer.

Lengths are characters where nothing else is said. Source: RocketMQ ``TopicValidator``; its client's
``Validators`` allow groups of 255 characters, whose retry topic no release then takes.
"""

import hashlib
import re

DEFAULT_TOPIC = "TBW102"
RETRY_PREFIX, DLQ_PREFIX = "%RETRY%", "%DLQ%"
TOPIC_CHARS_MAX, RETRY_TOPIC_CHARS_MAX = 127, 255
GROUP_CHARS_MAX = RETRY_TOPIC_CHARS_MAX - max(len(RETRY_PREFIX), len(DLQ_PREFIX))
BROKER_CHARS_MAX = 127  # a broker's and a cluster's name are topics of their own
FOLDER_BYTES_MAX = 254  # Linux takes one more
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_BROKER_NAME = re.compile(r"[^#/\s\x00-\x1f]+")  # part of the identity file
_LEGAL = "allowing only ^[%|a-zA-Z0-9_-]+$"
# Of the topic of each group, by whose route old name servers are asked for its members.
GROUP_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"  # where delayed messages wait
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"  # where half messages wait
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"  # which of them wait no more
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"  # those that were never ended
MARK_TOPIC = "SELF_TEST_TOPIC"  # where a new epoch is marked; every release has it
# System topics that clients may not send to; RocketMQ's TopicValidator.
FORBIDDEN_TOPICS = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC, GIVEN_UP_TOPIC, MARK_TOPIC, "OFFSET_MOVED_EVENT"}
)

SYSTEM_TOPICS = FORBIDDEN_TOPICS | {DEFAULT_TOPIC, "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC"}
SYSTEM_PREFIX = "rmq_sys_"


def topic_name_fault(topic: str) -> str | None:
    """Why a topic name is illegal; None if it is not."""
    retry = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    return _fault("topic", topic, RETRY_TOPIC_CHARS_MAX if retry else TOPIC_CHARS_MAX)


def group_name_fault(group: str) -> str | None:
    """Why a group's name is illegal, or one of the topics that it brings along; None if none is."""
    return _fault("group", group, GROUP_CHARS_MAX)


def _fault(kind: str, name: str, longest: int) -> str | None:
    if not name.strip():
        return f"The specified {kind} is blank."
    if not _NAME.fullmatch(name):
        return f"The specified {kind} contains illegal characters, {_LEGAL}"
    if len(name) > longest:
        return f"The specified {kind} is longer than {kind} max length {longest}."
    return None


def broker_name_fault(name: str) -> str | None:
    """Why no broker and no cluster can have this name; None if one can."""
    if len(name) > BROKER_CHARS_MAX or not _BROKER_NAME.fullmatch(name):
        return f"not a name of 1 to {BROKER_CHARS_MAX} characters without blanks, '#' and '/'"
    return None


def takes_messages(topic: str) -> bool:
    """Whether clients may send to a topic of this name."""
    return topic_name_fault(topic) is None and topic not in FORBIDDEN_TOPICS


def is_system_topic(topic: str) -> bool:
    """Whether a topic belongs to RocketMQ itself."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)


def folder_of(topic: str) -> str:
    """The name of a topic's folder: its own where that is legal, as in RocketMQ.

    Any other gets a digest behind a character that no legal name has, so that it leads to no other
    folder, has no length of its own, and is not taken for another topic's.
    """
    if _NAME.fullmatch(topic) and len(topic) <= FOLDER_BYTES_MAX:
        return topic
    return "~" + hashlib.sha256(topic.encode(errors="surrogatepass")).hexdigest()
