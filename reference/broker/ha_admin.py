"""What controllers and operators ask of a broker about replication: 1007, 1008."""

from reference.broker.membership import Membership
from reference.broker.store import Store
from reference.config import BrokerConfig
from reference.rpc import Connection, Handler, Reply
from reference.wire.bodies import OFFSET_MAX, EpochEntry, EpochEntryCache
from reference.wire.codes import RequestCode, ResponseCode
from reference.wire.frame import Frame


class HaAdmin:
    """Handlers of requests about replication."""

    def __init__(self, config: BrokerConfig, store: Store, membership: Membership) -> None:
        self._config = config
        self._store = store
        self._membership = membership

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED: self._role_changed,
            RequestCode.GET_BROKER_EPOCH_CACHE: self._epochs,
        }

    async def _role_changed(self, request: Frame, connection: Connection) -> Reply:
        """The controller says that there is a new master. It is asked rather than believed: its
        word may be older than what it would say now."""
        await self._membership.poll_master()
        return request.answer(ResponseCode.SUCCESS)

    def _epochs(self, request: Frame, connection: Connection) -> Reply:
        replication = self._membership.replication
        if replication is None:
            why = "this broker is not in controller mode"
            return request.answer(ResponseCode.SYSTEM_ERROR, why)
        starts = replication.epochs
        ends = [*(e.start for e in starts[1:]), OFFSET_MAX]
        body = EpochEntryCache(
            broker_id=self._membership.role_id,
            broker_name=self._config.broker_name,
            cluster_name=self._config.broker_cluster_name,
            epoch_list=tuple(
                EpochEntry(end_offset=end, epoch=e.epoch, start_offset=e.start)
                for e, end in zip(starts, ends, strict=False)
            ),
            max_offset=self._store.end,
        )
        return request.answer(ResponseCode.SUCCESS, body=body.to_json())
