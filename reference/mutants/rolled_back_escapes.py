"""A slave that sends open half messages on as if they were committed.

The target delivers them at once and asks nobody, those too that producers roll back. Breaks E8.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from maxq.reference.broker.escape import escape, half_escape
from maxq.reference.mutants import diverged, replaced
from maxq.reference.wire import property as props
from maxq.reference.wire.message import TRANSACTION_MASK, Message

FAMILY = "escape"
CLAIM = "E8"
SOURCE = "the hazard of EscapeBridge.putMessage without TRAN_MSG; docs/spec/acting-master.md 4"


@contextmanager
def mutant() -> Iterator[None]:
    """Leave out what makes it a half message."""
    honest = escape.half_copy

    def half_copy(waiting: Message) -> tuple[str, Message] | None:
        made = honest(waiting)
        if made is None:
            return None
        diverged(__name__)
        topic, copy = made
        properties = copy.property_map()
        properties.pop(props.TRAN_MSG)
        return topic, msgspec.structs.replace(
            copy,
            sys_flag=copy.sys_flag & ~TRANSACTION_MASK,
            properties=props.encode(properties),
        )

    with replaced(half_escape, "half_copy", half_copy):
        yield
