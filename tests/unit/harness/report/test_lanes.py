"""Lanes of the timeline: what a broker was, by its own words, and the legend of what is drawn."""

from pair_histories import Told

from maxq.harness.report.lanes import Lanes, lanes
from maxq.harness.report.page import state_legend


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
    assert lanes(r.history, 40_000_000_000, ["b0"], []).nodes[0].segments[-1].end_ns == 40 * 10**9


def test_a_legend_has_what_is_drawn_and_no_more() -> None:
    legend = state_legend(returned()).text
    assert "slave that acts for its master" in legend
    assert "isolated: it is not in its group yet" in legend
    assert "SyncStateSet" not in legend
    assert "controller" not in legend
