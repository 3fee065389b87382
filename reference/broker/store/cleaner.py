"""Carries out what `maxq.reference.broker.store.retention` says, now and then.

While the partition is at the warning level the store takes no messages; that ends with the first
look that finds room. Each look reads the settings again.
"""

from collections.abc import Awaitable, Callable

from maxq.reference.broker.store.retention import HOUR_MS, LogFile, Rules, Seen, judge
from maxq.reference.broker.store.store import Store
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host, Usage
from maxq.reference.records import PhyOffset
from maxq.reference.settings import Settings


def rules_of(config: BrokerConfig) -> Rules:
    """A broker's settings as rules."""
    return Rules(
        reserved_ms=config.file_reserved_time * HOUR_MS,
        hours=config.delete_hours(),
        used_max=config.disk_max_used_space_ratio,
        forcibly_at=config.disk_space_clean_forcibly_ratio,
        warning_at=config.disk_space_warning_level_ratio,
        share=config.disk_share,
        share_forcibly_at=config.logical_disk_space_clean_forcibly_threshold,
        forcibly=config.clean_file_forcibly_enable,
        batch_max=config.delete_file_batch_max,
    )


class Cleaner:
    """Deletes a broker's old files.

    Args:
        settings: the broker's.
        host: disk, clock and log.
        store: its messages.
        held_from: the first byte of the log that must stay, now.
        trim: lets the log begin at an offset.
    """

    def __init__(
        self,
        settings: Settings[BrokerConfig],
        host: Host,
        store: Store,
        *,
        held_from: Callable[[], PhyOffset],
        trim: Callable[[PhyOffset], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._host = host
        self._store = store
        # The log's comes last: a share is one of its partition.
        self._folders = (settings.now.store_path_root_dir, settings.now.commit_log_path)
        self._held_from = held_from
        self._trim = trim
        self._beyond = False  # its share, since what holds it there may not go

    async def tick(self) -> None:
        """Look, and delete what goes now."""
        host, store, rules = self._host, self._store, rules_of(self._settings.now)
        try:
            partitions = self._partitions()
            used = max((p.percent for p in partitions), default=0.0)
            files = [LogFile(start=start, modified_ms=host.disk.modified_ms(path))
                     for start, path in store.log_files()]  # fmt: skip
            seen = Seen(
                now_ms=host.wall_ms(),
                hour=host.hour(),
                used=used,
                held_from=self._held_from(),
                own=store.size if rules.share < 1 else 0,  # it looks at every queue
                total=partitions[-1].total if partitions else 0,
            )
            verdict = judge(rules, seen, files, full=store.full)
            if verdict.full != store.full:
                store.full = verdict.full
                host.log("broker.disk.full" if verdict.full else "broker.disk.ok", used=round(used))
            if verdict.start is not None:
                await self._trim(verdict.start)
                host.log("broker.trimmed", start=store.start, used=round(used), own=seen.own)
            self._tell_beyond(verdict.beyond)
        except OSError as error:  # a failing disk; what could not be done is tried again
            host.log("broker.clean.failed", why=str(error))

    def _partitions(self) -> list[Usage]:
        """How full they are: one, or two where log and queues are apart."""
        disk = self._host.disk
        return [disk.usage(folder) for folder in self._folders if disk.list(folder)]

    def _tell_beyond(self, beyond: int) -> None:
        """Log when the broker has come to keep more than its share, and when it no longer does."""
        if (beyond > 0) != self._beyond:
            self._beyond = beyond > 0
            trace = "broker.share.exceeded" if self._beyond else "broker.share.kept"
            self._host.log(trace, beyond=beyond, held_from=self._held_from())
