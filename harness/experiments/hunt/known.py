"""What a known anomaly is, and what all of them have in common."""

from typing import NamedTuple

OURS, BY_DESIGN, UNCLASSIFIED = "ours", "by design", "unclassified"
TRACK = "new: docs/track-record.md"


class Known(NamedTuple):
    """An anomaly that was looked into. `is_` is ``ours``, ``by design`` (of what the profile
    asks for), ``upstream #n``, or where it is described; `what` no other one has; `shown` is the
    cause that must fit (`by_mode.TIES`), empty: none is needed."""

    signatures: tuple[str, ...]
    targets: tuple[str, ...]
    is_: str
    what: str
    shown: str = ""
