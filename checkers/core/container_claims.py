"""The claims about brokers in containers: added, removed, and sharing a disk (RIP-31).

A part of the list of all claims (`maxq.checkers.core.claims`).
"""

from maxq.checkers.core.claim import Claim
from maxq.checkers.core.promises import ACTS, Need
from maxq.histories.grounds import RECOVERY

SOURCE = "RIP-31, docs/spec/acting-master.md 2"


def _claim(
    number: int,
    promise: str,
    *mutants: str,
    checker: str = "containers",
    needs: tuple[Need, ...] = (),
    undisturbed: bool = False,
    timed: bool = False,
) -> Claim:
    return Claim(
        id=f"B{number}", promise=promise, source=SOURCE, needs=needs, in_pairs=needs,
        grounds=(RECOVERY,), undisturbed=undisturbed, timed=timed, checker=checker,
        mutants=mutants,
    )  # fmt: skip


CONTAINERS: tuple[Claim, ...] = (
    _claim(
        1,
        "A container refuses to add a broker that is there. That one stays listed, and answers.",
        "twice_added_replaces",
        "refused_add_unregisters",
    ),
    _claim(
        2,
        "A container answers a removal of a broker that is not there with 211.",
        "absent_removed",
        "removal_of_another",
    ),
    _claim(
        3,
        "Once a container says that it has added a broker, every name server that answers lists "
        "it, and its ports answer.",
        "answers_before_registered",
        "removed_stays_admitted",
    ),
    _claim(
        4,
        "Once a container says that it has removed a broker, no name server that answers lists "
        "it, and its ports refuse.",
        "removed_port_answers",
        "removal_answered_early",
        "identity_by_id_only",
    ),
    _claim(
        5,
        "No name server drops a broker because another one of its container was added or removed, "
        "or could not be.",
        "removal_unlists_neighbour",
        "removal_closes_shared_links",
        "addition_restarts_neighbours",
        "neighbour_timed_out_together",
    ),
    _claim(
        6,
        "An addition that failed leaves nothing: its ports refuse, no name server lists it, and "
        "it can be added then.",
        "failed_add_stays_admitted",
    ),
    _claim(
        7,
        "A container that was ended comes back with the brokers of its file, and no others.",
        "added_survive_restart",
    ),
    _claim(
        8,
        "Of a container that has ended, slaves elsewhere act for its masters, as in A1. After its "
        "start name servers list each of its brokers in the role of its file, as in N6. Its "
        "neighbours may do what they like.",
        "returns_with_wrong_role",
        checker="shared-processes",
        undisturbed=True,
        timed=True,
    ),
    _claim(
        9,
        "From its first cleaning on, a broker has at most 0.8 of its share of a disk. It may have "
        "one file more, and what it writes between two cleanings. (Excepted is what is not "
        "confirmed, or not copied by all of its set.)",
        "quota_counts_log_only",
        "quota_by_physical_use",
        checker="shares",
        timed=True,
    ),
    _claim(
        10,
        "No broker's excess deletes a file of another one that is within its own share of the disk "
        "and has nothing old.",
        "neighbours_oldest_file_goes",
        checker="shares",
        timed=True,
    ),
    _claim(
        11,
        "A broker that is added on its store has every message that it had, and none that was "
        "sent to another broker.",
        "removal_deletes_store",
    ),
    _claim(
        12,
        "A slave that acts stores what is due at a master of its own container, if one was "
        "undisturbed for the recovery bound.",
        "escapes_remote_first",
        checker="delayed",
        needs=(ACTS,),
        undisturbed=True,
        timed=True,
    ),
    _claim(
        14,
        "A broker that ends by itself takes no other of its container along.",
        "one_failure_ends_all",
        checker="shared-processes",
        undisturbed=True,
    ),
)
