"""How far long work has come: a line that is drawn again on a terminal, else one a minute.

The line is asked for by a thread of its own, so that it also moves while one step takes minutes.
It begins with what has to be seen where a terminal is narrow: steps, then the time that is left.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

from maxq.harness.contracts.terminal import echo, one_line

ON_TERMINAL_S, ELSEWHERE_S = 0.5, 60.0
LINE_MAX = 200
COLUMNS = 80  # of a terminal that does not say
CLEAR = "\r\x1b[2K"


class Ticker:
    """Says how far work has come, on standard error, for the length of a block.

    Args:
        line: how far it has come now, in a line; empty: nothing to say.
        kept: prints or stores what there is; called where the block was interrupted.
        first_s: after how long the first line comes (s), on a terminal and elsewhere.
    """

    def __init__(
        self, line: Callable[[], str], kept: Callable[[], object] = lambda: None, *,
        first_s: float | None = None,
    ) -> None:  # fmt: skip
        self._line = line
        self._kept = kept
        self._live = sys.stderr.isatty()
        self._each_s = ON_TERMINAL_S if self._live else ELSEWHERE_S
        self._first_s = self._each_s if first_s is None else first_s
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> "Ticker":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._over.set()
        self._thread.join()
        self._clear()
        if isinstance(error, KeyboardInterrupt):
            self._kept()

    def say(self, text: str, *, err: bool = True) -> None:
        """Something that stays on the screen."""
        with self._lock:
            self._clear()
            echo(text, err=err)

    def _tick(self) -> None:
        wait_s = self._first_s
        while not self._over.wait(wait_s):
            wait_s = self._each_s
            text = one_line(self._line())
            if not text:
                continue
            try:
                with self._lock:
                    if self._live:
                        sys.stderr.write(CLEAR + cut(text, _columns() - 1))
                        sys.stderr.flush()
                    else:
                        echo(cut(text, LINE_MAX), err=True)
            except OSError:  # the reader has gone; what is to be said of that, others say
                return

    def _clear(self) -> None:
        if self._live:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()


def _columns() -> int:
    """Of the terminal: a line that is longer could not be drawn over."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or COLUMNS
    except OSError:
        return COLUMNS


def cut(text: str, width: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


class Steps:
    """How far some steps of like length have come, and how long the rest takes by those that were
    done since this was made.

    Args:
        noun: of the steps, in the plural.
        before: how many were done before.
        at_most: there may be fewer of them.
    """

    def __init__(self, noun: str, before: int = 0, *, at_most: bool = False) -> None:
        self.before = before
        self._noun = noun
        self._most = "at most " if at_most else ""
        self._begun = time.monotonic()
        self._done = 0
        self._end: float | None = None  # when all will be done, by the steps that were done

    def line(self, done: int, of: int, *more: str) -> str:
        """Such as ``3 of 12 runs done, about 4 min left; 1 failed``.

        Args:
            done: how many are done, those before included.
            of: how many there are.
            more: what else there is to be said; empty ones are left out.
        """
        known = f"{done} of {self._most}{of} {self._noun} done"
        left = self.left(done - self.before, of - self.before)
        return "; ".join(filter(None, (f"{known}, {left}" if left else known, *more)))

    def left(self, done: int, of: int) -> str:
        """In words, such as ``about 3 min left``; empty while nothing is known, and where it takes
        longer than was said, as a time that grows is none.

        Args:
            done: how many steps are done since.
            of: how many there were to do.
        """
        if not 0 < done < of:
            return ""
        now = time.monotonic()
        if done != self._done or self._end is None:
            end = now + (now - self._begun) / done * (of - done)
            self._end = end if self._end is None else min(self._end, end)
            self._done = done
        left = self._end - now
        return f"{self._most or 'about '}{in_words(left)} left" if left >= 1 else ""


def in_words(seconds: float) -> str:
    """A length of time, roughly."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
