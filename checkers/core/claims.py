"""Every claim that a checker decides: what is promised, by whom, under which settings.

One row a claim. `docs/claims.md` is this list as a page (`checkers.judgement.claims_page`):

    python -m checkers.judgement.claims_page > docs/claims.md

`mutants` are the wrong variants of the reference that break the claim and must be caught by its
checker; a claim without one is not yet shown to be decidable. Whoever adds a claim adds its checker
to `tests/unit/checkers/core/test_claims.py`, which compares this list with what checkers say they
judge.

Sources: docs/spec/controller-ha.md 6.2 and 6.3, docs/spec/acting-master.md 8.1 and 8.2.
"""

from collections.abc import Mapping

import msgspec

from checkers.core.claim_sources import DECISIONS
from checkers.core.promises import ALL_ACK, CLEAN, STRICT, SYNCED, Need, unfulfilled
from histories.grounds import (
    BROKER,
    CONTROLLER,
    FINAL_READ,
    LOCK,
    NAMESRV,
    PLACE,
    PROBE,
    RECOVERY,
    REPLICA_LOG_READ,
)

HA, QUEUE_LOCKS = "docs/spec/controller-ha.md 6.3", "docs/spec/acting-master.md 8.2"
ROUTES = "docs/spec/acting-master.md 8.1"


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One promise.

    Settings that fulfil `needs`, and in a run that lost power `after_power` too, make it; elsewhere
    it is measured. `grounds` are the kinds of answers (``histories.grounds``) without which nobody
    may say that it was kept. A claim that needs `undisturbed` time is not judged in a history with
    an unknown act (``checkers.evidence.quiescence``). `checker` is the name of the checker that
    decides it, `mutants` the names of modules of ``reference/mutants``.
    """

    id: str
    promise: str
    source: str
    needs: tuple[Need, ...] = ()
    after_power: tuple[Need, ...] = ()
    grounds: tuple[str, ...]
    undisturbed: bool = False
    checker: str
    mutants: tuple[str, ...] = ()

    @property
    def decides(self) -> str:
        """Which source decides where RocketMQ and we differ, and what RocketMQ does; empty: nowhere
        do they."""
        return str(DECISIONS.get(self.id, ""))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="S1",
        promise="No two brokers of a set hold one controller id: an id is given out once. Not "
        "after CLEAN_BROKER_DATA, a copied store, or controllers that lost theirs.",
        source=HA,
        grounds=(CONTROLLER, BROKER),
        checker="broker-ids",
        mutants=("claim_always_granted",),
    ),
    Claim(
        id="S2",
        promise="A broker keeps its id as long as its store, over restarts and changes of "
        "address; controllers know no id of nobody.",
        source=HA,
        grounds=(CONTROLLER, BROKER),
        checker="broker-ids",
        mutants=(
            "apply_timeout_is_refusal",
            "identity_bound_to_address",
            "identity_not_synced",
            "identity_rewritten_unsafely",
            "new_id_each_start",
        ),
    ),
    Claim(
        id="S2b",
        promise="A controller knows a broker at the address where it answers, once nothing was "
        "done to it, and it could tell a controller, for the bound for recovery.",
        source=HA,
        grounds=(CONTROLLER, BROKER, RECOVERY),
        undisturbed=True,
        checker="routes",
        mutants=("address_only_on_leader",),
    ),
    Claim(
        id="S3",
        promise="The master epoch of a set never goes back, and each election increases it.",
        source=HA,
        grounds=(CONTROLLER,),
        checker="epochs",
        mutants=(
            "elect_keeps_epoch",
            "election_not_replicated",
            "raft_log_not_synced",
            "reads_without_quorum",
        ),
    ),
    Claim(
        id="S4",
        promise="The SyncStateSet epoch never goes back, and each change of the set has a number "
        "of its own.",
        source=HA,
        grounds=(CONTROLLER,),
        checker="epochs",
        mutants=(
            "alter_not_replicated",
            "election_keeps_set_epoch",
            "half_is_majority",
            "raft_log_not_synced",
            "recovery_drops_last_entry",
            "term_forgotten",
            "vote_by_current_term",
        ),
    ),
    Claim(
        id="S5",
        promise="At most one master in a master epoch of a set. (Two at a time, in different "
        "epochs, are possible: there is no lease.)",
        source=HA,
        grounds=(CONTROLLER, BROKER),
        checker="epochs",
        mutants=("elect_keeps_epoch",),
    ),
    Claim(
        id="S6",
        promise="An acknowledged message is never lost while a member of the last SyncStateSet "
        "keeps its store.",
        source=HA,
        needs=(ALL_ACK, CLEAN),
        after_power=(SYNCED,),
        grounds=(FINAL_READ,),
        checker="durability",
        mutants=(
            "ack_before_write",
            "ack_without_replicas",
            "acks_by_local_set",
            "alter_not_fenced",
            "confirm_over_connected",
            "demoted_master_acknowledges",
            "majority_acknowledges",
            "offsets_rebuilt_short",
            "point_taken_for_end",
            "shrinks_alone",
            "slave_acks_unsynced",
        ),
    ),
    Claim(
        id="S7",
        promise="Who is elected was a member of the last SyncStateSet; the first election of a "
        "set is excepted.",
        source=HA,
        needs=(CLEAN,),
        grounds=(CONTROLLER,),
        checker="epochs",
        mutants=(
            "alter_not_fenced",
            "designated_from_outside",
            "elect_outside_set",
        ),
    ),
    Claim(
        id="S8",
        promise="Replicas that have an epoch of equal number and start have equal bytes in it, up "
        "to the end of the shorter.",
        source=HA,
        grounds=(REPLICA_LOG_READ,),
        checker="replicas",
        mutants=(
            "empty_epochs_left_out",
            "restarted_master_keeps_epoch",
            "truncation_by_length",
            "truncation_in_memory",
        ),
    ),
    Claim(
        id="S8b",
        promise="Members of the SyncStateSet at rest agree on the epochs of the bytes that they "
        "hold.",
        source=HA,
        grounds=(REPLICA_LOG_READ, CONTROLLER),
        undisturbed=True,
        checker="replicas",
    ),
    Claim(
        id="S8c",
        promise="An epoch of a set begins at one byte, on whoever holds it, whenever it is asked.",
        source=HA,
        grounds=(BROKER,),
        checker="epochs",
        mutants=("epochs_not_reloaded", "restarted_master_keeps_epoch"),
    ),
    Claim(
        id="S9",
        promise="A member of the SyncStateSet at rest holds every acknowledged message.",
        source=HA,
        needs=(ALL_ACK, CLEAN),
        after_power=(SYNCED,),
        grounds=(REPLICA_LOG_READ, CONTROLLER),
        undisturbed=True,
        checker="replicas",
        mutants=("epochs_not_reloaded",),
    ),
    Claim(
        id="S9b",
        promise="So it is while they run: a member of the SyncStateSet that answers holds what its "
        "master had confirmed before, unless the set has changed in between.",
        source=HA,
        needs=(ALL_ACK,),
        after_power=(SYNCED,),
        grounds=(CONTROLLER, BROKER),
        checker="epochs",
        mutants=("acks_by_local_set", "point_taken_for_end"),
    ),
    Claim(
        id="S10",
        promise="A consumer never reads a message that later disappears.",
        source=HA,
        needs=(ALL_ACK, CLEAN),
        after_power=(SYNCED,),
        grounds=(FINAL_READ,),
        checker="durability",
        mutants=(
            "reads_unconfirmed",
            "slave_reads_to_end",
        ),
    ),
    Claim(
        id="S10b",
        promise="Nor is it shown what might: a slave lets consumers read no byte that its master, "
        "asked after that in the same epoch, has not confirmed.",
        source=HA,
        needs=(ALL_ACK,),
        after_power=(SYNCED,),
        grounds=(CONTROLLER, BROKER),
        checker="epochs",
        mutants=("slave_reads_to_end",),
    ),
    Claim(
        id="S11",
        promise="An offset of a queue never changes its message, and no message is there twice. "
        "That nobody reads what nobody sent holds under every profile.",
        source=HA,
        needs=(ALL_ACK, CLEAN),
        after_power=(SYNCED,),
        grounds=(FINAL_READ,),
        checker="durability",
    ),
    Claim(
        id="S11b",
        promise="A log holds what clients send: while nobody sends, no epoch of any replica grows "
        "beyond what its master first had of it.",
        source="decided here",
        grounds=(REPLICA_LOG_READ, BROKER),
        checker="idle-log",
    ),
    Claim(
        id="S12",
        promise="Acknowledged messages of one sequential producer are in a queue in the order in "
        "which it sent them.",
        source=HA,
        needs=(ALL_ACK, CLEAN),
        after_power=(SYNCED,),
        grounds=(FINAL_READ,),
        checker="durability",
    ),
    Claim(
        id="S13",
        promise="After the last heal every queue takes messages and gives them back within the "
        "bound for recovery: 20 s with fast timing, 60 s with stock timing.",
        source=HA,
        grounds=(RECOVERY, PROBE),
        undisturbed=True,
        checker="service",
        mutants=(
            "first_master_stays",
            "group_forgotten_with_member",
            "late_close_evicts",
            "late_goodbye_evicts",
            "raft_log_not_synced",
            "serves_one_in_many",
            "state_version_ignored",
        ),
    ),
    Claim(
        id="S13b",
        promise="A master that has gone silent is replaced within the bound for recovery, while "
        "another member of its SyncStateSet runs and controllers answer.",
        source=HA,
        grounds=(RECOVERY, CONTROLLER, BROKER),
        undisturbed=True,
        checker="availability",
        mutants=("unheard_never_dead",),
    ),
    Claim(
        id="S13d",
        promise="So it is while faults last that leave a majority of the controllers, the name "
        "servers that answer, a member of the SyncStateSet and as many replicas as must "
        "acknowledge connected, and nobody of them half alive: later than the bound for recovery "
        "after the last change, some send succeeds.",
        source="decided here",
        grounds=(RECOVERY,),
        undisturbed=True,
        checker="availability",
        mutants=("ha_address_of_first_master",),
    ),
    Claim(
        id="S14",
        promise="A healed replica is a member of the SyncStateSet again within the bound for "
        "recovery.",
        source=HA,
        grounds=(RECOVERY, CONTROLLER, BROKER),
        undisturbed=True,
        checker="availability",
        mutants=(
            "address_only_on_leader",
            "ha_address_of_first_master",
            "set_from_stale_base",
        ),
    ),
    Claim(
        id="S14b",
        promise="A silent member leaves the SyncStateSet within catch-up limit, check period and "
        "margin, while its master runs and controllers answer; 20 s later where nobody writes, or "
        "where another silent one has everything.",
        source=HA,
        needs=(ALL_ACK,),
        grounds=(RECOVERY, CONTROLLER, BROKER),
        undisturbed=True,
        checker="availability",
        mutants=(
            "caught_up_by_sending",
            "shrink_task_dies",
        ),
    ),
    Claim(
        id="S15",
        promise="A node that is started runs: it does not end by itself, and starts again after it "
        "was killed or its power was lost. Not while its disk takes nothing, its address is "
        "another, or a cut parts it from the others.",
        source="decided here",
        after_power=(SYNCED,),
        grounds=(RECOVERY,),
        checker="processes",
        mutants=("killed_broker_stays_down",),
    ),
    Claim(
        id="S16",
        promise="Whatever the settings: while one master leads a set and no power is lost, nothing "
        "that was acknowledged is lost, an offset keeps its message, readers neither skip nor go "
        "back, and a producer's messages keep their order. A message is in a log once, and nobody "
        "reads what nobody sent, at any time.",
        source=HA,
        grounds=(FINAL_READ,),
        checker="durability",
        mutants=("pull_leaves_out_last",),
    ),
    Claim(
        id="N1",
        promise="A name server lists an address of a broker set under one id.",
        source=ROUTES,
        grounds=(NAMESRV,),
        checker="routes",
        mutants=("address_under_two_ids",),
    ),
    Claim(
        id="N5",
        promise="A broker whose process is gone leaves a name server's routes within the bound "
        "for a silent member, while nothing is done to the name server and no cut parts them; if "
        "it had been listed anew since it was started, or nothing was done to it and the "
        "controllers for the bound for recovery.",
        source=ROUTES,
        grounds=(NAMESRV, RECOVERY),
        undisturbed=True,
        checker="routes",
        mutants=("dead_broker_stays",),
    ),
    Claim(
        id="N6",
        promise="A slave that runs, and to which nothing was done for the bound for recovery, is "
        "in the routes of a name server of which the same is true, while no cut parts them; once "
        "started, if it was listed anew, or nothing was done to the controllers as long.",
        source=ROUTES,
        grounds=(NAMESRV, RECOVERY),
        undisturbed=True,
        checker="routes",
        mutants=("group_forgotten_with_member",),
    ),
    Claim(
        id="N10",
        promise="So is a master, as master, once it has led for the bound for recovery or was "
        "listed so before, while controllers know of no newer epoch.",
        source=ROUTES,
        grounds=(NAMESRV, RECOVERY),
        undisturbed=True,
        checker="routes",
        mutants=("state_version_ignored",),
    ),
    Claim(
        id="O1",
        promise="A consumer group keeps its place over a fail-over, once nothing has been wrong "
        "for 30 s since it was committed. (Places are copied every ten seconds or so, not with the "
        "log.)",
        source="docs/spec/controller-ha.md 6.4 (H17)",
        grounds=(PLACE,),
        undisturbed=True,
        checker="offsets",
    ),
    Claim(
        id="L1",
        promise="Strict mode: grants of one queue's lock to different clients are a lease, less "
        "2 s, apart unless the lock was given back in between.",
        source=QUEUE_LOCKS,
        needs=(STRICT,),
        grounds=(LOCK,),
        checker="locks",
        mutants=(
            "former_owner_renews",
            "lock_checked_then_set",
            "lock_without_quorum",
            "locks_forgotten_at_restart",
            "quorum_of_one_node",
            "renewal_not_counted",
            "silence_is_consent",
        ),
    ),
    Claim(
        id="L2",
        promise="Strict mode: no two clients rely on one queue's lock at a time, counted by their "
        "own leases.",
        source=QUEUE_LOCKS,
        needs=(STRICT,),
        grounds=(LOCK,),
        checker="locks",
        mutants=("lock_without_quorum",),
    ),
)

BY_ID: dict[str, Claim] = {claim.id: claim for claim in CLAIMS}


def unmade(claim: str, settings: Mapping[str, str] | None, *, power_lost: bool) -> tuple[Need, ...]:
    """The needs for want of which a run does not make a claim; none where it makes it.

    Args:
        claim: its id; one that is not in the list is made by every run.
        settings: the run's effective ones; None: nobody knows, and every claim counts as made.
        power_lost: whether the run lost power.
    """
    known = BY_ID.get(claim)
    if known is None or settings is None:
        return ()
    return unfulfilled((*known.needs, *(known.after_power if power_lost else ())), settings)
