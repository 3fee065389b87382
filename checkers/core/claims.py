"""Every claim that a checker decides: what is promised, by whom, under which settings.

One row a claim, so that the list is long. `docs/claims.md` is this list as a page
(`maxq.checkers.judgement.claims_page`):

    python -m maxq.checkers.judgement.claims_page > docs/claims.md

`mutants` are the wrong variants of the reference that break the claim and must be caught by its
checker; a claim without one is not yet shown to be decidable. Anyone who adds a claim adds its
checker to `tests/unit/checkers/core/test_claims.py`, which compares this list with what checkers
say they judge.

Sources: docs/spec/controller-ha.md 6.2 and 6.3, docs/spec/acting-master.md 8.
"""

from collections.abc import Mapping

from maxq.checkers.core.claim import COPIED, KEPT
from maxq.checkers.core.claim import Claim as Claim  # for whoever has claims of its own
from maxq.checkers.core.container_claims import CONTAINERS
from maxq.checkers.core.escape_claims import ESCAPE
from maxq.checkers.core.pair_claims import PAIR_CLAIMS
from maxq.checkers.core.promises import (
    ACTS,
    ALL_ACK,
    CLEAN,
    MODE,
    NO_POOL,
    NOT_STRICT,
    PAIR,
    SHOWS,
    STRICT,
    SYNCED,
    WHOLE,
    Need,
    unfulfilled,
)
from maxq.histories.grounds import (
    BROKER,
    CONSUMER_OFFSET,
    CONTROLLER,
    FINAL_READ,
    LOCK,
    NAMESRV,
    PROBE,
    RECOVERY,
    REPLICA_LOG_READ,
)

HA, QUEUE_LOCKS = "docs/spec/controller-ha.md 6.3", "docs/spec/acting-master.md 8.2"
ROUTES = "docs/spec/acting-master.md 8.1"


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="S1",
        promise="A controller gives each broker id of a set to one broker only. (Excepted are "
        "CLEAN_BROKER_DATA, a copied store, and controllers that lost theirs.)",
        source=HA,
        of_controllers=True,
        grounds=(CONTROLLER, BROKER),
        checker="broker-ids",
        mutants=("claim_always_granted",),
    ),
    Claim(
        id="S2",
        promise="A broker keeps its id as long as its store, over restarts and changes of "
        "address. A controller knows no id that no broker ever had.",
        source=HA,
        of_controllers=True,
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
        promise="A controller knows a broker at the address where it answers. The broker must "
        "have been undisturbed, and able to reach a controller, for the recovery bound.",
        source=HA,
        of_stores=True,
        grounds=(CONTROLLER, BROKER, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="routes",
        mutants=("address_only_on_leader",),
    ),
    Claim(
        id="S3",
        promise="The master epoch of a set never decreases, and each election increases it.",
        source=HA,
        of_controllers=True,
        grounds=(CONTROLLER,),
        checker="epochs",
        mutants=(
            "elect_keeps_epoch",
            "election_not_replicated",
            "raft_log_not_synced",
            "raft_without_watermark",
            "reads_without_quorum",
        ),
    ),
    Claim(
        id="S3b",
        promise="Every node that is asked for a set's master and SyncStateSet answers as one "
        "register would. The answer is what a controller, a leading broker or an ordered "
        "election had shown before, or a later state. A later state has no lower master "
        "epoch.",
        source="decided here",
        of_controllers=True,
        grounds=(CONTROLLER,),
        checker="epochs",
        mutants=("answers_kept_for_a_while",),
    ),
    Claim(
        id="S4",
        promise="The SyncStateSet epoch never decreases, and each change of the SyncStateSet has a "
        "new one.",
        source=HA,
        of_controllers=True,
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
        promise="A master epoch of a set has at most one master. (Two masters of different epochs "
        "can coexist: there is no lease.)",
        source=HA,
        of_controllers=True,
        grounds=(CONTROLLER, BROKER),
        checker="epochs",
        mutants=("elect_keeps_epoch", "newcomer_takes_living_id"),
    ),
    Claim(
        id="S6",
        promise="An acknowledged message is never lost while a member of the last SyncStateSet, "
        "of a pair its master, keeps its store.",
        source=HA,
        needs=KEPT,
        after_power=(SYNCED,),
        of_stores=True,
        in_pairs=COPIED,
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
            "written_before_checked",
        ),
    ),
    Claim(
        id="S7",
        promise="A controller elects only members of the last SyncStateSet; the first election of "
        "a set is excepted.",
        source=HA,
        needs=(CLEAN,),
        of_stores=True,
        of_controllers=True,
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
        promise="Two replicas that hold an epoch of equal number and start hold the same bytes in "
        "it, up to the end of the shorter. (All of a pair's log is one epoch.)",
        source=HA,
        of_stores=True,
        in_pairs=(),
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
        promise="Members of the SyncStateSet agree, with the cluster at rest, on the epochs of the "
        "bytes that they hold.",
        source=HA,
        of_stores=True,
        grounds=(REPLICA_LOG_READ, CONTROLLER),
        undisturbed=True,
        checker="replicas",
    ),
    Claim(
        id="S8c",
        promise="An epoch of a set begins at the same byte on every replica that holds it, at all "
        "times.",
        source=HA,
        of_stores=True,
        of_controllers=True,
        grounds=(BROKER,),
        checker="epochs",
        mutants=("epochs_not_reloaded", "restarted_master_keeps_epoch"),
    ),
    Claim(
        id="S9",
        promise="A member of the SyncStateSet holds every acknowledged message, with the cluster "
        "at rest.",
        source=HA,
        needs=KEPT,
        after_power=(SYNCED,),
        of_stores=True,
        grounds=(REPLICA_LOG_READ, CONTROLLER),
        undisturbed=True,
        checker="replicas",
        mutants=("epochs_not_reloaded", "retention_above_confirmed", "retention_before_slave"),
    ),
    Claim(
        id="S9b",
        promise="A member of the SyncStateSet that answers while the cluster runs holds what its "
        "master had confirmed before, unless the set has changed in between.",
        source=HA,
        needs=(ALL_ACK,),
        after_power=(SYNCED,),
        of_stores=True,
        grounds=(CONTROLLER, BROKER),
        checker="epochs",
        mutants=("acks_by_local_set", "point_taken_for_end"),
    ),
    Claim(
        id="S10",
        promise="A consumer never reads a message that later disappears.",
        source=HA,
        needs=(ALL_ACK, CLEAN, WHOLE),
        after_power=(SYNCED,),
        of_stores=True,
        in_pairs=COPIED,
        grounds=(FINAL_READ,),
        checker="durability",
        mutants=(
            "reads_unconfirmed",
            "slave_reads_to_end",
        ),
    ),
    Claim(
        id="S10b",
        promise="A slave lets consumers read no byte that its master, asked later in the same "
        "epoch, has not confirmed.",
        source=HA,
        needs=(ALL_ACK,),
        after_power=(SYNCED,),
        of_stores=True,
        grounds=(CONTROLLER, BROKER),
        checker="epochs",
        mutants=("slave_reads_to_end",),
    ),
    Claim(
        id="S11",
        promise="A queue offset never changes its message, and a queue holds each message once. A "
        "consumer reads only what was sent; that much holds under every profile.",
        source=HA,
        needs=KEPT,
        after_power=(SYNCED,),
        of_stores=True,
        in_pairs=COPIED,
        grounds=(FINAL_READ,),
        checker="durability",
    ),
    Claim(
        id="S11b",
        promise="A log grows only by what clients send. While no client sends, no epoch of any "
        "replica grows beyond what its master first had of it.",
        source="decided here",
        of_stores=True,
        grounds=(REPLICA_LOG_READ, BROKER),
        checker="idle-log",
    ),
    Claim(
        id="S12",
        promise="A queue holds the acknowledged messages of one sequential producer in the order "
        "in which it sent them.",
        source=HA,
        needs=KEPT,
        after_power=(SYNCED,),
        of_stores=True,
        in_pairs=COPIED,
        grounds=(FINAL_READ,),
        checker="durability",
    ),
    Claim(
        id="S13",
        promise="Every queue takes messages and gives them back within the recovery bound after "
        "the last heal. The bound is 20 s with fast timing, 60 s with stock timing.",
        source=HA,
        of_stores=True,
        of_replicas=True,
        in_pairs=(),
        grounds=(RECOVERY, PROBE),
        undisturbed=True,
        timed=True,
        checker="service",
        mutants=(
            "added_as_slave",
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
        promise="A silent master is replaced within the recovery bound, while another member of "
        "its SyncStateSet runs and controllers answer.",
        source=HA,
        of_stores=True,
        of_replicas=True,
        grounds=(RECOVERY, CONTROLLER, BROKER),
        undisturbed=True,
        timed=True,
        checker="availability",
        mutants=("unheard_never_dead",),
    ),
    Claim(
        id="S13d",
        promise="A set takes messages during faults that leave enough of the cluster connected: "
        "some send succeeds later than the recovery bound after the last change. Enough "
        "is a majority of the controllers, the name servers that answer, a member of "
        "the SyncStateSet, and the replicas that must acknowledge. No node may be "
        "degraded: slow, its disk full or its store damaged.",
        source="decided here",
        of_stores=True,
        of_replicas=True,
        grounds=(RECOVERY,),
        undisturbed=True,
        timed=True,
        checker="availability",
        mutants=("ha_address_of_first_master",),
    ),
    Claim(
        id="S14",
        promise="A healed replica is a member of the SyncStateSet again within the recovery bound.",
        source=HA,
        of_stores=True,
        of_replicas=True,
        grounds=(RECOVERY, CONTROLLER, BROKER),
        undisturbed=True,
        timed=True,
        checker="availability",
        mutants=(
            "address_only_on_leader",
            "ha_address_of_first_master",
            "log_before_first_epoch",
            "set_from_stale_base",
        ),
    ),
    Claim(
        id="S14b",
        promise="A silent member leaves the SyncStateSet within catch-up limit, check period "
        "and margin, while its master runs and controllers answer. It may take 20 s "
        "longer where no client writes, or where another silent member has the whole "
        "log.",
        source=HA,
        needs=(ALL_ACK,),
        of_stores=True,
        of_replicas=True,
        grounds=(RECOVERY, CONTROLLER, BROKER),
        undisturbed=True,
        timed=True,
        checker="availability",
        mutants=(
            "caught_up_by_sending",
            "shrink_task_dies",
        ),
    ),
    Claim(
        id="S15",
        promise="A node that was started keeps running: it does not end by itself, and starts "
        "again after it was killed or lost power. (Excepted while its disk takes nothing, its "
        "address is another, or a cut parts it from the others.)",
        source="decided here",
        after_power=(SYNCED,),
        of_stores=True,
        in_pairs=(),
        grounds=(RECOVERY,),
        timed=True,
        facts=("node-ended", "node-does-not-start"),
        checker="processes",
        mutants=("killed_broker_stays_down", "removed_stay_removed", "trimmed_start_is_zero"),
    ),
    Claim(
        id="S16",
        promise="A master that leads alone loses no acknowledged message, whatever else is set, "
        "without loss of power and without a transient store pool. An offset keeps its "
        "message, readers neither skip nor go back, and a producer's messages keep "
        "their order. At any time a log holds each message once, and a consumer reads "
        "only what was sent.",
        source=HA,
        needs=(NO_POOL,),
        of_stores=True,
        in_pairs=(NO_POOL,),
        grounds=(FINAL_READ,),
        checker="durability",
        mutants=("pull_leaves_out_last",),
    ),
    Claim(
        id="S17",
        promise="A learner (asyncLearner=true) is a member of no SyncStateSet, unless it was "
        "elected master before there was one, or by unclean election.",
        source="docs/spec/controller-ha.md 4.9",
        grounds=(CONTROLLER, BROKER),
        checker="epochs",
        mutants=("learner_joins_set",),
    ),
    Claim(
        id="S18",
        promise="A master that runs, and that controllers and most of its set can reach, is not "
        "replaced unless an operator orders it.",
        source=HA,
        of_stores=True,
        of_replicas=True,
        of_controllers=True,
        grounds=(CONTROLLER, BROKER),
        undisturbed=True,
        timed=True,
        checker="availability",
        mutants=("elects_beside_living",),
    ),
    *PAIR_CLAIMS,
    Claim(
        id="N1",
        promise="A name server lists an address of a broker set under one id.",
        source=ROUTES,
        grounds=(NAMESRV,),
        checker="routes",
        mutants=("address_under_two_ids",),
    ),
    Claim(
        id="N2",
        promise="A name server lets nobody write to a broker set without a master whose brokers "
        "know acting masters.",
        source=ROUTES,
        needs=(ACTS,),
        in_pairs=(ACTS,),
        grounds=(NAMESRV,),
        undisturbed=True,
        checker="acting-routes",
        mutants=("write_kept_at_eviction",),
    ),
    Claim(
        id="N3",
        promise="A route shows a broker set as the name server has it. It may show the smallest "
        "id of a set without a master as master, if its brokers know acting masters and "
        "nobody may write.",
        source=ROUTES,
        in_pairs=(),
        grounds=(NAMESRV,),
        checker="acting-routes",
        mutants=("group_without_flag_acts", "second_smallest_shown"),
    ),
    Claim(
        id="N4",
        promise="A name server drops a broker that is silent within the time-out that it "
        "registered, a scan and 2 s, while nobody is cut off. Who else of its set still "
        "runs does not matter.",
        source=ROUTES,
        in_pairs=(),
        grounds=(NAMESRV, BROKER, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="silent-brokers",
        mutants=("heartbeat_of_one_counts_for_all",),
    ),
    Claim(
        id="N5",
        promise="A name server drops a broker whose process is gone within the bound for a "
        "silent member. The name server must be undisturbed, and no cut part them. The "
        "broker must have been listed since it was started, or it and the controllers "
        "have been undisturbed for the recovery bound.",
        source=ROUTES,
        in_pairs=(),
        grounds=(NAMESRV, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="routes",
        mutants=("dead_broker_stays",),
    ),
    Claim(
        id="N6",
        promise="A name server lists a slave that runs, once both have been undisturbed for the "
        "recovery bound and no cut parts them. After a start the slave must have been "
        "listed again, or the controllers have been undisturbed as long. Without controllers "
        "this holds for each broker that is in its group.",
        source=ROUTES,
        of_stores=True,
        in_pairs=(),
        grounds=(NAMESRV, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="routes",
        mutants=("group_forgotten_with_member",),
    ),
    Claim(
        id="N7",
        promise="A broker whose connections with a name server were reset is listed there "
        "again, if both were undisturbed since. It may take the period in which it "
        "registers and 5 s.",
        source=ROUTES,
        of_stores=True,
        in_pairs=(),
        grounds=(NAMESRV, BROKER),
        undisturbed=True,
        timed=True,
        checker="listings",
        mutants=("unchanged_is_not_registered",),
    ),
    Claim(
        id="N8",
        promise="A name server lets clients write to a broker set again as soon as its master is "
        "registered again.",
        source=ROUTES,
        needs=(ACTS,),
        of_stores=True,
        in_pairs=(ACTS,),
        grounds=(NAMESRV,),
        undisturbed=True,
        checker="acting-routes",
        mutants=("evicted_comes_back_by_heartbeat", "write_not_restored"),
    ),
    Claim(
        id="N9",
        promise="Two name servers have the same table of a broker set, with all faults healed, "
        "once neither has changed for a while. That is the longer of an eviction and 2 "
        "s, and the period in which brokers register and 5 s.",
        source=ROUTES,
        of_stores=True,
        in_pairs=(),
        grounds=(NAMESRV, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="listings",
        mutants=("registers_with_one",),
    ),
    Claim(
        id="N10",
        promise="A name server lists a master as master under the conditions of N6, while "
        "controllers know of no newer epoch. The master must have led for the recovery "
        "bound, or have been listed so before.",
        source=ROUTES,
        of_stores=True,
        grounds=(NAMESRV, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="routes",
        mutants=("state_version_ignored",),
    ),
    Claim(
        id="N11",
        promise="A name server that was started lists each registered broker that runs, if both "
        "were undisturbed since. It may take the period in which brokers register and 5 "
        "s. It lists no broker that had gone before.",
        source=ROUTES,
        of_stores=True,
        in_pairs=(),
        grounds=(NAMESRV, BROKER),
        undisturbed=True,
        timed=True,
        checker="listings",
        mutants=("first_alone_registers_again", "slave_needs_master"),
    ),
    Claim(
        id="N12",
        promise="Once a pair's silent master must have been dropped, routes show the smallest "
        "slave that runs as master. The set's slaves and the name server must have been "
        "undisturbed for the recovery bound.",
        source=ROUTES,
        needs=(ACTS, SHOWS),
        in_pairs=(ACTS, SHOWS),
        grounds=(NAMESRV, BROKER, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="silent-brokers",
        mutants=("second_smallest_shown",),
    ),
    Claim(
        id="N13",
        promise="A name server that lists the master of an epoch lists nobody of an older one "
        "in its place. Both must be undisturbed, and controllers know of no newer "
        "epoch.",
        source=ROUTES,
        of_stores=True,
        of_controllers=True,
        grounds=(NAMESRV, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="routes",
        mutants=("stale_registration_wins",),
    ),
    Claim(
        id="B13",
        promise="A broker deletes no acknowledged message that is younger than its retention, "
        "whatever others on its disk write. (Excepted is what its own share has no room for.) From "
        "the first message on that must be there, a queue can be read to its end.",
        source="decided here",
        needs=(WHOLE,),
        in_pairs=COPIED,
        of_stores=True,
        grounds=(FINAL_READ,),
        checker="retention",
        mutants=("consume_queue_cut_short",),
    ),
    Claim(
        id="O1",
        promise="A consumer group keeps its committed offset over a fail-over, once the cluster "
        "was undisturbed for 30 s after the commit. (Slaves copy offsets every ten seconds or so, "
        "not with the log.)",
        source="docs/spec/controller-ha.md 6.4 (H17)",
        of_stores=True,
        grounds=(CONSUMER_OFFSET,),
        undisturbed=True,
        timed=True,
        checker="offsets",
    ),
    *ESCAPE,
    *CONTAINERS,
    Claim(
        id="L1",
        promise="In strict mode a set grants one queue's lock to two clients at least a lease, "
        "less 2 s, apart. Excepted is a lock that was released in between.",
        source=QUEUE_LOCKS,
        needs=(STRICT,),
        in_pairs=(STRICT,),
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
        promise="Two clients never rely on one queue's lock at a time, counted by their own "
        "leases, in strict mode.",
        source=QUEUE_LOCKS,
        needs=(STRICT,),
        in_pairs=(STRICT,),
        grounds=(LOCK,),
        checker="locks",
        mutants=("acting_grants_alone", "lock_without_quorum"),
    ),
    Claim(
        id="L3",
        promise="Without strict mode one process of a broker grants one queue's lock to two "
        "clients at least a lease, less 2 s, apart. Excepted is a lock that was "
        "released there in between.",
        source=QUEUE_LOCKS,
        needs=(NOT_STRICT,),
        in_pairs=(NOT_STRICT,),
        grounds=(LOCK,),
        undisturbed=True,
        checker="locks",
        mutants=("locks_forgotten_at_change",),
    ),
    Claim(
        id="L4",
        promise="Without strict mode clients that follow routes do not hold one queue's lock at "
        "a time. Brokers and name servers must have been undisturbed long enough for a "
        "master to return, routes to be read again and locks to be renewed.",
        source=QUEUE_LOCKS,
        needs=(NOT_STRICT,),
        in_pairs=(NOT_STRICT,),
        grounds=(LOCK, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="ordered",
        mutants=("acting_stays_shown",),
    ),
    Claim(
        id="L6",
        promise="While a majority of a set's brokers run, somebody is granted a lock later than "
        "a lease and the recovery bound after the last grant. It does not matter who "
        "else of the set is silent; nobody may be cut off.",
        source=QUEUE_LOCKS,
        needs=(STRICT,),
        in_pairs=(STRICT,),
        grounds=(LOCK, BROKER, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="lock-service",
        mutants=("waits_for_silent_member",),
    ),
    Claim(
        id="L7",
        promise="While the brokers of a set that run are no majority of it, nobody is granted a "
        "lock.",
        source=QUEUE_LOCKS,
        needs=(STRICT,),
        in_pairs=(STRICT,),
        grounds=(LOCK, BROKER),
        undisturbed=True,
        checker="lock-service",
        mutants=("acting_grants_alone", "quorum_of_one_node", "silence_is_consent"),
    ),
    Claim(
        id="L8",
        promise="A lock for which nobody else has asked for longer than its lease is granted. "
        "The cluster must be healed, and the run's faults only end, hold and start "
        "processes.",
        source=QUEUE_LOCKS,
        needs=(STRICT,),
        in_pairs=(STRICT,),
        grounds=(LOCK, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="lock-service",
        mutants=("lease_without_end",),
    ),
    Claim(
        id="L9",
        promise="A lock that its only holder has given back 2 s before is granted too. It must "
        "have been granted when nobody else had asked for it for longer than its lease.",
        source=QUEUE_LOCKS,
        needs=(STRICT,),
        in_pairs=(STRICT,),
        grounds=(LOCK, RECOVERY),
        undisturbed=True,
        timed=True,
        checker="lock-service",
        mutants=("unlock_here_only",),
    ),
    Claim(
        id="L10",
        promise="While a client relies on a queue's lock, no other client is given messages of "
        "the queue, in strict mode.",
        source=QUEUE_LOCKS,
        needs=(STRICT,),
        in_pairs=(STRICT,),
        grounds=(LOCK,),
        checker="ordered",
        mutants=("lease_below_clients",),
    ),
)

BY_ID: dict[str, Claim] = {claim.id: claim for claim in CLAIMS}


def unmade(claim: str, settings: Mapping[str, str] | None, *, power_lost: bool) -> tuple[Need, ...]:
    """The needs for want of which a run does not make a claim; none where it makes it.

    Args:
        claim: its id; one that is not in the list is made by every run.
        settings: the run's effective ones; None: unknown, and every claim counts as made.
        power_lost: whether the run lost power.
    """
    known = BY_ID.get(claim)
    if known is None or settings is None:
        return ()
    needs = known.needs if settings.get(MODE) != PAIR else known.in_pairs or ()
    return unfulfilled((*needs, *(known.after_power if power_lost else ())), settings)
