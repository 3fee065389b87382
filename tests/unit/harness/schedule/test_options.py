"""Options: the command that repeats a run is understood by the command line, exactly."""

import shlex
from typing import Any

import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_evidence import evidence

from maxq.checkers.core.claims import unmade
from maxq.checkers.core.promises import ALL_ACK
from maxq.harness.cli import testing
from maxq.harness.cli.given.asked import OF_CONTAINERS, options_from
from maxq.harness.cli.given.param_types import DURATION_NS_MAX
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import plan
from maxq.harness.python_api.run import OF_THE_COMMAND
from maxq.harness.report.findings import commands
from maxq.harness.schedule.format import SEED_MAX
from maxq.harness.schedule.options import FLUSH, LATE_TOPICS_MAX, TOGETHER, Options, decimal
from maxq.harness.targets import known_keys
from maxq.harness.targets.reference import properties
from maxq.nemeses.catalogue import NO_FAULT, fault_names, unasked
from maxq.reference import mutants
from maxq.reference.config import keys_known

# Two need a layout, one the simulator.
EVERY = sorted(set(fault_names()) - {NO_FAULT, "fill-disk", *OF_CONTAINERS})


def possible(keys: dict[str, str]) -> bool:
    """Whether a command line would take these, whatever the number of replicas."""
    return not any(
        known_keys.value_fault(key, value) or key.lower().endswith("insyncreplicas")
        for key, value in keys.items()
    )


TOPICS = st.tuples(st.sampled_from(["before"]), st.integers(1, 5000)) | st.tuples(
    st.sampled_from(["by-sending", "during"]), st.integers(2, LATE_TOPICS_MAX)
)
OPTIONS = st.builds(
    lambda topics, **others: (
        Options(topics_made=topics[0], topics=topics[1], **others)
        if "queue" in others["workload"]
        else Options(**others)
    ),
    topics=TOPICS,
    environment=st.sampled_from(["simulated", "local"]),
    seed=st.integers(0, SEED_MAX),
    nemesis=st.lists(st.sampled_from(EVERY), min_size=1, unique=True).map(tuple)
    | st.just(("none",)),
    time_limit_ns=st.integers(1, DURATION_NS_MAX),
    rate=st.floats(0.1, 100_000),
    concurrency=st.integers(2, 1000),
    workload=st.lists(st.sampled_from(TOGETHER), min_size=1, unique=True).map(
        lambda names: tuple(n for n in TOGETHER if n in names)
    ),
    namesrvs=st.integers(1, 9),
    controllers=st.integers(1, 9),
    broker_sets=st.integers(1, 50),
    profile=st.sampled_from(["P-ALL", "P-DEFAULT", "P-UNCLEAN"]),
    lull_ns=st.just(0) | st.integers(1, DURATION_NS_MAX),
    interval_ns=st.just(0) | st.integers(1, DURATION_NS_MAX),
    timing=st.sampled_from(["fast", "stock"]),
    mutant=st.sampled_from(["", *mutants.names()]),
    pinned=st.integers(0, 2),
    client_retries=st.integers(0, 9),
    send_timeout_ns=st.just(0) | st.integers(1, DURATION_NS_MAX),
    latency_fault_tolerance=st.booleans(),
    poll_routes_ns=st.just(0) | st.integers(1, DURATION_NS_MAX),
    constant_latency=st.booleans(),
    topic_attributes=st.sampled_from(["", "+message.type=NORMAL"]),
    ending=st.sampled_from(["current", "each-replica"]),
    keys=st.dictionaries(
        st.sampled_from(
            [f"{role.value}:{key}" for role in Role for key in sorted(keys_known(role.value))]
        ),
        st.from_regex(r"[ -~]{0,12}", fullmatch=True),
        max_size=3,
    ).filter(possible),
)


def parsed(command: str) -> Options:
    words = shlex.split(command)
    assert words[:2] == ["maxq", "test"]
    given = dict(testing.test.make_context("test", words[2:]).params)
    for name in (*OF_THE_COMMAND, "base_image"):
        del given[name]
    return options_from(given)


@given(OPTIONS)
def test_a_command_round_trips(options: Options) -> None:
    assert parsed(options.command()) == options


def test_the_usual_command_is_short_to_read() -> None:
    options = Options(environment="simulated", seed=7, time_limit_ns=1_500_000_000)
    assert options.command() == (
        "maxq test --env simulated --workload queue,lock,registration "
        "--nemesis kill,partition,change-address --profile safe --timing fast --controllers 3 "
        "--namesrvs 1 --broker-sets 1 --replicas 3 --time-limit 1.5s --rate 50 --concurrency 10 "
        "--seed 7"
    )


def test_what_is_not_as_ever_is_said() -> None:
    options = Options(
        environment="simulated",
        seed=7,
        keys={"broker:flushDiskType": "SYNC_FLUSH", "broker:traceTopicEnable": "true"},
        pinned=2,
        constant_latency=True,
        ending="each-replica",
    )
    assert options.command().endswith(
        "--seed 7 --pinned 2 --constant-latency --set broker:flushDiskType=SYNC_FLUSH "
        "--set broker:traceTopicEnable=true --ending each-replica"
    )
    assert parsed(options.command()) == options


def test_what_a_schedule_drove_is_repeated_from_its_folder() -> None:
    usual = Options(environment="local", seed=1, target="rocketmq:5.5.0")
    assert usual.repeat("runs/x") == usual.command()
    assert parsed(usual.command()) == usual
    driven = msgspec.structs.replace(usual, scripted=True)
    assert driven.repeat("runs/x y") == "maxq replay 'runs/x y'"
    page = "".join(map(str, commands(evidence([], options=driven, run="runs/x"))))
    assert "maxq replay runs/x" in page
    assert "maxq test" not in page


def test_power_suspends_what_no_disk_had_synced() -> None:
    """S6: a replica that answered before it synced may have less than it said."""
    usual = Options(environment="simulated", seed=1)

    def promised(options: Options) -> bool:
        return not unmade("S6", options.context().settings, power_lost=True)

    assert not promised(usual)
    for flush, synced in (("SYNC_FLUSH", True), ("ASYNC_FLUSH", False)):
        assert promised(msgspec.structs.replace(usual, keys={FLUSH: flush})) is synced
    fault = msgspec.structs.replace(usual, nemesis=("power",))
    assert promised(fault), "which makes brokers sync"


def test_settings_of_one_node_are_its_own_and_weaken_its_set() -> None:
    usual = Options(environment="simulated", seed=1)
    one = msgspec.structs.replace(usual, keys={"b0-1:allAckInSyncStateSet": "false"})
    assert parsed(one.command()) == one
    assert not unmade("S6", usual.context().settings, power_lost=False)
    assert unmade("S6", one.context().settings, power_lost=False) == (ALL_ACK,)
    nodes = {n.name: n for n in plan(one.topology)}
    lines = {
        name: properties(nodes[name], one.settings(), dict.fromkeys(nodes, "x"), "/d")
        for name in ("b0-0", "b0-1")
    }
    assert [lines[n]["allAckInSyncStateSet"] for n in sorted(lines)] == ["true", "false"]


def test_the_settings_of_a_profile_given_by_hand_promise_the_same() -> None:
    """The name of a profile decides nothing."""
    named = Options(environment="simulated", seed=1, profile="P-DEFAULT").context()
    keys = {"broker:allAckInSyncStateSet": "false", "broker:minInSyncReplicas": "1"}
    by_hand = Options(environment="simulated", seed=1, keys=keys).context()
    assert by_hand.settings == named.settings
    assert by_hand.by_hand == tuple(sorted(keys))


HEARTBEAT = "broker:controllerHeartBeatTimeoutMills"
WAITS = {"namesrv:needWaitForService": "true"}


@pytest.mark.parametrize(
    ("timing", "keys", "recovery_s", "shrink_s"),
    [
        ("fast", {}, 20.0, 8.0), ("fast", {HEARTBEAT: "1500"}, 20.0, 8.0),
        ("fast", {HEARTBEAT: "3000"}, 20.0, 8.0), ("fast", {HEARTBEAT: "6000"}, 26.0, 14.0),
        ("fast", {HEARTBEAT: "6000", "c1:scanInactiveMasterInterval": "5000"}, 34.0, 22.0),
        ("fast", WAITS, 65.0, 53.0),
        ("fast", {**WAITS, "namesrv:waitSecondsForService": "10"}, 30.0, 18.0),
        ("stock", {HEARTBEAT: "10000"}, 60.0, 30.0), ("stock", {HEARTBEAT: "12000"}, 64.0, 34.0),
    ],
)  # fmt: skip
def test_longer_periods_are_given_more_time(
    timing: Any, keys: dict[str, str], recovery_s: float, shrink_s: float
) -> None:
    options = Options(environment="simulated", seed=1, timing=timing, keys=keys)
    assert options.recovery_s == recovery_s
    context = options.context()
    assert context.recovery_ns == round(recovery_s * 1e9)
    assert context.shrink_ns == round(shrink_s * 1e9)


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [(1, "0.000000001"), (10**9, "1"), (10**15, "1000000"), (100 * 10**9, "100"), (10**8, "0.1")],
)
def test_seconds_are_exact_and_never_in_powers(time_ns: int, text: str) -> None:
    assert decimal(time_ns) == text


def test_all_means_every_fault_that_the_environment_can_do() -> None:
    simulated = parsed("maxq test --environment simulated --seed 1 --nemesis all")
    assert simulated.nemesis == tuple(f for f in EVERY if f not in unasked())
    local = parsed("maxq test --env local --seed 1 --nemesis all")
    assert local.nemesis == (
        "change-address", "kill", "partition", "pause", "restart", "stop",
    )  # fmt: skip
    twice = "maxq test --env simulated --seed 1 --nemesis kill,pause --nemesis kill"
    assert parsed(twice).nemesis == ("kill", "pause")


@pytest.mark.parametrize(
    ("text", "ns"), [("1ms", 10**6), ("2m", 12 * 10**10), ("0.5h", 18 * 10**11)]
)
def test_durations_have_units(text: str, ns: int) -> None:
    words = f"maxq test --environment simulated --seed 1 --time-limit {text}"
    assert parsed(words).time_limit_ns == ns


@pytest.mark.parametrize("pair", ["kill-then-kil", "kill-then-all", "kill-then-stop-then-pause"])
def test_only_two_faults_make_an_ordered_pair(pair: str) -> None:
    with pytest.raises(click.UsageError):
        parsed(f"maxq test --env simulated --seed 1 --nemesis {pair}")
