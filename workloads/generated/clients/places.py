"""Where something is planted: operations in order of preference."""

import numpy as np

from maxq.workloads.generated.asked.request import At
from maxq.workloads.generated.columns.rows import Ints


def ordered(
    inv: Ints, able: Ints, unsure: Ints, at: At, cut: int, rng: np.random.Generator
) -> list[int]:
    """Operations, the best first.

    Args:
        inv: when each of a round begins, ns.
        able: those that can be chosen.
        unsure: when those of unknown outcome begin.
        at: where to plant.
        cut: when a master was killed; -1: never.
        rng: for what is open.
    """
    times = inv[able]
    if at == "first":
        order = np.argsort(times)
    elif at == "last":
        order = np.argsort(-times)
    elif at == "fail-over" and cut >= 0:
        order = np.argsort(np.abs(times - cut))
    elif at == "info" and len(unsure) and len(able):
        order = np.argsort(_distance(times, np.sort(unsure)))
    else:
        order = rng.permutation(len(able))
    found: list[int] = able[order].tolist()
    return found


def _distance(times: Ints, to: Ints) -> Ints:
    after = np.clip(np.searchsorted(to, times), 0, len(to) - 1)
    prior = np.clip(after - 1, 0, len(to) - 1)
    near: Ints = np.minimum(np.abs(to[after] - times), np.abs(to[prior] - times))
    return near
