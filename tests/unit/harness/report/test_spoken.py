"""Operations in words, and silence where a value has another shape."""

import pytest

from maxq.harness.report.spoken import WORDS, spoken
from maxq.histories.op import Op


@pytest.mark.parametrize(
    ("op", "said"),
    [
        (Op("invoke", 1, "send", [["send", 0, 17]]), "send message 17 to queue 0"),
        (Op("ok", 1, "send", [["send", 0, [5, 17]]]), "send message 17 to queue 0 at offset 5"),
        (
            Op("ok", 1, "poll", [["poll", {2: [[5, 17], [6, 18]]}]]),
            "read offsets 5 to 6 of queue 2",
        ),
        (Op("ok", 1, "poll", [["poll", {}]]), "read nothing"),
        (Op("fail", 1, "acquire", 3), "acquire the lock of queue 3"),
        (
            Op("ok", 1, "apply-id", {"set": "a0", "code": "x", "id": 2}),
            "applicant x asks for an id in broker set a0: id 2",
        ),
        (Op("ok", 1, "commit-offset", [3, 9]), "commit the consumer offset of queue 3: 9"),
        (Op("fail", 1, "observe-replica", {"node": "b0-0"}), "ask broker b0-0"),
        (Op("ok", 1, "leave", {"node": "r0"}), "broker r0 leaves"),
        (Op("info", "nemesis", "kill", "kill1"), "kill begins"),
        (Op("info", "nemesis", "kill", {"b0-0": {"holds": True}}), "kill: b0-0"),
        (
            Op("info", "nemesis", "start-partition", {"c0": {"from": {"b0-0": "gone"}}}),
            "start-partition: b0-0 ⇸ c0",
        ),
        (Op("ok", 1, "of-a-plugin", 3), ""),
    ],
)
def test_an_operation_in_words(op: Op, said: str) -> None:
    assert spoken(op) == said


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [[1]], [["send", 0]], {"node": 1}])
def test_a_value_of_another_shape_is_no_trouble(value: object) -> None:
    for f in WORDS:
        for kind in ("invoke", "ok", "fail"):
            assert isinstance(spoken(Op(kind, 1, f, value)), str)
