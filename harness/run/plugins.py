"""Plug-ins: workloads, faults, checkers, targets, models, layouts, environments, and loading.

A distribution names them by entry points of the groups below, each a value of the group's kind; a
module that is named (``--plugin``) has them as values of its own. Each is registered once in a
process, at the first request, and then known to everything that asks by name: `maxq test`, `check`,
`replay`, `simulate`, campaigns, pytest. Worker processes load the same.

What an author needs is imported from here. How to write one: docs/plugins.md.
"""

import hashlib
import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from maxq.checkers.linearizability.model import Model
from maxq.harness.contracts import layouts
from maxq.harness.contracts import plugins as registry
from maxq.harness.contracts.layouts import LayoutKind
from maxq.harness.contracts.plugins import (
    CheckerKind,
    EnvironmentKind,
    Needed,
    TargetKind,
    WorkloadKind,
)
from maxq.harness.environments.choose import ENVIRONMENTS
from maxq.harness.run import judging, run_plan
from maxq.harness.run.run_plan import Making
from maxq.harness.targets.rocketmq.releases import PREFIX, REFERENCE
from maxq.nemeses import catalogue
from maxq.nemeses.kind import Kind

__all__ = [
    "CheckerKind",
    "EnvironmentKind",
    "Kind",
    "LayoutKind",
    "Making",
    "Model",
    "Needed",
    "PluginError",
    "TargetKind",
    "WorkloadKind",
    "load",
]

Addition = WorkloadKind | CheckerKind | TargetKind | Kind | Model | LayoutKind | EnvironmentKind
GROUPS: dict[str, type[Any]] = {
    "maxq.workloads": WorkloadKind,
    "maxq.nemeses": Kind,
    "maxq.checkers": CheckerKind,
    "maxq.targets": TargetKind,
    "maxq.models": Model,
    "maxq.layouts": LayoutKind,
    "maxq.environments": EnvironmentKind,
}
WORDS: dict[type[Any], str] = {
    WorkloadKind: "workload", Kind: "nemesis", CheckerKind: "checker", TargetKind: "target",
    Model: "model", LayoutKind: "layout", EnvironmentKind: "environment",
}  # fmt: skip


class PluginError(ValueError):
    """A plug-in that cannot be used; names it, and says why."""


# What was loaded in this process: each value by its kind and name, and where it is from.
_loaded: dict[tuple[str, str], tuple[Addition, str]] = {}
_modules: list[str] = []  # those that were named
_searched: list[bool] = []  # whether entry points were looked for


def load(modules: Iterable[str] = ()) -> None:
    """Load what entry points name, once in a process, and then these modules.

    Raises:
        PluginError: one cannot be loaded, or its name is taken.
    """
    if not _searched:
        _searched.append(True)
        for group, kind in GROUPS.items():
            for found in sorted(entry_points(group=group), key=lambda e: (e.name, e.value)):
                register(_pointed(found, kind), _origin(found), named=found.name)
    for module in modules:
        if module not in _modules:
            for value in _values(module):
                register(value, f"--plugin {module}")
            _modules.append(module)


def loaded() -> dict[str, str]:
    """What is not Max-Q's own in this process: by kind and name, as ``workload register``, where
    each is from."""
    return {f"{word} {name}": origin for (word, name), (_, origin) in sorted(_loaded.items())}


def modules() -> list[str]:
    """The modules that were named, for worker processes and for the command that repeats a run."""
    return list(_modules)


def digest() -> str:
    """A digest of the files that hold what was loaded: results of others are not reused. Empty
    where nothing was."""
    found = hashlib.sha256()
    for (word, name), (value, _) in sorted(_loaded.items()):
        found.update(f"\0{word} {name}\0".encode())
        for file in sorted(_files(value)):
            found.update(Path(file).read_bytes())
    return found.hexdigest()[:12] if _loaded else ""


def register(value: Addition, origin: str, *, named: str = "") -> None:
    """Have one more; the same value again is no other one.

    Args:
        value: what it is.
        origin: where it is from, for people.
        named: what its entry point calls it; empty: it has none.

    Raises:
        PluginError: its name is taken, or it is not what it says.
    """
    name, word = value.checker.name if isinstance(value, CheckerKind) else value.name, _word(value)
    before = _loaded.get((word, name))
    if before is not None:
        if before[0] is value:
            return
        raise PluginError(f"plug-in {origin}: {word} {name!r} is there already, from {before[1]}")
    if named and named != name:
        raise PluginError(f"plug-in {origin}: the entry point is called {named!r}, and what it "
                          f"names is {name!r}")  # fmt: skip
    try:
        _register(value, name)
    except ValueError as error:
        raise PluginError(f"plug-in {origin}: {error}") from None
    _loaded[word, name] = value, origin


def _register(value: Addition, name: str) -> None:
    known = registry.current()
    match value:
        case WorkloadKind():
            _own(name, run_plan.BUILT_IN)
            registry.install(known.with_workload(value))
        case CheckerKind():
            _own(name, [checker.name for checker in judging.every_checker()])
            registry.install(known.with_checker(value))
        case TargetKind():
            _own(name, [REFERENCE])
            if name.startswith(PREFIX):
                raise ValueError(f"{PREFIX} is of releases of Apache RocketMQ")
            registry.install(known.with_target(value))
        case Model():
            from maxq.checkers.models.catalogue import models  # numpy, where there is one

            _own(name, models())
            registry.install(known.with_model(value))
        case LayoutKind():
            _own(name, layouts.BUILT_IN)
            registry.install(known.with_layout(value))
        case EnvironmentKind():
            _own(name, ENVIRONMENTS)
            registry.install(known.with_environment(value))
        case Kind():
            if value not in catalogue.registered():
                catalogue.register(value)


def _own(name: str, taken: Iterable[str]) -> None:
    if name in taken:
        raise ValueError(f"{name!r} is one of Max-Q's own")


def _word(value: Addition) -> str:
    return next(word for kind, word in WORDS.items() if isinstance(value, kind))


def _pointed(found: EntryPoint, kind: type[Any]) -> Addition:
    """What an entry point names."""
    origin = _origin(found)
    try:
        value: Any = found.load()
    except Exception as error:  # it is other people's code
        raise PluginError(f"plug-in {origin}: {_why(error)}") from error
    if not isinstance(value, kind):
        raise PluginError(f"plug-in {origin}: it is a {type(value).__name__}, no {kind.__name__}")
    checked: Addition = value
    return checked


def _values(module: str) -> Iterator[Addition]:
    """What a module has of ours that it made itself. It is looked for where Python looks, and then
    in the current folder."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    try:
        found = importlib.import_module(module)
    except Exception as error:  # it is other people's code
        raise PluginError(f"plug-in --plugin {module}: {_why(error)}") from error
    values = [v for v in vars(found).values() if isinstance(v, Addition) and not _ours(v)]
    if not values:
        words = ", ".join(kind.__name__ for kind in WORDS)
        raise PluginError(f"plug-in --plugin {module}: it has no value that is one of {words}")
    yield from values


def _ours(value: object) -> bool:
    kinds = (*catalogue.BUILT_IN, *run_plan.BUILT_IN.values(), *layouts.BUILT_IN.values())
    return any(value is own for own in kinds)


def _origin(found: EntryPoint) -> str:
    of = f" of {found.dist.name} {found.dist.version}" if found.dist is not None else ""
    return f"{found.group}: {found.name} = {found.value}{of}"


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _files(value: Addition) -> set[str]:
    """The files of the code that a value holds."""
    parts: list[Any] = []
    match value:
        case WorkloadKind() | TargetKind():
            parts = [value.make]
        case CheckerKind():
            parts = [type(value.checker)]
        case Model():
            parts = [type(value)]
        case LayoutKind():
            parts = [value.container_of]
        case Kind():
            parts = [value.rounds, *(act.do for act in value.acts)]
    names = {getattr(part, "__module__", "") for part in parts}
    files = (getattr(sys.modules.get(name), "__file__", None) for name in names)
    return {file for file in files if file and os.path.exists(file)}
