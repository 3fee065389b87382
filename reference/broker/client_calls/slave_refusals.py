"""What a slave that may act for its master refuses, and how.

It serves reads, offsets and locks. What has to be stored, or would change a table that its master
owns, it refuses with the codes of RocketMQ; topics, groups and their deletion RocketMQ's slaves
take, until the next copy of the master's tables. Source: docs/spec/acting-master.md 3.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from maxq.reference.rpc import Connection, Handler, Reply, refuse
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame

_NO_SENDS = (
    ResponseCode.SERVICE_NOT_AVAILABLE,
    "service not available now. It may be caused by one of the following reasons: the broker is a "
    "slave",
)
_NO_TABLES = (
    ResponseCode.SYSTEM_ERROR,
    "Can't modify topic or subscription group from slave broker, execute it from master broker.",
)
_NO_ENDS = (ResponseCode.SLAVE_NOT_AVAILABLE, "")
_NO_RECALLS = (ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
REFUSED: Mapping[int, tuple[ResponseCode, str]] = {
    RequestCode.SEND_MESSAGE: _NO_SENDS,
    RequestCode.SEND_MESSAGE_V2: _NO_SENDS,
    RequestCode.SEND_BATCH_MESSAGE: _NO_SENDS,
    RequestCode.CONSUMER_SEND_MSG_BACK: (
        ResponseCode.SYSTEM_ERROR,
        "no master available along with this broker",
    ),
    RequestCode.END_TRANSACTION: _NO_ENDS,
    RequestCode.RECALL_MESSAGE: _NO_ENDS,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: (
        ResponseCode.SYSTEM_ERROR,
        "Can not reset offset in slave broker",
    ),
    RequestCode.UPDATE_AND_CREATE_TOPIC: _NO_TABLES,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _NO_TABLES,
    RequestCode.DELETE_TOPIC_IN_BROKER: _NO_TABLES,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _NO_TABLES,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _NO_TABLES,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: _NO_TABLES,
}


def refusing(
    handlers: Mapping[int, Handler], is_slave: Callable[[], bool], *, recalls: bool = False
) -> dict[int, Handler]:
    """The same handlers, with a slave's refusals while it is one; `recalls` is
    ``recallMessageEnable``, without which a recall is refused as such first."""
    refused = REFUSED if recalls else {**REFUSED, RequestCode.RECALL_MESSAGE: _NO_RECALLS}
    guarded = {
        code: partial(_guarded, handlers.get(code, refuse), is_slave, answer, remark)
        for code, (answer, remark) in refused.items()
    }
    return {**handlers, **guarded}


def _guarded(
    handler: Handler,
    is_slave: Callable[[], bool],
    code: ResponseCode,
    remark: str,
    request: Frame,
    connection: Connection,
) -> Reply | Awaitable[Reply]:
    if is_slave():
        return request.answer(code, remark)
    return handler(request, connection)
