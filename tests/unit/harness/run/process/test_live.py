"""A run while it goes on, in a line."""

from maxq.harness.run.process.live import Live
from maxq.histories.op import NEMESIS, Op

S = 1_000_000_000


def controller(at: int, master: int | None, epoch: int) -> Op:
    sets = {"b0": {"master": master, "master_epoch": epoch}, "r0": {"master": 1, "master_epoch": 9}}
    return Op("ok", 9, "observe-controller", {"node": "c0", "sets": sets}, time=at)


def fed(*ops: Op) -> Live:
    live = Live(["b0"])
    for n, op in enumerate(ops):
        live.take(Op(op.type, op.process, op.f, op.value, op.error, n, op.time, op.ext))
    return live


def cut(at: int) -> list[Op]:
    proof = {n: {"holds": True, "from": {"b0-0": "gone"}} for n in ("c0", "c1", "c2", "n0")}
    return [
        Op("info", NEMESIS, "start-partition", "p", time=at),
        Op("info", NEMESIS, "start-partition", proof, time=at),
    ]


def test_a_line_says_second_master_epoch_faults_and_rate() -> None:
    sends = [Op("ok", 0, "send", [], time=n * S // 4) for n in range(40)]
    replica = Op("ok", 8, "observe-replica", {"node": "b0-2", "set": "b0", "id": 3}, time=S)
    live = fed(*sends, replica, controller(9 * S, 3, 7), *cut(9 * S))
    assert live.now(10 * S).line(60 * S) == (
        "10 s, 50 s left · b0: b0-2 in epoch 7 · cut b0-0 ⇸ 4 nodes · 4 ok/s"
    )


def test_what_is_healed_is_not_at_work_and_a_set_may_have_no_master() -> None:
    heal = [
        Op("info", NEMESIS, "stop-partition", "p.1", time=3 * S),
        Op("info", NEMESIS, "stop-partition",
           {n: {"holds": True} for n in ("c0", "c1", "c2", "n0")}, time=3 * S),
    ]  # fmt: skip
    live = fed(*cut(2 * S), *heal, controller(4 * S, None, 2))
    assert live.now(9 * S).line(60 * S) == (
        "9 s, 51 s left · b0: no master in epoch 2 · no fault · 0 ok/s"
    )


def test_a_master_that_was_seen_long_ago_is_not_said_to_be_one_now() -> None:
    """No controller answers for a while, and none is asked any more at the end."""
    live = fed(controller(4 * S, 1, 2))
    assert "b0: id 1 in epoch 2 · " in live.now(9 * S).line()
    assert "b0: id 1 in epoch 2 at 4 s · " in live.now(10 * S).line()


def test_answers_of_another_shape_are_left_out() -> None:
    odd = [Op("ok", 9, "observe-controller", v, time=S) for v in (None, 3, {"sets": {"b0": 1}})]
    assert fed(*odd).now().masters == ()
