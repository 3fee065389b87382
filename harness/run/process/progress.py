"""What a run says of itself while it goes on, on standard error.

On a terminal one line that is always the present: the second, each master with its epoch, the
faults in effect, the rate. Elsewhere such a line a minute, as a log keeps them all. Each says what
is left. Asked for more, also every act with its proof; an act without proof is said in any case.
"""

import time
from collections.abc import Callable, Mapping
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

EACH_S = 60.0  # between lines, on a clock on the wall
HEALED = "healed, and all works again"
UNHEALED = "healed, and not all worked again in time"
TERMINAL_NS = 200_000_000  # of the run, between looks of the live one


class Progress:
    """Shows a run's progress.

    Args:
        options: of the run.
        quiet: nothing is shown.
        verbose: every act is said.
        clock: in seconds.
    """

    def __init__(
        self, options: Options, *, quiet: bool, verbose: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        console = Console(stderr=True, quiet=quiet)
        self._console = console
        self._status: Status | None = console.status("") if console.is_terminal else None
        self._limit_ns = options.time_limit_ns
        self._recovery_ns = round(options.recovery_s * 1e9)
        self._settle_s = options.settle_ns // 1_000_000_000
        self._clock = clock
        self._said_s = clock()
        self._healed_ns: int | None = None  # when the wait for recovery began
        self._recovered = False
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
        if self._status is not None and now_ns - self._shown_ns >= TERMINAL_NS:
            self._shown_ns = now_ns
            self._show(self._line(self._first_ns, now_ns))
        elif self._status is None and self._clock() - self._said_s >= EACH_S:
            self._said_s = self._clock()
            self._print(self._line(self._first_ns, now_ns))

    def _line(self, first_ns: int, now_ns: int) -> str:
        limit_ns = first_ns + self._limit_ns
        if now_ns <= limit_ns and self._healed_ns is None:
            return self._live.now(now_ns).line(limit_ns)
        return f"{self._ending(now_ns)}: {self._live.now(now_ns).line()}"

    def _ending(self, now_ns: int) -> str:
        """What is left once clients and faults have ended."""
        reading = "reading everything"
        if self._settle_s:
            reading += f" ({self._settle_s} s until brokers have asked about open transactions)"
        if self._recovered:
            return reading
        left_ns = self._recovery_ns - (now_ns - (self._healed_ns or now_ns))
        return f"healing, at most {max(left_ns, 0) / 1e9:.0f} s more, then {reading}"

    def _act(self, now_ns: int, op: Op) -> None:
        if op.f == AWAIT_RECOVERY:
            self._recovered = self._healed_ns is not None
            self._healed_ns = now_ns
        if not op.error and not isinstance(op.value, dict):
            return
        said = told(op)
        doubt = op.error or "NOT PROVEN" in said
        if self._verbose or doubt or op.f == AWAIT_RECOVERY:
            line = f"{op.f}: {said}"
            if op.f == AWAIT_RECOVERY:
                line = f"{UNHEALED}: {said}" if doubt else HEALED
            self._print(f"{now_ns / 1e9:7.2f} s  {line}")


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
