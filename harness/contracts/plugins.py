"""What others add to Max-Q: kinds of workloads, checkers, targets, models, layouts, environments;
their list.

A kind is one value, which says all that Max-Q must know of it. Kinds of faults are values as well,
`maxq.nemeses.kind.Kind`. Who finds and loads them: `maxq.harness.run.plugins`. The registry itself
changes nothing in place: `with_` gives a new one, or says why it cannot.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from maxq.checkers.core.api import Checker
from maxq.checkers.core.claim import Claim
from maxq.checkers.core.claims import BY_ID
from maxq.checkers.linearizability.model import Model
from maxq.harness.contracts import layouts as own_layouts
from maxq.harness.contracts.cluster import Workload
from maxq.harness.contracts.environment import Capability, Environment
from maxq.harness.contracts.layouts import LayoutKind
from maxq.harness.contracts.target import Target


class WorkloadKind(msgspec.Struct, frozen=True, kw_only=True):
    """A workload as it is asked for.

    Args:
        name: by which it is; also that of the workload that it makes.
        about: what its clients do, in a line.
        threads: how many clients; where it is not known before, 0, which Max-Q's own may say.
        make: makes it of what there is in a run (`maxq.harness.run.run_plan.Making`).
        purpose: the claims that a run with it is there for: its verdict is unknown where one was
            not judged or had no occasion.
    """

    name: str
    about: str
    make: Callable[[Any], Workload]
    threads: int = 0
    purpose: tuple[str, ...] = ()


class CheckerKind(msgspec.Struct, frozen=True, kw_only=True):
    """A checker, and the texts of what it judges.

    Args:
        checker: judges a history.
        about: what it looks for, in a line.
        claims: what each of its claims promises, and from where that is.
        anomalies: what it can find, by name, with the claim that each breaks.
        workloads: the workloads whose runs it judges; none: all runs.
    """

    checker: Checker
    about: str
    claims: tuple[Claim, ...]
    anomalies: Mapping[str, str]
    workloads: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.checker.name


class TargetKind(msgspec.Struct, frozen=True, kw_only=True):
    """A system under test that speaks RocketMQ's protocol.

    Args:
        name: what ``--target`` takes.
        about: what it is, in a line.
        make: makes it; its argument: whether nodes run in containers.
    """

    name: str
    about: str
    make: Callable[[bool], Target]


class Needed(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs of an environment.

    Args:
        folder: of the run, in which machines' folders go; the environment makes it.
        target: what its machines run; they see its `folders`, and the files of this Python.
        needs: what is done to its machines.
        say: called with what takes long, for people.
    """

    folder: Path
    target: Target
    needs: frozenset[Capability]
    say: Callable[[str], None]


class EnvironmentKind(msgspec.Struct, frozen=True, kw_only=True):
    """Where nodes run. Their machines read and write files of this one, at the same paths.

    Args:
        name: what ``--env`` takes.
        about: what its machines are, in a line.
        could: what can be done to them, where nothing is missing.
        make: makes it for a run; it does nothing yet.
    """

    name: str
    about: str
    could: frozenset[Capability]
    make: Callable[[Needed], Environment]


class Registry(msgspec.Struct, frozen=True):
    """What there is beside Max-Q's own, each by its name."""

    workloads: Mapping[str, WorkloadKind] = {}
    checkers: Mapping[str, CheckerKind] = {}
    targets: Mapping[str, TargetKind] = {}
    models: Mapping[str, Model] = {}
    layouts: Mapping[str, LayoutKind] = {}
    environments: Mapping[str, EnvironmentKind] = {}

    def with_workload(self, kind: WorkloadKind) -> "Registry":
        """With one more.

        Raises:
            ValueError: there is one of this name, or it does not say how many clients it has.
        """
        _free("workload", kind.name, self.workloads)
        if kind.threads < 1:
            raise ValueError(f"workload {kind.name!r}: `threads` says how many clients it has")
        return msgspec.structs.replace(self, workloads={**self.workloads, kind.name: kind})

    def with_target(self, kind: TargetKind) -> "Registry":
        """With one more.

        Raises:
            ValueError: there is one of this name.
        """
        _free("target", kind.name, self.targets)
        return msgspec.structs.replace(self, targets={**self.targets, kind.name: kind})

    def with_model(self, model: Model) -> "Registry":
        """With one more.

        Raises:
            ValueError: there is one of this name, or it does not say what it is.
        """
        _free("model", model.name, self.models)
        if not model.about:
            raise ValueError(f"model {model.name!r}: `about` says in a line what it promises")
        return msgspec.structs.replace(self, models={**self.models, model.name: model})

    def with_layout(self, kind: LayoutKind) -> "Registry":
        """With one more.

        Raises:
            ValueError: there is one of this name, or it is no layout.
        """
        _free("layout", kind.name, self.layouts)
        kind.check()
        return msgspec.structs.replace(self, layouts={**self.layouts, kind.name: kind})

    def with_environment(self, kind: EnvironmentKind) -> "Registry":
        """With one more.

        Raises:
            ValueError: there is one of this name, or it does not say what its machines are.
        """
        _free("environment", kind.name, self.environments)
        if not kind.about:
            raise ValueError(f"environment {kind.name!r}: `about` says in a line what it is")
        return msgspec.structs.replace(self, environments={**self.environments, kind.name: kind})

    def with_checker(self, kind: CheckerKind) -> "Registry":
        """With one more.

        Raises:
            ValueError: there is one of this name, one of its claims is another's, or what it says
                of its claims is not what it judges.
        """
        _free("checker", kind.name, self.checkers)
        texts = {claim.id: claim for claim in kind.claims}
        taken = {c.id for other in self.checkers.values() for c in other.claims}
        for claim in kind.checker.claims:
            if claim in BY_ID or claim in taken:
                raise ValueError(f"checker {kind.name!r}: claim {claim} is another checker's")
            if claim not in texts:
                raise ValueError(f"checker {kind.name!r}: claim {claim} has no text")
        for name, of in [*((c, c) for c in texts), *kind.anomalies.items()]:
            if of not in kind.checker.claims:
                raise ValueError(f"checker {kind.name!r}: it does not judge {of} ({name})")
        for text in kind.claims:
            if text.checker != kind.name:
                raise ValueError(f"claim {text.id}: its checker is {kind.name}, not {text.checker}")
        return msgspec.structs.replace(self, checkers={**self.checkers, kind.name: kind})

    @property
    def claims(self) -> dict[str, Claim]:
        """Those of its checkers, by id."""
        return {c.id: c for kind in self.checkers.values() for c in kind.claims}

    @property
    def signatures(self) -> list[str]:
        """What its checkers can find, as ``CLAIM/name``."""
        return [f"{claim}/{name}" for kind in self.checkers.values()
                for name, claim in kind.anomalies.items()]  # fmt: skip

    def judges_of(self, workload: str) -> list[Checker]:
        """Its checkers of the runs of one workload, those of all runs not among them."""
        return [kind.checker for kind in self.checkers.values() if workload in kind.workloads]

    @property
    def judges_of_all(self) -> list[Checker]:
        """Its checkers of all runs."""
        return [kind.checker for kind in self.checkers.values() if not kind.workloads]


def _free(what: str, name: str, taken: Mapping[str, Any]) -> None:
    if name in taken:
        raise ValueError(f"{what} {name!r}: there is one of this name")


_current = [Registry()]


def current() -> Registry:
    """What this process has."""
    return _current[-1]


def layouts() -> dict[str, LayoutKind]:
    """All layouts of this process by name, Max-Q's own first."""
    return {**own_layouts.BUILT_IN, **current().layouts}


def layout_named(name: str) -> LayoutKind | None:
    """The layout of a name; None of an empty one.

    Raises:
        ValueError: there is none.
    """
    if name and name not in layouts():
        raise ValueError(f"no layout {name!r}; known: {', '.join(layouts())}")
    return layouts().get(name)


def install(registry: Registry) -> None:
    """From now on this process has that; the texts of its claims are known to all readers."""
    for claim in current().claims.keys() - registry.claims.keys():
        del BY_ID[claim]
    BY_ID.update(registry.claims)
    _current[-1] = registry


@contextmanager
def restored() -> Iterator[None]:
    """Have what there was before, after a block that installs more: for tests."""
    before = current()
    try:
        yield
    finally:
        install(before)


def with_plugins(command: str, loaded: Mapping[str, str]) -> str:
    """A command, with the modules by which a run was given its plug-ins.

    Args:
        command: of the run.
        loaded: where each plug-in is from.
    """
    origins = dict.fromkeys(loaded.values())
    return " ".join([command, *(each for each in origins if each.startswith("--plugin "))])
