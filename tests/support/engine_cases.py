"""Histories for all engines: all that the checkers' own tests judge, and many at random."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from maxq.checkers.core.api import Context
from maxq.checkers.judgement.runner import Results, check_all
from maxq.harness.run.judging import every_checker
from maxq.histories.history import History
from maxq.histories.op import NEMESIS, HistoryError, Op
from maxq.histories.tables import events_table, ops_from_events

CHECKERS = Path(__file__).parents[1] / "unit" / "checkers"
MODULES = (
    "test_availability", "test_broker_ids", "test_write_availability",
    "test_consumer_offsets", "test_durability", "test_durability_vectors",
    "test_epochs", "test_locks", "test_recovery", "test_replicas", "test_routes", "test_runner",
)  # fmt: skip
RANDOM_COUNT = 250


class Case(NamedTuple):
    """A history and how its run was set up."""

    history: History
    context: Context = Context()


def judged_locally(cases: Mapping[str, Case]) -> dict[str, Results]:
    """By the engine that holds every operation."""
    return {
        name: check_all(case.history, every_checker(), case.context) for name, case in cases.items()
    }


def cases_of_tests() -> dict[str, Case]:
    """Every history that a test of a checker judges: the tests are run, and listened to."""
    heard: dict[str, Case] = {}
    for module_name in MODULES:
        module = _loaded(module_name)
        for name, test in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_") and test.__module__ == module_name:
                for number, case in enumerate(_heard(test)):
                    heard[f"{module_name}.{name}.{number}"] = case
    return {name: case for name, case in heard.items() if _storable(case.history)}


def _loaded(name: str) -> ModuleType:
    """A module of tests: tests are no packages, so it is found by its file."""
    [path] = CHECKERS.rglob(f"{name}.py")
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _storable(history: History) -> bool:
    """Whether a table can hold it: with types that are words of ours, in order of index."""
    indices = [op.index for op in history]
    try:
        ops_from_events(events_table(history.ops, run_id=""))
    except (HistoryError, pa.ArrowException):
        return False
    return indices == sorted(set(indices))


def _heard(test: Callable[..., Any]) -> list[Case]:
    cases: list[Case] = []
    patches = [mock.patch.object(type(c), "check", _listener(type(c), cases))
               for c in every_checker()]  # fmt: skip
    for patch in patches:
        patch.start()
    try:
        for arguments in _arguments(test):
            test(**arguments)
    finally:
        for patch in patches:
            patch.stop()
    return cases


def _listener(kind: type[Any], cases: list[Case]) -> Callable[..., Any]:
    check = kind.check

    def listened(self: Any, history: History, context: Context) -> Any:
        case = Case(history, context)
        if all(case.history is not other.history for other in cases):
            cases.append(case)
        return check(self, history, context)

    return listened


def _arguments(test: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """What a test is called with; none for a test with fixtures."""
    marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
    rows = [[_named(m.args[0], values) for values in m.args[1]] for m in marks]
    wanted = set(inspect.signature(test).parameters)
    for chosen in product(*rows):
        given_ones = {name: value for row in chosen for name, value in row.items()}
        if wanted == set(given_ones):
            yield given_ones


def _named(names: Any, values: Any) -> dict[str, Any]:
    words = [w.strip() for w in names.split(",")] if isinstance(names, str) else list(names)
    values = values.values if hasattr(values, "marks") else values  # of `pytest.param`
    return dict(zip(words, [values] if len(words) == 1 else values, strict=True))


# At random: any operation, well-formed or not, with values of the right shape and of wrong ones.

KEYS, VALUES, OFFSETS = st.integers(0, 2), st.integers(0, 12), st.none() | st.integers(0, 8)
NODES = st.sampled_from(("b0-0", "b0-1", "c0"))
ODD: st.SearchStrategy[Any] = st.sampled_from(
    (None, 7, "odd", [], {}, [["send"]], [["poll", 3]], 1 << 70)
)
MESSAGES = st.lists(st.tuples(OFFSETS, VALUES | st.just("corrupt:ff")).map(list), max_size=3)
SEND = st.tuples(st.just("send"), KEYS, st.tuples(OFFSETS, VALUES).map(list)).map(list)
BARE = st.tuples(st.just("send"), KEYS, VALUES).map(list)
POLL = st.tuples(st.just("poll"), st.dictionaries(KEYS, MESSAGES, max_size=2)).map(list)
VIEW = st.fixed_dictionaries(
    {
        "master": st.none() | st.integers(1, 3),
        "master_address": st.sampled_from(("", "x1:1")),
        "master_epoch": st.integers(1, 3),
        "sync_state_set": st.lists(st.integers(1, 3), max_size=3, unique=True).map(sorted),
        "sync_state_set_epoch": st.integers(1, 3),
        "replicas": st.dictionaries(st.sampled_from(("1", "2", "x")), st.just("x1:1"), max_size=2),
    }
)
CONTROLLER = st.fixed_dictionaries(
    {"node": NODES, "sets": st.dictionaries(st.sampled_from(("b0", "b1")), VIEW, max_size=2)}
)
REPLICA = st.fixed_dictionaries(
    {
        "node": NODES,
        "set": st.sampled_from(("b0", "b1")),
        "address": st.just("x1:1"),
        "id": st.none() | st.integers(1, 3),
        "leads": st.booleans(),
        "epochs": st.lists(st.tuples(st.integers(1, 3), KEYS, KEYS).map(list), max_size=2),
        "end": st.integers(0, 5),
        "confirmed": st.none(),
    }
)
PLACE = st.tuples(KEYS, st.integers(0, 5)).map(list)
STORE = st.fixed_dictionaries(
    {
        "node": NODES,
        "set": st.sampled_from(("b0", "b1")),
        "id": st.integers(1, 3),
        "epoch": st.integers(1, 2),
        "start": st.sampled_from((0, 0, 3)),
        "end": st.integers(4, 6),
        "last": st.booleans(),
        "digests": st.lists(st.sampled_from(("aa", "bb")), min_size=1, max_size=1),
        "records": st.lists(st.tuples(KEYS, KEYS, VALUES).map(list), max_size=3),
    }
)
JOINED = st.fixed_dictionaries(
    {"node": NODES, "set": st.just("b0"), "id": st.integers(1, 3), "code": st.integers(0, 3)}
)
PROOF = st.dictionaries(NODES, st.fixed_dictionaries({"holds": st.booleans()}), max_size=2)
RECOVERED = st.fixed_dictionaries(
    {"cluster": st.fixed_dictionaries({"holds": st.booleans(), "after_ms": st.integers(0, 60_000)})}
)
SHAPES: dict[str, st.SearchStrategy[Any]] = {
    "send": st.lists(SEND | BARE, min_size=1, max_size=2),
    "poll": st.lists(POLL, min_size=1, max_size=2),
    "txn": st.lists(SEND | BARE | POLL, min_size=1, max_size=3),
    "assign": st.lists(KEYS, max_size=3),
    "acquire": KEYS, "renew": KEYS, "release": KEYS,
    "commit-offset": PLACE, "fetch-offset": PLACE,
    "observe-controller": CONTROLLER, "observe-replica": REPLICA, "replica-log": STORE,
    "join": JOINED, "apply-id": JOINED, "wipe": JOINED, "leave": JOINED,
}  # fmt: skip
EXT = st.fixed_dictionaries(
    {},
    optional={
        "broker": st.sampled_from(("x1:1", "x2:1")),
        "node": st.sampled_from(("b0", "b1")),
        "epoch": st.integers(1, 3),
        "end": st.dictionaries(KEYS, st.integers(0, 9), max_size=2),
        "seek-to-beginning?": st.booleans(),
        "final": KEYS,
        "rebalance-log": st.just([{"keys": [0]}]),
    },
)
CONTEXT = Context(
    target="reference",
    broker_sets={"b0": ("b0-0", "b0-1")},
    lock_lease_ns=10_000_000_000,
    client_lease_ns=5_000_000_000,
    ok_ops_min={"send": 2},
)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Clients and a nemesis; half of what was begun may stay open. One in eight breaks a rule."""
    ops: list[Op] = []
    pending: dict[int, str] = {}
    retired: dict[int, int] = {}
    now = 0
    bulk = draw(
        st.sampled_from((tuple(SHAPES), ("send", "poll", "assign"), ("acquire", "release")))
    )
    wild = draw(st.integers(0, 7)) == 0

    def add(op_type: Any, process: int | str, f: str, value: Any, ext: Any = None) -> None:
        ops.append(Op(op_type, process, f, value, None, len(ops), now, ext or None))

    for _ in range(draw(st.integers(2, 30))):
        now = max(0, now + draw(st.integers(-5 if wild else 0, 4_000)) * 1_000_000)
        thread = draw(st.integers(0, 3))
        process = thread + 10 * retired.get(thread, 0)
        if draw(st.integers(0, 9)) == 0:
            add("info", NEMESIS, draw(st.sampled_from(("kill", "start", "await-recovery"))),
                draw(PROOF | RECOVERED))  # fmt: skip
        elif thread in pending and not (wild and draw(st.booleans())):
            f = pending.pop(thread)
            op_type = draw(st.sampled_from(("ok", "ok", "ok", "fail", "info")))
            value = draw(ODD if draw(st.integers(0, 24)) == 0 else SHAPES[f])
            add(op_type, process, f, value, draw(EXT))
            if op_type == "info":
                retired[thread] = retired.get(thread, 0) + 1
        else:
            f = pending[thread] = draw(st.sampled_from(bulk))
            add("invoke", process, f, [["poll"]] if f == "poll" else draw(SHAPES[f]))
    return History(ops)


def random_cases() -> dict[str, Case]:
    """Always the same ones."""
    found: dict[str, Case] = {}

    @settings(max_examples=RANDOM_COUNT, derandomize=True, database=None, deadline=None,
              phases=[Phase.generate])  # fmt: skip
    @given(histories())
    def collect(history: History) -> None:
        found[f"random.{len(found)}"] = Case(history, CONTEXT)

    collect()
    return found
