"""When the transient store pool is committed: what is sent waits in the process until then.

A thread of RocketMQ looks at it each ``commitIntervalCommitLog``, and after a send if
``wakeCommitWhenPutMessage``. It commits once there are enough whole pages, or once the last commit
is long enough ago. So at most some pages, or some 200 ms, of what was acknowledged are in the
process alone; a kill takes them. An orderly stop commits all.

Times are ns; offsets are bytes of the commit log. Source: RocketMQ
``CommitLog.CommitRealTimeService``, ``DefaultMappedFile.isAbleToCommit``.
"""

from collections.abc import Callable

from maxq.reference.broker.store.commit_log import CommitLog
from maxq.reference.config import BrokerConfig
from maxq.reference.node import now_ns
from maxq.reference.records import Record

PAGE_BYTES = 4096
NS_PER_MS = 1_000_000


class Commits(Record):
    """When a pool is committed, as a broker's settings have it."""

    least_pages: int
    thorough_ns: int
    wakes: bool

    @classmethod
    def of(cls, config: BrokerConfig) -> "Commits":
        """Read them."""
        return cls(
            least_pages=config.commit_commit_log_least_pages,
            thorough_ns=config.commit_commit_log_thorough_interval * NS_PER_MS,
            wakes=config.wake_commit_when_put_message,
        )

    def is_due(self, since_ns: int, written: int, end: int) -> bool:
        """Whether a commit is due `since_ns` after the last one, of a log that was written up to
        `written` and is in its files up to `end`."""
        pages = written // PAGE_BYTES - end // PAGE_BYTES
        return since_ns >= self.thorough_ns or pages >= self.least_pages


class Pool:
    """What one broker's log has not in its files yet.

    Args:
        log: it holds the bytes.
        commits: when they are committed; None: there is no pool, and nothing to commit.
        committed: called when they were, as far as they were.
        log_line: `Host.log`.
    """

    def __init__(
        self,
        log: CommitLog,
        commits: Commits | None,
        *,
        committed: Callable[[], None],
        log_line: Callable[..., None],
    ) -> None:
        self._log = log
        self._commits = commits
        self._committed = committed
        self._log_line = log_line
        self._last_ns = 0  # of the last commit, or look, that asked for no whole pages
        self.fault = ""  # why the last commit failed; empty if it did not

    def after_put(self) -> None:
        """Something was sent."""
        if self._commits is not None and self._commits.wakes:
            self.tick()

    def tick(self) -> None:
        """Commit if it is time."""
        if self._commits is None:
            return
        now = now_ns()
        if self._commits.is_due(now - self._last_ns, self._log.written, self._log.end):
            self._last_ns = now
            self.try_commit()

    def try_commit(self) -> None:
        """Commit now; a full disk delays it."""
        try:
            self.commit()
        except OSError as error:
            self._log_line("broker.pool.uncommitted", why=str(error))

    def commit(self) -> None:
        """Write what waits to its files.

        Raises:
            OSError: the disk is full or failed; until nothing waits any more, the store takes no
                message.
        """
        if self._log.written == self._log.end:
            return
        try:
            self._log.commit()
            self.fault = ""
        except OSError as error:
            self.fault = str(error)
            raise
        finally:
            self._committed()
