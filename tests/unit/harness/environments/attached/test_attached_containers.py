"""Which containers of others can be tested, and what is refused, before anything is done."""

from pathlib import Path

import pytest
from fake_engine import Api

from maxq.harness.contracts.environment import MissingCapability
from maxq.harness.contracts.existing import BrokerMember, Existing, Member
from maxq.harness.environments.attached import attached_containers
from maxq.harness.environments.attached.attached_containers import (
    _claimed,
    located,
    network_of,
    standings,
)
from maxq.harness.environments.engine import leaks
from maxq.harness.environments.engine.client import Engine

AT = {"n": "10.0.0.1", "a": "10.0.0.2"}


def cluster(**inside: str) -> Existing:
    where = {"n": "n", "a": "a", **inside}
    return Existing(
        cluster="mine",
        namesrv=(Member(name="n", address="10.0.0.1:9876", container=where["n"]),),
        broker=(
            BrokerMember(name="a", address="10.0.0.2:10911", container=where["a"], set="x", id=0),
        ),
        file="c.toml",
    )


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        ({"a": ""}, "c.toml: a names no container. A cluster is tested"),
        ({"a": "n"}, "n and a are in one container, n: a fault would strike both"),
        ({"a": "gone"}, "c.toml: a: look at container gone: No such container: gone"),
    ],
)
def test_each_node_is_alone_in_a_container_that_is_there(inside: dict[str, str], why: str) -> None:
    with pytest.raises(MissingCapability, match=why):
        standings(Engine(Api(AT)), cluster(**inside))


@pytest.mark.parametrize(("how", "state"), [("pause", "paused"), ("kill", "not running")])
def test_a_container_runs_before_anything_is_done(how: str, state: str) -> None:
    api = Api(AT)
    api.pause("a") if how == "pause" else api.kill("a", 9)
    with pytest.raises(MissingCapability, match=f"a: container a is {state}"):
        standings(Engine(api), cluster())


def test_packets_are_cut_where_each_node_has_an_address_of_its_own() -> None:
    engine = Engine(Api(AT))
    assert network_of(standings(engine, cluster()), cluster()) == "net"
    for api in (Api(AT, mode="host"), Api({**AT, "a": "172.17.0.9"})):
        found = standings(Engine(api), cluster())
        with pytest.raises(MissingCapability, match="only where each has an address of its own"):
            network_of(found, cluster())


def test_two_runs_do_not_test_one_cluster() -> None:
    found = standings(Engine(Api(AT)), cluster())
    first = _claimed(found)
    with pytest.raises(MissingCapability, match="another run of Max-Q tests this cluster"):
        _claimed(found)
    for claim in first:
        claim.close()
    for claim in _claimed(found):
        claim.close()


def test_what_was_taken_away_is_given_back(tmp_path: Path) -> None:
    api = Api({**AT, "b": "10.0.0.3", "c": "10.0.0.4"})
    api.kill("a", 9)
    api.pause("b")
    leaks.owe(tmp_path, ["id-a", "id-b", "id-c", "id-gone"])
    left = leaks.put_right(Engine(api), tmp_path)
    assert left == ["look at container id-gone: No such container: gone"]
    assert api.done[2:] == [("start", "a"), ("unpause", "b")]
    assert leaks.put_right(Engine(api), tmp_path / "none") == []


def test_nodes_are_in_the_containers_at_their_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached_containers, "connect", lambda timeout_s: Engine(Api(AT)))
    bare = cluster(n="", a="")
    assert bare.inside(located()) == cluster()
    assert bare.inside(lambda host, port: "").broker == bare.broker


def test_a_port_of_this_machine_leads_to_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """As compose files of most people have it; another machine's port does not."""
    api = Api({"n": "172.18.0.2"}, ports={"n": 9876})
    monkeypatch.setattr(attached_containers, "connect", lambda timeout_s: Engine(api))
    at = located()
    assert [at("127.0.0.1", 9876), at("127.0.0.1", 9877), at("172.18.0.2", 9876)] == ["n", "", "n"]
    assert at("192.0.2.1", 9876) == ""
