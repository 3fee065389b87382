"""The Java producer of transactions against our brokers, through a fail-over as well.

What a transaction decides is in the body, behind the question mark: one letter for the first
decision and one for each time that our broker asks; c commits, r rolls back, u does not know.
Times are seconds.
"""

from collections import Counter
from collections.abc import Iterator

import pytest
from java_jars import COMPILE_S, FETCH_S, compiled
from judge_world import RECOVER_S, Cluster, Judge, judged
from test_java_judge import ARRIVE_S, QUICK, make_topic, wait_for

pytestmark = [pytest.mark.rocketmq, pytest.mark.timeout(FETCH_S + COMPILE_S + 180)]
World = tuple[Cluster, Judge]
COUNT = 5
PLANS = ("c", "r", "uc", "ur", "uuc")


@pytest.fixture(scope="module")
def world(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("judge")
    class_path = compiled("Judge.java", release, folder)
    with judged(folder, class_path, release, **QUICK) as (cluster, judge):
        cluster.wait_in_sync()
        yield cluster, judge


def bodies(prefix: str, plan: str) -> list[str]:
    return [f"{prefix}{i}?{plan}" for i in range(COUNT)]


def asked(judge: Judge) -> dict[str, list[int]]:
    """How often the producer was asked about each message, as the questions counted."""
    found: dict[str, list[int]] = {}
    for _, body, times, *_ in judge.facts("asked"):
        found.setdefault(body, []).append(int(times))
    return found


def test_transactions_end_as_their_producer_decides(world: World) -> None:
    """Committed messages come once, others never; who does not know is asked until it does."""
    _, judge = world
    make_topic(world, "deals")
    judge.tell("trade", "trader", "traders")
    judge.tell("push", "buyers", "concurrent", "buyers", "deals", 2)
    for plan in PLANS:
        judge.tell("transact", "trader", "deals", f"{plan}-", plan, COUNT)
    decided = {fields[0]: fields[1] for fields in judge.facts("local")}
    first = {"c": "COMMIT_MESSAGE", "r": "ROLLBACK_MESSAGE", "u": "UNKNOW"}
    assert decided == {b: first[p[0]] for p in PLANS for b in bodies(f"{p}-", p)}
    wanted = [b for p in PLANS if p.endswith("c") for b in bodies(f"{p}-", p)]
    wait_for(judge, "buyers", wanted, ARRIVE_S)
    rolled_back = bodies("ur-", "ur")
    judge.until(lambda: asked(judge).keys() >= set(rolled_back), "questions", ARRIVE_S)

    # What follows is asked about later than anything that is still open.
    judge.tell("transact", "trader", "deals", "last-", "uuuc", COUNT)
    wait_for(judge, "buyers", bodies("last-", "uuuc"), ARRIVE_S)
    got = Counter(m.body for m in judge.got("buyers"))
    assert got == Counter([*wanted, *bodies("last-", "uuuc")])
    times = asked(judge)
    assert times == {
        body: list(range(1, len(plan)))
        for prefix, plan in (*((f"{p}-", p) for p in PLANS if len(p) > 1), ("last-", "uuuc"))
        for body in bodies(prefix, plan)
    }
    sent = {fields[0]: fields for fields in judge.facts("sent")}
    for _, body, _, topic, queue, transaction_id, _ in judge.facts("asked"):
        assert (topic, queue, transaction_id) == ("deals", sent[body][4], sent[body][2])
    judge.tell("stop", "trader", "buyers")


def test_transactions_survive_a_fail_over(world: World) -> None:
    """Open ones are asked about by the new master; ended ones stay ended."""
    cluster, judge = world
    make_topic(world, "moved")
    cluster.wait_in_sync()
    cluster.wait(lambda: cluster.know_topic("moved"), "the topic at all replicas", RECOVER_S)
    judge.tell("trade", "mover", "movers")
    judge.tell("push", "moved", "concurrent", "moved", "moved", 2)
    for plan in ("c", "r"):
        judge.tell("transact", "mover", "moved", f"before-{plan}-", plan, COUNT)
    done = bodies("before-c-", "c")
    wait_for(judge, "moved", done, ARRIVE_S)
    judge.tell("transact", "mover", "moved", "open-c-", "uc", COUNT)
    judge.tell("transact", "mover", "moved", "open-r-", "ur", COUNT)
    victim = cluster.master
    cluster.kill(victim)
    wait_for(judge, "moved", bodies("open-c-", "uc"), RECOVER_S)
    rolled_back = set(bodies("open-r-", "ur"))
    judge.until(lambda: asked(judge).keys() >= rolled_back, "questions", RECOVER_S)
    cluster.start_broker(victim)
    cluster.wait_in_sync()
    judge.tell("transact", "mover", "moved", "after-", "uuc", COUNT)
    wait_for(judge, "moved", bodies("after-", "uuc"), ARRIVE_S)
    got = Counter(m.body for m in judge.got("moved"))
    assert got.keys() == {*done, *bodies("open-c-", "uc"), *bodies("after-", "uuc")}
    # The master may have died just after it was asked; the new one asks once more then.
    assert max(got.values()) <= 2, got
    assert not asked(judge).keys() & {*done, *bodies("before-r-", "r")}
    judge.tell("stop", "mover", "moved")
