"""What observers saw of runs under faults, judged as of a cluster that is watched: what was done to
its nodes is unknown, and nobody is blamed for it; what no fault excuses is found."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from directed import schedule_of

from maxq.checkers.judgement.runner import Results, check_all
from maxq.harness.cli.given.asked import asked_from
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.existing import BrokerMember, Existing, Member
from maxq.harness.contracts.target import plan
from maxq.harness.run.grounds import grounds_of
from maxq.harness.run.judging import checkers_of, context_of
from maxq.harness.run.replay import options_for
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.histories.fault_facts import AWAIT_RECOVERY, BUILT_IN
from maxq.histories.grounds import conclusion, declaration
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_CONTROLLER, OBSERVE_REPLICA, OBSERVE_ROUTE
from maxq.histories.op import Op

SEEN = (OBSERVE_CONTROLLER, OBSERVE_REPLICA, OBSERVE_ROUTE, AWAIT_RECOVERY)
GIVEN: dict[str, Any] = {
    "environment": "simulated", "workload": ("queue",),
    "nemesis": ("kill", "partition", "pause", "stop"), "time_limit": 40_000_000_000,
    "concurrency": 4, "mutant": None, "target": "reference", "timing": "fast", "keys": (),
}  # fmt: skip


def as_watched(judged: Judged) -> Results:
    """The verdict, had its observers been all that there was."""
    nodes = [n for n in plan(judged.options.topology) if not n.spare]
    at = {node.name: f"{node.name}:{number + 1}" for number, node in enumerate(nodes)}
    of = {
        role: tuple(Member(name=n.name, address=at[n.name]) for n in nodes if n.role is role)
        for role in Role
    }
    brokers = [n for n in nodes if n.role is Role.BROKER]
    existing = Existing(
        cluster="maxq", namesrv=of[Role.NAMESRV], controller=of[Role.CONTROLLER],
        broker=tuple(
            BrokerMember(name=n.name, address=at[n.name], set=n.broker_set, id=n.replica)
            for n in brokers
        ),
    )  # fmt: skip
    options = msgspec.structs.replace(judged.options, existing=existing, workload=())
    seen = [op for op in judged.stored.history.ops if op.f in SEEN]
    end = msgspec.structs.replace(conclusion(stopped=False), time=seen[-1].time)
    ops: list[Op] = [declaration(grounds_of(options), BUILT_IN.facts), *seen, end]
    history = History([msgspec.structs.replace(op, index=n) for n, op in enumerate(ops)])
    return check_all(history, checkers_of(options), context_of(options))


@pytest.mark.parametrize(
    ("seed", "more", "kept"),
    [
        (1, {"mode": "pair", "replicas": 2, "broker_sets": 2}, {"N3"}),
        (3, {"mode": "controllers"}, {"S1", "S2", "S3", "S4", "N1"}),
    ],
)
def test_nobody_is_blamed_for_what_others_did(
    tmp_path: Path, seed: int, more: dict[str, Any], kept: set[str]
) -> None:
    judged = run_test(asked_from({**GIVEN, **more, "seed": seed}), tmp_path, quiet=True)
    assert judged.results.valid is True
    results = as_watched(judged)
    assert results.valid is True
    assert kept <= set(results.of("kept"))
    assert not results.of("not judged")


@pytest.mark.parametrize(
    ("mutant", "claim"),
    [("identity_bound_to_address", "S2"), ("elect_keeps_epoch", "S5")],
)
def test_what_no_fault_excuses_is_found(tmp_path: Path, mutant: str, claim: str) -> None:
    script = schedule_of(mutant)
    options, context = options_for(script, mutant=mutant), RunContext(script=script)
    judged = run_test(options, tmp_path, quiet=True, context=context)
    assert claim in {a.claim for v in as_watched(judged).verdicts for a in v.anomalies}
