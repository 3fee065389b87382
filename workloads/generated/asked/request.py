"""What is asked of a generator, and the refusal of what it cannot do."""

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from maxq.workloads.generated.asked.kinds import KINDS, LEARNER, LEFT_OUT, WORKLOADS

At = Literal["first", "last", "anywhere", "info", "fail-over"]
Format = Literal["parquet", "jsonl"]
PLACES: tuple[str, ...] = get_args(At)
FORMATS: tuple[str, ...] = get_args(Format)
OPS_MIN, CONCURRENCY_MIN, CONCURRENCY_MAX, SETS_MAX = 20, 3, 500, 50
INFO_MAX = 0.5
SHORT = {"lost": "lost-write"}  # what people say for a name


class Refusal(ValueError):
    """What is asked for cannot be generated; says why."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to generate.

    `ops` are the operations of the workload's clients (for epochs the questions of observers),
    about so many; `info` the share of them whose outcome stays unknown; `anomalies` how many of
    each kind to plant; `at` where: at the first place that there is, at the last, anywhere, beside
    an operation of unknown outcome, or across a fail-over. `broker_sets`: 0 for as many as the
    clients need.
    """

    workload: str
    ops: int
    concurrency: int = 10
    info: float = 0.05
    anomalies: Mapping[str, int] = {}
    seed: int = 0
    at: At = "anywhere"
    broker_sets: int = 0

    def checked(self) -> "Request":
        """The same.

        Raises:
            Refusal: it cannot be done.
        """
        if self.workload not in WORKLOADS:
            raise Refusal(f"no workload {self.workload!r}; there are: {', '.join(WORKLOADS)}")
        if self.ops < OPS_MIN:
            raise Refusal(f"--ops {self.ops}: at least {OPS_MIN}")
        if not CONCURRENCY_MIN <= self.concurrency <= CONCURRENCY_MAX:
            why = f"{CONCURRENCY_MIN} to {CONCURRENCY_MAX}, so that several processes use a key"
            raise Refusal(f"--concurrency {self.concurrency}: {why}")
        if not 0 <= self.info <= INFO_MAX:
            raise Refusal(f"--info {self.info}: 0 to {INFO_MAX}")
        if not 0 <= self.broker_sets <= SETS_MAX:
            raise Refusal(f"--broker-sets {self.broker_sets}: 1 to {SETS_MAX}")
        for name, count in self.anomalies.items():
            self._check(name, count)
        return self

    @property
    def learners(self) -> int:
        """How many replicas of each set are learners: one, where that is planted."""
        return int(LEARNER in self.anomalies)

    @property
    def trims(self) -> bool:
        """Whether a log gets old."""
        return "deleted-early" in self.anomalies

    def command(self, to: Format) -> str:
        """The command line that generates it."""
        planted = ",".join(f"{name}={n}" for name, n in self.anomalies.items())
        words = [
            f"maxq generate-history --workload {self.workload} --ops {self.ops}",
            f"--concurrency {self.concurrency} --info {self.info}",
            *([f"--anomalies {planted} --at {self.at}"] if planted else []),
            *([f"--broker-sets {self.broker_sets}"] if self.broker_sets else []),
            f"--seed {self.seed} --format {to} --out NEW",
        ]
        return " ".join(words)

    def _check(self, name: str, count: int) -> None:
        if name in LEFT_OUT:
            raise Refusal(f"{name} cannot be planted: {LEFT_OUT[name]}")
        kind = KINDS.get(name)
        if kind is None:
            raise Refusal(f"no anomaly {name!r}; --anomalies help lists them")
        if self.workload not in kind.workloads:
            where = ", ".join(sorted(kind.workloads))
            raise Refusal(f"{name} cannot be planted in {self.workload}, but in: {where}")
        if count < 1:
            raise Refusal(f"{name}={count}: at least 1")

    @property
    def sets(self) -> int:
        """How many broker sets there are: two queues each, for about twenty clients."""
        return self.broker_sets or max(1, min(SETS_MAX, round(self.concurrency / 20)))


def parsed(text: str) -> dict[str, int]:
    """Anomalies as the command line has them: ``lost-write=3,phantom=1``.

    Raises:
        Refusal: it is written otherwise.
    """
    found: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, count = part.partition("=")
        if not count.isdecimal():
            raise Refusal(f"{part!r} is no NAME=COUNT")
        name = SHORT.get(name, name)
        found[name] = found.get(name, 0) + int(count)
    return found


class Planted(msgspec.Struct, frozen=True, kw_only=True):
    """One anomaly that is in a history. `ops` are indices of operations that show it; `key` is a
    queue, a lock or a consumer group, `set` a broker set; `value` and `offset` those of a message.
    A checker may call it by the names `allowed`, and report `symptoms` of the same key or set."""

    kind: str
    allowed: tuple[str, ...]
    symptoms: tuple[str, ...] = ()
    at: str = ""
    key: int | None = None
    set: str = ""
    ops: tuple[int, ...] = ()
    offset: int | None = None
    value: int | str | None = None
    what: str = ""
