"""S2b: controllers know where a broker is, once it could tell them for long."""

import msgspec
import pytest
from cluster_recorder import broker, set_view, table
from test_routes import Told, judge

from maxq.checkers.core.api import Verdict
from maxq.checkers.core.claims import CLAIMS
from maxq.histories.observed import SetView

MOVED_AT = 100


def view(*addresses: str, master_address: str = "") -> SetView:
    """A set whose brokers have ids from 1 on; the first one leads."""
    whole = set_view(1, 3, 1, *range(1, len(addresses) + 1))
    return msgspec.structs.replace(
        whole,
        master_address=master_address or addresses[0],
        replicas={str(n): address for n, address in enumerate(addresses, 1)},
    )


class Seen(Told):
    """Broker b0-0 leads at `address`, and is asked all the time; so is controller c0."""

    address = "b0-0:1"

    def goes_on(self, until: float, told: SetView | None, *, every: float = 1.0) -> None:
        while self.now < until:
            self.at(self.now + every).asked()
            if told is not None:
                self.op("ok", 9, "observe-controller", {"node": "c0"}, table(told))
        self.asked()

    def asked(self) -> None:
        value = broker("b0-0", 1, (1, 0, 9)) | {"address": self.address}
        self.op("ok", 8, "observe-replica", {"node": "b0-0"}, value)


def moved(
    told: SetView, *, f: str = "", node: str = "c0", every: float = 1.0, holds: bool = True
) -> Verdict:
    """The broker moves to x:1, and 30 s later a controller believes it `told`."""
    r = Seen()
    r.at(MOVED_AT - 3).goes_on(MOVED_AT, view("b0-0:1"))
    r.route(id1="b0-0:1")
    r.asked()
    r.fault("change-address", **{"b0-0": holds})
    r.address = "x:1"
    r.goes_on(MOVED_AT + 10, view("b0-0:1"), every=every)  # not yet
    if f:
        r.fault(f, **{node: True})
    r.goes_on(MOVED_AT + 30, told, every=every)
    return judge(r)


def test_a_broker_that_is_known_where_it_is() -> None:
    verdict = moved(view("x:1"))
    assert verdict.valid is True
    assert "S2b" in verdict.claims
    assert "routes" in {c.checker for c in CLAIMS if c.id == "S2b"}


@pytest.mark.parametrize("told", [view("b0-0:1"), view("x:1", master_address="b0-0:1")])
def test_a_broker_that_is_believed_to_be_where_it_was(told: SetView) -> None:
    verdict = moved(told)
    [found] = verdict.anomalies
    assert found.signature == "S2b/known-elsewhere"
    assert found.detail["address"] == "x:1"
    assert found.detail["told"] == "b0-0:1"
    assert found.detail["for-ms"] > 20_000
    assert "sent to a wrong address" in found.story


@pytest.mark.parametrize(
    ("f", "node", "judged"),
    [
        ("kill", "c1", True),  # controllers may end and start
        ("start", "c1", True),
        ("restart", "b0-1", True),
        ("restart", "b0-0", False),  # it begins anew
        ("pause", "b0-0", False),
        ("start-delay", "c0", False),  # one that is degraded
    ],
)
def test_what_is_done_meanwhile(f: str, node: str, *, judged: bool) -> None:
    verdict = moved(view("b0-0:1"), f=f, node=node)
    assert ("S2b" in verdict.claims) is judged
    assert (verdict.valid is False) is judged


def test_where_controllers_are_silent_nobody_can_be_told() -> None:
    assert "S2b" not in moved(view("b0-0:1"), every=6.0).claims
    assert "S2b" not in moved(view("b0-0:1"), holds=False).claims


def test_an_id_that_a_controller_does_not_know_is_another_claims() -> None:
    assert "S2b" not in moved(msgspec.structs.replace(view("x:1"), replicas={"2": "y:1"})).claims


def joined(*, touched: str = "", address: str | None = "x:1") -> Verdict:
    """A broker whose owner lets it join at x:1; half a minute later a controller believes it where
    it was before. Nobody asks it."""
    r = Seen()
    r.at(MOVED_AT)
    r.op("ok", 5, "kill-broker", {"node": "r0"}, {"node": "r0"})
    said = {"node": "r0", "set": "b0", "id": 2} | ({"address": address} if address else {})
    r.op("ok", 5, "join", {"node": "r0"}, said)
    r.route(id1="b0-0:1")
    r.goes_on(MOVED_AT + 10, view("b0-0:1", "x:1"))
    if touched:
        r.op("ok", 5, touched, {"node": "r0"}, {"node": "r0"})
    r.goes_on(MOVED_AT + 28, view("b0-0:1", "r0:1"))
    return judge(r)


def test_a_broker_that_joined_and_was_left_there() -> None:
    verdict = joined()
    [found] = verdict.anomalies
    assert found.signature == "S2b/known-elsewhere"
    assert (found.detail["node"], found.detail["told"]) == ("r0", "r0:1")
    assert "joined at x:1" in found.story
    assert joined(address="r0:1").valid is True


@pytest.mark.parametrize("f", ["leave", "kill-broker", "change-address", "wipe"])
def test_a_broker_that_was_touched_since_it_joined(f: str) -> None:
    assert joined(touched=f).valid is True


def test_a_history_of_before_joins_told_their_address() -> None:
    assert joined(address=None).valid is True
