"""Lanes of the timeline: what a broker was, by its own words, and the legend of what is drawn."""

from pair_histories import Told

from maxq.harness.report.lanes import Lanes, lanes
from maxq.harness.report.page import state_legend
from maxq.histories.observed import OBSERVE_CONTROLLER, ControllerView, SetView, encoded


def returned() -> Lanes:
    """A slave acts while its master is gone; that one comes back, and is isolated at first."""
    r = Told()
    r.says(1, "b0-1", acting=False)
    r.act(10, "kill", "b0-0")
    r.says(15, "b0-1", acting=True)
    r.act(30, "start", "b0-0")
    r.says(31, "b0-0", acting=False, isolated=True)
    r.says(35, "b0-0", acting=False)
    r.says(36, "b0-1", acting=False)
    return lanes(r.history, 40_000_000_000, ["b0"], [])


def test_who_acts_and_who_is_isolated_is_drawn_as_that() -> None:
    drawn = {lane.node: [s.state for s in lane.segments] for lane in returned().nodes}
    assert drawn == {"b0-0": ["isolated", "slave"], "b0-1": ["slave", "acting", "slave"]}
    titles = [s.title for lane in returned().nodes for s in lane.segments]
    assert "b0-1: slave, acts for its master (op 5)" in titles


def test_nothing_is_drawn_where_nobody_was_asked() -> None:
    r = Told()
    for at in (1, 5, 6, 30, 31, 33):
        r.says(at, "b0-0", acting=False)
    [lane] = lanes(r.history, 60_000_000_000, ["b0"], []).nodes
    spans = [(s.start_ns // 10**9, s.end_ns // 10**9) for s in lane.segments]
    assert spans == [(1, 6), (30, 33)]
    assert [at // 10**9 for at in lane.unseen()] == [6, 33]
    gaps = [(s.start_ns // 10**9, s.end_ns // 10**9, s.label) for s in lane.gaps]
    assert gaps == [(6, 30, "nobody asked"), (33, 60, "nobody asked")]
    assert lanes(r.history, 40_000_000_000, ["b0"], []).nodes[0].segments[-1].end_ns == 40 * 10**9


def rows(seen: Lanes) -> dict[str, list[tuple[int, int, str]]]:
    return {
        lane.name: [(s.start_ns // 10**9, s.end_ns // 10**9, s.label) for s in lane.segments]
        for lane in seen.sets
    }


def test_a_set_without_controllers_has_rows_by_its_brokers_own_words() -> None:
    r = Told()
    for at in (1, 5, 9):
        r.says(at, "b0-0", acting=False, leads=True)
        r.says(at, "b0-1", acting=False)
    for at in (10, 14, 18):
        r.silent(at, "b0-0")
        r.says(at, "b0-1", acting=True)
    r.says(20, "b0-0", acting=False, isolated=True)
    r.says(20, "b0-1", acting=True)
    r.silent(22, "b0-0")
    r.silent(22, "b0-1")
    r.says(25, "b0-0", acting=False, leads=True)
    r.says(25, "b0-1", acting=False)
    seen = lanes(r.history, 30_000_000_000, ["b0"], [])
    assert rows(seen) == {
        "b0 master": [(1, 10, "b0-0"), (10, 22, "no master answers"), (25, 30, "b0-0")],
        "b0 acting master": [(10, 22, "b0-1")],
        "b0 isolated": [(20, 22, "b0-0")],
    }
    gaps = {lane.name: [(s.start_ns // 10**9, s.label) for s in lane.gaps] for lane in seen.sets}
    assert gaps == {name: [(22, "nothing answered")] for name in rows(seen)}
    assert [s.state for s in seen.sets[0].segments] == ["master", "silent", "master"]


def test_a_master_that_nobody_asked_is_not_said_to_be_silent() -> None:
    r = Told()
    r.says(1, "b0-0", acting=False, leads=True)
    for at in (1, 8, 15, 22):
        r.says(at, "b0-1", acting=False)
    r.says(23, "b0-0", acting=False, leads=True)
    found = rows(lanes(r.history, 25_000_000_000, ["b0"], []))["b0 master"]
    assert found == [(1, 23, "b0-0 not asked"), (23, 25, "b0-0")]


def test_what_controllers_said_of_a_set_goes_before_its_brokers_words() -> None:
    view = SetView(master=1, master_address="", master_epoch=3, sync_state_set=(1,),
                   sync_state_set_epoch=1, replicas={"1": "a"})  # fmt: skip
    r = Told()
    r.says(1, "b0-1", acting=False)
    r.now = 2
    told = ControllerView(node="c0", sets={"b0": view})
    r.op("ok", 8, OBSERVE_CONTROLLER, {"node": "c0"}, encoded(told))
    r.now = 30
    r.op("fail", 8, OBSERVE_CONTROLLER, {"node": "c0"}, {"node": "c0"})
    r.now = 40
    r.op("ok", 8, OBSERVE_CONTROLLER, {"node": "c0"}, encoded(told))
    seen = lanes(r.history, 41_000_000_000, ["b0"], [])
    assert [lane.name for lane in seen.sets] == ["b0 master", "b0 SyncStateSet"]
    gaps = [(s.start_ns // 10**9, s.label) for s in seen.sets[0].gaps]
    assert gaps == [(2, "nobody asked"), (30, "no leader answered")]


def test_a_legend_has_what_is_drawn_and_no_more() -> None:
    legend = state_legend(returned()).text
    assert "slave that acts for its master" in legend
    assert "isolated: it is not in its group yet" in legend
    assert "SyncStateSet" not in legend
    assert "controller" not in legend
