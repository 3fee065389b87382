"""How far long work has come: a line that is drawn anew on a terminal, else one every few seconds.

The line is asked for by a thread of its own, so that it also moves while one step takes minutes.
"""

import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from maxq.harness.contracts.terminal import echo, one_line

ON_TERMINAL_S, ELSEWHERE_S = 0.5, 5.0
LINE_MAX = 200
GO_ON = "go on:   "  # before the command that does
CLEAR = "\r\x1b[2K"


class Ticker:
    """Says how far work has come, on standard error, for the length of a block.

    Args:
        line: how far it has come now, in a line; empty: nothing to say.
    """

    def __init__(self, line: Callable[[], str]) -> None:
        self._line = line
        self._live = sys.stderr.isatty()
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

    def say(self, text: str, *, err: bool = True) -> None:
        """Something that stays on the screen."""
        with self._lock:
            self._clear()
            echo(text, err=err)

    def _tick(self) -> None:
        while not self._over.wait(ON_TERMINAL_S if self._live else ELSEWHERE_S):
            text = one_line(self._line())[:LINE_MAX]
            if not text:
                continue
            try:
                with self._lock:
                    if self._live:
                        sys.stderr.write(CLEAR + text)
                        sys.stderr.flush()
                    else:
                        echo(text, err=True)
            except OSError:  # the reader has gone; what is to be said of that, others say
                return

    def _clear(self) -> None:
        if self._live:
            sys.stderr.write(CLEAR)
            sys.stderr.flush()


class Estimate:
    """How long the rest of some equal steps takes, by those that were done since it was made."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def left(self, done: int, of: int) -> str:
        """In words, such as ``about 3 min left``; empty while nothing is known.

        Args:
            done: how many steps are done since.
            of: how many there were to do.
        """
        if not 0 < done < of:
            return ""
        seconds = (time.monotonic() - self._begun) / done * (of - done)
        return f"about {in_words(seconds)} left"


def in_words(seconds: float) -> str:
    """A length of time, roughly."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


@contextmanager
def resumable(kept: Callable[[], object]) -> Iterator[None]:
    """Have an interrupted command say what is kept, and how to go on.

    Args:
        kept: prints or stores what there is; only called where the block was interrupted.

    Raises:
        KeyboardInterrupt: it was, with the command that goes on as a note.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        kept()
        error.add_note(f"{GO_ON}{shlex.join(['maxq', *sys.argv[1:]])}")
        raise
