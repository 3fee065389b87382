"""What operators ask of a broker as a whole: its settings, its metrics, a record of its log."""

import msgspec

from maxq.reference.broker.client_calls.record_reads import record_at
from maxq.reference.broker.client_calls.schedule import Schedule
from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.store.store import Store
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig, render_config
from maxq.reference.host import Host
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.settings import Settings, UpdateRefused
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import VERSION, Frame
from maxq.reference.wire.headers import ViewMessageRequest, from_ext, to_ext
from maxq.reference.wire.message import decode
from maxq.reference.wire.route import KVTable

# Settings that are read anew at every use, by `Requests` or here. A key belongs here only if all
# that read it read it from `Settings`.
LIVE_KEYS = frozenset(
    {"accessMessageInMemoryMaxRatio", "autoCreateSubscriptionGroup", "brokerPermission",
     "flushDiskType", "logicalDiskSpaceCleanForciblyThreshold", "longPollingEnable",
     "maxMessageSize", "quotaPercentForDiskPartition", "regionId", "replicasPerDiskPartition",
     "shortPollingTimeMills", "slaveReadEnable", "syncFlushTimeout", "traceOn"}
)  # fmt: skip
# Metrics of queues, timers and dispatch that this broker does not have: nothing waits in them.
_NOTHING_WAITS = {
    f"{queue}ThreadPoolQueue{figure}": "0"
    for queue in ("ack", "pull", "send")
    for figure in ("Size", "HeadWaitTimeMills")
} | dict.fromkeys(
    ("dispatchBehindBytes", "pageCacheLockTimeMills", "timerCongestNum", "timerDequeueTps",
     "timerEnqueueTps", "timerOffsetBehind", "timerReadBehind"), "0",
)  # fmt: skip
BLACK_LIST = frozenset({"configBlackList", "brokerConfigPath"})


class Admin:
    """Handlers of administrative requests about the broker itself."""

    def __init__(
        self,
        settings: Settings[BrokerConfig],
        host: Host,
        store: Store,
        tables: Tables,
        membership: Membership,
        schedule: Schedule,
        *,
        mutant: str,
    ) -> None:
        self._settings = settings
        self._store = store
        self._tables = tables
        self._membership = membership
        self._schedule = schedule
        self._mutant = mutant
        self._host, self._booted_ms = host, host.wall_ms()

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_BROKER_CONFIG: self._get_config,
            RequestCode.UPDATE_BROKER_CONFIG: self._update_config,
            RequestCode.GET_BROKER_RUNTIME_INFO: self._runtime_info,
            RequestCode.VIEW_MESSAGE_BY_ID: self._view,
        }

    def _get_config(self, request: Frame, connection: Connection) -> Reply:
        version = self._tables.version.to_json().decode()
        return request.answer(
            ResponseCode.SUCCESS,
            ext=to_ext(headers.BrokerConfigResponse(version=version)),
            body=render_config(self._shown()).encode(),
        )

    def _shown(self) -> BrokerConfig:
        """The settings; with a controller, role and id as they are now."""
        config, now = self._settings.now, self._membership
        if not config.enable_controller_mode or now.role == "fenced":
            return config
        role = "SYNC_MASTER" if now.role == "master" else "SLAVE"
        return msgspec.structs.replace(config, broker_role=role, broker_id=now.role_id)

    async def _update_config(self, request: Frame, connection: Connection) -> Reply:
        try:
            keys = self._settings.update(request.body or b"")
        except UpdateRefused as refused:
            return request.answer(refused.code, str(refused))
        if "brokerPermission" in keys:
            self._tables.permit(self._settings.now.broker_permission)
            await self._membership.register_everywhere()
        return request.answer(ResponseCode.SUCCESS)

    def _runtime_info(self, request: Frame, connection: Connection) -> Reply:
        table = {
            "bootTimestamp": str(self._booted_ms),
            "brokerActive": "true" if self._membership.role == "master" else "false",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": "V5_3_3",
            "commitLogMaxOffset": str(self._store.end),
            "commitLogMinOffset": str(self._store.start),
            "earliestMessageTimeStamp": str(self._earliest_ms()),
            "maxq.confirmOffset": str(self._store.confirm_offset),
            "maxq.diskFull": str(self._store.full).lower(),
            "maxq.brokerId": str(self._membership.broker_id),
            "maxq.masterEpoch": str(self._membership.master_epoch),
            "maxq.mutant": self._mutant,
            "maxq.role": self._membership.role,
            "remainHowManyDataToFlush": f"{self._store.end - self._store.durable} B",
            "runtime": ran(self._host.wall_ms() - self._booted_ms),
            **self._membership.told(),
            **self._store.metrics.table(),
            **self._delayed(),
            **_NOTHING_WAITS,
        }
        return request.answer(ResponseCode.SUCCESS, body=KVTable(table=table).to_json())

    def _delayed(self) -> dict[str, str]:
        """For each delay level that was used: how far delivery is, and how far it could be."""
        progress = self._schedule.progress()
        return {f"scheduleMessageOffset_{n}": f"{at},{end}" for n, (at, end) in progress.items()}

    def _earliest_ms(self) -> int:
        """When the oldest message was stored; -1 if there is none."""
        record = record_at(self._store, self._store.start)
        return -1 if record is None else decode(record)[0].store_timestamp

    def _view(self, request: Frame, connection: Connection) -> Reply:
        offset = from_ext(ViewMessageRequest, request.ext).offset
        record = record_at(self._store, offset)
        if record is None:
            why = f"can not find message by the offset, {offset}"
            return request.answer(ResponseCode.SYSTEM_ERROR, why)
        return request.answer(ResponseCode.SUCCESS, body=record)


def ran(ms: int) -> str:
    """How long a broker has run by its wall clock, as RocketMQ says it; of a clock that has gone
    back every number is negative, or 0."""
    sign = -1 if ms < 0 else 1
    seconds = abs(ms) // 1000
    parts = (seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60, seconds % 60)
    days, hours, minutes, rest = (f"{sign * part:,}" for part in parts)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {rest} seconds ]"
