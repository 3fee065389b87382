"""How late this process itself is: a harness that cannot keep time cannot judge a cluster's.

A task asks to be woken every 20 ms and notes by how much it is late. A machine that was paused for
a second was late fifty times, each time less. What it found is part of the history (``ext`` of
await-recovery), where checkers look it up. Units: milliseconds. Source: the counting of Gil Tene's
HdrHistogram against coordinated omission.
"""

import asyncio

EVERY_S = 0.02


class Lateness:
    """Measures from `watch` on."""

    def __init__(self) -> None:
        self._late: list[float] = []

    async def watch(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += EVERY_S
            await asyncio.sleep(due - loop.time())
            due += EVERY_S * (self.note(loop.time() - due) - 1)

    def note(self, late_s: float) -> int:
        """Woken so late, which stands for so many wake-ups: returns how many."""
        late_s = max(0.0, late_s)
        count = max(1, round(late_s / EVERY_S))
        self._late.extend(late_s - EVERY_S * n for n in range(count))
        return count

    def told(self) -> dict[str, float]:
        """Quantiles so far, and of how many wake-ups; empty of none."""
        found = sorted(self._late)
        if not found:
            return {}
        return {
            "p50": _ms(found[len(found) // 2]),
            "p99": _ms(found[min(len(found) - 1, int(len(found) * 0.99))]),
            "max": _ms(found[-1]),
            "wakes": len(found),
        }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
