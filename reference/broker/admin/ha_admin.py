"""What is asked of a broker about replication and its id: 906, 907, 1007, 1008.

Transfer rates are not measured, and shown as 0.
"""

from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.replication.ha_slave import HaSlave
from maxq.reference.broker.replication.plain.plain_slave import PlainSlave
from maxq.reference.broker.store.store import Store
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.node import now_ns
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.wire.bodies import (
    OFFSET_MAX,
    EpochEntry,
    EpochEntryCache,
    HaClientInfo,
    HaConnectionInfo,
    HaRuntimeInfo,
)
from maxq.reference.wire.codes import ID_IN_USE, RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext
from maxq.reference.wire.node_headers import HaInfo, MinBrokerIdChange


class HaAdmin:
    """Handlers of requests about replication."""

    def __init__(
        self, config: BrokerConfig, host: Host, store: Store, membership: Membership
    ) -> None:
        self._config = config
        self._host = host
        self._store = store
        self._membership = membership

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED: self._role_changed,
            ID_IN_USE: self._id_in_use,
            RequestCode.GET_BROKER_EPOCH_CACHE: self._epochs,
            RequestCode.GET_BROKER_HA_STATUS: self._status,
            RequestCode.EXCHANGE_BROKER_HA_INFO: self._info,
            RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: self._min_id_changed,
        }

    async def _role_changed(self, request: Frame, connection: Connection) -> Reply:
        """The controller says that there is a new master. It is asked rather than believed: its
        word may be older than what it would say now."""
        await self._membership.poll_master()
        return request.answer(ResponseCode.SUCCESS)

    def _id_in_use(self, request: Frame, connection: Connection) -> Reply:
        """A controller sees another living broker with this one's id; again asked, not believed."""
        self._membership.register_again()
        return request.answer(ResponseCode.SUCCESS)

    async def _min_id_changed(self, request: Frame, connection: Connection) -> Reply:
        await self._membership.announced(from_ext(MinBrokerIdChange, request.ext))
        return request.answer(ResponseCode.SUCCESS)

    async def _info(self, request: Frame, connection: Connection) -> Reply:
        """Where this master's HA port is; or somebody announces a master."""
        asked = from_ext(HaInfo, request.ext)
        info = self._membership.ha_info()
        if asked.master_ha_address:
            await self._membership.offered(asked)
        if asked.master_ha_address or info is None:
            return request.answer(ResponseCode.SUCCESS)
        return request.answer(ResponseCode.SUCCESS, ext=to_ext(info))

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

    def _status(self, request: Frame, connection: Connection) -> Reply:
        seen = self._membership.links()
        if seen is None:
            why = "this broker does not know its role yet"
            return request.answer(ResponseCode.SYSTEM_ERROR, why)
        end, leads = self._store.end, seen.copying is None
        slaves = tuple(
            HaConnectionInfo(
                addr=link.address,
                diff=end - link.acked,
                in_sync=link.in_sync,
                slave_ack_offset=link.acked,
                transfer_from_where=link.next,
            )
            for link in seen.slaves
        )
        body = HaRuntimeInfo(
            master=leads,
            master_commit_log_max_offset=end if leads else 0,
            in_sync_slave_nums=sum(s.in_sync for s in slaves),
            ha_connection_info=slaves,
            ha_client_runtime_info=HaClientInfo()
            if seen.copying is None
            else self._client_info(seen.copying),
        )
        return request.answer(ResponseCode.SUCCESS, body=body.to_json())

    def _client_info(self, slave: HaSlave | PlainSlave) -> HaClientInfo:
        wall_ms, now = self._host.wall_ms(), now_ns()

        def ms(at_ns: int) -> int:
            return wall_ms - (now - at_ns) // 1_000_000 if at_ns else 0

        return HaClientInfo(
            master_addr=slave.address or None,
            max_offset=self._store.end,
            last_read_timestamp=ms(slave.heard_ns),
            last_write_timestamp=ms(slave.wrote_ns),
        )
