"""What a slave copies of its master besides the log: offsets, delay progress, modes, timers.

Topics (21) and groups (201) are with their own administration. Java slaves ask 21, 60 and 61 at
the fast port, the rest at the main one; both ports serve all of them. Integer keys are quoted and
there is no ``pullOffsetTable``: slaves of 5.5.0 drop the whole answer for bare keys in it. Timers
are not here: their answers say that nothing was ever scheduled, which every release takes; an
error would end a Java slave's way to mastership.
"""

from collections.abc import Awaitable

from maxq.reference.broker.store.topics import Tables
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.wire.bodies import TimerMetrics
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.files import TimerCheckpoint, encode_timer_checkpoint
from maxq.reference.wire.frame import Frame

TABLE_CODES = frozenset((
    RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
))  # fmt: skip


def of_known(tables: Tables, handlers: dict[int, Handler]) -> dict[int, Handler]:
    """The handlers, of which those of tables refuse until this broker has some.

    A slave takes what its master's address answers. Behind that address there may be a broker by
    now that has lost its store: its empty tables would replace those of the whole set.
    """

    def guarded(handler: Handler) -> Handler:
        def handle(request: Frame, connection: Connection) -> Reply | Awaitable[Reply]:
            if tables.known:
                return handler(request, connection)
            return request.answer(ResponseCode.SYSTEM_ERROR, "this broker has no tables yet")

        return handle

    return handlers | {code: guarded(handlers[code]) for code in TABLE_CODES}


class Metadata:
    """Handlers of a slave's requests for tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_ALL_CONSUMER_OFFSET: self._offsets,
            RequestCode.GET_ALL_DELAY_OFFSET: self._delay,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self._modes,
            RequestCode.GET_TIMER_CHECK_POINT: self._timer_checkpoint,
            RequestCode.GET_TIMER_METRICS: self._timer_metrics,
        }

    def _offsets(self, request: Frame, connection: Connection) -> Reply:
        body = self._tables.offset_table().to_json()
        return request.answer(ResponseCode.SUCCESS, body=body)

    def _delay(self, request: Frame, connection: Connection) -> Reply:
        return request.answer(ResponseCode.SUCCESS, body=self._tables.delay.to_json())

    def _modes(self, request: Frame, connection: Connection) -> Reply:
        return request.answer(ResponseCode.SUCCESS, body=self._tables.modes.to_json())

    def _timer_checkpoint(self, request: Frame, connection: Connection) -> Reply:
        body = encode_timer_checkpoint(TimerCheckpoint())
        return request.answer(ResponseCode.SUCCESS, body=body)

    def _timer_metrics(self, request: Frame, connection: Connection) -> Reply:
        return request.answer(ResponseCode.SUCCESS, body=TimerMetrics().to_json())
