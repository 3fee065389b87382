"""Which checkers judge a run: those of its workloads, and those of every run."""

from collections.abc import Sequence

from checkers.api import Checker
from checkers.availability import Availability
from checkers.broker_ids import BrokerIds
from checkers.durability import Durability
from checkers.epochs import Epochs
from checkers.faults import FaultProof
from checkers.locks import Locks
from checkers.replicas import Replicas
from checkers.runner import Results, check_all
from checkers.stats import Stats
from harness.options import Options
from histories.history import History

BY_WORKLOAD: dict[str, Sequence[Checker]] = {
    "queue": (Durability(),),
    "lock": (Locks(),),
    "registration": (),
}
ALWAYS: Sequence[Checker] = (
    BrokerIds(),
    Epochs(),
    Replicas(),
    Availability(),
    FaultProof(),
    Stats(),
)


def every_checker() -> list[Checker]:
    """All checkers that some run is judged by."""
    return [*(c for checkers in BY_WORKLOAD.values() for c in checkers), *ALWAYS]


def judge(options: Options, history: History) -> Results:
    """Judge a run by what it recorded, at once or years later."""
    checkers = [c for name in options.workload for c in BY_WORKLOAD[name]]
    return check_all(history, [*checkers, *ALWAYS], options.context())
