"""What is asked of a history that keeps to a model, but for what is planted."""

from collections.abc import Mapping

import msgspec

from maxq.workloads.generated.asked.request import Refusal

# What a server gets wrong, by what it does to one call.
ANOMALIES: Mapping[str, str] = {
    "stale-answer": "a call is answered from an earlier state, as by a replica that lags",
    "lost-effect": "a call is acknowledged and has no effect",
    "double-effect": "a call takes effect twice, as one that was sent again",
    "failed-effect": "a call takes effect, and is said to have failed",
}
OPS_MAX, CONCURRENCY_MAX, KEYS_MAX, INFO_MAX = 100_000_000, 500, 1000, 0.5
JUDGED_MAX = 1_000_000  # operations that a model judges, to see whether what is planted shows


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to make: `ops` operations of `concurrency` clients on `keys` objects (of transactions:
    on so many keys at a time); `info` the share of them without an answer; `values` from how many
    values those that are written are drawn (0: each is its own); `anomalies` how many of each kind
    to plant."""

    model: str
    ops: int
    concurrency: int = 10
    info: float = 0.05
    keys: int = 1
    values: int = 0
    anomalies: Mapping[str, int] = {}
    seed: int = 0

    def checked(self) -> "ModelRequest":
        """The same.

        Raises:
            Refusal: it cannot be done.
        """
        for name, value, least, most in (
            ("ops", self.ops, 1, OPS_MAX), ("concurrency", self.concurrency, 1, CONCURRENCY_MAX),
            ("info", self.info, 0, INFO_MAX), ("keys", self.keys, 1, KEYS_MAX),
            ("values", self.values, 0, OPS_MAX),
        ):  # fmt: skip
            if not least <= value <= most:
                raise Refusal(f"--{name} {value}: {least} to {most}")
        for name, count in self.anomalies.items():
            if name not in ANOMALIES:
                raise Refusal(f"{name} is not planted in models; there are: {', '.join(ANOMALIES)}")
            if count < 1:
                raise Refusal(f"{name}={count}: at least 1")
        return self
