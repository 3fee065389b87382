"""Who becomes master: one pure policy.

A candidate must be registered and alive. The SyncStateSet comes first, because only its members
are known to hold every acknowledged message; others are taken only if unclean election is allowed.
The old master is kept if it can be. Otherwise the one with the highest epoch, then the longest
log, then the lowest priority number, then the lowest id wins. Claims: S7.

Source: RocketMQ ``DefaultElectPolicy``; unlike it, a preferred replica outside the SyncStateSet
never wins over a living member, and equal candidates are ordered by id.
"""

from maxq.reference.records import BrokerId, Record


class Candidate(Record):
    """A living broker, by its last heartbeat. `max_offset` is bytes of log, ends exclusive."""

    broker_id: BrokerId
    epoch: int = -1
    max_offset: int = -1
    priority: int = 2**31 - 1  # lower wins


def choose(
    *,
    registered: tuple[int, ...],
    sync_state_set: tuple[int, ...] | None,
    alive: tuple[Candidate, ...],
    old_master: int | None,
    preferred: int | None,
    designate: bool,
    unclean: bool,
) -> int | None:
    """Choose a master.

    Args:
        registered: all ids of the set.
        sync_state_set: None before the first election of the set, when every registered broker
            may win: there is no acknowledged message yet.
        alive: who answered lately; ids outside `registered` do not count.
        old_master: the recorded master, alive or not.
        preferred: who asked; wins among equals only before the first election or if `designate`.
        designate: an operator's order: `preferred` or none.
        unclean: whether a replica outside the SyncStateSet may win when no member lives.

    Returns:
        The new master's id, the old master's if it stays, or None if no broker may be master.
    """
    living = [c for c in alive if c.broker_id in registered]
    safe = registered if sync_state_set is None else sync_state_set
    chosen = _best([c for c in living if c.broker_id in safe], old_master, preferred, designate)
    if chosen is None and unclean:
        chosen = _best(living, old_master, preferred, designate)
    return chosen


def _best(
    candidates: list[Candidate], old_master: int | None, preferred: int | None, designate: bool
) -> int | None:
    ids = {c.broker_id for c in candidates}
    if designate:
        return preferred if preferred in ids else None
    if old_master in ids:
        return old_master
    if not candidates:
        return None
    best = max(
        candidates,
        key=lambda c: (
            c.epoch, c.max_offset, -c.priority, c.broker_id == preferred, -c.broker_id
        ),
    )  # fmt: skip
    return best.broker_id
