"""What a run says of itself while it goes on, on standard error.

On a terminal one line that is always the present: the second, each master with its epoch, the
faults at work, the rate. Elsewhere such a line each five seconds of the run. Asked for more, also
every act with its proof; an act without proof is said in any case.
"""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.text import Text

from maxq.harness.contracts.terminal import one_line, printable
from maxq.harness.run.process.live import Live
from maxq.harness.schedule.options import Options
from maxq.histories.fault_facts import AWAIT_RECOVERY
from maxq.histories.grounds import RUN
from maxq.histories.op import Op

EACH_NS, TERMINAL_NS = 5_000_000_000, 200_000_000  # between lines; between looks of the live one
ENDING = "healing and reading everything"


class Progress:
    """Shows a run's progress."""

    def __init__(self, options: Options, *, quiet: bool, verbose: bool = False) -> None:
        console = Console(stderr=True, quiet=quiet)
        self._console = console
        self._status: Status | None = console.status("") if console.is_terminal else None
        self._limit_ns = options.time_limit_ns
        self._ending = ENDING
        if settle_s := options.settle_ns // 1_000_000_000:
            self._ending += f", {settle_s} s of it until brokers have asked about open transactions"
        self._live = Live(options.context().broker_sets)
        self._verbose = verbose
        self._first_ns: int | None = None
        self._shown_ns = 0

    def __enter__(self) -> "Progress":
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, text: str) -> None:
        """Something new begins."""
        self._print(text)
        self._show(text)

    def _print(self, text: str) -> None:
        self._console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    def _show(self, line: str) -> None:
        if self._status is not None:
            self._status.update(Text(one_line(line), overflow="ellipsis", no_wrap=True))

    def update(self, now_ns: int, op: Op | None) -> None:
        """An operation, or a moment without one."""
        if self._first_ns is None:
            self._first_ns = self._shown_ns = now_ns
        if op is not None:
            self._live.take(op)
            if not op.is_client and op.process != RUN:
                self._act(now_ns, op)
        if now_ns - self._shown_ns < (EACH_NS if self._status is None else TERMINAL_NS):
            return
        self._shown_ns = now_ns
        line = self._line(self._first_ns, now_ns)
        if self._status is not None:
            self._show(line)
        else:
            self._print(line)

    def _line(self, first_ns: int, now_ns: int) -> str:
        limit_ns = first_ns + self._limit_ns
        now = self._live.now(now_ns).line(limit_ns)
        return now if now_ns <= limit_ns else f"{self._ending}: {now}"

    def _act(self, now_ns: int, op: Op) -> None:
        if not op.error and not isinstance(op.value, dict):
            return
        said = told(op)
        doubt = op.error or "NOT PROVEN" in said
        if self._verbose or doubt or op.f == AWAIT_RECOVERY:
            self._print(f"{now_ns / 1e9:7.2f} s  {op.f}: {said}")


def told(op: Op) -> str:
    """A completed fault in a line: which nodes, and whether it was seen to take effect."""
    if not isinstance(op.value, dict):
        return f"not done: {op.error}"
    # Nodes to which nothing had to be done are proven, and have a reason.
    idle = [n for n, seen in op.value.items() if seen.get("holds") and seen.get("reason")]
    done = [f"{n} {_seen(seen)}" for n, seen in op.value.items() if n not in idle]
    return ", ".join(done) or "nothing to do"


def _seen(seen: Mapping[str, Any]) -> str:
    if seen.get("holds"):
        return "proven"
    return f"NOT PROVEN ({', '.join(f'{k} {v}' for k, v in seen.items() if k != 'holds')})"
