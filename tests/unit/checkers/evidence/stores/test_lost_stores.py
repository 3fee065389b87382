"""After which accidents with stores a run promises nothing about messages any more."""

import pytest
from history_recorder import Recorder

from maxq.checkers.availability.processes import Processes
from maxq.checkers.core.api import Context
from maxq.checkers.core.claims import BY_ID
from maxq.checkers.evidence.stores.lost_stores import begun_anew, copies, elected_empty, forfeited
from maxq.checkers.evidence.verdicts import conditions
from maxq.checkers.judgement.fault_proof import FaultProof
from maxq.checkers.judgement.runner import check_all
from maxq.checkers.judgement.summary import headline
from maxq.checkers.replication.replicas import Replicas
from maxq.histories.observed import ControllerView, EpochView, ReplicaView, SetView, encoded


class Set(Recorder):
    """A broker set with its observers: process 8 asks brokers, 9 asks controllers."""

    def runs(self, node: str, broker_id: int, *, registered: bool = True) -> int:
        view = ReplicaView(
            node=node, set="b0", address=f"{node}:1", id=broker_id, leads=False,
            epochs=(EpochView(1, 0, 9),) if registered else (), end=9, confirmed=9,
        )  # fmt: skip
        return self.op("ok", 8, "observe-replica", {"node": node}, encoded(view))

    def leads(self, node: str, broker_id: int, *epochs: EpochView) -> int:
        view = ReplicaView(node=node, set="b0", address=f"{node}:1", id=broker_id, leads=True,
                           epochs=epochs, end=9, confirmed=9)  # fmt: skip
        return self.op("ok", 8, "observe-replica", {"node": node}, encoded(view))

    def members(self, *ids: int) -> int:
        held = SetView(
            master=1, master_address="a", master_epoch=1, sync_state_set=ids,
            sync_state_set_epoch=1, replicas={str(i): f"x{i}:1" for i in ids},
        )  # fmt: skip
        view = ControllerView(node="c0", sets={"b0": held})
        return self.op("ok", 9, "observe-controller", {"node": "c0"}, encoded(view))


def pair() -> Set:
    r = Set()
    r.runs("b0-0", 1)
    r.runs("b0-1", 2)
    r.members(1, 2)
    return r


def copied() -> Set:
    r = pair()
    r.fault("kill", **{"b0-1": True})
    r.fault("copy-store", **{"b0-1": True})
    return r


def test_without_accidents_everything_is_promised() -> None:
    r = pair()
    r.fault("kill", **{"b0-1": True})
    r.members(1)
    assert forfeited(r.history) == ""


@pytest.mark.parametrize("after", ["", "flip-bit"])
def test_a_copy_that_runs_under_its_owners_id_forfeits_them(after: str) -> None:
    r = copied()
    if after:
        r.fault(after, **{"b0-1": True})
    r.runs("b0-1", 1)
    why = forfeited(r.history)
    assert why.startswith("b0-1 ran on a copy of another broker's store, under its id 1 (op ")
    met = conditions(r.history, None)
    assert met.unpromised("S6", {"broker:allAckInSyncStateSet": "true"}) == why
    assert met.unpromised("S5", None) == met.unpromised("S1", None) == ""


def test_a_copy_that_was_refused_forfeits_nothing_and_is_no_replica() -> None:
    r = copied()
    r.runs("b0-1", 1, registered=False)
    assert forfeited(r.history) == ""
    assert copies(r.history) == {"b0-1"}
    r.fault("wipe", **{"b0-1": True})
    r.runs("b0-1", 3)
    assert forfeited(r.history) == ""
    assert copies(r.history) == frozenset()


def test_a_copy_that_runs_is_a_replica() -> None:
    r = copied()
    r.runs("b0-1", 1)
    assert copies(r.history) == frozenset()


@pytest.mark.parametrize("ids", [(2,), (2, 3)])
def test_who_loses_the_last_store_of_a_set_forfeits_them(ids: tuple[int, ...]) -> None:
    """Broker 3 is on b0-1 by then, and loses its store as well."""
    r = pair()
    r.members(*ids)
    r.fault("kill", **{"b0-1": True})
    r.fault("wipe", **{"b0-1": True})
    if 3 in ids:
        assert forfeited(r.history) == ""
        r.runs("b0-1", 3)
        r.fault("wipe", **{"b0-1": True})
    assert "none of it has its store" in forfeited(r.history)


def test_a_set_that_shrinks_to_a_removed_store_much_later_forfeits_them() -> None:
    """An election that was proposed before the store was removed is committed after it."""
    r = pair()
    r.fault("kill", **{"b0-1": True})
    r.fault("wipe", **{"b0-1": True})
    r.members(1, 2)
    assert forfeited(r.history) == ""
    r.members(2)
    assert "none of it has its store" in forfeited(r.history)


UNCLEAN = {"controller:enableElectUncleanMaster": "true"}


def test_an_empty_broker_that_unclean_election_allows_leaves_no_topic() -> None:
    r = pair()
    r.fault("kill", **{"b0-1": True})
    r.fault("wipe", **{"b0-1": True})
    r.leads("b0-1", 3, EpochView(1, 0, 9), EpochView(2, 9, 9))  # with the log of the others
    assert elected_empty(r.history, UNCLEAN) == ""
    r.leads("b0-1", 3, EpochView(2, 0, 9))
    assert elected_empty(r.history, UNCLEAN).startswith(
        "b0-1 was elected in epoch 2 without a log, after its "
    )
    unset: dict[str, str] = {}
    for settings in (None, unset):  # there it is a fault of the cluster
        assert elected_empty(r.history, settings) == ""
        assert conditions(r.history, settings).unpromised("S13", settings) == ""
    assert conditions(r.history, UNCLEAN).unpromised("S13", UNCLEAN)
    assert conditions(r.history, UNCLEAN).unpromised("S6", UNCLEAN).startswith("it needs ")


def test_an_empty_broker_whose_store_was_not_removed_is_no_accident() -> None:
    r = pair()
    r.fault("wipe", **{"b0-0": True})
    r.leads("b0-1", 2, EpochView(2, 0, 9))
    assert elected_empty(r.history, UNCLEAN) == ""


def test_a_member_that_keeps_its_store_keeps_the_promises() -> None:
    r = pair()
    r.fault("kill", **{"b0-1": True})
    r.fault("wipe", **{"b0-1": True})
    r.members(1)
    assert forfeited(r.history) == ""


@pytest.mark.parametrize(
    ("wiped", "anew"), [(("c0", "c1"), True), (("c0",), False), (("b0-0", "b0-1", "c0"), False)]
)
def test_controllers_that_lost_most_of_their_stores_begin_anew(
    wiped: tuple[str, ...], anew: bool
) -> None:
    """What they said before is compared with nothing; of messages everything is promised."""
    r = pair()
    for controller in ("c0", "c1", "c2"):
        r.op("fail", 9, "observe-controller", {"node": controller}, {"node": controller})
    r.fault("wipe", **dict.fromkeys(wiped, True))
    met = conditions(r.history, {})
    assert ("c0 and c1 were removed" in begun_anew(r.history)) is anew
    of_them = {claim for claim, known in BY_ID.items() if known.of_controllers}
    assert of_them == {"S1", "S2", "S3", "S3b", "S4", "S5", "S7", "S8c", "S18", "N13"}
    assert all(("most of the controllers" in met.unpromised(c, {})) is anew for c in of_them)
    assert "controllers" not in met.unpromised("S14", {})


def test_what_is_claimed_all_the_same() -> None:
    kept = {claim for claim, known in BY_ID.items() if not known.of_stores}
    assert kept >= {"S1", "S2", "S3", "S4", "S5", "N1", "L1", "L2"}
    assert not kept & {"S6", "S8", "S9", "S10", "S11", "S12", "S13", "S14", "S16"}


def test_an_order_to_elect_may_be_refused_where_no_member_has_its_store() -> None:
    def proof(r: Set) -> object:
        return FaultProof().check(r.history, Context()).valid

    r = pair()
    r.fault("elect-master", **{"b0-0": False})
    assert proof(r) == "unknown"
    r = copied()
    r.runs("b0-1", 1)
    r.fault("elect-master", **{"b0-0": False})
    assert proof(r) is True
    r.fault("kill", **{"b0-0": False})
    assert proof(r) == "unknown"


def test_a_replica_that_never_ran_again_cannot_be_elected() -> None:
    def proof(*nodes: str) -> object:
        r = pair()
        r.fault("kill", **{"b0-1": True})
        r.fault("flip-bit", **{"b0-1": True})
        r.fault("elect-master", **dict.fromkeys(nodes, False))
        return FaultProof().check(r.history, Context()).valid

    assert proof("b0-1") is True
    assert proof("b0-0", "b0-1") == proof("b0-0") == proof() == "unknown"


def test_a_set_with_a_replica_fewer_for_good_promises_no_writes() -> None:
    r = copied()
    met = conditions(r.history, None)
    assert met.reduced.startswith("b0-1 never ran again after the copy-store of op ")
    assert met.unpromised("S13", None) == met.reduced
    assert met.unpromised("S6", None) == ""
    r.fault("wipe", **{"b0-1": True})
    assert conditions(r.history, None).reduced == ""


def test_the_headline_says_what_is_not_promised_any_more_and_why() -> None:
    """A run that is valid in what was left to promise must not read as one that kept all."""
    r = copied()
    r.runs("b0-1", 1)
    results = check_all(r.history, [Processes(), Replicas()], Context(profile="P-SAFE"))
    said = headline(results, Context(profile="P-SAFE"))
    assert "No longer promised: " in said
    assert said.endswith(
        "b0-1 ran on a copy of another broker's store, under its id 1 (op 10): the id stands for "
        "two logs."
    )
