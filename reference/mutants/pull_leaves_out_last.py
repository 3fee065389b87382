"""A pull that finds many messages leaves the last of them out, and says to go on behind it.

No fault is needed, and no setting excuses it: anyone who reads in large pieces never sees one
message in each. Breaks S16.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maxq.reference.broker.messages import pull
from maxq.reference.broker.messages.pull import Found
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.codes import ResponseCode

FAMILY = "confirm"
CLAIM = "S16"
SOURCE = "a nextBeginOffset that counts what was looked at, and not what is returned"
MANY = 8


@contextmanager
def mutant() -> Iterator[None]:
    """Drop the last of many units, and keep the offset to go on from."""
    honest = pull.find

    def find(*args: Any, **kwargs: Any) -> Found:
        ran(__name__)
        found = honest(*args, **kwargs)
        if found.code != ResponseCode.SUCCESS or len(found.units) < MANY:
            return found
        diverged(__name__)
        return Found(
            code=found.code,
            remark=found.remark,
            units=found.units[:-1],
            next_offset=found.next_offset,
        )

    with replaced(pull, "find", find):
        yield
