"""How busy a broker is: messages in and out, counted and as rates. Pure.

Counts are since the start of the process; RocketMQ begins its own at midnight of its time zone,
so "today" in `mqadmin clusterList -m` is "since the start" here. Rates are a second's, over the
last 10, 60 and 600 s as far as they are known. Times are ns of this node's monotonic clock.
Source: RocketMQ ``StoreStatsService``, ``AdminBrokerProcessor.prepareRuntimeInfo``.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

SAMPLE_S = 1.0
WINDOWS_S = (10, 60, 600)
SAMPLES_MAX = WINDOWS_S[-1] + 1


class Sample(NamedTuple):
    """Counts at one time."""

    at_ns: int
    put: int
    found: int  # pulls that found messages
    missed: int  # and that found none
    transferred: int  # messages


@dataclass(slots=True)
class Metrics:
    """What one broker has done."""

    put: int = 0
    put_bytes: int = 0
    found: int = 0
    missed: int = 0
    transferred: int = 0
    _samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))

    def on_put(self, messages: int, size: int) -> None:
        """Messages were stored."""
        self.put += messages
        self.put_bytes += size

    def on_pull(self, messages: int) -> None:
        """A pull was answered."""
        self.transferred += messages
        self.found += messages > 0
        self.missed += not messages

    def sample(self, now_ns: int) -> None:
        """Note the counts; call every `SAMPLE_S`."""
        self._samples.append(Sample(now_ns, self.put, self.found, self.missed, self.transferred))

    def table(self) -> dict[str, str]:
        """The metrics by RocketMQ's names."""
        return {
            "getFoundTps": self._rates("found"),
            "getMissTps": self._rates("missed"),
            "getTotalTps": self._rates("found", "missed"),
            "getTransferredTps": self._rates("transferred"),
            "msgGetTotalTodayMorning": "0",
            "msgGetTotalTodayNow": str(self.transferred),
            "msgGetTotalYesterdayMorning": "0",
            "msgPutTotalTodayMorning": "0",
            "msgPutTotalTodayNow": str(self.put),
            "msgPutTotalYesterdayMorning": "0",
            "putMessageAverageSize": str(self.put_bytes / self.put if self.put else 0.0),
            "putMessageSizeTotal": str(self.put_bytes),
            "putMessageTimesTotal": str(self.put),
            "putTps": self._rates("put"),
        }

    def _rates(self, *names: str) -> str:
        """Rates over each window, the last one over what is known if it is less."""
        rates: list[float] = []
        for window in WINDOWS_S:
            if len(self._samples) < 2:
                break
            last = self._samples[-1]
            first = self._samples[max(0, len(self._samples) - 1 - window)]
            count = sum(getattr(last, n) - getattr(first, n) for n in names)
            rates.append(count * 1e9 / (last.at_ns - first.at_ns))
            if window >= len(self._samples):
                break
        return " ".join(str(r) for r in rates or [0.0])
