"""HA master: sends its log to slaves, and knows up to where each has it.

From the acknowledgements follows the rest: which sends are answered, what consumers may read
(confirmOffset), and which change of the SyncStateSet to ask the controller for
(`maxq.reference.broker.replication.sync_state_set`). One object serves a broker for life; `Lead`
and `Resign` begin and end a term. Slaves' connections are numbered by the shell and never reused.

Transfers carry no bytes here: `SendLog` says which piece of the log to send under which label. A
piece never crosses a file, a batch size or an epoch, so the label is exact, and each epoch without
bytes gets an empty transfer of its own; so a slave learns the master's list entry by entry.
(RocketMQ labels the last piece of an epoch with the next one, and keeps no such epochs.) At most
`window_bytes` of one slave are on the way without acknowledgement, which bounds every buffer.

Waiting sends. With allAckInSyncStateSet all members are waited for, and those of every proposal
that may be applied; once the set has shrunk to one, RocketMQ acknowledges with that one, but here
minInSyncReplicas holds to the end. Without, inSyncReplicas counts this broker and distinct slaves
of the set. What is given up (time-out, end of the term) may survive or not: FLUSH_SLAVE_TIMEOUT.

"Caught up" is a time: the last one at which the slave had all that the master had. RocketMQ sets
it to now whenever nothing is left to *send*, so a slave that takes all and acknowledges nothing
stays.

Offsets are bytes of the commit log, ends exclusive; times are ns of this node's monotonic clock.
Claims: S6, S9, S10, S14, S14b. Source: docs/spec/controller-ha.md 4.4, 5.1 to 5.5, 6.5; RocketMQ
``AutoSwitchHAConnection``, ``AutoSwitchHAService``, ``GroupTransferService``.
"""

from dataclasses import dataclass, field
from typing import assert_never

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication import sync_state_set as sets
from maxq.reference.broker.replication.claimed_ids import ClaimedIds
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.broker.replication.ha_master_events import (
    Accepted,
    Acknowledge,
    Answered,
    Await,
    Close,
    Confirm,
    Effect,
    Event,
    GiveUp,
    Known,
    Lead,
    Lost,
    Received,
    Reply,
    Resign,
    SendLog,
    Timeout,
    Trace,
    Trimmed,
    Written,
)
from maxq.reference.broker.replication.ha_progress import SlaveProgress
from maxq.reference.broker.replication.ha_settings import MasterSettings
from maxq.reference.broker.replication.sync_state_set import (
    SyncStateSet,
)
from maxq.reference.broker.replication.waiting import Waiting
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset, invariant
from maxq.reference.wire.ha import (
    EPOCHS_MAX,
    MasterHandshake,
    SlaveAck,
    SlaveHandshake,
)

LINKS_MAX = 64
NO_EPOCHS = MasterEpoch(-1)


@dataclass(slots=True)
class HaMaster:
    """The master side of one broker."""

    broker_id: BrokerId
    settings: MasterSettings
    leading: bool = False
    master_epoch: MasterEpoch = MasterEpoch(0)
    epochs: Epochs = ()
    start: PhyOffset = PhyOffset(0)
    end: PhyOffset = PhyOffset(0)
    counted: PhyOffset = PhyOffset(0)
    alone: PhyOffset = PhyOffset(0)
    confirm: PhyOffset = PhyOffset(0)
    began: PhyOffset = PhyOffset(0)  # end of the log when the term began
    links: dict[int, SlaveProgress] = field(default_factory=dict)
    _set: SyncStateSet = field(init=False)
    _check_at_ns: int = 0
    _waiting: Waiting = field(init=False)
    _claimed: ClaimedIds = field(init=False)

    def __post_init__(self) -> None:
        self._set = SyncStateSet(me=self.broker_id, timing=self.settings.join)
        self._waiting = Waiting(wait_ns=self.settings.wait_ns)
        self._claimed = ClaimedIds(return_ns=2 * self.settings.heartbeat_ns)

    # Questions.

    @property
    def members(self) -> frozenset[BrokerId]:
        """The SyncStateSet, as the controller last said."""
        return self._set.members

    @property
    def sync_state_set_epoch(self) -> int:
        return self._set.epoch

    @property
    def in_sync_count(self) -> int:
        """What minInSyncReplicas is compared with before an append."""
        return len(self._set.in_question())

    @property
    def copied(self) -> PhyOffset:
        """Up to here every member of the SyncStateSet, and of a proposal that may be applied, has
        the log; its start where that is not known of one of them."""
        everywhere = sets.confirmed(
            self._set.waited_for(), self.broker_id, self.counted, self._acked()
        )
        return self.start if everywhere is None else PhyOffset(max(everywhere, self.start))

    def stands_on(self, refused: int) -> bool:
        """Whether a lost proposal stays open though `refused`, a later one, was turned down: sends
        wait for its members, and only a new term decides what became of it."""
        return self._set.open_beside(refused)

    def next_deadline_ns(self) -> int | None:
        """When `Timeout` is due."""
        if not self.leading:
            return None
        due = [self._check_at_ns]
        settings = self.settings
        for link in self.links.values():
            due.append(link.heard_ns + settings.housekeeping_ns)
            if link.acked is not None:
                due.append(link.wrote_ns + settings.heartbeat_ns)
        others = (self._waiting.next_deadline_ns(), self._set.next_deadline_ns())
        return min(due + [at for at in others if at is not None])

    def step(self, now_ns: int, event: Event) -> list[Effect]:
        """Take one event; return what to do, in this order."""
        match event:
            case Lead():
                return self._on_lead(now_ns, event)
            case Resign():
                return self._on_resign()
            case Written():
                return self._on_written(now_ns, event)
            case Accepted():
                return self._on_accepted(now_ns, event)
            case Received():
                return self._on_received(now_ns, event)
            case Lost():
                link = self.links.pop(event.link, None)
                return [] if link is None else self._review(now_ns)
            case Known():
                return self._on_known(now_ns, event)
            case Answered():
                if not self._set.answered(now_ns, event.number, event.outcome):
                    return [Trace(name="ha.answer.ignored", why="no longer open")]
                return self._review(now_ns)
            case Await():
                return self._on_await(now_ns, event)
            case Trimmed():
                return self._on_trimmed(now_ns, event)
            case Timeout():
                return self._on_timeout(now_ns)
            case _:
                assert_never(event)

    # Terms.

    def _on_lead(self, now_ns: int, lead: Lead) -> list[Effect]:
        if lead.master_epoch <= self.master_epoch:
            return [Trace(name="ha.lead.ignored", why="not a newer master epoch")]
        invariant(policy.last_epoch(lead.epochs) == lead.master_epoch,
                  "S8: a term begins with its epoch saved", lead=lead)  # fmt: skip
        invariant(lead.end >= self.end or not self.leading, "a master's log only grows", lead=lead)
        effects = [] if self.leading else self._on_resign()
        for link in self.links.values():
            label = self.epochs[link.label]
            link.label = lead.epochs.index(label)
        self.leading, self.master_epoch, self.epochs = True, lead.master_epoch, lead.epochs
        self.start, self.end, self.counted = lead.start, lead.end, lead.counted
        self.alone = lead.counted
        self.began = lead.end
        self._set.begin(lead.master_epoch, lead.members, lead.sync_state_set_epoch)
        self._check_at_ns = now_ns + self.settings.check_ns
        # What a former term confirmed here may have been cut since.
        self.confirm = min(self.confirm, lead.end)
        effects += self._pump_all(now_ns)
        return effects + self._review(now_ns)

    def _on_resign(self) -> list[Effect]:
        effects: list[Effect] = [Close(link=number) for number in self.links]
        effects += [GiveUp(ticket=t, why="no longer master") for t in self._waiting.clear()]
        self.links.clear()
        self.leading = False
        return effects

    # The log.

    def _on_written(self, now_ns: int, event: Written) -> list[Effect]:
        if not self.leading:
            return [Trace(name="ha.written.ignored", why="not master")]
        invariant(event.end >= self.end, "a master's log only grows", event=event, end=self.end)
        invariant(self.counted <= event.counted <= event.end, "what counts is there", event=event)
        if event.end > self.end:
            for link in self.links.values():
                if link.acked == self.end:  # it had everything until now
                    link.caught_up_ns = link.mark_ns = now_ns
                    link.mark = event.end
        self.end, self.counted = event.end, event.counted
        self.alone = max(event.alone, event.counted)
        return self._pump_all(now_ns) + self._advance()

    def _on_trimmed(self, now_ns: int, event: Trimmed) -> list[Effect]:
        if not self.leading or event.start <= self.start:
            return [Trace(name="ha.trimmed.ignored", why="not master, or not new")]
        behind = [n for n, link in self.links.items() if link.lacks(event.start)]
        effects = [e for n in behind for e in self._close(now_ns, self.links[n], "log trimmed")]
        gone = len(self.epochs) - len(event.epochs)
        self.start, self.epochs = event.start, event.epochs
        for link in self.links.values():
            link.label = max(link.label - gone, 0)
        return effects

    def _pump_all(self, now_ns: int) -> list[Effect]:
        return [e for link in self.links.values() for e in self._pump(now_ns, link)]

    def _pump(self, now_ns: int, link: SlaveProgress) -> list[Effect]:
        """Send what may be sent; each epoch that begins on the way gets a transfer."""
        effects: list[Effect] = []
        while link.acked is not None:
            entered = link.enter_epoch(self.epochs)
            size = link.sendable(self.epochs, self.end, self.settings)
            if not size and not entered:
                break
            effects.append(self._send(now_ns, link, size))
        return effects

    def _send(self, now_ns: int, link: SlaveProgress, size: int) -> SendLog:
        return link.sent(now_ns, size, self.epochs, self.confirm)

    # Slaves.

    def _on_accepted(self, now_ns: int, event: Accepted) -> list[Effect]:
        if not self.leading or len(self.links) >= LINKS_MAX:
            return [Close(link=event.link), Trace(name="ha.slave.refused", why="no room, or slave")]
        self.links[event.link] = SlaveProgress(
            number=event.link, heard_ns=now_ns, wrote_ns=now_ns, mark_ns=now_ns, host=event.host
        )
        return []

    def _on_received(self, now_ns: int, event: Received) -> list[Effect]:
        link = self.links.get(event.link)
        if link is None:
            return [Trace(name="ha.packet.ignored", why="connection closed")]
        link.heard_ns = now_ns
        match event.packet:
            case SlaveHandshake():
                return self._on_handshake(now_ns, link, event.packet)
            case SlaveAck():
                return self._on_ack(now_ns, link, event.packet.offset)
            case _:
                assert_never(event.packet)

    def _on_handshake(
        self, now_ns: int, link: SlaveProgress, hello: SlaveHandshake
    ) -> list[Effect]:
        if link.acked is not None or hello.broker_id == self.broker_id or hello.broker_id < 1:
            return self._close(now_ns, link, "handshake in transfer, or of an impossible id")
        older = self._link_of(hello.broker_id)
        effects: list[Effect] = []
        if older is not None and older is not link:
            fault = self._claimed.fault(
                now_ns, hello.broker_id, link.host, holder=older.host, heard_ns=older.heard_ns
            )
            if fault:
                return self._refuse(link, f"{hello.broker_id} at {link.host}: {fault}")
            del self.links[older.number]
            effects.append(Close(link=older.number))
        link.slave = hello.broker_id
        link.learner, link.from_last_file = hello.async_learner, hello.sync_from_last_file
        reply = MasterHandshake(
            max_offset=self.end,
            last_epoch=self.epochs[-1].epoch if self.epochs else NO_EPOCHS,
            epochs=self.epochs[-EPOCHS_MAX:],
        )
        link.wrote_ns, link.replied = now_ns, reply.last_epoch
        return [*effects, Reply(link=link.number, packet=reply)]

    def _refuse(self, link: SlaveProgress, why: str) -> list[Effect]:
        """Close a connection that has no part in anything yet."""
        del self.links[link.number]
        return [Close(link=link.number), Trace(name="ha.slave.refused", why=why)]

    def _on_ack(self, now_ns: int, link: SlaveProgress, offset: PhyOffset) -> list[Effect]:
        first = link.acked is None
        fault = self._begin(link, offset) if first else link.ack_fault(offset)
        if fault:
            return self._close(now_ns, link, fault)
        if first:
            link.mark, link.mark_ns = self.end, now_ns
        link.acked = offset
        link.note_progress(now_ns, offset, self.end)
        effects = self._pump(now_ns, link)
        if first and not effects:  # so that epoch and confirmOffset are known at once
            effects.append(self._send(now_ns, link, 0))
        effects += self._advance()
        return effects + self._expand(now_ns, link)

    def _begin(self, link: SlaveProgress, request: PhyOffset) -> str:
        size = self.settings.file_size
        last_file = PhyOffset(max(self.end - self.end % size, self.start))
        return link.begin(
            request, start=self.start, end=self.end, last_file=last_file, epochs=self.epochs
        )

    def _close(self, now_ns: int, link: SlaveProgress, why: str) -> list[Effect]:
        del self.links[link.number]
        closed: list[Effect] = [
            Close(link=link.number),
            Trace(name="ha.slave.closed", why=f"{link.slave}: {why}"),
        ]
        return closed + self._review(now_ns)

    def _link_of(self, slave: BrokerId) -> SlaveProgress | None:
        return next((link for link in self.links.values() if link.slave == slave), None)

    def _acked(self) -> dict[BrokerId, int]:
        """Acknowledgements by slave; a slave has one connection. Learners do not count."""
        return {
            link.slave: link.acked
            for link in self.links.values()
            if link.slave is not None and link.acked is not None and not link.learner
        }

    # Waiting sends and confirmOffset.

    def _on_await(self, now_ns: int, event: Await) -> list[Effect]:
        if not self.leading or event.master_epoch != self.master_epoch:
            return [GiveUp(ticket=event.ticket, why="no longer master")]
        self._waiting.add(now_ns, event.ticket, event.end)
        if self.settings.all_ack and event.end > self.confirm and not self._is_alone():
            return []  # not everywhere yet: confirmOffset is as far as everybody was at each step
        return self._advance()

    def _advance(self) -> list[Effect]:
        """Answer what has its replicas, and move confirmOffset, which never goes back."""
        acked, waited_for = self._acked(), self._set.waited_for()
        everywhere = sets.confirmed(waited_for, self.broker_id, self.counted, acked)
        readable = everywhere if self.settings.all_ack else self.counted
        effects: list[Effect] = []
        if readable is not None and readable > self.confirm:
            self.confirm = PhyOffset(readable)
            effects.append(Confirm(offset=self.confirm))
        if self._waiting:
            safe = self._safe(everywhere, acked)
            effects += [Acknowledge(ticket=ticket) for ticket in self._waiting.reached(safe)]
        return effects

    def _is_alone(self) -> bool:
        """Whether no replica is waited for but this one."""
        return self._set.waited_for() == {self.broker_id}

    def _safe(self, everywhere: int | None, acked: dict[BrokerId, int]) -> int:
        """Up to where sends may be acknowledged; -1 for none."""
        settings = self.settings
        if settings.all_ack:
            enough = self.in_sync_count >= settings.min_in_sync_replicas
            if everywhere is None or not enough:
                return -1
            return self.alone if self._is_alone() else everywhere
        if settings.in_sync_replicas <= 1:
            return self.alone
        slaves = self.members - {self.broker_id}
        offset = sets.reached(slaves, acked, settings.in_sync_replicas - 1)
        return -1 if offset is None else min(offset, self.counted)

    # The SyncStateSet.

    def _on_known(self, now_ns: int, known: Known) -> list[Effect]:
        taken = self.leading and self._set.adopt(
            known.master_epoch, known.members, known.sync_state_set_epoch
        )
        if not taken:
            return [Trace(name="ha.set.ignored", why="older, or of another term")]
        return self._review(now_ns)

    def _expand(self, now_ns: int, link: SlaveProgress) -> list[Effect]:
        """After an acknowledgement: hold a slave that is nearly there, propose it when it is."""
        slave, acked = link.slave, link.acked
        if slave is None or acked is None or link.learner or slave in self.members:
            return []
        near = self.end - acked <= self.settings.window_bytes
        if near and acked >= self.epochs[-1].start:
            self._set.hold(now_ns, slave)
        return self._review(now_ns) if self._set.held == slave else []

    def _review(self, now_ns: int, *, laggards: bool = False) -> list[Effect]:
        """Look at the set again: who is gone, who joins; then at all that waits for it."""
        if not self.leading:
            return []
        if self._set.held is not None and self._link_of(self._set.held) is None:
            self._set.let_go(now_ns)
        gone = {m for m in sorted(self.members - {self.broker_id}) if self._is_gone(m)}
        if laggards:
            gone |= {m for m in sorted(self.members - {self.broker_id}) if self._lags(now_ns, m)}
        proposal = self._set.propose(now_ns, gone=gone, joins=self._ready())
        return ([] if proposal is None else [proposal]) + self._advance()

    def _is_gone(self, member: BrokerId) -> bool:
        link = self._link_of(member)
        return link is None or link.learner

    def _lags(self, now_ns: int, member: BrokerId) -> bool:
        link = self._link_of(member)
        if link is None or link.acked == self.end:
            return link is None
        since = link.mark_ns if link.caught_up_ns is None else link.caught_up_ns
        return now_ns - since > self.settings.not_catchup_ns

    def _ready(self) -> BrokerId | None:
        """The held slave, if it has all that was ever acknowledged or confirmed."""
        link = None if self._set.held is None else self._link_of(self._set.held)
        if link is None or link.acked is None:
            return None
        if self.settings.all_ack:
            return link.slave if link.acked >= self.confirm else None
        return link.slave if link.caught_up_ns is not None else None

    # Time.

    def _on_timeout(self, now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        settings = self.settings
        for link in list(self.links.values()):
            if now_ns >= link.heard_ns + settings.housekeeping_ns:
                effects += self._close(now_ns, link, "silent")
            elif link.acked is not None and now_ns >= link.wrote_ns + settings.heartbeat_ns:
                effects.append(self._send(now_ns, link, 0))
        why = "replicas did not acknowledge in time"
        effects += [GiveUp(ticket=t, why=why) for t in self._waiting.expired(now_ns)]
        if not self.leading:
            return effects
        self._set.due(now_ns)
        check = now_ns >= self._check_at_ns
        if check:
            self._check_at_ns = now_ns + settings.check_ns
        return effects + self._review(now_ns, laggards=check)
