"""The claims about what waits while a master is gone: delayed messages and half messages.

A part of the list of all claims (`maxq.checkers.core.claims`).
"""

from maxq.checkers.core.claim import COPIED, KEPT, PAIRS, Claim
from maxq.checkers.core.promises import ACTS, SYNCED
from maxq.histories.grounds import RECOVERY

ESCAPE: tuple[Claim, ...] = (
    Claim(
        id="E1",
        promise="An acknowledged delayed message is delivered. Another broker set delivers it "
        "if a pair's master is gone for the recovery bound and 10 s, and its slave may "
        "send it on. Name servers and the other set must run, and nobody be cut off.",
        source=PAIRS,
        needs=KEPT,
        after_power=(SYNCED,),
        in_pairs=COPIED,
        grounds=(RECOVERY,),
        timed=True,
        checker="delayed",
        mutants=(
            "escapes_to_read_only",
            "never_escapes",
            "one_blocks_the_level",
            "progress_before_put",
        ),
    ),
    Claim(
        id="E2",
        promise="No delayed message is delivered before its time, while clocks are right.",
        source=PAIRS,
        in_pairs=(),
        grounds=(RECOVERY,),
        checker="delayed",
        mutants=("acting_delivers_at_once",),
    ),
    Claim(
        id="E3",
        promise="An acknowledged delayed message that no slave had a copy of when its master "
        "went away is delivered once the master is back. Its disk must be intact.",
        source=PAIRS,
        needs=(ACTS,),
        after_power=(SYNCED,),
        in_pairs=(),
        grounds=(RECOVERY,),
        checker="delayed",
        mutants=("waiting_taken_for_delivered",),
    ),
    Claim(
        id="E4",
        promise="An acknowledged half message whose producers commit is delivered also if its "
        "master went away while it was open, and nobody could take it meanwhile.",
        source=PAIRS,
        needs=KEPT,
        after_power=(SYNCED,),
        in_pairs=COPIED,
        grounds=(RECOVERY,),
        checker="half-messages",
        mutants=("half_skipped_after_tries", "refused_is_delivered", "shared_offsets"),
    ),
    Claim(
        id="E5",
        promise="A delayed message that was delivered is not delivered again. Its broker set "
        "and the name servers must have been undisturbed for 30 s after it was read "
        "(RocketMQ: 75 s).",
        source=PAIRS,
        needs=KEPT,
        after_power=(SYNCED,),
        in_pairs=(),
        grounds=(RECOVERY,),
        undisturbed=True,
        timed=True,
        checker="delayed",
        mutants=("redelivers_from_the_start",),
    ),
    Claim(
        id="E6",
        promise="A message whose commit a master has answered well is delivered.",
        source=PAIRS,
        needs=KEPT,
        after_power=(SYNCED,),
        in_pairs=COPIED,
        grounds=(RECOVERY,),
        checker="half-messages",
        mutants=("commit_is_only_noted",),
    ),
    Claim(
        id="E7",
        promise="An acknowledged half message whose commit was lost, or never sent, is "
        "delivered once a producer was asked. Another broker set delivers it, as in E1, "
        "if a pair's master is gone for the recovery bound and twice the brokers' time "
        "to ask.",
        source=PAIRS,
        needs=KEPT,
        after_power=(SYNCED,),
        in_pairs=COPIED,
        grounds=(RECOVERY,),
        timed=True,
        checker="half-messages",
        mutants=("answers_only_noted",),
    ),
    Claim(
        id="E8",
        promise="Of half messages only those are delivered that were stored and that producers "
        "commit: none that was rolled back, left open or refused.",
        source=PAIRS,
        in_pairs=(),
        grounds=(RECOVERY,),
        checker="half-messages",
        mutants=("rolled_back_escapes",),
    ),
    Claim(
        id="E9",
        promise="A message of a committed transaction is delivered once. It may be delivered "
        "once more for each broker that ended, and for each answer about it that a "
        "client did not get.",
        source=PAIRS,
        needs=KEPT,
        after_power=(SYNCED,),
        in_pairs=COPIED,
        grounds=(RECOVERY,),
        checker="half-messages",
        mutants=("every_copy_escapes",),
    ),
)
