"""The claims about who acts in a pair, what it acknowledges, and how its master returns.

They are a part of the list of all claims (`maxq.checkers.core.claims`), which says what its rows
are. Source: docs/spec/acting-master.md 8.3 and 8.4.
"""

from maxq.checkers.core.claim import COPIED, PAIRS, Claim
from maxq.checkers.core.promises import ACTS, PRE_ONLINE, READS, SYNCED
from maxq.histories.grounds import BROKER, NAMESRV, RECOVERY

RETURNS = "docs/spec/acting-master.md 8.4"

PAIR_CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="A1",
        promise="Once a pair's master is gone for longer than the bound for a silent member, "
        "the smallest slave that runs acts for it. Name servers must run, and nobody be "
        "cut off.",
        source=PAIRS,
        needs=(ACTS,),
        in_pairs=(ACTS,),
        grounds=(BROKER, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="acting",
        mutants=("largest_acts", "never_acts"),
    ),
    Claim(
        id="A2",
        promise="No other slave acts for it then.",
        source=PAIRS,
        needs=(ACTS,),
        in_pairs=(ACTS,),
        grounds=(BROKER, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="acting",
        mutants=("all_slaves_act",),
    ),
    Claim(
        id="A3",
        promise="No slave acts beside a master that runs and is not isolated, under the same "
        "conditions.",
        source=PAIRS,
        needs=(ACTS,),
        in_pairs=(ACTS,),
        grounds=(BROKER, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="acting",
        mutants=("acts_beside_master",),
    ),
    Claim(
        id="A4",
        promise="A slave takes no message.",
        source=PAIRS,
        needs=(ACTS,),
        in_pairs=(),
        grounds=(BROKER,),
        checker="copies",
        mutants=("acting_takes_sends",),
    ),
    # Before those that it breaks as well: a verdict begins with the first.
    Claim(
        id="A12",
        promise="A slave of a pair has each topic of its master, with its attributes, within 90 s.",
        source=PAIRS,
        in_pairs=(),
        grounds=(BROKER,),
        timed=True,
        checker="slave-topics",
        mutants=("typed_topics_not_copied",),
    ),
    Claim(
        id="A5",
        promise="Consumers read from the slave that acts for a lost master, up to what it held "
        "of what was acknowledged. This begins 5 s after the bound of A1, under its "
        "conditions.",
        source=PAIRS,
        needs=(ACTS, READS),
        after_power=(SYNCED,),
        in_pairs=(ACTS, READS),
        of_stores=True,
        grounds=(BROKER,),
        undisturbed=True,
        timed=True,
        checker="acting-service",
        mutants=("slave_reads_after_cut",),
    ),
    Claim(
        id="A6",
        promise="From then on it refuses no request for the offsets of a group that it knows, nor "
        "for locks.",
        source=PAIRS,
        needs=(ACTS,),
        in_pairs=(ACTS,),
        grounds=(BROKER,),
        undisturbed=True,
        timed=True,
        checker="acting-service",
        mutants=("acting_refuses_offsets",),
    ),
    Claim(
        id="A8",
        promise="A message of a pair is acknowledged only once it is on as many logs as "
        "inSyncReplicas says.",
        source=PAIRS,
        needs=COPIED,
        after_power=(SYNCED,),
        in_pairs=COPIED,
        of_stores=True,
        grounds=(BROKER,),
        checker="copies",
        mutants=(
            "degrades_in_silence",
            "master_counts_twice",
            "near_is_copied",
            "pair_acks_alone",
            "sent_is_copied",
        ),
    ),
    Claim(
        id="A11",
        promise="A slave that runs beside its master copies its log again, at the latest 35 s "
        "after a fault (20 s with fast timing). Name servers must run, and nobody be "
        "cut off.",
        source=PAIRS,
        needs=(ACTS,),
        after_power=(SYNCED,),
        in_pairs=(ACTS,),
        of_stores=True,
        grounds=(BROKER,),
        undisturbed=True,
        timed=True,
        checker="rejoining",
        mutants=("never_dials_again", "stays_behind_trim"),
    ),
    Claim(
        id="P1",
        promise="No name server lists a pair's master that has started again and is isolated, as "
        "it has not taken yet what its slaves have.",
        source=RETURNS,
        needs=(ACTS,),
        in_pairs=(ACTS,),
        grounds=(BROKER, NAMESRV),
        undisturbed=True,
        checker="pre-online",
        mutants=("online_before_sync",),
    ),
    Claim(
        id="P2",
        promise="A pair's master does not stay isolated for longer than three evictions and 10 "
        "s a slave. Name servers must run, nobody be cut off, and no slave's log be "
        "longer.",
        source=RETURNS,
        needs=(ACTS,),
        in_pairs=(ACTS,),
        grounds=(BROKER,),
        undisturbed=True,
        timed=True,
        checker="pre-online",
        mutants=("waits_for_the_dead",),
    ),
    Claim(
        id="P3",
        promise="The bound of P2 also holds where a cut parts the master from a slave. Name "
        "servers must run, and none be cut off from a broker.",
        source=RETURNS,
        needs=(ACTS,),
        in_pairs=(ACTS,),
        grounds=(BROKER,),
        undisturbed=True,
        timed=True,
        checker="pre-online",
        mutants=("waits_for_the_unreachable",),
    ),
    Claim(
        id="P4",
        promise="A pair's master that is online again knows every offset that a slave took and "
        "acknowledged while it was away. Excepted is a slave that was disturbed since, "
        "or cut off from the master or a name server.",
        source=RETURNS,
        needs=(ACTS, PRE_ONLINE),
        in_pairs=(ACTS, PRE_ONLINE),
        of_stores=True,
        grounds=(BROKER,),
        undisturbed=True,
        checker="pair-offsets",
        mutants=("empty_group_goes_online", "equal_version_is_theirs"),
    ),
    Claim(
        id="P5",
        promise="A pair's master that is started again knows every offset that it had written. "
        "It must have acknowledged it 7.5 s before it went down (RocketMQ: 10 s).",
        source=RETURNS,
        needs=(ACTS,),
        in_pairs=(ACTS,),
        of_stores=True,
        grounds=(BROKER,),
        undisturbed=True,
        timed=True,
        checker="pair-offsets",
        mutants=("whole_table_replaced",),
    ),
    Claim(
        id="P6",
        promise="A fail-over takes back no offset that a pair's master acknowledged long enough "
        "before it went down that its slave could copy and write it. That is 30 s, for "
        "RocketMQ 75 s, in which both and the name servers were undisturbed.",
        source=RETURNS,
        needs=(ACTS,),
        in_pairs=(ACTS,),
        of_stores=True,
        grounds=(BROKER,),
        undisturbed=True,
        timed=True,
        checker="pair-offsets",
        mutants=("offsets_taken_by_version",),
    ),
    Claim(
        id="P7",
        promise="A pair's master that is online has no delay progress beyond the end of a level's "
        "queue.",
        source=RETURNS,
        needs=(ACTS,),
        in_pairs=(ACTS,),
        grounds=(BROKER,),
        undisturbed=True,
        checker="delay-progress",
        mutants=("progress_beyond_queue", "shared_delay_progress"),
    ),
    Claim(
        id="P8",
        promise="No name server lists a pair's slave that has started before it copies the log of "
        "a master that all of them list.",
        source=RETURNS,
        needs=(ACTS,),
        in_pairs=(ACTS,),
        grounds=(BROKER, NAMESRV),
        undisturbed=True,
        checker="pre-online",
        mutants=("slave_lists_itself_first",),
    ),
)
