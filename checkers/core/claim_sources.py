"""Who decides what was promised, where RocketMQ's documents, its code and our claims can differ.

A claim is what RocketMQ's documents promise under settings that they name. Where documents are
silent, its code decides; where code breaks what a document promises, the document decides, and the
run is invalid: that is a bug of the release. What we demand beyond both is marked as ours. The list
is part of `docs/claims.md` (`maxq.checkers.core.claims`); what was seen is in
`docs/track-record.md`.

Documents, of apache/rocketmq: deploy.md, design.md and persistent_unique_broker_id.md below
``docs/en/controller``, SlaveActingMasterMode.md below ``docs/cn``. Numbers with # are its issues
and pull requests. What is said of code was read in 5.1 to 5.5 (docs/spec/controller-ha.md 6.2 to
6.4, docs/spec/acting-master.md 8, docs/spec/releases.md) or run.
"""

import msgspec


class Decision(msgspec.Struct, frozen=True):
    """`source`: what decides. `truth`: what RocketMQ does in truth, and what we make of it."""

    source: str
    truth: str

    def __str__(self) -> str:
        return f"decided by {self.source}. {self.truth}"


DOCUMENT, CODE, OURS = "the document", "the code", "us"


DECISIONS: dict[str, Decision] = {
    "S1": Decision(
        f"{DOCUMENT}, persistent_unique_broker_id.md",
        "RocketMQ gives an id out again once the last member of a set was cleaned away; that "
        "is excepted. With DLedger it may answer two applicants alike after an append that "
        "timed out, as it checks before the append. That breaks the claim.",
    ),
    "S2": Decision(
        f"{DOCUMENT}, persistent_unique_broker_id.md",
        "5.1.1 to 5.5.0 write `brokerIdentity` without a sync. A broker that finds it empty "
        "after a loss of power takes a new id, which breaks the claim. Before 5.1.1 the "
        "address is the identity: the claim is not judged.",
    ),
    "S2b": Decision(
        f"{DOCUMENT}, persistent_unique_broker_id.md",
        "RocketMQ's brokers look for their address when they start, so one whose address "
        "changes is started again; nothing is asked of a live one.",
    ),
    "S15": Decision(
        f"{OURS}: no document says that a node may end by itself",
        "RocketMQ's container ends when a broker of its file cannot start. One that is added "
        "meanwhile can cause that.",
    ),
    "B5": Decision(
        f"{OURS}: no document says what brokers of one container share",
        "RocketMQ's brokers of a container share one channel to each name server. When a request "
        "of one times out the channel closes, and name servers drop all of them.",
    ),
    "B6": Decision(
        f"{OURS}: no document says what a failed addition leaves",
        "RocketMQ binds the three ports in three places. Where the fast port is taken the main "
        "one stays reserved in its container.",
    ),
    "B7": Decision(
        f"{CODE}: the file is not written when a broker is added or removed",
        "RIP-31 does not say what a container starts with after an addition.",
    ),
    "S3": Decision(
        f"{DOCUMENT}, design.md",
        "Its controllers count up for an attempt that finds no candidate, too: numbers may be "
        "left out, not come back. Nothing is promised once controllers lost their data.",
    ),
    "S3b": Decision(
        f"{OURS}: no document says how fresh an answer is",
        "RocketMQ's controllers may answer from old state after another was elected "
        "(isProcessReadEvent=false). So only the reference is judged, whose leader proves "
        "that it leads before it answers.",
    ),
    "S5": Decision(
        f"{CODE}: no document says how many masters there may be at a time",
        "An isolated master serves until a controller or a name server stops it, as it has no "
        "lease. Only the number of masters of one epoch is judged.",
    ),
    "S6": Decision(
        f"{DOCUMENT}, deploy.md: with allAckInSyncStateSet “the message is not lost”",
        "5.4.0 and 5.5.0 shrink the set by which they acknowledge before the controller has "
        "agreed (#9897) and lose messages, which breaks the claim. With ASYNC_FLUSH a loss of "
        "power may take what a member holds. With SYNC_FLUSH it may too, as a slave "
        "acknowledges before its own sync. RocketMQ promises nothing if all lose power at "
        "once; runs with that fault set SYNC_FLUSH and say so.",
    ),
    "S7": Decision(
        f"{DOCUMENT}, deploy.md on enableElectUncleanMaster",
        "RocketMQ keeps it but for the first election of a set, which takes any registered broker.",
    ),
    "S8": Decision(
        f"{DOCUMENT}, design.md, truncation algorithm",
        "RocketMQ cuts a log by moving positions only, so that bytes come back after a "
        "restart (#10666, open against 5.5.0). Its list refuses an epoch that begins at the "
        "byte of the last one, so that two masters may write under one number. Both break the "
        "claim.",
    ),
    "S9": Decision(
        f"{DOCUMENT}, deploy.md on allAckInSyncStateSet",
        "As S6: the set of 5.4.0 and 5.5.0 may hold who lacks what was acknowledged without it. "
        "Under P-NUM and P-DEFAULT an acknowledgement asks for a number of replicas and not for "
        "members, so it is only measured there.",
    ),
    "S9b": Decision(
        f"{DOCUMENT}, design.md: confirmOffset is the least that a member holds",
        "RocketMQ's master leaves out a member that is connected and has not acknowledged "
        "yet, and a set of one confirms everything. What it says it confirmed is held against "
        "it.",
    ),
    "S10": Decision(
        f"{CODE}: no document promises it; since 5.1.1 readers are kept at confirmOffset",
        "5.0.0 and 5.1.0 have no such limit; with `allAckInSyncStateSet=false` or a set of "
        "one no release has. What is read there may be lost by design.",
    ),
    "S10b": Decision(
        f"{CODE}: a transfer carries the master's confirmOffset, and a slave reads no further",
        "RocketMQ does not publish its confirmOffset, so that this is judged of the reference, and "
        "of brokers that publish it as `maxq.confirmOffset`.",
    ),
    "S11": Decision(
        f"{CODE}: queues are built from the log, up to confirmOffset",
        "5.1.1 to 5.1.4 give an offset out twice after a restart (#7689), and what S6 loses is "
        "overwritten: both break the claim.",
    ),
    "S13": Decision(
        f"{OURS}, as to the bound: documents promise a fail-over, not how soon",
        "The bound is the sum of RocketMQ's periods. With jRaft up to 5.3.3 no controller "
        "looks for silent brokers (#9717). With DLedger from 5.4.0 a wiped controller may "
        "lead and refuse everything, as its snapshot is empty. Both break the claim. A broker "
        "that does not start again after its power was lost breaks S15.",
    ),
    "S13b": Decision(
        f"{OURS}, as to the bound",
        "As S13: with jRaft up to 5.3.3 a paused master is never replaced. Up to 5.1.0 controllers "
        "know brokers by their addresses, and so do S13b, S13d, S14 and S14b there.",
    ),
    "S13d": Decision(
        f"{OURS}: no document says what goes on working during which fault",
        "RocketMQ waits for the end of a connection or for a time-out of its own. A replica "
        "that follows a deposed master keeps sends from being acknowledged meanwhile.",
    ),
    "S14": Decision(
        f"{DOCUMENT}, design.md, that who catches up is added; {OURS} as to the bound",
        "A slave of 5.5.0 that was given the deposed master's HA address stays connected to "
        "it although it learns the new one. It is outside of the set for tens of seconds, "
        "which breaks the claim.",
    ),
    "S14b": Decision(
        f"{CODE}: removal after haMaxTimeSlaveNotCatchup, looked at each checkSyncStateSetPeriod",
        "Where no client writes RocketMQ takes a member for caught up, against design.md, so "
        "20 s more. Judged with all-ack only: elsewhere no acknowledgement waits for the member.",
    ),
    "S16": Decision(
        f"{OURS}: what no setting of RocketMQ speaks of, as it is no matter of replication",
        "It was seen broken once in 5.5.0. A broker that was restarted and elected again gave "
        "an offset away a second time, and the acknowledged message at it cannot be read. "
        "#7689 is alike.",
    ),
    "S18": Decision(
        f"{DOCUMENT}, design.md: a controller elects once the channel of a master is inactive, or "
        "an operator asks",
        "How long nothing must have happened before is decided by us. With DLedger the end of "
        "an older connection of a master counts as its end, also where it has a new one. Such "
        "an election breaks the claim.",
    ),
    "A11": Decision(
        f"{OURS}: no document says that a slave which was away copies again",
        "In 5.5.0 a slave whose log ends before its master's begins, since older files were "
        "deleted, is never sent anything (#3388). That breaks the claim.",
    ),
    "N1": Decision(
        f"{CODE}: no document describes the table",
        "A name server answers 0 to a registration that it ignores; the table is judged, not the "
        "answer.",
    ),
    "N2": Decision(
        f"{CODE}: the permission goes with the master's entry",
        "An operator who adds the permission meanwhile (327), and a topic that is registered "
        "by itself (217), give it back. After `add-write` N2 and N12 are not judged of that "
        "set until the master is back. No act of a run does the other. A master that comes back "
        "under another id keeps the permission until the smallest id registers again: N2 is not "
        "judged before that is due.",
    ),
    "N5": Decision(
        f"{CODE}: who ends is taken off at the end of its connection",
        "A broker that is cut off and lives stays up to 120 s, the 5 s between looks added; so "
        "does one whose host vanished. Cuts are excepted, and processes end with their sockets.",
    ),
    "N7": Decision(
        f"{CODE}: a name server drops who lost its connection, at once",
        "RocketMQ's broker registers again when its period is over, ours at the next second. It "
        "registers with the name servers that it found to answer, for which it looks each 3 s.",
    ),
    "N9": Decision(
        f"{CODE}: name servers do not speak with each other",
        "What one has missed it learns from the brokers' next registration, or by an eviction.",
    ),
    "N10": Decision(
        f"{CODE}: a registration with a lower stateVersion is ignored",
        "RocketMQ lets a newer master wait while the entry of an older one lives: the claim "
        "begins after the recovery bound.",
    ),
    "N11": Decision(
        f"{CODE}: a name server keeps no table over a restart",
        "Until the brokers have registered it may show a part of them, and an acting master "
        "beside one that lives. That breaks nothing within the bound.",
    ),
    "N13": Decision(
        f"{CODE}: a registration with a lower stateVersion is ignored",
        "As N10. 5.0.0 and 5.1.0 register no stateVersion, and are not judged.",
    ),
    "P3": Decision(
        f"{OURS}: no document says what a master does that cannot reach a slave",
        "RocketMQ waits for ever for every member that is listed, which breaks the claim. It "
        "does not say that it is isolated, nor whether a slave copies. So P1, P2, P3 and P8 "
        "are judged where a broker of the reference takes part.",
    ),
    "P4": Decision(
        f"{OURS}: no document says what a master takes from its slaves",
        "RocketMQ goes by the version of the whole table, which moves with every 500th "
        "commit. It syncs nothing where a name server lists nobody, or a master was only cut "
        "off. All of that breaks the claim. Here the larger offset of each key stays, so that "
        "a reset backwards that was made meanwhile has to be repeated.",
    ),
    "P5": Decision(
        f"{OURS}, as P4",
        "RocketMQ puts a slave's table of the same version over the master's own, which breaks the "
        "claim after an ordinary kill.",
    ),
    "P6": Decision(
        f"{CODE}: offsets are copied beside the log, each minute, and written each 5 s",
        "5.5.0's slaves cannot read the copy once any consumer has pulled, as in O1.",
    ),
    "O1": Decision(
        f"{CODE}: nothing is promised in writing, slaves copy offsets about every 10 s",
        "5.5.0's slaves cannot read the copy once any consumer has pulled (#10284), so that after "
        "a fail-over a group starts over: that breaks the claim.",
    ),
    "E1": Decision(
        f"{DOCUMENT}, SlaveActingMasterMode.md, that an acting slave delivers delayed messages; "
        f"{OURS} as to the bound",
        "5.5.0's acting slave stops a whole level at a message that no other set has the "
        "topic of. What stands behind is not delivered while it acts, which breaks the claim.",
    ),
    "E4": Decision(
        f"{OURS}: no document says what happens to a half message that cannot be moved",
        "RocketMQ's acting slave skips it after eleven tries, within 5.5 s. The master, once "
        "it is back, continues behind it, which breaks the claim.",
    ),
    "E7": Decision(
        f"{OURS}, as to the bound: documents promise that a producer is asked, not how soon",
        "As E4, where an acting slave has no target for a while.",
    ),
    "E9": Decision(
        f"{OURS}: no document promises that a committed message comes once",
        "RocketMQ's checks write no op record for the copy before, so each copy that a slave has "
        "moves, and is committed by itself: measured there.",
    ),
    "L1": Decision(
        f"{CODE}: documents promise order to a consumer, not exclusion over a fail-over",
        "Locks are in memory. A member that restarts within a lease has forgotten its grant "
        "and may grant again, which breaks the claim in every release.",
    ),
    "L2": Decision(
        f"{CODE}, as L1",
        "A client counts 30 s from the answer, a broker 60 s from the grant. Overlaps need a "
        "forgotten table, or a clock that jumps by about half a minute.",
    ),
    "L4": Decision(
        f"{CODE}, as to what ends an overlap: a read of routes, and a renewal",
        "A Java client reads routes each 30 s and renews each 20 s; here those of the workload's "
        "clients count, 1 s each.",
    ),
    "L10": Decision(
        f"{CODE}, as L1",
        "It follows L2, and breaks where a forgotten table breaks that.",
    ),
    "L6": Decision(
        f"{OURS}, as to the time",
        "RocketMQ's brokers wait 2 s for a silent member, its clients 1 s. So nobody is "
        "granted a lock until the member has left the group. With controllers they grant none "
        "in strict mode, as they do not know the group. Judged of the reference alone.",
    ),
}
