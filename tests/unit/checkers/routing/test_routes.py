"""Routes: impossible answers, and brokers that are gone and still listed."""

from typing import Any, Self

import msgspec
import pytest
from cluster_recorder import broker, set_view, table
from history_recorder import SECOND_NS, Recorder

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.routing.routes import Routes
from maxq.histories.observed import RouteView, encoded
from maxq.histories.op import NEMESIS, Op

CONTEXT = Context(shrink_ns=8 * SECOND_NS, recovery_ns=20 * SECOND_NS)


class Told(Recorder):
    """Operations at given times; broker n of b0 is at ``b0-n:1``."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def at(self, seconds: float) -> Self:
        self.now = seconds
        return self

    def _add(self, op_type: Any, process: Any, f: str, value: Any, ext: dict[str, Any]) -> int:
        index = len(self.ops)
        time = round(self.now * SECOND_NS)
        self.ops.append(Op(op_type, process, f, value, None, index, time, ext or None))
        return index

    def lives(self, n: int) -> int:
        asked = {"node": f"b0-{n}"}
        return self.op("ok", 8, "observe-replica", asked, broker(f"b0-{n}", n + 1, (1, 0, 9)))

    def cut(self, to: str, source: str) -> None:
        """From now on one takes no packets from the other."""
        self.begin(NEMESIS, "start-partition", "c")
        told = {to: {"holds": True, "from": {source: 1}}}
        self.end("info", NEMESIS, "start-partition", told)

    def route(self, **listed: str) -> int:
        """What n0 lists of b0: ids to addresses."""
        ids = {key.removeprefix("id"): address for key, address in listed.items()}
        value = encoded(RouteView(node="n0", sets={"b0": ids}))
        return self.op("ok", 9, "observe-route", {"node": "n0"}, value)


def judge(r: Recorder) -> Verdict:
    return Routes().check(r.history, CONTEXT)


def test_an_address_has_one_id() -> None:
    r = Told()
    r.route(id0="b0-0:1", id2="b0-1:1")
    at = r.route(id0="b0-1:1", id2="b0-1:1")
    r.route(id0="b0-1:1", id2="b0-1:1")  # the same again
    verdict = judge(r)
    assert verdict.valid is False
    [found] = verdict.anomalies
    assert (found.signature, found.ops) == ("N1/address-listed-twice", (at,))
    assert found.detail == {"set": "b0", "node": "n0", "address": "b0-1:1"}
    assert "under the ids 0 and 2" in found.story


def test_routes_as_they_should_be() -> None:
    r = Told()
    r.route(id0="b0-0:1", id2="b0-1:1")
    verdict = judge(r)
    assert (verdict.valid, verdict.claims) == (True, ("N1",))


def killed(*, holds: bool = True, known: bool = True, f: str = "kill") -> Told:
    """At 10 s broker 1 is killed."""
    r = Told()
    r.at(1).lives(0)
    if known:
        r.lives(1)
    r.route(id0="b0-0:1", id2="b0-1:1")
    r.at(10).fault(f, **{"b0-1": holds})
    return r


@pytest.mark.parametrize("f", ["kill", "stop"])
def test_who_is_gone_leaves_the_routes(f: str) -> None:
    r = killed(f=f)
    r.at(15).route(id0="b0-0:1", id2="b0-1:1")  # within the bound
    at = r.at(19).route(id0="b0-0:1", id2="b0-1:1")
    r.at(20).route(id0="b0-0:1", id2="b0-1:1")  # of the same death
    verdict = judge(r)
    assert verdict.valid is False
    [found] = verdict.anomalies
    assert found.signature == "N5/dead-broker-listed"
    assert found.ops[-1] == at
    assert found.detail == {"set": "b0", "node": "b0-1", "namesrv": "n0", "for-ms": 9000}
    assert "9.0 s later n0 still lists it" in found.story


def test_an_act_that_failed_proves_nobody_dead() -> None:
    r = killed(holds=False)
    r.begin(NEMESIS, "kill", "k")
    r.end("info", NEMESIS, "kill", "k")
    r.at(19).route(id0="b0-0:1", id2="b0-1:1")
    assert judge(r).valid is True


def test_who_has_left_in_time() -> None:
    r = killed()
    r.at(19).route(id0="b0-0:1")
    verdict = judge(r)
    assert (verdict.valid, verdict.claims) == (True, ("N1", "N5"))


def test_an_answer_that_was_asked_for_before_the_bound_proves_nothing() -> None:
    r = killed()
    r.at(17).begin(9, "observe-route", {"node": "n0"})
    value = encoded(RouteView(node="n0", sets={"b0": {"2": "b0-1:1"}}))
    r.at(30).end("ok", 9, "observe-route", value)
    assert judge(r).valid is True


EXCUSES = [("start", "b0-1"), ("restart", "b0-1"), ("restore-address", "b0-1"),
           ("start-partition", "b0-2"), ("pause", "n0")]  # fmt: skip


@pytest.mark.parametrize(("f", "node"), EXCUSES)
def test_what_else_was_done_excuses(f: str, node: str) -> None:
    """Who was started is there again; a cut or a pause keeps a name server from noticing."""
    r = killed()
    r.at(11).fault(f, **{node: True})
    r.at(30).route(id0="b0-0:1", id2="b0-1:1")
    verdict = judge(r)
    assert (verdict.valid, verdict.claims) == (True, ("N1",))


@pytest.mark.parametrize(
    "f", ["pause", "bump-clock", "kill", "start", "restart", "restore-address"]
)
def test_what_is_done_to_others_does_not(f: str) -> None:
    r = killed()
    r.at(11).fault(f, **{"b0-2": True})
    r.at(30).route(id0="b0-0:1", id2="b0-1:1")
    assert judge(r).valid is False


@pytest.mark.parametrize(("healed_at", "valid"), [(None, True), (60, True), (30, False)])
def test_a_cut_excuses_until_it_has_been_healed_for_long(
    healed_at: int | None, *, valid: bool
) -> None:
    r = Told()
    r.at(1).lives(1)
    r.at(5).cut("n0", "b0-1")
    if healed_at is not None:
        r.at(healed_at).fault("stop-partition", n0=True)
    r.at(69).route(id2="b0-1:1")
    r.at(70).fault("kill", **{"b0-1": True})
    r.at(90).route(id0="b0-0:1", id2="b0-1:1")
    assert judge(r).valid is valid


def lives_on(
    *, until: float = 40, other: tuple[str, str] = ("kill", "b0-0"), known: bool = True
) -> Told:
    """Broker 1 lives all the while; at 5 s something is done to somebody."""
    r = Told()
    r.at(1).lives(1)
    if known:
        r.route(id0="b0-0:1", id2="b0-1:1")
    r.at(5).fault(other[0], **{other[1]: True})
    r.at(20).lives(1)
    r.at(until).route(id0="b0-0:1")
    r.at(until + 1).lives(1)
    return r


@pytest.mark.parametrize(("until", "known"), [(40, True), (40, False), (19, True)])
def test_who_lives_in_peace_is_listed(until: float, *, known: bool) -> None:
    """Within the bound as well where it was listed before anything was done to anybody."""
    r = lives_on(until=until, known=known)
    at = r.at(42).route(id0="b0-0:1")
    r.at(43).lives(1)
    verdict = judge(r)
    [found] = verdict.anomalies
    assert found.signature == "N6/living-broker-not-listed"
    assert found.ops[-1] < at, "the first such answer"
    assert found.detail == {"set": "b0", "node": "b0-1", "namesrv": "n0"}
    assert "b0-1 at b0-1:1 answered in op" in found.story


@pytest.mark.parametrize(("node", "found"), [("b0-1", 0), ("b0-0", 1)])
def test_who_was_made_master_in_its_turn_is_listed_a_while_later(node: str, found: int) -> None:
    """Nobody need have seen it lead."""
    r = Told()
    r.at(1).lives(1)
    r.route(id0="b0-0:1", id2="b0-1:1")
    r.at(39).fault("elect-master", **{node: True})
    r.at(40).route(id0="b0-0:1")
    r.at(41).lives(1)
    assert len(judge(r).anomalies) == found
    r.at(70).route(id0="b0-0:1")
    r.at(71).lives(1)
    assert len(judge(r).anomalies) == 1, "within the bound, not for ever"


@pytest.mark.parametrize(
    ("listed_at", "unlisted_at", "valid"),
    [(None, 45, True), (None, 51, False), (12, 45, False), (6, 45, True)],
)
def test_who_was_started_without_controllers_is_listed_once_they_are_back(
    listed_at: float | None, unlisted_at: float, *, valid: bool
) -> None:
    """Unless it was listed anew: then it has met them."""
    r = Led()
    r.at(1).controllers()
    r.lives(1)
    r.at(5).fault("kill", **{"b0-1": True, "c0": True})
    if listed_at == 6:
        r.at(6).route(id2="b0-1:1")
    r.at(8).route(id0="b0-0:1")
    r.at(10).fault("start", **{"b0-1": True})
    r.at(11).lives(1)
    if listed_at == 12:
        r.at(12).route(id2="b0-1:1")
    r.at(30).fault("start", c0=True)
    r.at(44).lives(1)
    r.at(unlisted_at).route(id0="b0-0:1")
    r.at(unlisted_at + 1).lives(1)
    assert judge(r).valid is valid


def powerless(*, controllers: bool) -> Told:
    """Broker 1 loses its power at 5 s and is started at 10 s, in vain where there are no
    controllers: a name server lists it by a connection whose end it has not seen."""
    r = Led()
    r.at(1).controllers()
    r.lives(1)
    r.route(id2="b0-1:1")
    lost = {"b0-1": True} if controllers else {"b0-1": True, "c0": True}
    r.at(5).fault("power-loss", **lost)
    r.at(10).fault("start", **{"b0-1": True})
    r.at(11).lives(1)
    r.at(12).route(id2="b0-1:1")
    return r


@pytest.mark.parametrize(
    ("controllers", "left", "valid"),
    [(False, False, True), (False, True, False), (True, False, False)],
)
def test_who_has_not_registered_since_it_lost_its_power_may_be_listed_when_it_dies(
    *, controllers: bool, left: bool, valid: bool
) -> None:
    r = powerless(controllers=controllers)
    if left:  # the old entry expires; what is listed then is new
        r.at(13).route(id0="b0-0:1")
    r.at(59).route(id2="b0-1:1")
    r.at(60).fault("kill", **{"b0-1": True})
    r.at(90).route(id2="b0-1:1")
    verdict = judge(r)
    assert verdict.valid is valid
    assert ("N5" in verdict.claims) is not valid


@pytest.mark.parametrize("registered", [False, True])
def test_an_entry_of_a_former_life_that_expires_is_no_broker_left_out(*, registered: bool) -> None:
    r = powerless(controllers=False)
    if registered:
        r.at(13).route(id0="b0-0:1")
        r.at(14).route(id2="b0-1:1")
    r.at(40).lives(1)
    r.at(41).route(id0="b0-0:1")
    r.at(42).lives(1)
    assert judge(r).valid is not registered


def test_who_led_a_moment_ago_need_not_be_listed() -> None:
    """A name server has heard of its successor before itself has."""
    for again_at, valid in ((39, True), (45, False)):
        r = Led()
        r.asked(1, id0="b0-0:1")
        r.asked(22, id0="b0-0:1")
        r.at(23).lives(0)
        r.at(again_at).lives(0)
        r.route(id0="b0-1:1")
        r.lives(0)
        assert judge(r).valid is valid


def test_an_answer_that_lists_the_living() -> None:
    r = Told()
    r.at(1).lives(1)
    r.at(30).route(id0="b0-0:1", id2="b0-1:1")
    r.at(31).lives(1)
    verdict = judge(r)
    assert (verdict.valid, verdict.claims) == (True, ("N1", "N6"))


@pytest.mark.parametrize(
    "r",
    [
        lives_on(until=19, known=False),  # within the bound
        lives_on(until=24, other=("restart", "b0-1")),  # it was disturbed itself
        lives_on(until=24, other=("kill", "n0")),
        lives_on(other=("start-partition", "b0-2")),  # nobody can say who hears whom
    ],
)
def test_who_need_not_be_listed(r: Told) -> None:
    verdict = judge(r)
    assert (verdict.valid, verdict.claims) == (True, ("N1",))


@pytest.mark.parametrize(("to", "source"), [("b0-0", "b0-1"), ("n0", "b0-0")])
def test_a_cut_between_others_excuses_nobody(to: str, source: str) -> None:
    r = Told()
    r.at(1).lives(1)
    r.route(id0="b0-0:1", id2="b0-1:1")
    r.at(5).cut(to, source)
    r.at(30).route(id0="b0-0:1")
    r.at(31).lives(1)
    assert judge(r).valid is False


class Led(Told):
    """Broker 0 leads in epoch 3 as it says; controllers are asked as well."""

    def leads(self, epoch: int = 3) -> "Led":
        told = broker("b0-0", 1, (epoch, 0, 9), leads=True)
        self.op("ok", 8, "observe-replica", {"node": "b0-0"}, told)
        return self

    def controllers(self, epoch: int = 3) -> "Led":
        view = table(set_view(epoch, 1, 1, 1))
        self.op("ok", 7, "observe-controller", {"node": "c0"}, view)
        return self

    def asked(self, at: float, **listed: str) -> int:
        """The broker, then the name server, then the broker."""
        self.at(at)
        self.leads()
        found = self.route(**listed)
        self.leads()
        return found


SLAVE_AS_MASTER = {"id0": "b0-1:1", "id1": "b0-0:1"}


def test_who_leads_for_long_is_listed_as_master() -> None:
    r = Led()
    r.asked(1, **SLAVE_AS_MASTER)
    r.asked(20, **SLAVE_AS_MASTER)  # within the bound
    at = r.asked(22, **SLAVE_AS_MASTER)
    r.asked(23, **SLAVE_AS_MASTER)
    r.at(30).controllers()
    verdict = judge(r)
    [found] = verdict.anomalies
    assert found.signature == "N10/master-not-listed"
    assert found.ops[-1] == at
    assert found.detail["listed"] == "b0-1:1"
    assert "lists b0-1:1 as master" in found.story


def test_a_name_server_that_an_order_paused_lists_nobody_for_a_while() -> None:
    """The controller that leads may be in it; the order is given when all else was asked."""
    r = Led()
    r.asked(1, id0="b0-0:1")
    r.asked(3, id0="b0-0:1")
    r.fault("change-controller-leader", controllers=True)
    r.asked(5, id1="b0-0:1")
    r.at(6).controllers()
    verdict = judge(r)
    assert (verdict.valid, verdict.claims) == (True, ("N1", "N10"))


def test_who_was_listed_as_master_stays_so() -> None:
    r = Led()
    r.asked(1, id0="b0-0:1")
    at = r.asked(3, id1="b0-0:1")
    r.at(4).controllers()
    [found] = judge(r).anomalies
    assert found.signature == "N10/master-not-listed"
    assert found.ops[-1] == at
    assert "lists no broker as master" in found.story


def test_a_leader_whom_controllers_have_replaced_need_not_be_listed() -> None:
    for epoch in (4, None):
        r = Led()
        r.asked(1, id0="b0-0:1")
        r.asked(30, **SLAVE_AS_MASTER)
        if epoch is not None:  # otherwise nobody says that there is none
            r.at(31).controllers(epoch)
        assert judge(r).valid is True
        assert "N10" not in judge(r).claims


def test_a_leader_that_is_listed() -> None:
    r = Led()
    r.asked(1, id0="b0-0:1")
    r.asked(30, id0="b0-0:1")
    r.at(31).controllers()
    verdict = judge(r)
    assert (verdict.valid, verdict.claims) == (True, ("N1", "N10"))


def test_who_is_not_seen_again_may_be_gone() -> None:
    r = Told()
    r.at(1).lives(1)
    r.at(40).route(id0="b0-0:1")
    assert judge(r).claims == ("N1",)


def test_what_was_done_before_excuses() -> None:
    r = Told()
    r.at(1).lives(1)
    r.at(5).fault("start-partition", n0=True)
    r.at(10).fault("kill", **{"b0-1": True})
    r.at(30).route(id0="b0-0:1", id2="b0-1:1")
    assert judge(r).valid is True


def test_a_death_without_proof_or_address_is_none() -> None:
    for r in (killed(holds=False), killed(known=False)):
        r.at(30).route(id0="b0-0:1", id2="b0-1:1")
        assert judge(r).valid is True


def test_a_kill_that_never_completed_is_no_death() -> None:
    r = Told()
    r.at(1).lives(1)
    r.at(10).begin(NEMESIS, "kill", "one")
    r.at(30).route(id0="b0-0:1", id2="b0-1:1")
    assert judge(r).valid is True


def test_a_strange_answer_is_unreadable() -> None:
    r = Told()
    r.op("ok", 9, "observe-route", {"node": "n0"}, {"sets": 7})
    assert judge(r).valid == "unknown"


IN_PAIRS = msgspec.structs.replace(CONTEXT, settings={"broker:enableControllerMode": "false"})


@pytest.mark.parametrize(
    ("isolated", "at_s", "status"),
    [(False, 31, "broken"), (True, 31, "no occasion"), (None, 31, "no occasion"),
     (False, 29, "no occasion")],
)  # fmt: skip
def test_without_controllers_who_is_in_its_group_is_listed(
    isolated: bool | None, at_s: int, status: str
) -> None:
    """RocketMQ's brokers do not say whether they are; they must have been listed then."""
    r = Told()

    def lives(at: float) -> None:
        said = broker("b0-1", None) | ({} if isolated is None else {"isolated": isolated})
        r.at(at).op("ok", 8, "observe-replica", {"node": "b0-1"}, said)

    r.at(9).fault("kill", **{"b0-1": True})
    r.at(10).fault("start", **{"b0-1": True})
    lives(at_s - 0.5)
    r.at(at_s).route(id0="b0-0:1")
    lives(at_s + 0.5)
    assert "N6" in Routes().check(r.history, IN_PAIRS).of(status)  # type: ignore[arg-type]
