"""The context of a run: all that its options do not say, since it does not change the run."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from maxq.harness.cluster.deployment import Deployment
from maxq.harness.run.process.signals import Stop
from maxq.harness.schedule.format import Schedule
from maxq.harness.simulation.steps import Steps
from maxq.histories.op import Op


class Progress(Protocol):
    """Where a run's progress is shown."""

    def say(self, text: str) -> None:
        """Something new happens."""
        ...

    def update(self, now_ns: int, op: Op | None) -> None:
        """An operation; or, at least once a second, the time (ns) alone."""
        ...


# In a run's configuration: how long clients ran, if they were asked to end; and why, if not by a
# signal.
LASTED, ENDED_FOR = "lasted_ns", "ended_for"
LEFT = "left"  # there: what the run left otherwise of a cluster that ran already, in lines


class Silent:
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def update(self, now_ns: int, op: Op | None) -> None:
        """Nothing."""


async def just_end(cluster: Deployment) -> None:
    """Do nothing before the end."""


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context of one run. Whoever starts the run gives the first group; where it takes place
    the others are set.

    Args:
        script: the run's schedule; without one it is drawn from the options.
        stop: a request to come to an end, also one that was made.
        keep: a cluster whose run was not valid is left up.
        collect: logs and stores of the nodes are kept.
        base_image: of the docker engine, to build on; empty for the public one.
        steps: records every step of a simulated run.
        progress: where the progress is shown.
        wall_ms: the wall clock of messages.
        before_end: called with the cluster still up and the history whole.
        real: time passes by itself, so that the harness can be late.
        consent: the name of the cluster that runs already to which all may be done that the options
            say; empty: none.
    """

    script: Schedule | None = None
    stop: Stop = msgspec.field(default_factory=Stop)
    keep: bool = False
    collect: bool = True
    base_image: str = ""
    steps: Steps | None = None

    progress: Progress = Silent()
    wall_ms: Callable[[], int] = lambda: 0
    before_end: Callable[[Deployment], Awaitable[None]] = just_end
    real: bool = False
    consent: str = ""
