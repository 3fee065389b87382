"""The picture of the cluster: who is where, what each was, and which packets did not arrive."""

import re

import pytest
from report_evidence import SECOND_NS, call, numbered

from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.layouts import BUILT_IN, LayoutKind
from maxq.harness.contracts.target import Topology, plan
from maxq.harness.report.bands import actions
from maxq.harness.report.cluster import BOX, arrow, layout, picture, value_at
from maxq.harness.report.lanes import lanes
from maxq.harness.report.timescale import TimeScale
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, Op

TOPOLOGY = Topology(namesrvs=1, controllers=3, broker_sets=1, replicas=3)
TIME = TimeScale(start_ns=0, end_ns=10 * SECOND_NS)


def replica(at_s: float, node: str, *, leads: bool) -> list[Op]:
    value = {"node": node, "set": "b0", "address": node, "id": int(node[-1]) + 3, "leads": leads,
             "epochs": [[7, 0, 5]], "end": 5, "confirmed": None}  # fmt: skip
    return call(8, "observe-replica", at_s, value, asked={"node": node})


def fault(f: str, at_s: float, proof: dict[str, object]) -> list[Op]:
    at = round(at_s * SECOND_NS)
    return [Op("info", NEMESIS, f, "x", time=at), Op("info", NEMESIS, f, proof, time=at)]


def drawn(ops: list[Op], at_s: float) -> str:
    history = History(numbered(ops))
    done = actions(history)
    seen = lanes(history, TIME.end_ns, ("b0",), sorted(done.by_node()))
    at_ns = round(at_s * SECOND_NS)
    return picture(TIME, plan(TOPOLOGY), seen, done, seen.ids, at_ns).text


def looks(page: str) -> dict[str, str]:
    found = re.findall(r'<g class="node (\w+)"[^>]*><title>[a-z ]+ ([\w-]+)</title>', page)
    return {name: look for look, name in found}


def test_a_node_looks_as_it_answered_unless_it_is_known_to_be_down() -> None:
    ops = [
        *replica(1, "b0-0", leads=True),
        *replica(2, "b0-1", leads=False),
        *fault("kill", 4, {"b0-0": {"holds": True}}),
        *fault("start", 6, {"b0-0": {"holds": True}}),
    ]
    assert looks(drawn(ops, 3)) == {
        "n0": "unseen", "c0": "unseen", "c1": "unseen", "c2": "unseen",
        "b0-0": "master", "b0-1": "slave", "b0-2": "unseen",
    }  # fmt: skip
    assert looks(drawn(ops, 5))["b0-0"] == "down"
    assert looks(drawn(ops, 7))["b0-0"] == "master"
    page = drawn(ops, 5)
    assert "b0-0 (id 3)" in page
    assert ">master epoch 7</text>" in page
    assert ">kill</text>" in page


def test_a_cut_is_a_line_from_sender_to_receiver_while_it_lasts() -> None:
    ops = [
        *fault("start-partition", 2, {"c0": {"holds": True, "from": {"b0-0": "gone"}}}),
        *fault("stop-partition", 5, {"c0": {"holds": True}}),
    ]
    (cut,) = re.findall(r"<path[^>]*>", drawn(ops, 3))
    assert "<title>b0-0 ⇸ c0</title>" in drawn(ops, 3)
    assert 'data-at="[[2000.0,5000.0]]"' in cut
    assert "visibility" not in cut
    for outside in (1, 6):
        (cut,) = re.findall(r"<path[^>]*>", drawn(ops, outside))
        assert 'visibility="hidden"' in cut


def test_an_arrow_ends_where_the_packets_should_have_arrived() -> None:
    down = re.findall(r"-?[\d.]+", arrow((100, 50), (200, 150)))
    assert down[4:6] == ["205.0", "129.0"]  # at the upper edge of the box, beside its middle
    up = re.findall(r"-?[\d.]+", arrow((200, 150), (100, 50)))
    assert up[4:6] == ["95.0", "71.0"]  # at the lower edge, on the other side


def test_of_many_brokers_those_of_the_findings_are_drawn() -> None:
    many = plan(Topology(namesrvs=1, controllers=1, broker_sets=50, replicas=3))
    laid = layout(many, ["b40-1"])
    assert {"n0", "c0", "b40-0", "b40-1", "b40-2", "b0-0"} <= set(laid.places)
    assert laid.left_out == len(many) - len(laid.places) > 100


@pytest.mark.parametrize("kind", BUILT_IN.values(), ids=BUILT_IN)
def test_who_shares_a_process_has_one_frame_which_holds_nobody_else(kind: LayoutKind) -> None:
    laid_out = Topology(namesrvs=1, controllers=0, broker_sets=kind.sets,
                        replicas=kind.replicas or 2, layout=kind)  # fmt: skip
    nodes = plan(laid_out)
    laid = layout(nodes, [])

    assert laid.left_out == 0
    assert len({*laid.places.values()}) == len(laid.places)
    assert {*laid.frames} == {n.container for n in nodes if n.container}
    for name, (middle, top, bottom) in laid.frames.items():
        for node in (n for n in nodes if n.role is Role.BROKER):
            x, y = laid.places[node.name]
            assert (abs(x - middle) < BOX and top < y < bottom) == (node.container == name)


def asked(*members: int) -> list[Op]:
    view = {"master": 1, "master_address": "", "master_epoch": 4, "sync_state_set": [*members],
            "sync_state_set_epoch": 1, "replicas": {str(n): "x" for n in members}}  # fmt: skip
    value = {"node": "c0", "sets": {"b0": view}}
    return call(9, "observe-controller", 1, value, asked={})


def test_a_set_is_headed_by_its_epoch_its_master_and_its_members() -> None:
    known = [*replica(0, "b0-0", leads=True), *replica(0, "b0-1", leads=False)]
    assert "epoch 4, master id 1; SyncStateSet b0-0 b0-1" in drawn([*known, *asked(3, 4)], 2)
    many = drawn([*(op for n in range(7) for op in replica(0, f"b0-{n}", leads=False)),
                  *asked(*range(3, 10))], 2)  # fmt: skip
    assert "SyncStateSet b0-0 b0-1 b0-2 and 4 more" in many


def test_a_value_is_that_of_the_last_change() -> None:
    changes = [(1.0, "a"), (4.0, "b")]
    assert [value_at(changes, x, "") for x in (0.0, 1.0, 3.9, 4.0, 9.0)] == ["", "a", "a", "b", "b"]
