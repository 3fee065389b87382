"""Which broker a consumer is sent to by the answer to a pull."""

import pytest

from maxq.reference.broker.messages.pull import MEMORY_BYTES, Found, suggested
from maxq.reference.records import PhyOffset, QueueOffset
from maxq.reference.wire.bodies import SubscriptionGroupConfig
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.message import QueueUnit

GROUP = SubscriptionGroupConfig(group_name="g", broker_id=3, which_broker_when_consume_slowly=2)


@pytest.mark.parametrize(
    ("at", "ratio", "beside_master", "expected"),
    [
        (99, 0, False, 2),  # whatever is found lies before the end
        (99, 0, True, 2),
        (99, 40, False, 3),
        (99, 40, True, 0),
        (None, 0, False, 3),  # nothing found is not deep
        (None, 0, True, 0),
        (100 - MEMORY_BYTES * 40 // 100, 40, False, 3),
        (99 - MEMORY_BYTES * 40 // 100, 40, False, 2),
    ],
)
def test_what_lies_deep_slaves_shall_give(
    at: int | None, ratio: int, beside_master: bool, expected: int
) -> None:
    """docs/spec/remoting.md 2.7"""
    units = () if at is None else (QueueUnit(physical_offset=PhyOffset(at), size=10, tags_code=0),)
    found = Found(code=ResponseCode.SUCCESS, remark="", units=units, next_offset=QueueOffset(0))
    given = suggested(found, GROUP, log_end=100, ratio=ratio, beside_master=beside_master)
    assert given == expected
