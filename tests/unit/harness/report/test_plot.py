"""What plots and tables say of a run."""

import numpy as np
import pytest
from report_evidence import SECOND_NS, call, evidence, fault, large, numbered

from maxq.harness.report.bands import actions
from maxq.harness.report.evidence import grouped
from maxq.harness.report.lanes import lanes
from maxq.harness.report.measures import LogScale, thinned, windows
from maxq.harness.report.page import render
from maxq.harness.report.plot import shaded
from maxq.harness.report.timescale import TimeScale, duration, seconds, timescale
from maxq.histories.columns.timings import timings_of
from maxq.histories.fault_facts import BUILT_IN
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, Op


def test_a_band_lasts_until_the_heal_of_its_kind_on_its_node() -> None:
    ops = numbered(
        [
            *fault("kill", 1, "b0-0", "b0-1"),
            *fault("start-partition", 2, "b0-1"),
            *fault("stop-partition", 3, "b0-1"),
            *fault("start", 4, "b0-1"),
            *fault("start", 6, "b0-0"),
            *fault("pause", 7, "b0-0"),
        ]
    )
    kill, cut, pause = actions(History(ops)).bands
    assert (kill.end_ns("b0-1"), kill.end_ns("b0-0")) == (4_010_000_000, 6_010_000_000)
    assert kill.end_ns() == 6_010_000_000
    assert cut.end_ns() == 3_010_000_000
    assert pause.end_ns() is None
    assert (kill.color, cut.color) == (BUILT_IN.color("kill"), BUILT_IN.color("start-partition"))


def test_thousands_of_faults_are_shaded_by_few_bands() -> None:
    ops: list[Op] = []
    for n in range(5000):
        ops += fault("kill", n, "b0-0") + fault("start", n + 0.5, "b0-0")
    history = History(numbered(ops))
    timings = timings_of(history)
    time = timescale(timings.first_ns, timings.last_ns)
    assert len(shaded(time, actions(history).bands)) < 3000
    page = render(evidence(list(history.ops)))
    assert "4000 faults on nodes are not drawn" in page
    assert "could not be drawn" not in page
    assert len(page) < 3_000_000


def test_bands_of_one_colour_are_one_where_they_overlap() -> None:
    ops = numbered(
        [
            *fault("kill", 0, "b0-0"),
            *fault("kill", 1, "b0-1"),
            *fault("start", 2, "b0-0"),
            *fault("start", 3, "b0-1"),
            *fault("kill", 9, "b0-1"),
        ]
    )
    time = TimeScale(start_ns=0, end_ns=10 * SECOND_NS)
    color = BUILT_IN.color("kill")
    expected = [(color, 0.0, 3010.0), (color, 9000.0, 10_000)]
    assert shaded(time, actions(History(ops)).bands) == expected


def test_stop_is_a_fault_and_start_its_heal() -> None:
    found = actions(History(numbered([*fault("stop", 1, "b0-0"), *fault("start", 2, "b0-0")])))
    assert [(band.f, band.end_ns()) for band in found.bands] == [("stop", 2_010_000_000)]


@pytest.mark.parametrize("f", ["restart", "order-election"])
def test_what_undoes_itself_ends_when_it_is_done(f: str) -> None:
    ops = numbered([*fault(f, 1, "b0-0"), *fault("start", 5, "b0-0")])
    [band] = actions(History(ops)).bands
    assert band.end_ns() == 1_010_000_000
    page = render(evidence(ops))
    assert "<td>itself</td>" in page
    assert "<td>nothing</td>" not in page


def controller(at_s: float, epoch: int, master: int | None, *members: int) -> list[Op]:
    view = {"master": master, "master_address": "", "master_epoch": epoch,
            "sync_state_set": list(members), "sync_state_set_epoch": epoch,
            "replicas": {"1": "x", "2": "y"}}  # fmt: skip
    value = {"node": "c0", "sets": {"b0": view}}
    return call(9, "observe-controller", at_s, value, asked={"node": "c0"})


def replica(at_s: float, *, leads: bool) -> list[Op]:
    value = {"node": "b0-0", "set": "b0", "address": "x", "id": 1, "leads": leads,
             "epochs": [[3, 0, 5]], "end": 5, "confirmed": None}  # fmt: skip
    return call(8, "observe-replica", at_s, value, asked={"node": "b0-0"})


def test_lanes_tell_masters_sets_and_roles_with_the_names_of_nodes() -> None:
    silent = call(7, "observe-replica", 5, {"node": "b0-0"}, type="fail", error="no-answer")
    odd = call(6, "observe-controller", 5.5, {"sets": "nonsense"})
    ops = numbered(
        [
            *controller(1, 1, 1, 1, 2),
            *controller(2, 1, 1, 1, 2),
            *replica(2.5, leads=True),
            *controller(3, 2, None, 1),
            *silent,
            *odd,
            *replica(6, leads=False),
        ]
    )
    found = lanes(History(ops), 10 * SECOND_NS, ("b0",), ("n0",))
    master, members = found.sets
    assert [s.label for s in master.segments] == ["1: b0-0", "2: no master"]
    assert [s.label for s in members.segments] == ["b0-0 id 2", "b0-0"]
    assert [s.shade for s in members.segments] == [3, 2]
    assert [s.state for s in master.segments] == ["master", "silent"]
    assert master.segments[0].end_ns == master.segments[1].start_ns
    b0, c0, n0 = found.nodes
    assert [s.state for s in b0.segments] == ["master", "silent", "slave"]
    assert b0.segments[-1].end_ns == 10 * SECOND_NS
    assert [s.state for s in c0.segments] == ["leader"]
    assert (n0.name, n0.segments) == ("n0", ())


def test_thinning_keeps_the_slowest() -> None:
    time = TimeScale(start_ns=0, end_ns=1000 * SECOND_NS)
    begun = np.append(np.arange(100_000) * 1_000_000, 50_000_000_001)
    took = np.append(1_000_000 + np.arange(100_000) % 7, 9 * SECOND_NS)
    height = LogScale(9 * SECOND_NS, 120)
    kept = thinned(begun, took, time, height)
    assert len(kept) < 1000
    assert height.at(9 * SECOND_NS) in {y for _, y in kept}


def test_rates_and_counts_leave_no_operation_out() -> None:
    found = large(5000)
    timings = timings_of(found.history)
    time = timescale(timings.first_ns, timings.last_ns)
    for kind in timings.kinds:
        stretches = windows(kind, time)
        length_s = (stretches[0].end_ns - stretches[0].start_ns) / 1e9
        total = sum(w.per_s["ok"] for w in stretches) * length_s
        assert round(total) == kind.counts["ok"]
        assert kind.invoked == sum(kind.counts.values()) + kind.open


def test_a_lock_that_another_client_has_is_refused_and_no_failure() -> None:
    ops = [
        *call(1, "acquire", 1, 0),
        *call(2, "acquire", 2, 0, type="fail", error="not-granted"),
        *call(2, "acquire", 3, 0, type="fail", error=["not-sent", "x"]),
        *call(3, "send", 4, 0, type="fail", error="not-granted"),
    ]
    found = {kind.f: kind.counts for kind in timings_of(History(numbered(ops))).kinds}
    assert found["acquire"] == {"ok": 1, "refused": 1, "info": 0, "fail": 1}
    assert found["send"]["fail"] == 1
    page = render(evidence(numbered(ops)))
    heads = page.partition('id="operations"')[2].partition("</thead>")[0]
    row = page.partition('id="operations"')[2].partition("<tbody><tr>")[2].partition("</tr>")[0]
    assert heads.count("<th ") == row.count("<td>")
    assert "1 refused" in page


def test_unknown_and_impossible_times_are_no_trouble() -> None:
    ops = [*call(0, "send", 1, 1), *call(1, "send", -3, 1), Op("info", NEMESIS, "kill", None)]
    ops += [Op("invoke", 4, "poll", None, time=1 << 62), Op("ok", 4, "poll", None, time=-1)]
    page = render(evidence(numbered(ops)))
    assert "could not be drawn" not in page


def test_times_are_told_for_people() -> None:
    told = [duration(ns) for ns in (5, 1500, 2_340_000, 250_000_000, 61 * SECOND_NS)]
    assert told == ["5 ns", "1.5 µs", "2.34 ms", "250 ms", "61 s"]
    assert seconds(1_500_000_000, SECOND_NS // 2) == "1.5 s"
    assert seconds(20 * SECOND_NS, 10 * SECOND_NS) == "20 s"
    assert [words for _, words in TimeScale(start_ns=0, end_ns=3 * SECOND_NS).ticks()][:3] == [
        "0.0 s",
        "0.5 s",
        "1.0 s",
    ]


def test_nothing_is_told_of_a_history_without_anomalies() -> None:
    assert grouped(evidence([])) == []
