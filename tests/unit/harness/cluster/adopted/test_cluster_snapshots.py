"""What is otherwise in a cluster after a run, in lines."""

from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.cluster.adopted.cluster_snapshots import ANSWERS, Fact, differences

FACTS = st.builds(
    Fact, st.sampled_from("ab"), st.sampled_from(("topic x", "role", "setting k")), st.booleans()
)
SNAPSHOTS = st.dictionaries(FACTS, st.sampled_from(("1", "2")))


def test_what_no_fault_explains_comes_first() -> None:
    role, topic, setting = Fact("a", "role", moved=True), Fact("b", "topic x"), Fact("b", "same")
    before = {role: "master", setting: "1"}
    assert [*differences(before, {role: "slave", setting: "1", topic: "permission 6"})] == [
        "b: topic x: was nothing, is permission 6",
        "a: role: was master, is slave (as faults of nodes do)",
    ]


def test_a_node_that_is_silent_is_one_line() -> None:
    known = {Fact("a", what): "yes" for what in (ANSWERS, "setting k", "topic x")}
    assert [*differences(known, {})] == ["a: does not answer any more"]
    assert len([*differences({}, known)]) == 3


@given(before=SNAPSHOTS, after=SNAPSHOTS)
def test_each_fact_that_changed_is_one_line(
    before: dict[Fact, str], after: dict[Fact, str]
) -> None:
    changed = {f for f in {*before, *after} if before.get(f) != after.get(f)}
    assert len([*differences(before, after)]) == len(changed)
    assert [*differences(before, before)] == []
