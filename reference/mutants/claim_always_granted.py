"""A controller that answers every claim of an id with success, no matter who owns it.

RocketMQ's leader judges a claim on its own state before it goes into the log, and what is found out
when it is applied (the id went to another broker meanwhile) is ignored: the answer is success all
the same. Two brokers that ask for the next id at one moment then hold it both. (Not the first id:
with two masters of one id no cluster would come up.) Breaks S1.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.controller.registry import OK, ApplyBrokerId, Registry, Result
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "registration"
CLAIM = "S1"
SOURCE = (
    "RocketMQ's claim is checked before it is appended, and not when applied "
    "(docs/spec/controller-ha.md 6.4 (H11))"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Say yes."""
    honest = Registry._apply_broker_id

    def _apply_broker_id(self: Registry, c: ApplyBrokerId) -> Result:
        ran(__name__)
        result = honest(self, c)
        if result.code != OK.code and c.check_code and c.broker_id > 1:
            diverged(__name__)
            return OK
        return result

    with replaced(Registry, "_apply_broker_id", _apply_broker_id):
        yield
