"""The outcome table of sends: every row of docs/spec/remoting.md 6.2."""

import pytest

from maxq.harness.contracts.error_classes import Kind, classify_send, error_of

ROWS: list[tuple[int, str | None, Kind]] = [
    (0, None, "ok"),
    (0, "anything", "ok"),
    (10, None, "info"),  # FLUSH_DISK_TIMEOUT: stored on the master
    (11, None, "info"),  # SLAVE_NOT_AVAILABLE
    (12, None, "info"),  # FLUSH_SLAVE_TIMEOUT
    (1, "in-sync replicas not enough", "fail"),
    (1, "in-sync replicas not enough: 1 < 2", "fail"),
    (1, "create mapped file failed, server is busy or broken.", "fail"),
    (1, "broker unable to service, until 12:00", "fail"),
    (1, "timer message is under flow control, max num limit is 5", "fail"),
    (1, "accurate timer message is not enabled, timer wheel is down", "fail"),
    (1, "topic[%RETRY%g] not exist, apply first please!", "fail"),
    (1, "request queueId[9] is illegal, topic has 4 queues", "fail"),
    (1, "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]too many", "fail"),
    (1, "UNKNOWN_ERROR", "info"),
    (1, "UNKNOWN_ERROR DEFAULT", "info"),
    (1, "store putMessage return null", "info"),
    (1, "java.lang.NullPointerException", "info"),
    (1, "topic[x] was stored, then its index failed", "info"),  # begins alike, proves nothing
    (1, "request queueId[1] timed out", "info"),
    (1, "after the append: in-sync replicas not enough", "info"),
    (1, "", "info"),
    (1, None, "info"),
    (2, "[REJECTREQUEST]system busy, start flow control for a while", "fail"),
    (2, "[OVERLOAD]system busy, start flow control for a while", "fail"),
    (2, "[TIMEOUT_CLEAN_QUEUE]broker busy, period in queue: 201ms", "fail"),
    (2, "[PCBUSY_CLEAN_QUEUE]broker busy", "fail"),
    (2, "[PC_SYNCHRONIZED]broker busy, start flow control for a while", "fail"),
    (2, "system busy", "info"),
    (2, None, "info"),
    (3, " request type 310 not supported", "fail"),
    (13, "the message is illegal, maybe msg properties length not matched", "fail"),
    (14, "service not available now. It may be caused by ...", "fail"),
    (16, "the broker[b0] sending message is forbidden", "fail"),
    (17, "topic[x] not exist, apply first please!", "fail"),
    (26, "subscription group not exist, g", "fail"),
    (29, "the specified topic is blank.", "fail"),
    (501, "not leader for queue", "fail"),
    (1500, "please go away", "fail"),
    (4, "TRANSACTION_FAILED", "info"),
    (15, None, "info"),
    (-1, None, "info"),
    (99_999, "[REJECTREQUEST]", "info"),
    (2**31 - 1, None, "info"),
]


@pytest.mark.parametrize(("code", "remark", "kind"), ROWS)
def test_every_row_of_the_table(code: int, remark: str | None, kind: Kind) -> None:
    assert classify_send(code, remark) == kind


def test_what_is_not_listed_is_info() -> None:
    """Rule 6: `fail` needs proof, so only listed codes have it."""
    listed = {code for code, _, kind in ROWS if kind != "info"}
    for code in set(range(-10, 4000)) - listed:
        assert classify_send(code, "in-sync replicas not enough") == "info", code


def test_an_error_names_the_code_and_is_bounded() -> None:
    assert error_of(12, "slow") == ["FLUSH_SLAVE_TIMEOUT", "slow"]
    assert error_of(1, None) == ["SYSTEM_ERROR", ""]
    name, remark = error_of(77_777, "x" * 5000)
    assert "77777" in name
    assert len(remark) == 200
