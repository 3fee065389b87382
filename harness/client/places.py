"""What a broker without controllers says of its place in its group, in its answer to 28.

Our brokers say it by keys of their own. RocketMQ's say neither their id nor their role, and both
are settings, permanently: a set's first replica is its master. They say whether something runs
there that only masters do (brokerActive: delayed messages and checks of transactions, or revival).
So a slave where it does acts. Of a master it says nothing: revival runs at one that is not online,
too, and only name servers show whether it is.

Source: docs/spec/acting-master.md 3 and 5; of RocketMQ, answers of 5.5.0.
"""

from collections.abc import Mapping

import msgspec

ROLE, ACTING, ISOLATED = "maxq.role", "maxq.acting", "maxq.isolated"
COPYING = "maxq.copying"
DELAY = (
    "scheduleMessageOffset_"  # and a level; of both: how far it is delivered, and its queue's end
)
ACTIVE = "brokerActive"
YES = "true"


class Place(msgspec.Struct, frozen=True):
    """Whether a broker leads, acts for its master, is not in its group yet, and, a slave, copies a
    log; unset: unknown."""

    leads: bool
    acting: bool | msgspec.UnsetType
    isolated: bool | msgspec.UnsetType
    copying: bool | msgspec.UnsetType = msgspec.UNSET


def place(table: Mapping[str, str], *, first: bool) -> Place:
    """What an answer means.

    Args:
        table: of the answer.
        first: whether the broker is its set's first replica.
    """
    if ROLE in table:
        copying = _said(table, COPYING) if COPYING in table and not first else msgspec.UNSET
        return Place(table[ROLE] == "master", _said(table, ACTING), _said(table, ISOLATED), copying)
    if ACTIVE not in table:
        return Place(first, msgspec.UNSET, msgspec.UNSET)
    return Place(first, not first and table[ACTIVE] == YES, msgspec.UNSET)


def _said(table: Mapping[str, str], key: str) -> bool:
    return table.get(key) == YES


def delays(table: Mapping[str, str]) -> dict[str, tuple[int, int]] | msgspec.UnsetType:
    """How far each delay level is delivered, and where its queue ends, by the level in decimal;
    unset where the answer names none. What is no pair of numbers is left out."""
    found: dict[str, tuple[int, int]] = {}
    for key, value in table.items():
        at, comma, end = value.partition(",")
        if key.startswith(DELAY) and comma and at.isdecimal() and end.isdecimal():
            found[key.removeprefix(DELAY)] = int(at), int(end)
    return found or msgspec.UNSET
