"""Example environment: the namespaces of `local`, in which a node may have few files open.

    maxq test --plugin few_files_environment --env few-files --time-limit 20s

An environment makes machines (`maxq.harness.contracts.environment`). This one changes one verb of
those that `local` makes: how a process begins.
"""

from collections.abc import Sequence
from typing import Any

from maxq.harness.contracts.environment import Capability, Machine, ProcessStatus
from maxq.harness.environments.local import COULD, LocalEnvironment
from maxq.harness.run.plugins import EnvironmentKind, Needed

FILES = 256  # that a process may have open, sockets among them


class Limited:
    """A machine of another environment, whose processes begin under a limit."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._machine, verb)

    async def spawn(self, argv: Sequence[str], *, log: str) -> ProcessStatus:
        """Start a process; `prlimit` becomes it."""
        return await self._machine.spawn(["prlimit", f"--nofile={FILES}", *argv], log=log)


class FewFiles(LocalEnvironment):
    """Namespaces of this machine."""

    name = "few-files"

    def machine(self, name: str) -> Any:
        """One of its machines."""
        return Limited(super().machine(name))


def make(needed: Needed) -> FewFiles:
    """The environment of a run; what its faults need is there from its start."""
    needs = needed.needs
    return FewFiles(
        needed.folder,
        disks=bool(needs & {Capability.POWER_LOSS, Capability.FILL}),
        clocks=Capability.CLOCK in needs,
        proxies=Capability.DELAY in needs,
        say=needed.say,
    )


FEW_FILES = EnvironmentKind(
    name="few-files",
    about=f"as local, where each process may have {FILES} files open",
    could=COULD,
    make=make,
)
