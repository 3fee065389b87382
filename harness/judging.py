"""Which checkers judge a run: those of its workloads, of its faults, and of its replicas."""

from collections.abc import Sequence

from checkers.api import Checker
from checkers.availability import Availability
from checkers.broker_ids import BrokerIds
from checkers.claims import CLAIMS
from checkers.durability import Durability
from checkers.epochs import Epochs
from checkers.faults import FaultProof
from checkers.locks import Locks
from checkers.offsets import Offsets
from checkers.replicas import Replicas
from checkers.routes import Routes
from checkers.runner import Results, check_all
from checkers.stats import Stats
from harness.options import Options
from harness.targets.rocketmq.releases import lacks_ids
from histories.history import History

BY_WORKLOAD: dict[str, Sequence[Checker]] = {
    "queue": (Durability(),),
    "lock": (Locks(),),
    "registration": (BrokerIds(),),
    "offsets": (Offsets(),),
}
REPLICATED: Sequence[Checker] = (BrokerIds(), Epochs(), Replicas(), Availability(), Routes())
BY_IDS = frozenset(c.name for c in (BrokerIds(), Epochs(), Replicas(), Routes()))
ALWAYS: Sequence[Checker] = (FaultProof(), Stats())


def every_checker() -> list[Checker]:
    """All checkers that some run is judged by, each once."""
    each = [*(c for found in BY_WORKLOAD.values() for c in found), *REPLICATED, *ALWAYS]
    return list({c.name: c for c in each}.values())


def checkers_of(options: Options) -> list[Checker]:
    """The checkers of a run. A broker that is alone in its set has nobody to disagree with."""
    chosen = [c for name in options.workload if options.busy(name) for c in BY_WORKLOAD[name]]
    chosen += REPLICATED if options.replicas > 1 else ()
    if lacks_ids(options.target):
        chosen = [c for c in chosen if c.name not in BY_IDS]
    return list({c.name: c for c in [*chosen, *ALWAYS]}.values())


def absent(options: Options) -> list[str]:
    """The claims that nobody can judge on a run's target: n/a, never valid."""
    if not lacks_ids(options.target):
        return []
    return [c.id for c in CLAIMS if c.checker in BY_IDS or c.id in Availability.by_ids]


def judge(options: Options, history: History) -> Results:
    """Judge a run by what it recorded, at once or years later."""
    return check_all(history, checkers_of(options), options.context())
