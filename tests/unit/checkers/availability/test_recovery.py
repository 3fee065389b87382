"""Times to recover: from the completed fault to the first send that was begun after it."""

from maxq.checkers.availability.recovery import recoveries
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, Op

SECOND = 1_000_000_000


def history(
    *events: tuple[float, str, int | str, str, object, dict[str, object] | None],
) -> History:
    return History(
        [
            Op(kind, process, f, value, None, index, round(at * SECOND), ext)  # type: ignore[arg-type]
            for index, (at, kind, process, f, value, ext) in enumerate(events)
        ]
    )


def sent(broker: str, node: str = "b0") -> dict[str, object]:
    return {"node": node, "broker": broker}


def kill(node: str, role: str) -> dict[str, object]:
    return {node: {"holds": True, "role": role}}


def test_a_send_that_was_under_way_when_the_fault_struck_proves_no_recovery() -> None:
    [found] = recoveries(history(
        (0.0, "invoke", 0, "send", [["send", 0, 1]], None),
        (0.1, "ok", 0, "send", [["send", 0, [0, 1]]], sent("x:1")),
        (0.5, "invoke", 1, "send", [["send", 0, 2]], None),
        (1.0, "info", NEMESIS, "kill", "one", None),
        (1.2, "info", NEMESIS, "kill", kill("b0-0", "master"), None),
        (1.3, "ok", 1, "send", [["send", 0, [1, 2]]], sent("x:1")),
        (2.0, "invoke", 1, "send", [["send", 0, 3]], None),
        (2.2, "ok", 1, "send", [["send", 0, [2, 3]]], sent("y:1")),
    ))  # fmt: skip
    assert (found.node, found.part, found.f) == ("b0-0", "master", "kill")
    assert found.after_ns == SECOND
    assert found.failed_over


def test_only_the_set_that_was_hit_counts_and_how_long_was_tried_is_said() -> None:
    [found] = recoveries(history(
        (1.0, "info", NEMESIS, "kill", "one", None),
        (1.2, "info", NEMESIS, "kill", kill("b1-0", "master"), None),
        (2.0, "invoke", 1, "send", [["send", 0, 3]], None),
        (2.2, "ok", 1, "send", [["send", 0, [2, 3]]], sent("x:1", "b0")),
    ))  # fmt: skip
    assert (found.after_ns, found.sent_ns, found.failed_over) == (None, 800_000_000, False)


def test_a_fault_on_a_controller_waits_for_any_set_and_is_no_fail_over() -> None:
    [found] = recoveries(history(
        (0.0, "invoke", 1, "send", [["send", 0, 2]], None),
        (0.2, "ok", 1, "send", [["send", 0, [1, 2]]], sent("x:1", "b0")),
        (1.0, "info", NEMESIS, "kill", "one", None),
        (1.0, "info", NEMESIS, "kill", kill("c0", "controller-leader"), None),
        (1.5, "info", NEMESIS, "start", None, None),
        (1.6, "info", NEMESIS, "start", {"c0": {"holds": True}}, None),
        (2.0, "invoke", 1, "send", [["send", 0, 3]], None),
        (2.5, "ok", 1, "send", [["send", 0, [2, 3]]], sent("y:1", "b1")),
    ))  # fmt: skip
    assert (found.after_ns, found.failed_over) == (1_500_000_000, False)
