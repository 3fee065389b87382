"""Carries out what `maxq.reference.broker.store.retention` says, now and then.

While the partition is at the warning level the store takes no messages; that ends with the first
look that finds room.
"""

from collections.abc import Awaitable, Callable

from maxq.reference.broker.store.retention import HOUR_MS, LogFile, Rules, Seen, judge
from maxq.reference.broker.store.store import Store
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.records import PhyOffset


def rules_of(config: BrokerConfig) -> Rules:
    """A broker's settings as rules."""
    return Rules(
        reserved_ms=config.file_reserved_time * HOUR_MS,
        hours=config.delete_hours(),
        used_max=config.disk_max_used_space_ratio,
        forcibly_at=config.disk_space_clean_forcibly_ratio,
        warning_at=config.disk_space_warning_level_ratio,
        forcibly=config.clean_file_forcibly_enable,
        batch_max=config.delete_file_batch_max,
    )


class Cleaner:
    """Deletes a broker's old files.

    Args:
        config: its settings.
        host: disk, clock and log.
        store: its messages.
        held_from: the first byte of the log that must stay, now.
        trim: lets the log begin at an offset.
    """

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        store: Store,
        *,
        held_from: Callable[[], PhyOffset],
        trim: Callable[[PhyOffset], Awaitable[None]],
    ) -> None:
        self._rules = rules_of(config)
        self._host = host
        self._store = store
        self._folders = (config.store_path_root_dir, config.commit_log_path)
        self._held_from = held_from
        self._trim = trim

    async def tick(self) -> None:
        """Look, and delete what goes now."""
        host, store = self._host, self._store
        try:
            used = self._used()
            files = [LogFile(start=start, modified_ms=host.disk.modified_ms(path))
                     for start, path in store.log_files()]  # fmt: skip
            seen = Seen(
                now_ms=host.wall_ms(), hour=host.hour(), used=used, held_from=self._held_from()
            )
            verdict = judge(self._rules, seen, files, full=store.full)
            if verdict.full != store.full:
                store.full = verdict.full
                host.log("broker.disk.full" if verdict.full else "broker.disk.ok", used=round(used))
            if verdict.start is not None:
                await self._trim(verdict.start)
                host.log("broker.trimmed", start=store.start, used=round(used))
        except OSError as error:  # a failing disk; what could not be done is tried again
            host.log("broker.clean.failed", why=str(error))

    def _used(self) -> float:
        """Percent; of the fuller one, where log and queues are on two partitions."""
        there = [f for f in self._folders if self._host.disk.list(f)]
        return max((self._host.disk.usage(folder).percent for folder in there), default=0.0)
