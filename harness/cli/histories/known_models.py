"""Every model that there is: Max-Q's own, and those of plug-ins."""

from collections.abc import Mapping, Sequence

from maxq.checkers.linearizability.model import Model
from maxq.harness.contracts.plugins import current


def known_models() -> Mapping[str, Model]:
    """By name, in order of names."""
    from maxq.checkers.models.catalogue import models  # numpy, for those who ask for one

    return dict(sorted({**models(), **current().models}.items()))


def consistency_models() -> Sequence[str]:
    """What may be asked of transactions."""
    from maxq.checkers.transactions.levels import NAMES

    return NAMES
