"""The schedule generator: pure, within its bounds, and in the end of every pair of factors."""

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, get_args

import pytest

from maxq.checkers.core.promises import unknown_keys
from maxq.harness.contracts.cluster import Part
from maxq.harness.contracts.keyed_draws import Keyed
from maxq.harness.contracts.target import plan
from maxq.harness.run.replay import options_for
from maxq.harness.sampling.draw import (
    FAULTS,
    LENGTH_MS,
    PINNED,
    RATES,
    READERS,
    SATURATED_MS,
    SIZES,
    SWITCHES,
    THREADS,
    WRITERS,
    draw,
    loads,
    options_of,
)
from maxq.harness.sampling.factors import (
    FACTORS,
    FELT,
    KINDS,
    Row,
    drawn_row,
    row_of,
)
from maxq.harness.sampling.faults import EVENTS, LEASE_MS, REST_MS, SHORTEST_MS
from maxq.harness.schedule.format import EVENTS as KNOWN_EVENTS
from maxq.harness.schedule.format import EVERYBODY, Act, Schedule, decode, encode
from maxq.harness.schedule.perform import queue_calls
from maxq.harness.schedule.reductions import family
from maxq.harness.schedule.shares import READ_LATE
from maxq.histories.fault_facts import TAMPERS, TRIM
from maxq.nemeses.catalogue import LAST_REJOINED, LAST_VICTIM, acts
from maxq.nemeses.peers import GROUPS

SHORT_MS = 15_000
SEEDS = range(240)  # of which every fourth takes a row of the covering array: all of it, and more
QUIET = {"first-load": "none", "load": "steady"}  # nothing but faults
USUAL: Row = {name: values[0] for name, values in FACTORS.items()}
PARTS = {*get_args(Part), LAST_VICTIM, LAST_REJOINED}


def drawn(seed: int, **other: str) -> Schedule:
    return draw(seed, {**USUAL, **other}, length_ms=SHORT_MS)


def many() -> Iterator[Schedule]:
    return (draw(seed, row_of(seed), length_ms=SHORT_MS) for seed in SEEDS)


# Keyed draws.


def test_a_draw_depends_on_its_seed_and_key_alone() -> None:
    one, other = Keyed(7), Keyed(7)
    first = [one.bits("a", n) for n in range(50)]
    assert [other.bits("a", n) for n in reversed(range(50))] == first[::-1]
    assert len({*first, *(Keyed(8).bits("a", n) for n in range(50))}) == 100
    assert one.bits("a", 1) != one.bits("a1") != one.bits("a", "1")


def test_draws_are_within_their_bounds_and_meet_them() -> None:
    draws, many_ = Keyed("x"), range(3000)
    assert {draws.below(5, n) for n in many_} == set(range(5))
    assert {draws.between(3, 5, n) for n in many_} == {3, 4, 5}
    assert {draws.choice("abc", n) for n in many_} == set("abc")
    assert sum(draws.chance(33, n) for n in many_) == pytest.approx(990, rel=0.1)
    assert not any(draws.chance(0, n) for n in many_)
    assert all(draws.chance(100, n) for n in many_)
    logs = [draws.log_uniform(10, 100_000, n) for n in many_]
    assert 10 <= min(logs) < max(logs) <= 100_000
    for low in (10, 100, 1000, 10_000):  # each of equal ratios is as likely
        assert sum(low <= n < 10 * low for n in logs) == pytest.approx(750, rel=0.15)


def test_what_is_left_out_leaves_the_order_of_the_rest() -> None:
    draws, names = Keyed(3), [f"b{n}" for n in range(9)]
    order = draws.shuffled(names, "order")
    assert sorted(order) == names != order
    for gone in names:
        left = draws.shuffled([n for n in names if n != gone], "order")
        assert left == [n for n in order if n != gone]


# What is drawn.


def test_equal_seeds_draw_equal_schedules_and_others_do_not() -> None:
    rows = [row_of(seed) for seed in (1, 2, 3)]
    once = [draw(n, row, length_ms=SHORT_MS) for n, row in enumerate(rows)]
    again = [draw(n, dict(reversed(row.items())), length_ms=SHORT_MS) for n, row in enumerate(rows)]
    assert once == again
    assert drawn(1).acts != drawn(2).acts
    assert drawn(1).calls != drawn(2).calls


def test_no_hash_seed_and_no_process_changes_a_schedule() -> None:
    code = (
        "from hashlib import sha256\n"
        "from maxq.harness.sampling.draw import draw\n"
        "from maxq.harness.sampling.factors import row_of\n"
        "from maxq.harness.schedule.format import encode\n"
        f"made = [draw(s, row_of(s), length_ms={SHORT_MS}) for s in (0, 1, 20, 33)]\n"
        "print(sha256(b''.join(map(encode, made))).hexdigest())\n"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True, check=True, timeout=60,
        ).stdout
        for hash_seed in ("0", "4242")
    }  # fmt: skip
    here = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert told == {here.stdout}
    assert len(here.stdout) > 64


def test_every_drawn_schedule_can_be_written_read_and_performed() -> None:
    kinds = set()
    for script in many():
        assert decode(encode(script)) == script
        options = options_for(script)
        names = {node.name for node in plan(options.topology)}
        keys = (2 + options.topics - 1) * options.broker_sets
        shares = tuple(tuple(range(n, keys, READERS)) for n in range(READERS))
        queue_calls(script, options.concurrency, shares)
        assert {c.value[0] for c in script.calls if c.f == "send"} <= set(range(keys))
        assert all(c.thread < THREADS[c.workload] for c in script.calls if c.workload in THREADS)
        assert {c.workload for c in script.calls} <= set(options.workload)
        for act in script.acts:
            assert act.f in acts()
            assert set(act.who.nodes) <= names
            assert act.who.part in (PARTS | {""})
            far = act.args.get("from", "rest")
            named = set(far) if isinstance(far, list) else set()
            assert named <= names - set(act.who.nodes)
            assert named or far in (PARTS | set(GROUPS) | {"rest"})
        kinds |= {act.f for act in script.acts}
    # Written by hand, or drawn by `maxq test` alone.
    others = {
        "elect-master",
        "apply-ids",
        "replace-release",
        "change-settings",
        "start-packet-loss",
        "stop-packet-loss",
        "wipe-write",
        "add-write",
        "remove-broker",
        "fail-store",
        "add-broker",
        "fill-disk",
        "free-disk",
        "read-log",
        *TAMPERS,
    }
    drawn = set(acts()) - others
    assert kinds == drawn, "every fault is drawn by somebody"
    assert set(EVENTS) == set(KNOWN_EVENTS)


def test_names_of_messages_and_items_are_unique() -> None:
    for script in many():
        values = [c.value[2] for c in script.calls if c.f == "send"]
        assert len(values) == len(set(values))
        # The last of a phase may come a moment too late to be done.
        assert all(0 <= c.at < SHORT_MS / 1000 + 0.5 for c in script.calls)


def test_lengths_of_runs_and_payloads() -> None:
    lengths = {draw(s, USUAL | QUIET).header.length * 1000
               for s in range(30)}  # fmt: skip
    assert LENGTH_MS[0] <= min(lengths) < max(lengths) <= LENGTH_MS[1]
    sizes = {
        kind: [c.value[1] for c in drawn(5, payload=kind).calls if c.f == "send"]
        for kind in ("small", "mixed", "large")
    }
    assert set(sizes["small"]) == {256}, "all equal, and more than any payload needs"
    low, high = SIZES["large"]
    for kind, share in (("mixed", 0.08), ("large", 0.3)):
        large = [size for size in sizes[kind] if size > 256]
        assert low <= min(large) <= max(large) <= high
        assert len(large) == pytest.approx(share * len(sizes[kind]), rel=0.6)


def hold_of(script: Schedule) -> list[float]:
    """How long faults last that are healed after themselves, in ms."""
    ids = {act.id: act for act in script.acts}
    return [
        1000 * a.when.at
        for a in script.acts
        if a.who.of and a.when.after == a.who.of and "whole" not in ids[a.who.of].f
    ]


@pytest.mark.parametrize("heartbeat", ["1500", "6000"])
def test_lengths_of_faults(heartbeat: str) -> None:
    """From 0.2 s to twice the longest time-out; about a third lasts longer than every time-out."""
    longest = max(int(heartbeat), LEASE_MS)
    row = {"heartbeat": heartbeat, "hang": "pause", "cut": "in", "durations": "any", **QUIET}
    holds = [ms for seed in range(150) for ms in hold_of(drawn(seed, **row))]
    assert len(holds) > 400
    assert SHORTEST_MS <= min(holds) < max(holds) <= 2 * longest
    assert 0.33 < sum(ms >= longest for ms in holds) / len(holds) < 0.52
    assert sum(ms < 1000 for ms in holds) / len(holds) > 0.1
    other = {
        how: [ms for s in range(60) for ms in hold_of(drawn(s, **{**row, "durations": how}))]
        for how in ("short", "long", "mixed")
    }
    short, long, mixed = other.values()
    assert 0.1 < sum(ms > 2 * longest for ms in mixed) / len(mixed) < 0.3
    assert max(short) <= longest / 4
    assert min(long) >= longest


def test_a_run_that_nobody_loads_has_no_calls() -> None:
    quiet = {**QUIET, "workload": "queue+lock"}
    assert drawn(1, **quiet).calls == ()
    assert drawn(1, **quiet).acts
    changing = [drawn(s, **{**quiet, "load": "changing"}).calls for s in range(20)]
    assert any(changing), "that begins with nobody, and goes on with somebody"
    assert not all(changing)


@pytest.mark.parametrize("level", sorted(RATES))
def test_a_steady_load_is_as_it_is_called(level: str) -> None:
    row = {**USUAL, "first-load": level, "load": "steady"}
    phases = list(loads(Keyed(9), row, SHORT_MS))
    expected = [(0, SHORT_MS, level)]
    if level == "saturating":  # and only so long
        expected = [(0, SATURATED_MS, level), (SATURATED_MS, SHORT_MS, "normal")]
    assert phases == expected
    calls = [c for c in draw(9, row, length_ms=SHORT_MS).calls if c.workload == "queue"]
    asked = sum((end - begin) / 1000 * RATES[how] for begin, end, how in phases)
    assert len(calls) == pytest.approx(asked, abs=2)


def test_a_changing_load_has_phases_without_gaps() -> None:
    levels = set()
    for seed in range(40):
        row = {**USUAL, "load": "changing"}
        phases = list(loads(Keyed(seed), row, 60_000))
        assert phases[0][0] == 0
        assert phases[-1][1] == 60_000
        assert all(one[1] == other[0] for one, other in pairwise(phases))
        levels |= {level for _, _, level in phases}
    assert levels == set(RATES)


# Faults by their factors.


def faults_of(script: Schedule) -> dict[str, list[Act]]:
    found: dict[str, list[Act]] = {}
    for act in script.acts:
        found.setdefault(family(act), []).append(act)
    return found


def test_as_many_faults_as_there_shall_be() -> None:
    long = [draw(seed, {**USUAL, **QUIET}, length_ms=LENGTH_MS[1]) for seed in range(60)]
    counts = {len(faults_of(script)) for script in long}
    assert FAULTS[0] == min(counts) < max(counts) <= FAULTS[1]
    assert len(counts) > 6, "some runs are full of them, some not"
    none = {"crash": "off", "cut": "off"}
    assert drawn(1, **none).acts == ()
    assert {act.f for act in drawn(1, **none, **{"whole-stop": "kill"}).acts} == {"kill", "start"}


def test_faults_that_are_off_are_not_drawn() -> None:
    only: list[tuple[dict[str, str], set[str]]] = [
        ({"cut": "off"}, {"kill", "start"}),
        ({"cut": "off", "crash": "restart"}, {"restart"}),
        ({"cut": "off", "crash": "power-loss"}, {"power-loss", "start"}),
        ({"crash": "off"}, {"start-partition", "stop-partition"}),
        ({"crash": "off", "cut": "off", "hang": "pause"}, {"pause", "resume"}),
        ({"crash": "off", "cut": "off", "move": "live"}, {"change-address", "restore-address"}),
    ]
    for row, fs in only:
        assert {act.f for seed in range(8) for act in drawn(seed, **row).acts} == fs
    moved = drawn(1, crash="off", cut="off", move="restart").acts
    assert {bool(act.args.get("restart")) for act in moved} == {True}


def test_a_cut_is_as_its_factors_say() -> None:
    row = {"crash": "off", "cut": "out", "cut-shape": "isolate", "cut-packets": "reset",
           "cut-clients": "against", "heal": "parts"}  # fmt: skip
    cuts = [a for a in drawn(3, **row).acts if a.f == "start-partition"]
    assert {repr(sorted(a.args.items())) for a in cuts} == {
        "[('clients', 'against'), ('reset', True), ('ways', 'out')]"
    }
    linked = [a for s in range(9) for a in drawn(s, **{**row, "cut-shape": "link"}).acts]
    assert {a.args["from"] for a in linked if a.f == "start-partition"} > {"controllers", "slave"}
    assert not any("clients" in a.args for a in linked)


def test_heals_in_parts_bring_back_everybody_once() -> None:
    for seed in range(20):
        for made in faults_of(drawn(seed, cut="off", heal="parts", victims="several")).values():
            strike, *heals = made
            assert [h.who.of for h in heals] == [strike.id] * 2
            assert {h.who.share for h in heals} == {"first", "rest"}
            assert [h.when.after for h in heals] == [strike.id, heals[0].id]


def test_a_whole_stop_strikes_everybody_and_all_come_back() -> None:
    orders = set()
    for seed in range(10):
        script = drawn(seed, **{"whole-stop": "power-loss"})
        names = [node.name for node in plan(options_for(script).topology) if not node.spare]
        stops = [a for a in script.acts if len(a.who.nodes) > 1 and a.f == "power-loss"]
        strike = max(stops, key=lambda a: len(a.who.nodes))
        starts = [a for a in script.acts if family(a) == strike.id and a.f == "start"]
        assert sorted(strike.who.nodes) == sorted(names)
        assert sorted(n for a in starts for n in a.who.nodes) == sorted(names)
        assert [a.when.after for a in starts] == [strike.id, *(a.id for a in starts[:-1])]
        orders.add(tuple(a.who.nodes[0] for a in starts))
    assert len(orders) > 7


def test_a_stop_strikes_a_role_or_anybody_and_who_was_struck_comes_back() -> None:
    """Now and then one of them long after the others."""
    only = {"cut": "off", "crash": "off", "whole-stop": "kill"}
    extents, gaps = set(), []
    for seed in range(40):
        script = drawn(seed, **only)
        role = {n.name: n.role.value for n in plan(options_for(script).topology)}
        for strike, *starts in faults_of(script).values():
            assert sorted(n for a in starts for n in a.who.nodes) == sorted(strike.who.nodes)
            extents.add(frozenset(role[n] for n in strike.who.nodes))
            gaps += [a.when.at for a in starts[1:]]
    assert {frozenset(("broker",)), frozenset(("controller",))} < extents
    assert max(gaps) > 20
    assert sum(gap <= 2 for gap in gaps) / len(gaps) > 0.7


def test_a_cut_in_two_parts_everybody_from_everybody_else() -> None:
    """But for one that hears both halves, now and then."""
    left = set()
    for seed in range(40):
        script = drawn(seed, **{"crash": "off", "cut-shape": "split"})
        names = {n.name for n in plan(options_for(script).topology) if not n.spare}
        for act in script.acts:
            if act.f == "start-partition":
                near, far = set(act.who.nodes), set(act.args["from"])
                assert near
                assert far
                assert not near & far
                left.add(len(names - near - far))
    assert left == {0, 1}


def test_faults_aim_at_whom_they_shall() -> None:
    brokers = {"master", "slave", "sync-state-set-slave", "broker"}
    for aim, parts in (
        ("brokers", brokers),
        ("controllers", {"controller", "controller-leader", "master"}),
    ):
        acts = [a for s in range(20) for a in drawn(s, aim=aim, victims="several").acts]
        assert {a.who.part for a in acts if a.who.part} - brokers == parts - brokers


def test_faults_are_apart_or_meet_one_another() -> None:
    only = {"cut": "off", "trigger": "time"}
    for seed in range(20):
        strikes = [acts[0] for acts in faults_of(drawn(seed, **only, pace="apart")).values()]
        assert all(a.when.after == "" or "." in a.when.after for a in strikes), "all is over"
    apart = [
        acts[0] for s in range(20) for acts in faults_of(drawn(s, **only, pace="apart")).values()
    ]
    dense = [
        acts[0] for s in range(20) for acts in faults_of(drawn(s, **only, pace="dense")).values()
    ]
    assert sum(1000 * a.when.at >= REST_MS[0] for a in apart) / len(apart) > 0.5
    assert sum("." not in a.when.after for a in dense) / len(dense) > 0.6, "begins in another"
    assert sum(a.who.part == LAST_VICTIM for a in dense) / len(dense) > 0.2
    assert LAST_VICTIM not in {a.who.part for a in apart}


def nests_of(script: Schedule) -> list[list[Act]]:
    """The faults that strike while another one is in force, each with those before it."""
    strikes = [acts[0] for acts in faults_of(script).values()]
    ids = [act.id for act in script.acts]
    healed = {family(act): ids.index(act.id) for act in script.acts if "." in act.id}
    return [
        [one, *inner]
        for n, one in enumerate(strikes)
        if (inner := [a for a in strikes[n + 1 :] if ids.index(a.id) < healed.get(one.id, 0)])
    ]


def test_faults_strike_within_others() -> None:
    kinds = {"hang": "pause", "order": "on", "pace": "nested", "trigger": "time"}
    scripts = [
        draw(seed, {**USUAL, **kinds, **QUIET}, length_ms=LENGTH_MS[0]) for seed in range(40)
    ]
    nests = [nest for script in scripts for nest in nests_of(script)]
    assert len(nests) > 3 * len(scripts)
    for outer, *within in nests:
        assert outer.f != "order-election", "nothing can strike within what takes no time"
        assert within[0].when.after == outer.id, "once the other one has struck"
    outlasting = [
        script
        for script in scripts
        for nest in nests_of(script)
        for act in script.acts
        if family(act) == nest[0].id
        and act.when.after.partition(".")[0] in {a.id for a in nest[1:]}
    ]
    assert 0.3 < len(outlasting) / len(nests) < 0.7, "healed last, or in the midst of it"
    roles = [a for nest in nests for a in nest if a.who.count == EVERYBODY]
    assert {a.who.part for a in roles} == {"broker", "controller"}, "all of a role at times"
    assert drawn(1, crash="off", cut="off", order="on", pace="nested").acts, (
        "with nothing that lasts"
    )


def test_few_rows_that_are_drawn_have_all_kinds_of_faults() -> None:
    free = [drawn_row(seed) for seed in range(300)]
    on = [[kind for kind in KINDS if row[kind] != "off"] for row in free]
    assert sum(len(kinds) <= 3 for kinds in on) / len(on) > 0.6
    assert any(len(kinds) > 5 for kinds in on)
    assert {kinds[0] for kinds in on if len(kinds) == 1} <= set(FELT), "what is felt alone"


def test_triggers_and_victims() -> None:
    timed = [a for s in range(20) for a in drawn(s, trigger="time").acts]
    evented = [a for s in range(40) for a in drawn(s, trigger="event").acts]
    assert not {a.when.after for a in timed} & set(EVENTS)
    assert {a.when.after for a in evented} > set(EVENTS)
    last = {a.who.part for s in range(20) for a in drawn(s, victims="last").acts}
    assert last > {LAST_VICTIM, LAST_REJOINED}
    several = {a.who.count for s in range(20) for a in drawn(s, victims="several").acts}
    assert several == {1, 2, -1}


def test_settings_follow_the_factors() -> None:
    given: dict[str, Any] = drawn(1, clients="pinned", flush="async", files="small").header.options
    assert given["pinned"] == PINNED["pinned"] < READERS + WRITERS
    everybody: dict[str, Any] = drawn(1, clients="all-pinned").header.options
    assert everybody["pinned"] == READERS + WRITERS, "readers as well"
    assert given["concurrency"] == READERS + WRITERS
    assert given["keys"]["broker:flushDiskType"] == "ASYNC_FLUSH"
    assert given["keys"]["broker:mappedFileSizeCommitLog"] == "262144"
    assert "pinned" not in drawn(1).header.options
    assert drawn(1, topology="1c-3r").header.options["controllers"] == 1
    assert drawn(1).header.factors == USUAL


# Retention.


def test_logs_get_old_also_while_a_member_that_is_away_stays_in_the_set() -> None:
    alone = in_fixed_set = 0
    for seed in range(40):
        acts = drawn(seed, retention="trim").acts
        for old in (act for act in acts if act.f == TRIM):
            parts = {act.id: act for act in acts if family(act) == old.id}
            alone += len(parts) == 1
            if len(parts) > 1:
                in_fixed_set += 1
                cut, kill = parts[f"{old.id}.cut"], parts[f"{old.id}.kill"]
                assert (cut.f, cut.who.part, cut.args["from"]) == (
                    "start-partition", "master", "controllers",
                )  # fmt: skip
                assert (kill.f, kill.who.part) == ("kill", "sync-state-set-slave")
                assert old.who.of == cut.id, "the log of the master that hears no controller"
                order = [f"{old.id}.cut", f"{old.id}.kill", old.id, f"{old.id}.start"]
                assert [parts[name].when.after for name in (*order[1:], f"{old.id}.heal")] == order
    assert alone
    assert in_fixed_set
    assert not any(act.f == TRIM for act in drawn(1, retention="off").acts)


def test_where_logs_get_old_nobody_waits_for_messages_that_are_read_late() -> None:
    for workload in FACTORS["workload"]:
        options = drawn(1, retention="trim", workload=workload).header.options
        assert not set(options["workload"]) & set(READ_LATE)
        assert "queue" in options["workload"]


def test_each_switch_is_turned_both_ways_and_is_known_to_promises() -> None:
    turned = {name for name, _ in SWITCHES}
    for name in turned:
        usual, *others = FACTORS[name]
        assert [(name, value) in SWITCHES for value in (usual, *others)] == [False, True]
    keys = {key for of in SWITCHES.values() for key in of}
    assert unknown_keys(keys) == ()
    for name in turned:
        drawn = {row_of(seed)[name] for seed in range(200)}
        assert drawn == set(FACTORS[name])
        for value in FACTORS[name]:
            options = options_of({**USUAL, name: value})
            assert SWITCHES.get((name, value), {}).items() <= options["keys"].items()


def test_a_row_of_before_there_were_switches_means_what_it_did() -> None:
    old = {name: value for name, value in USUAL.items() if name not in {n for n, _ in SWITCHES}}
    assert options_of(old) == options_of(USUAL)
