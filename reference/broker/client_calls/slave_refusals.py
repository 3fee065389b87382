"""What a broker of a group that acts refuses, and how: a slave, or who is isolated.

It serves reads, offsets and locks. What has to be stored, or would change a table that its master
owns, it refuses with the codes of RocketMQ; topics, groups and their deletion RocketMQ's slaves
take, until the next copy of the master's tables.

An isolated broker (`maxq.reference.broker.membership.pre_online`) has tables that are older than
its group's, or may be: it answers no offset and takes none, stores nothing and grants no lock.
RocketMQ's serves all that reaches its ports; an offset that was committed there was gone 5 s later.
Of an isolated master slaves get no offsets and no delay progress: an older table would replace
theirs before the master asks for it.
An acting slave takes no offsets while it hands over. Source: docs/spec/acting-master.md 3.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

from maxq.reference.rpc import Connection, Handler, Reply, refuse
from maxq.reference.wire.bodies import LockResponse
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

SENT_BACK = RequestCode.CONSUMER_SEND_MSG_BACK

_ISOLATED = (ResponseCode.SYSTEM_ERROR, "this broker is isolated: it is not in its group yet")
WHILE_ISOLATED: Mapping[int, tuple[ResponseCode, str]] = {
    RequestCode.SEND_MESSAGE: _NO_SENDS,
    RequestCode.SEND_MESSAGE_V2: _NO_SENDS,
    RequestCode.SEND_BATCH_MESSAGE: _NO_SENDS,
    RequestCode.QUERY_CONSUMER_OFFSET: _ISOLATED,
    RequestCode.UPDATE_CONSUMER_OFFSET: _ISOLATED,
    RequestCode.CONSUMER_SEND_MSG_BACK: _ISOLATED,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _ISOLATED,
    RequestCode.END_TRANSACTION: _NO_ENDS,
    RequestCode.LOCK_BATCH_MQ: (ResponseCode.SUCCESS, ""),
}
OF_A_MASTER = frozenset((
    RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_ALL_DELAY_OFFSET,
))  # fmt: skip
NO_LOCKS = LockResponse(lock_ok_mq_set=()).to_json()
_HANDS_OVER = "this broker hands over to its master, which is back"


class Self(Protocol):
    """The broker's place; its `Membership`."""

    @property
    def role(self) -> str: ...
    @property
    def isolated(self) -> bool: ...
    @property
    def hands_over(self) -> bool: ...
    def took_commit(self) -> None: ...


def refusing_isolated(handlers: Mapping[int, Handler], me: Self) -> dict[int, Handler]:
    """The same handlers, with the refusals of who is isolated or hands over, while that is so."""

    def guarded(code: int, handler: Handler) -> Handler:
        answer, remark = WHILE_ISOLATED.get(code, _ISOLATED)
        body = NO_LOCKS if code == RequestCode.LOCK_BATCH_MQ else None
        commits = code == RequestCode.UPDATE_CONSUMER_OFFSET

        def handle(request: Frame, connection: Connection) -> Reply | Awaitable[Reply]:
            if me.isolated and (code not in OF_A_MASTER or me.role == "fenced"):
                return request.answer(answer, remark or None, body=body)
            if commits and me.hands_over:
                return request.answer(ResponseCode.SYSTEM_ERROR, _HANDS_OVER)
            if commits:
                me.took_commit()
            return handler(request, connection)

        return handle

    refused = (code for code in (*WHILE_ISOLATED, *OF_A_MASTER) if code in handlers)
    own = {code: guarded(code, handlers[code]) for code in refused}
    return {**handlers, **own}


def refusing(
    handlers: Mapping[int, Handler],
    me: Self,
    *,
    recalls: bool = False,
    takes_back: Callable[[], bool] = lambda: False,
) -> dict[int, Handler]:
    """The same handlers, with a slave's refusals while it is one.

    Args:
        handlers: by code.
        me: the broker.
        recalls: ``recallMessageEnable``, without which a recall is refused as such first.
        takes_back: whether a neighbour in its container stores what is sent back to it.
    """

    def passed(request: Frame, connection: Connection) -> Reply | Awaitable[Reply]:
        given = handlers.get(SENT_BACK, refuse)
        return (given if takes_back() else guarded[SENT_BACK])(request, connection)

    refused = REFUSED if recalls else {**REFUSED, RequestCode.RECALL_MESSAGE: _NO_RECALLS}
    guarded = {
        code: partial(_guarded, handlers.get(code, refuse), me, answer, remark)
        for code, (answer, remark) in refused.items()
    }
    return {**handlers, **guarded, SENT_BACK: passed}


def _guarded(
    handler: Handler,
    me: Self,
    code: ResponseCode,
    remark: str,
    request: Frame,
    connection: Connection,
) -> Reply | Awaitable[Reply]:
    if me.role == "slave":
        return request.answer(code, remark)
    return handler(request, connection)
