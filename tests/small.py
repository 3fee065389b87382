"""The smallest run that is still a run: one workload, one fault, three brokers on their own."""

from typing import Any

SMALL: dict[str, Any] = {
    "workload": ("queue",),
    "nemesis": ("kill",),
    "profile": "P-ALL",
    "controllers": 1,
    "broker_sets": 3,
    "replicas": 1,
    "rate": 100.0,
    "concurrency": 6,
}
SMALL_ARGS = (
    *("--workload", "queue", "--nemesis", "kill", "--profile", "all", "--controllers", "1"),
    *("--broker-sets", "3", "--replicas", "1", "--rate", "100", "--concurrency", "6"),
)
