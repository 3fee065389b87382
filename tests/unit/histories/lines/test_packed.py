"""Packed operations are the operations that were packed, whatever their values; a packed history
answers as one that is not."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from maxq.histories.edn import Keyword
from maxq.histories.history import History
from maxq.histories.lines.foreign import READERS
from maxq.histories.lines.packed import TOGETHER, PackedOps, history_of
from maxq.histories.op import Op

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
    | st.builds(Keyword, st.text(max_size=2)) | st.frozensets(st.integers(), max_size=2),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip


def numbered(ops: list[Op]) -> list[Op]:
    """Operations whose index is their place."""
    return [replace(op, index=at) for at, op in enumerate(ops)]


OPS = st.lists(
    st.builds(
        Op,
        st.sampled_from(("invoke", "ok", "info", "fail")),
        st.integers(0, 3) | st.just("nemesis"),
        st.sampled_from(("read", "write")),
        VALUES,
        VALUES,
    ),
    max_size=30,
).map(numbered)


def typed(value: Any) -> Any:
    """A value with its types, which `==` overlooks."""
    if isinstance(value, list):
        return [typed(each) for each in value]
    if isinstance(value, dict):
        return {(type(key), key): typed(each) for key, each in value.items()}
    return type(value), value


@given(OPS)
def test_a_packed_history_answers_as_one_that_is_not(ops: list[Op]) -> None:
    plain, packed = History(ops), history_of(PackedOps(ops))

    assert list(packed) == ops
    assert [typed(op.value) for op in packed] == [typed(op.value) for op in ops]
    assert list(packed.calls()) == list(plain.calls())
    assert packed.of_f("read") == plain.of_f("read")
    assert packed.of_f("drain") == ()
    for op in ops:
        assert packed[op.index] == op
        assert packed.completion(op) == plain.completion(op)


@given(OPS)
def test_each_call_comes_once_in_order_with_its_completion(ops: list[Op]) -> None:
    history = History(ops)
    begun = [op for op in ops if op.is_client and op.type == "invoke"]

    assert list(history.calls()) == [(op, history.completion(op)) for op in begun]


def test_single_operations_of_many_pieces() -> None:
    ops = [Op("ok", at % 5, "read", [at], index=at) for at in range(3 * TOGETHER + 7)]
    packed = PackedOps(ops)

    assert len(packed) == len(ops)
    for at in (0, TOGETHER - 1, TOGETHER, len(ops) - 1, -1, -len(ops)):
        assert packed[at] == ops[at]
    assert packed[TOGETHER - 2 : TOGETHER + 2] == tuple(ops[TOGETHER - 2 : TOGETHER + 2])
    for at in (len(ops), -len(ops) - 1):
        with pytest.raises(IndexError):
            packed[at]


@pytest.mark.parametrize("kind", ["edn", "json", "jepsen-log", "awdit", "plume"])
def test_every_reader_packs_what_it_reads(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text({
        "edn": "{:type :invoke, :f :read, :process 0, :value nil, :index 0}\n"
               "{:type :ok, :f :read, :process 0, :value :a, :index 1}\n",
        "json": '[{"type": "invoke", "f": "read", "process": 0, "value": null, "index": 0},\n'
                '{"type": "ok", "f": "read", "process": 0, "value": 1.5, "index": 1}]',
        "jepsen-log": "INFO  jepsen.util - 0\t:invoke\t:read\tnil\n"
                      "INFO  jepsen.util - 0\t:ok\t:read\t3\n",
        "awdit": "w 1 1\n-----\nr 1 1\n=====\nr 1 0\n",
        "plume": "w(1,1,0,0)\nr(1,1,1,1)\n",
    }[kind])  # fmt: skip

    packed = READERS[kind](path, held=PackedOps)

    assert isinstance(packed, PackedOps)
    assert list(packed) == list(READERS[kind](path)) != []
