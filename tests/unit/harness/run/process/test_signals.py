"""What a signal means to a run, and who heeds which."""

import os
import signal
import subprocess
import sys

import pytest

from maxq.harness.run.process.signals import ENDING, TWICE_S, First, Meaning, heeded, meaning

TERM, HUP, INT = signal.SIGTERM, signal.SIGHUP, signal.SIGINT


@pytest.mark.parametrize("number", ENDING)
def test_the_first_is_a_request_where_there_is_something_to_end(number: int) -> None:
    assert meaning(number, 5.0, None, possible=True) is Meaning.REQUEST
    assert meaning(number, 5.0, None, possible=False) is Meaning.ORDER


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("before", ENDING)
def test_a_second_one_is_an_order(number: int, before: int) -> None:
    assert meaning(number, 5.0 + TWICE_S, First(before, 5.0), possible=True) is Meaning.ORDER


def test_what_is_sent_to_a_process_and_to_its_group_is_one_request() -> None:
    soon = 5.0 + TWICE_S / 2
    assert meaning(TERM, soon, First(TERM, 5.0), possible=True) is Meaning.REPETITION
    assert meaning(HUP, soon, First(HUP, 5.0), possible=True) is Meaning.REPETITION
    assert meaning(HUP, soon, First(TERM, 5.0), possible=True) is Meaning.ORDER
    assert meaning(INT, soon, First(INT, 5.0), possible=True) is Meaning.ORDER, "pressed twice"


def test_what_nohup_ignores_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", {TERM: signal.SIG_DFL, HUP: signal.SIG_IGN,
                                              INT: signal.SIG_IGN}.get)  # fmt: skip
    assert heeded() == (INT, TERM)


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_every_command_ends_by_each_as_by_an_interrupt(number: signal.Signals) -> None:
    """Also where whoever started it in the background has made it ignore SIGINT."""
    program = (
        "import os, signal; from maxq.harness.run.process.signals import ORDERS, as_interrupts\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN); as_interrupts()\n"
        f"try: os.kill(os.getpid(), {number.value}); signal.pause()\n"
        "except KeyboardInterrupt: print('freed')\n"
        "raise SystemExit(ORDERS.exit_code)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("freed\n", 128 + number), done.stderr


def test_what_ends_a_command_and_comes_again_at_once_is_one_order() -> None:
    """`timeout` sends SIGTERM to a process and to its group; the second cuts nothing off."""
    program = (
        "import os, signal; from maxq.harness.run.process.signals import as_interrupts\n"
        "as_interrupts()\n"
        "try: os.kill(os.getpid(), signal.SIGTERM); signal.pause()\n"
        "except KeyboardInterrupt: os.kill(os.getpid(), signal.SIGTERM); print('freed')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("freed\n", 0), done.stderr


def test_a_signal_that_comes_when_all_is_done_changes_nothing() -> None:
    """While Python takes itself apart, when it calls no handlers any more."""
    program = (
        "import os, signal; from maxq.harness.run.process.signals import as_interrupts\n"
        "class Late:\n"
        "    def __del__(self, kill=os.kill, me=os.getpid()): kill(me, 15)\n"
        "as_interrupts(); late = Late(); raise SystemExit(2)\n"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 2


def test_who_reads_no_more_is_printed_nothing() -> None:
    """The reader of standard error has gone; that of standard output has not."""
    program = (
        "import sys; from maxq.harness.run.process.signals import leave_dead_outputs\n"
        "sys.stdin.read(); leave_dead_outputs()\n"
        "print('lost', file=sys.stderr, flush=True); print('read', flush=True)\n"
    )
    out, their_out = os.pipe()
    err, their_err = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE,
                               stdout=their_out, stderr=their_err)  # fmt: skip
    for fd in (their_out, their_err, err):
        os.close(fd)
    process.communicate(timeout=30)
    with open(out) as left:
        assert left.read() == "read\n"
    assert process.returncode == 0


SWALLOWED = """
import os, signal, sys, time
from maxq.harness.run.process.signals import ORDERS, as_interrupts

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass  # the handler is called here, and Python ignores what it raises

as_interrupts()
held = Finalized()
try:
    del held
    print("swallowed", flush=True)
    signal.sigtimedwait([], 50)
except KeyboardInterrupt:
    sys.exit(ORDERS.exit_code)
"""


def test_a_signal_that_python_swallows_ends_the_process_all_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, timeout=40)
    assert (done.stdout, done.stderr) == (b"swallowed\n", b"")
    assert done.returncode == 128 + signal.SIGTERM
