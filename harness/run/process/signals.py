"""Signals that ask for an end: Control-C (SIGINT), SIGTERM, and SIGHUP when a terminal goes.

All three mean the same. A run that is asked for by itself takes the first as a request: it heals,
reads everything and says a verdict. The second ends it at once, and nothing stays behind. Every
other command ends at once, runs of a command of many runs included (`Stop.at_once`). What was cut
off ends with 128 and the signal's number, as shells say it, also where there is a verdict: a
pipeline that is stopped must not pass for one that was well (`--accept-partial`: it may). What
`nohup` has ignored stays ignored.
"""

import asyncio
import atexit
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

import msgspec

from maxq.reference.records import some

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# `timeout` and shells send theirs to a process and to its group: that is one request.
TWICE_S = 1.0
AGAIN_S = 0.01  # until an interrupt that was swallowed is raised again
OUTPUTS = (1, 2)  # descriptors of what is printed
SHELL = 128  # and the number of a signal: the exit code of what it ended


class Stop:
    """A request to come to an end.

    Args:
        at_once: the run is one of many and is made again: a signal ends it, and no verdict follows.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self.possible = False  # clients run, so that there is something to come to an end of
        self.number = 0  # of the signal that asked
        self.short = ""  # why the run had to end of itself
        self.at_once = at_once
        self.heeded_ns = 0  # when clients ended for it, in ns of the history; 0: they did not

    @property
    def asked(self) -> bool:
        """Whether somebody asked, or it had to be."""
        return self.number != 0 or self.short != ""

    def exit_code(self, of_verdict: int, *, accept_partial: bool) -> int:
        """Of a run that came to a verdict: of the signal that cut it short, unless what was done
        until then is good enough."""
        return of_verdict if accept_partial or not self.number else SHELL + self.number

    def heard(self, now_ns: int) -> bool:
        """Whether clients are to end now."""
        if self.asked and not self.heeded_ns:
            self.heeded_ns = now_ns
        return self.asked


class Meaning(Enum):
    """What a signal asks for."""

    REQUEST = "come to an end in good order"
    ORDER = "end at once"
    REPETITION = "nothing that was not asked for already"


class First(msgspec.Struct, frozen=True):
    """The first signal that a run heard, and when (s)."""

    number: int
    at: float


def meaning(number: int, now: float, first: First | None, *, possible: bool) -> Meaning:
    """What a signal means at a time (s).

    Args:
        number: of the signal.
        now: when.
        first: what was heard before; None: nothing.
        possible: clients run, so that there is something to come to an end of.
    """
    if first is None:
        return Meaning.REQUEST if possible else Meaning.ORDER
    same = number == first.number and number != signal.SIGINT  # fingers are not that fast
    return Meaning.REPETITION if same and now - first.at < TWICE_S else Meaning.ORDER


def heeded() -> tuple[signal.Signals, ...]:
    """The signals that end this process. One that whoever started it has ignored does not; but
    SIGINT does: shells ignore it for whatever they start in the background."""
    ignored = [n for n in ENDING if signal.getsignal(n) == signal.SIG_IGN]
    return tuple(n for n in ENDING if n == signal.SIGINT or n not in ignored)


class Orders:
    """The signals that ended what this process did, the last of them. SIGINT where nothing else was
    heard: it is Python's own to raise, so that an event loop can do so in order."""

    def __init__(self) -> None:
        self.last: First | None = None

    def take(self, number: int) -> Meaning:
        """What a signal means where there is nothing to come to an end of in good order."""
        now = time.monotonic()
        meant = meaning(number, now, self.last, possible=False)
        if meant is Meaning.ORDER:
            self.last = First(number, now)
        return meant

    @property
    def signal(self) -> signal.Signals:
        """Which it was."""
        return signal.Signals(self.last.number if self.last else signal.SIGINT)

    @property
    def exit_code(self) -> int:
        """Of a process that it ended: 130 for SIGINT, 143 for SIGTERM."""
        return SHELL + self.signal


ORDERS = Orders()


def as_interrupts() -> None:
    """Have this process end by each of these signals as by an interrupt: what it holds is freed."""

    def hear(number: int, frame: object) -> None:
        leave_dead_outputs()
        if ORDERS.take(number) is Meaning.ORDER:
            signal.raise_signal(signal.SIGINT)

    for number in heeded():
        signal.signal(number, hear)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _insist()
    atexit.register(_past)


def _insist() -> None:
    """Interrupt again where an interrupt was swallowed: Python ignores what is raised in a
    finalizer, or in what it calls before and after a fork, and the signal would be lost."""
    shown = sys.unraisablehook

    def again(number: int, frame: object) -> None:
        signal.raise_signal(signal.SIGINT)

    def swallowed(what: "sys.UnraisableHookArgs") -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        else:
            shown(what)

    signal.signal(signal.SIGALRM, again)
    sys.unraisablehook = swallowed


def _past() -> None:
    """Ignore what comes when all is done: Python no longer calls handlers while it takes itself
    apart, and the process would end as one that was cut off."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


async def interrupted() -> None:
    """Wait for one of these signals."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[None] = loop.create_future()

    def hear() -> None:
        leave_dead_outputs()
        if not heard.done():
            heard.set_result(None)

    before = {number: signal.getsignal(number) for number in heeded()}
    for number in before:
        loop.add_signal_handler(number, hear)
    try:
        await heard
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


@contextmanager
def interruptible(stop: Stop, say: Callable[[str], None]) -> Iterator[None]:
    """Take a signal as a request to stop, where that is possible, and as an order otherwise.

    Raises:
        KeyboardInterrupt: it was an order (`ORDERS`), and the task has ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # this one is not interrupted
        return
    loop, task = asyncio.get_running_loop(), some(asyncio.current_task(), "called by a task")
    first: First | None = None
    ending = False

    def hear(number: int, frame: object) -> None:
        nonlocal first, ending
        now = time.monotonic()
        meant = meaning(number, now, first, possible=stop.possible and not stop.at_once)
        leave_dead_outputs()
        if meant is Meaning.REPETITION:
            return
        first = First(number, now)
        if meant is Meaning.ORDER:
            ORDERS.last = first
            if ending:
                raise KeyboardInterrupt  # one more ends it all, wherever it is
            ending = True
            loop.call_soon_threadsafe(task.cancel)
            return
        stop.number = number
        name = signal.Signals(number).name
        say(f"interrupted by {name}: healing, reading everything, judging (again to end at once)")

    before = {number: signal.getsignal(number) for number in heeded()}
    for number in before:
        signal.signal(number, hear)
    try:
        yield
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave_dead_outputs() -> None:
    """Print nowhere from now on where the reader has gone, such as a terminal that hung up: a
    failing line of progress must not end what the signal asks for."""
    watch = select.poll()
    for fd in OUTPUTS:
        watch.register(fd, 0)
    dead = [fd for fd, events in watch.poll(0) if events & (select.POLLERR | select.POLLHUP)]
    if dead:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        for fd in dead:
            os.dup2(nowhere, fd)
        os.close(nowhere)
