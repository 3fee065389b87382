"""Runs for another program than the command line: the same options, checked the same way.

Arguments go through the parser of `maxq test`, so names, defaults, bounds and complaints are the
same in both places, and cannot drift apart.
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

import click
import msgspec

from maxq.checkers.judgement.summary import FAIL_ON
from maxq.harness.cli import testing
from maxq.harness.contracts.nearest import nearest
from maxq.harness.run import stored_run
from maxq.harness.run.doctor import Place
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged
from maxq.harness.schedule.options import Options

SEVERAL = ("workload", "nemesis", "set", "plugin")  # may be given as several names
ARGUMENTS = (
    *SEVERAL, "time_limit", "env", "profile", "mutant", "seed", "timing", "rate", "concurrency",
    "controllers", "namesrvs", "embedded_controllers", "broker_sets", "replicas", "learners",
    "target", "base_image", "broker_conf", "controller_conf", "interval",
)  # fmt: skip


OF_THE_COMMAND = ("store", "as_json", "plan", "keep", "fail_on", "explain", "tries", "verbose",
                  "accept_partial")  # fmt: skip


def refuse(strange: Iterable[str], known: Iterable[str]) -> None:
    """Complain of arguments that there are none of.

    Raises:
        TypeError: with the nearest names.
    """
    __tracebackhide__ = True
    for name in strange:
        hint = nearest(name, known)
        raise TypeError(f"maxq.run has no argument {name!r}{hint}; there are: {', '.join(known)}")


def options_of(given: Mapping[str, object], store: Path = Path()) -> tuple[Options, str]:
    """Resolve arguments as the command line would; the options and the base image.

    Args:
        given: by name.
        store: where run folders go.

    Raises:
        ValueError: one of them is wrong, or they exclude each other.
    """
    __tracebackhide__ = True
    words: list[str] = []
    for name, value in given.items():
        if isinstance(value, bool):
            words += [f"--{name.replace('_', '-')}"] if value else []
        elif value is not None:
            words += [f"--{name.replace('_', '-')}={word}" for word in _words(name, value)]
    try:
        context = testing.test.make_context("maxq.run", words)
        params = dict(context.params)
        for of_the_command in OF_THE_COMMAND:
            params.pop(of_the_command)
        base_image = params.pop("base_image")
        return testing.resolved(params, Place(base_image=base_image, store=store)), base_image
    except click.UsageError as error:
        raise ValueError(f"maxq.run: {error.format_message()}") from None


def _words(name: str, value: object) -> list[str]:
    __tracebackhide__ = True
    if name in SEVERAL and not isinstance(value, str):
        if not isinstance(value, Iterable):
            raise ValueError(f"maxq.run: {name} is a name or several, not {value!r}")
        names = [str(word) for word in value]
        if not names:
            raise ValueError(f"maxq.run: {name} names nothing")
        return names
    return [str(value)]


def perform(
    given: Mapping[str, object], store: Path, *, quiet: bool, fail_on: str = ""
) -> tuple[Judged, bool]:
    """Perform a run; its verdict, and whether it was interrupted.

    Raises:
        ValueError: an argument is wrong.
        RuntimeError: called from a coroutine.
        Exception: as `maxq.harness.run.stored_run.run_test`.
    """
    __tracebackhide__ = True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError("maxq.run waits for a whole run: call it from a test that is no "
                           "coroutine, or in a thread")  # fmt: skip
    options, base_image = options_of(given, store)
    if fail_on and fail_on not in FAIL_ON:
        raise ValueError(f"maxq.run: fail_on is one of {', '.join(FAIL_ON)}, not {fail_on!r}")
    context = RunContext(base_image=base_image)
    judged = stored_run.run_test(options, store, quiet=quiet, context=context)
    return msgspec.structs.replace(judged, fail_on=fail_on), context.stop.number != 0
