"""Lists that grow from one text to the next are decoded as any other, and shared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.histories.observed import ReplicaView, decoded
from maxq.histories.op import HistoryError, Op
from maxq.histories.tables import Values
from maxq.histories.text import Grown, decode_value


def answer(epochs: int, end: int, node: str = "b0-1") -> str:
    lists = [f"[{n},{n * 100000},{n * 100000 + 99999}]" for n in range(1, epochs)]
    lists.append(f"[{epochs},{epochs * 100000},{end}]")
    return (
        f'{{"node":"{node}","set":"b0","address":"a:1","id":1,"leads":true,"epochs":'
        f'[{",".join(lists)}],"end":{end},"confirmed":null}}'
    )


@given(
    st.lists(
        st.tuples(st.sampled_from(["b0-1", "b0-2"]), st.integers(1, 60), st.integers(0, 10**20)),
        max_size=20,
    )
)
def test_values_are_as_without_sharing(said: list[tuple[str, int, int]]) -> None:
    grown = Grown()
    for node, epochs, end in said:
        text = answer(epochs, end, node)
        assert grown.value(text) == decode_value(text)


def test_elements_of_the_last_answer_are_shared() -> None:
    grown = Grown()
    first, then = grown.value(answer(30, 5_000_000)), grown.value(answer(31, 6_000_000))
    assert all(a is b for a, b in zip(first["epochs"][:29], then["epochs"], strict=False))
    assert then["epochs"][29] == [30, 3_000_000, 3_099_999]  # the last one's end had grown
    assert grown.value(answer(31, 6_000_000)) is then


@pytest.mark.parametrize(
    "text",
    [
        '{"epochs":[[1,2],[3,4]],"epochs":[[5,6]]}',
        '{"epochs":[[1,2]],"epochs":null}',
        '{"of":{"epochs":[[1,2],[3]]},"epochs":0}',
        '{"of":{"epochs":[[1,2],[3]]}}',
        '[{"epochs":[[1,2],[3]]}]',
        '{"epochs":[[1,[2]],[3]]}',
        '{"epochs":[[-1,2.5],[3]]}',
        '{"epochs":[["]]",1]]}',
        '{"epochs":[[]]}',
        '{"epochs":[[1]],"x":{"$set":[1]}}',
        '{"$map":[["epochs",[[1]]]]}',
        '{"a\\"epochs":[[1]]}',
        '{"node":"\\u0041","epochs":[[1,2]]}',
    ],
)
def test_other_texts_are_decoded_as_ever(text: str) -> None:
    grown = Grown()
    for _ in range(2):
        assert grown.value(text) == decode_value(text)
        grown.value('{"epochs":[[1,2],[3,4]]}')


@pytest.mark.parametrize(
    "text",
    [
        '{"epochs":[[1,2]}', '{"epochs":[[01,2]]}', '{"epochs":[[1,,2]]}', '{"epochs":[[1]],,}',
        '{"epochs":[[1,2],[3,4]', '{"epochs":[[1,2],,[3,4]]}', '{"x":1,"epochs":[[1]]]}',
    ],
)  # fmt: skip
def test_what_is_no_value_is_refused_in_the_same_words(text: str) -> None:
    grown = Grown()
    grown.value('{"epochs":[[1,2],[3,4]]}')
    with pytest.raises(HistoryError) as plain:
        decode_value(text)
    with pytest.raises(HistoryError) as shared:
        grown.value(text)
    assert str(shared.value) == str(plain.value)


def op(value: object) -> Op:
    return Op("ok", 1, "observe-replica", value, None, 7, 0, None)


def test_views_are_as_without_sharing() -> None:
    values = Values()
    for epochs, end in ((20, 3_000_000), (21, 4_000_000), (21, 4_000_001), (9, 1), (25, 5_000_000)):
        text = answer(epochs, end)
        assert decoded(op(values.of(text)), ReplicaView) == decoded(
            op(decode_value(text)), ReplicaView
        )


def test_a_malformed_epoch_is_named_by_its_place_in_the_whole_list() -> None:
    values = Values()
    decoded(op(values.of(answer(20, 3_000_000))), ReplicaView)
    text = answer(21, 4_000_000).replace("[21,2100000,4000000]", "[21]")
    with pytest.raises(HistoryError, match=r"epochs\[20\]"):
        decoded(op(values.of(text)), ReplicaView)
