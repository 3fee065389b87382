"""Evidence for tests of reports: small, hostile, and large."""

from random import Random
from typing import Any

from maxq.checkers.core.api import Anomaly, ClaimVerdict, Verdict
from maxq.checkers.judgement.digest import digest
from maxq.checkers.judgement.runner import Results
from maxq.harness.report.evidence import Evidence
from maxq.harness.schedule.options import Options
from maxq.histories.history import Breach, History
from maxq.histories.op import NEMESIS, Op

SECOND_NS = 1_000_000_000
# Each would run, load or break something if it went into the page as it is.
ATTACK = (
    "</script></style></title><script>attack()</script><img src=//attack.test/x onerror=attack()>"
    "<svg/onload=attack()>\" ' ` onmouseover=attack() style='background:url(//attack.test)' "
    "javascript:attack() ]]> --> <!-- &lt;b&gt; ${attack} {{attack}} \0\r\n\u202e\ud800\u2028"
)


def evidence(ops: list[Op], results: Results | None = None, **more: Any) -> Evidence:
    options = more.pop("options", Options(environment="simulated", seed=1))
    plain = {"config": {}, "run": "runs/x/y", "commit": "abc"}
    judged = results or Results(valid=True, verdicts=())
    history = History(ops)
    return Evidence(
        history=history,
        results=judged,
        rows=digest(history, judged),
        context=options.context(),
        options=options,
        **{**plain, **more},
    )


def numbered(ops: list[Op]) -> list[Op]:
    return [
        Op(op.type, op.process, op.f, op.value, op.error, n, op.time, op.ext)
        for n, op in enumerate(ops)
    ]


def fault(f: str, at_s: float, *nodes: str, holds: bool = True) -> list[Op]:
    """An action of the nemesis that takes 10 ms."""
    at, proof = round(at_s * SECOND_NS), {node: {"holds": holds} for node in nodes}
    return [
        Op("info", NEMESIS, f, "asked", time=at),
        Op("info", NEMESIS, f, proof, time=at + 10_000_000),
    ]


def call(process: int, f: str, at_s: float, value: Any, **more: Any) -> list[Op]:
    """An ok operation of a client that takes 1 ms."""
    at = round(at_s * SECOND_NS)
    return [
        Op("invoke", process, f, more.pop("asked", value), time=at),
        Op(more.pop("type", "ok"), process, f, value, time=at + 1_000_000, **more),
    ]


def hostile() -> Evidence:
    """An attack in every field that a cluster, a history or a stored configuration may fill."""
    a = ATTACK
    sets = {
        a: {"master": 1, "master_address": a, "master_epoch": 1, "sync_state_set": [1, 2],
            "sync_state_set_epoch": 1, "replicas": {"1": a, "2": a}},
    }  # fmt: skip
    replica = {"node": a, "set": a, "address": a, "id": 1, "leads": True, "epochs": [[1, 0, 9]],
               "end": 9, "confirmed": None}  # fmt: skip
    ops = numbered(
        [
            *call(0, "observe-controller", 1.0, {"node": a, "sets": sets}, asked={"node": a}),
            *call(1, "observe-replica", 1.1, replica, asked={"node": a}),
            *call(2, "observe-route", 1.2, {"node": a}, type="fail", error=[a, {a: a}]),
            *call(3, a, 1.3, {a: [a]}, type="info", error=a, ext={a: a}),
            *call(4, "send", 1.4, [["send", 0, [1, a]]], ext={"broker": a, "node": a}),
            Op("info", NEMESIS, a, a, time=2 * SECOND_NS),
            Op("info", NEMESIS, a, {a: {"holds": a, a: a, "role": a}}, a, time=2 * SECOND_NS),
            Op("info", a, "kill", a, time=2 * SECOND_NS),
            Op("info", a, "kill", {a: {"holds": True, "role": a}}, time=3 * SECOND_NS),
            Op("info", NEMESIS, "kill", {a: a}, time=4 * SECOND_NS),
        ]
    )
    anomaly = Anomaly(
        claim=a, name=a, signature=a, ops=(7, 10**15), story=f"op 7 {a} op 99", detail={a: a}
    )
    claim_verdicts = (
        ClaimVerdict(claim=a, status="broken", why=a, advice=a, found={a: 1}),
        ClaimVerdict(claim="S6", status="not judged", why=a, advice=a),
    )
    verdict = Verdict(checker=a, claim_verdicts=claim_verdicts, anomalies=(anomaly,), counts={a: 1})
    doubt = Verdict(checker="stats", gate=a)
    breach = Breach("W1", 3, a)
    return evidence(
        ops,
        Results(valid=False, verdicts=(verdict, doubt), breaches=(breach,)),
        options=Options(environment=a, seed=1, target=a, mutant=a),
        config={a: {a: [a, {a: a}]}, "options": {"x": a}, "kernel": a},
        run=a,
        commit=a,
        doubts=(a,),
    )


def large(count: int) -> Evidence:
    """So many operations of busy clients, observers and a nemesis."""
    rng, ops, at, busy = Random(1), list[Op](), 0, dict[int, str]()
    kinds = ("send", "poll", "observe-replica")
    while len(ops) < count:
        at += rng.randrange(20_000_000)
        process = rng.randrange(40)
        value = {"node": f"b0-{process % 3}"}
        if process in busy:
            ops.append(Op("fail" if rng.random() < 0.1 else "ok", process, busy.pop(process), value,
                          time=at))  # fmt: skip
        else:
            busy[process] = rng.choice(kinds)
            ops.append(Op("invoke", process, busy[process], value, time=at))
        if rng.random() < 0.002:
            ops += fault(rng.choice(("kill", "start")), at / SECOND_NS, f"b0-{process % 3}")
    return evidence(numbered(ops))
