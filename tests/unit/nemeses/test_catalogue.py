"""The catalogue of faults: every act has facts, and a kind of somebody else's is like any other."""

from collections.abc import Iterator

import msgspec
import pytest

from maxq.harness.contracts.cluster import Killable
from maxq.harness.contracts.environment import Capability
from maxq.harness.schedule.format import Act
from maxq.histories.fault_facts import BUILT_IN, FaultFacts
from maxq.nemeses import catalogue
from maxq.nemeses.kind import ActKind, Kind, on_each

FLAP = FaultFacts(strikes="start-flap", effect="cut", heals=("stop-flap",))
NEEDS = {Capability.CUT}
OWN = Kind(
    name="flap",
    acts=tuple(
        ActKind(
            f=f, needs=frozenset({Capability.CUT}), do=on_each(Killable, lambda c, args: c.kill)
        )
        for f in ("start-flap", "stop-flap")
    ),
    rounds=lambda drawing: iter(()),
    facts=(FLAP,),
)


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    yield
    for kind in catalogue.registered():
        catalogue.forget(kind.name)


@pytest.mark.parametrize("f", catalogue.acts())
def test_every_act_is_in_the_table_of_facts(f: str) -> None:
    assert BUILT_IN.knows(f)


@pytest.mark.parametrize("kind", catalogue.BUILT_IN, ids=lambda kind: kind.name)
def test_every_kind_has_a_heal_for_its_strikes(kind: Kind) -> None:
    names = {act.f for act in kind.acts}
    for facts in filter(None, map(BUILT_IN.of, names)):
        assert not facts.heals or names & set(facts.heals)
    heals = [act for act in kind.acts if BUILT_IN.heals(act.f)]
    assert all(act.back or act.rejoins for act in heals), "without a name it heals all"


def test_a_registered_kind_is_named_needed_and_declared() -> None:
    catalogue.register(OWN)
    assert "flap" in catalogue.fault_names()
    assert catalogue.kinds_of("kill-then-flap")[1] is OWN
    assert Capability.CUT in catalogue.needs_of(["kill", "flap"])
    assert catalogue.facts_of([Act(id="a", f="kill")]) == ()
    assert catalogue.facts_of([Act(id="a", f="start-flap")]) == (FLAP,)
    catalogue.forget("flap")
    assert "flap" not in catalogue.fault_names()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"name": "kill"}, "the name is taken"),
        ({"name": "none"}, "the name is taken"),
        ({"stand_in": "kil"}, "no fault 'kil' can take its place"),
        ({"acts": (OWN.acts[0]._replace(f="kill"),)}, "act 'kill' is another kind's"),
        ({"facts": (msgspec.structs.replace(FLAP, strikes="kill"),)}, "kill is built in"),
        ({"facts": (msgspec.structs.replace(FLAP, heals=()),)}, "has no end"),
    ],
)
def test_what_cannot_be_registered(changed: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        catalogue.register(msgspec.structs.replace(OWN, **changed))
    assert catalogue.registered() == ()


def test_an_unknown_fault_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="no fault 'partitoin', did you mean partition"):
        catalogue.kinds_of("partitoin")
    with pytest.raises(ValueError, match="no fault 'orders'"):
        catalogue.kinds_of("orders")
    with pytest.raises(ValueError, match="no fault 'kill' was registered"):
        catalogue.forget("kill")
