"""Entries of runs that never were, for tests of what is said of many."""

from typing import Any

from maxq.checkers.availability.recovery import Recovery
from maxq.checkers.judgement.lost import Lost
from maxq.harness.experiments.nights.nights import Night
from maxq.harness.experiments.overview.entries import Entry

SETTINGS = {"workload": "queue", "nemesis": "kill", "env": "docker", "target": "rocketmq:5.5.0"}


def run(
    n: int = 0, *, lost: int | None = 0, took_s: tuple[float | None, ...] = (), **given: Any
) -> Entry:
    """A run, valid and with nothing lost of 100 messages unless a test says otherwise."""
    claims = given.pop("claims", {"S6": "kept"})
    settings = {**SETTINGS, "seed": str(n), **given.pop("settings", {})}
    state = "invalid" if "broken" in claims.values() else "valid"
    return Entry(**{
        "name": f"queue/{n}", "state": state, "said": "", "started": "2026-11-30 02:00:00",
        "settings": settings, "claims": claims,
        "messages": Lost(lost=lost, acknowledged=100, why=""),
        "recoveries": tuple(map(recovery, took_s)), **given,
    })  # fmt: skip


def recovery(took_s: float | None) -> Recovery:
    after_ns = None if took_s is None else round(took_s * 1e9)
    return Recovery(act=0, op=1, f="kill", node="b0-0", part="master", at_ns=10**9,
                    after_ns=after_ns, sent_ns=10**10, failed_over=False)  # fmt: skip


def nights(*each: list[Entry]) -> list[Night]:
    return [Night(f"night {n}", tuple(runs)) for n, runs in enumerate(each, start=1)]
