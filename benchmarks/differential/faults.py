"""Faults that are put into exact tests, dispatch and search while they run.

A fault names a function and a piece of its source that is replaced. The function's code is changed,
not its name, so that whoever imported it has the fault too.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FunctionType
from typing import Any, NamedTuple

LINEAR = "maxq.checkers.linearizability."


class Fault(NamedTuple):
    """What is wrong, where (a module, and a function or a method of it), which text becomes which
    other one, and of which subjects the histories show it."""

    about: str
    module: str
    function: str
    right: str
    wrong: str
    subjects: tuple[str, ...]


FAULTS = (
    Fault("a value written twice is no gate", "exact.registers", "decide",
          "np.bincount(written + 1) > 1", "np.bincount(written + 1) > 99",
          ("register, values again",)),
    Fault("the initial value written is no gate", "exact.registers", "decide",
          "np.any(written == initial)", "False", ("register, initial value written",)),
    Fault("an info write that was read is dropped", "exact.registers", "decide",
          "_kept(calls, _happened(calls))", "_kept(calls, calls.outcome != OPEN)", ("register",)),
    Fault("an info cas is not proven by the cas that followed it", "exact.registers", "_happened",
          "chained = todo[calls.of(CAS)[todo]]", "chained = todo[:0]", ("cas-register",)),
    Fault("a cas that was refused shows nothing", "judge", "searched",
          "if not model.observes_failure(calls.call(at))", "if True",
          ("strict-cas-register, values again",)),
    Fault("a value that nobody wrote is not looked for", "exact.registers", "_phantom",
          "if not len(bad)", "if True", ("register",)),
    Fault("zones may overlap: < for >", "exact.blocks", "clash",
          "ends[:-1] > begins[1:]", "ends[:-1] < begins[:-1]",
          ("register", "mutex")),
    Fault("a read before its write is right, in few passes", "exact.plain_registers",
          "surely_legal", "(last[by] > ended).any()", "False", ("register",)),
    Fault("a put of a value again is no gate", "exact.queues", "decide",
          "np.bincount(calls.argument[sure] + 1) > 1", "np.bincount(calls.argument[sure] + 1) > 99",
          ("fifo-queue, values again", "queue, values again")),
    Fault("dequeues without an answer take nothing", "exact.queues", "_missing",
          "open_takes[: len(due)]", "NEVER", ("fifo-queue",)),
    Fault("nothing inside is something: >= for >", "exact.queues", "_certain",
          "np.cumsum(step[order]) > 0", "np.cumsum(step[order]) >= 0",
          ("queue", "fifo-queue, little taken")),
    Fault("an acquire without an answer holds from its begin", "exact.holds", "_paired",
          "released, calls.ended[taken]", "released, calls.begun[taken]",
          ("mutex, clients go on", "mutex")),
    Fault("a hold that was never released ends with its begin", "exact.holds", "_paired",
          "np.where(has, calls.begun[released], NEVER)",
          "np.where(has, calls.begun[released], calls.begun[taken])", ("mutex",)),
    Fault("as many holders as permits are too many: >= for >", "exact.permits", "semaphore",
          "count > permits", "count >= permits", ("semaphore of two",)),
    Fault("a writer may be in force beside readers", "exact.permits", "_clash",
          "np.where(write, latest, latest_write)", "latest_write", ("rw-lock",)),
    Fault("an element added twice is no gate", "exact.sets", "decide",
          "np.bincount(calls.argument[adds] + 1) > 1", "np.bincount(calls.argument[adds] + 1) > 99",
          ("set, elements again",)),
    Fault("a hole is filled by any append without an answer: > for >=", "exact.logs", "_holes",
          "enough >= _deadlines(slots)[slot]", "enough > NEVER", ("log",)),
    Fault("a retried append takes the first that fits", "exact.logs", "_filled",
          "early[-1] if early else 0", "0", ("log, appends again",)),
    Fault("offsets that are not said are no gate", "exact.logs", "decide",
          "np.any(appends & (calls.outcome == OK) & (calls.result == NOTHING))", "False",
          ("log, offsets not said",)),
    Fault("equal tokens are in order", "exact.tokens", "_grants",
          "if len(same)", "if False", ("fencing",)),
    Fault("a lease is counted from its answer", "exact.leases", "grants_of",
          "calls.numbers(calls.argument[at])", "calls.numbers(calls.result[at])", ("lease",)),
    Fault("of two configurations the one that used more is kept", "search", "_Breadth._keep",
          "(guarded - other) & guards == guards", "((other | guards) - used) & guards == guards",
          ("cas-register, values again", "register, values again")),
    Fault("what a refused cas wants is not brought about", "space", "Space.wanted",
          "or ANYTHING in wanted", "", ("strict-cas-register, values again",)),
    Fault("a read is right in any state", "search", "_Breadth._right",
          "and self._step(state, number)", "", ("register, values again",)),
    Fault("a read is right in any state, in depth", "depth", "Depth._right",
          "and self._space.step(state, number)", "", ("register, values again",)),
    Fault("of calls that are alike the last to end goes first", "search",
          "_Breadth._first_to_end", "min(", "max(", ("register, values again",)),
    Fault("of calls that are alike the last to end goes first, in depth", "depth",
          "Depth._of_open", "min(", "max(", ("register, values again",)),
    Fault("a call may return before it has taken effect", "depth", "Depth._go_on",
          "if not mask & event.bit", "if False", ("register, values again",)),
    Fault("what led to nothing once leads to nothing at any place", "depth", "Depth.decided",
          "if here in self._seen", "if any(here[1:] == s[1:] for s in self._seen)",
          ("register, values again", "cas-register, values again")),
    Fault("texts with equal parts are no gate", "exact.growing", "decide",
          "len(by) < len(appends) or", "", ("kv, parts again",)),
)  # fmt: skip


@contextmanager
def put_in(fault: Fault) -> Iterator[None]:
    """While it lasts, the function has the fault.

    Raises:
        LookupError: the text is not in the function once.
    """
    found: object = import_module(LINEAR + fault.module)
    names = vars(found)
    for name in fault.function.split("."):
        found = getattr(found, name)
    if not isinstance(found, FunctionType):
        raise LookupError(f"{fault.module}.{fault.function} is no function")
    source = textwrap.dedent(inspect.getsource(found))
    if source.count(fault.right) != 1:
        times = source.count(fault.right)
        raise LookupError(
            f"{fault.module}.{fault.function}: {fault.right!r} is there {times} times"
        )
    scope: dict[str, Any] = dict(names)
    tree = ast.parse(source.replace(fault.right, fault.wrong))
    exec(compile(tree, f"<{fault.about}>", "exec"), scope)
    right = found.__code__
    found.__code__ = scope[fault.function.split(".")[-1]].__code__
    try:
        yield
    finally:
        found.__code__ = right
