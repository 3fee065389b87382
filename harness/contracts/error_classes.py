"""The outcome table: which answers to a send prove that nothing was stored.

A response code alone does not decide: code 1 covers refusals before the append and failures after
it, and only the remark separates them. What is not listed here is `info`. A weak status (stored on
the master, but not flushed or not replicated in time) is `info`, never `ok`.

Source: docs/spec/remoting.md 6.2, from RocketMQ 5.x ``SendMessageProcessor``, ``HookUtils``,
``CommitLog``; each row says where the refusal happens.
"""

import re
from typing import Literal

from maxq.reference.wire.codes import ResponseCode, response_name

Kind = Literal["ok", "fail", "info"]
OBJECT_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,16}\b")

# Decided before any write, whatever the remark says.
REFUSALS = frozenset(
    {
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,  # no such processor
        ResponseCode.MESSAGE_ILLEGAL,  # checked before the append
        ResponseCode.SERVICE_NOT_AVAILABLE,  # role, fencing, shutdown, full disk: before it
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.INVALID_PARAMETER,  # bad queue id or topic name
        ResponseCode.NOT_LEADER_FOR_QUEUE,  # we use no static topics
        ResponseCode.GO_AWAY,  # "not processed" by contract
    }
)

# Codes that refuse only with these remarks: how a remark begins.
REFUSING_REMARKS: dict[int, tuple[str, ...]] = {
    ResponseCode.SYSTEM_ERROR: (
        r"in-sync replicas not enough",  # checked before the append in controller mode
        r"create mapped file failed, server is busy or broken",
        r"broker unable to service, until",
        r"timer message is under flow control",
        r"accurate timer message is not enabled",
        r"topic\[.*\] not exist",  # of the retry path
        r"request queueId\[.*\] is illegal",  # before 5.3.2
        r"\[LMQ_CONSUME_QUEUE_NUM_EXCEEDED\]",
    ),
    ResponseCode.SYSTEM_BUSY: (
        r"\[REJECTREQUEST\]",  # the processor was not entered
        r"\[OVERLOAD\]",  # the pool's queue was full
        r"\[TIMEOUT_CLEAN_QUEUE\]",  # taken from the queue before it ran
        r"\[PCBUSY_CLEAN_QUEUE\]",
        r"\[PC_SYNCHRONIZED\]",  # a hook before the append
    ),
}


def classify_send(code: int, remark: str | None) -> Kind:
    """Say what an answer to a send (10, 310, 320) proves."""
    if code == ResponseCode.SUCCESS:
        return "ok"
    if code in REFUSALS:
        return "fail"
    known = REFUSING_REMARKS.get(code, ())
    return "fail" if any(re.match(begin, remark or "") for begin in known) else "info"


def error_of(code: int, remark: str | None) -> list[str]:
    """An operation's `error` for an answer: the code's name and its remark."""
    return [response_name(code), plain(remark or "")[:200]]


def error_words(error: BaseException) -> list[str]:
    """An operation's `error` for an exception: its name and what it says."""
    return [type(error).__name__, plain(str(error))]


def plain(text: str) -> str:
    """What a text says without addresses of objects, as a default `repr` has them: they differ
    between equal runs, whose histories must not."""
    return OBJECT_ADDRESS.sub("0x…", text)
