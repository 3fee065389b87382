"""A request that changes nothing, as the protocol answers it."""

from maxq.reference.records import Record
from maxq.reference.wire.codes import ResponseCode


class Refusal(Record):
    """Nothing was done, and why."""

    code: ResponseCode
    remark: str
