"""A run while it goes on: its second, each master with its epoch, the faults in effect, and how
much is done. Fed with its operations one by one, as they are recorded or read.

Pure. Times are ns of the history.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from maxq.checkers.evidence.acts import acts_of
from maxq.checkers.judgement.cuts import in_short
from maxq.histories.fault_facts import NOBODY
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_CONTROLLER, OBSERVE_REPLICA, refused
from maxq.histories.op import Op

RATE_S = 5  # over so long
STALE_NS = 5_000_000_000  # what was seen before is not now
SETS_MAX, FAULTS_MAX = 3, 4  # that are named
OBSERVES = "observe-"


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """A run at a moment. `masters` are a broker set, its master (empty: none), epoch, and when a
    controller said so each;
    `faults` those at work; `per_s` ok operations of clients a second; `counts` what completed, by
    outcome."""

    at_ns: int
    masters: tuple[tuple[str, str, int, int], ...]
    faults: tuple[str, ...]
    per_s: float
    counts: dict[str, int]

    def line(self, end_ns: int = 0) -> str:
        """All of it in a line; `end_ns`: when clients and faults end."""
        second = f"{self.at_ns / 1e9:.0f} s"
        left_ns = end_ns - self.at_ns
        second += f", {left_ns / 1e9:.0f} s left" if left_ns > 0 else ""
        led = [
            f"{name}: {who or 'no master'} in epoch {epoch}{self._stale(seen_ns)}"
            for name, who, epoch, seen_ns in self.masters[:SETS_MAX]
        ]
        more = len(self.masters) - SETS_MAX
        led += [f"{more} more broker sets"] if more > 0 else []
        faults = ", ".join(self.faults[:FAULTS_MAX]) or "no fault"
        rest = len(self.faults) - FAULTS_MAX
        faults += f" and {rest} more" if rest > 0 else ""
        return " · ".join([second, *led, faults, f"{self.per_s:.0f} ok/s"])

    def _stale(self, seen_ns: int) -> str:
        """When it was seen, if that is no longer now: no controller answers, or none is asked."""
        return f" at {seen_ns / 1e9:.0f} s" if self.at_ns - seen_ns > STALE_NS else ""


class Live:
    """Follows a run.

    Args:
        sets: the broker sets that are watched.
    """

    def __init__(self, sets: Iterable[str]) -> None:
        self._sets = tuple(sets)
        self._nodes: dict[tuple[str, int], str] = {}
        self._masters: dict[str, tuple[int | None, int, int]] = {}
        self._acts: list[Op] = []
        self._faults: tuple[str, ...] | None = ()
        self._per_s: Counter[int] = Counter()
        self._counts: Counter[str] = Counter()
        self._last_ns = 0

    def take(self, op: Op) -> None:
        """The next operation."""
        self._last_ns = max(self._last_ns, op.time)
        if not op.is_client:
            self._acts.append(op)
            self._faults = None
            return
        if op.type != "invoke":
            self._counts["refused" if refused(op) else op.type] += 1
        if op.type != "ok":
            return
        if not op.f.startswith(OBSERVES):
            self._per_s[op.time // 1_000_000_000] += 1
        elif isinstance(op.value, dict):
            self._observe(op)

    def _observe(self, op: Op) -> None:
        value = op.value
        if op.f == OBSERVE_REPLICA and isinstance(value.get("id"), int):
            self._nodes[str(value.get("set")), value["id"]] = str(value.get("node"))
        if op.f == OBSERVE_CONTROLLER and isinstance(value.get("sets"), dict):
            for name, seen in value["sets"].items():
                if name in self._sets and isinstance(seen, dict):
                    epoch = seen.get("master_epoch")
                    if isinstance(epoch, int):
                        self._masters[name] = seen.get("master"), epoch, op.time

    def now(self, at_ns: int = -1) -> Now:
        """How the run is; without a time as of its last operation."""
        at_ns = self._last_ns if at_ns < 0 else at_ns
        second = at_ns // 1_000_000_000
        done = sum(self._per_s[n] for n in range(second - RATE_S, second))
        for old in [n for n in self._per_s if n < second - RATE_S]:
            del self._per_s[old]
        return Now(
            at_ns=at_ns,
            masters=tuple(
                (name, self._name(name, who), epoch, seen_ns)
                for name, (who, epoch, seen_ns) in sorted(self._masters.items())
            ),
            faults=self._at_work(),
            per_s=done / max(1, min(RATE_S, second)),
            counts=dict(self._counts),
        )

    def _name(self, broker_set: str, who: int | None) -> str:
        return "" if who is None else self._nodes.get((broker_set, who), f"id {who}")

    def _at_work(self) -> tuple[str, ...]:
        """The faults that were begun and not healed."""
        if self._faults is None:
            acts = acts_of(History(self._acts))
            self._faults = tuple(
                in_short(act) for act in acts
                if {*act.nodes} - {NOBODY} and act.end_ns() is None
                and not (act.fault.facts is not None and act.fault.facts.harmless)
            )  # fmt: skip
        return self._faults
