"""Generated histories as runs: how such a run was set up, so that it is judged like any other."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from maxq.harness.schedule.format import RATE_MAX, SECONDS_MAX
from maxq.harness.schedule.options import Options
from maxq.histories.fault_facts import KILL, TRIM

GENERATED = "generated"  # the environment of such a run
# What clients did, by the workloads of `maxq generate-history`.
OPTIONS_WORKLOAD = {"replicas": "queue", "epochs": "queue"}


class Wanted(Protocol):
    """What was asked of the generator (``maxq.workloads.generated.asked.request``)."""

    @property
    def workload(self) -> str: ...

    @property
    def ops(self) -> int: ...

    @property
    def concurrency(self) -> int: ...

    @property
    def seed(self) -> int: ...

    @property
    def sets(self) -> int: ...


def options_of(request: Wanted, main_ns: int, *, learners: int = 0, trims: bool = False) -> Options:
    """The options of a run that would have recorded such a history.

    Args:
        request: what was generated.
        main_ns: how long clients ran.
        learners: of each broker set.
        trims: whether a log got old.
    """
    lasted_ns = min(max(main_ns, 1), SECONDS_MAX * 1_000_000_000)
    rate = request.ops / (lasted_ns / 1e9)
    return Options(
        environment=GENERATED,
        seed=request.seed,
        workload=(OPTIONS_WORKLOAD.get(request.workload, request.workload),),
        nemesis=(KILL, TRIM) if trims else (KILL,),
        time_limit_ns=lasted_ns,
        rate=min(max(rate, 0.001), float(RATE_MAX)),
        concurrency=request.concurrency,
        broker_sets=request.sets,
        replicas=3 + learners,
        learners=learners,
    )


def config_of(options: Options, command: str, identity: Mapping[str, Any]) -> dict[str, Any]:
    """What a generated run's folder says of it: `command` generates it again."""
    return {
        "options": msgspec.to_builtins(options),
        **identity,
        "repeat": command,
        GENERATED: True,
    }


def command_of(config: Mapping[str, Any]) -> str:
    """The command that generates a run again; empty where it was recorded."""
    return str(config["repeat"]) if config.get(GENERATED) is True else ""
