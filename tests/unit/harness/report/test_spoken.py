"""Operations in words, and silence where a value has another shape."""

import pytest

from maxq.harness.report.spoken import MEANS, WORDS, spoken
from maxq.histories import observed
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
        (Op("ok", 1, "commit-offset", [3, 9]), "commit offset 9 of group 3"),
        (Op("fail", 1, "fetch-offset", 3), "ask how far group 3 has read"),
        (Op("ok", 1, "fetch-offset", [3, 7]), "group 3 has read to offset 7"),
        (
            Op("ok", 1, "send-delayed", [8, 5000], ext={"node": "b0"}),
            "send message 8, to come after 5 s, at broker set b0",
        ),
        (Op("info", 1, "send-delayed-alone", [8, 1000]), "send message 8, to come after 1 s"),
        (Op("invoke", 1, "read-delayed", 3), "read queue 3"),
        (
            Op("ok", 1, "read-delayed", [8, 9], ext={"node": "b1"}),
            "read message 8, message 9, at broker set b1",
        ),
        (
            Op("ok", 1, "read-transactions", [1, 2, 3, 4, 5, 6]),
            "read message 1, message 2, message 3, message 4 and 2 more",
        ),
        (Op("ok", 1, "read-ordered", []), "read nothing"),
        (
            Op("ok", 1, "send-half", [4, "commit", "silent"], ext={"node": "b0"}),
            "send half message 4, to commit when asked, at broker set b0",
        ),
        (Op("ok", 1, "send-half", [4, "none", "silent"]), "send half message 4, to stay open"),
        (Op("info", 1, "end-transaction", [4, "roll-back"]), "roll back transaction 4"),
        (Op("ok", 1, "send-ordered", [1, 7]), "send message 7 to queue 1"),
        (Op("ok", 1, "commit-ordered", [1, 7]), "commit offset 7 of queue 1"),
        (
            Op("ok", 1, "probe", {"key": 2, "value": 6, "offset": 40}),
            "read message 6 back at offset 40 of queue 2",
        ),
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


def test_every_workload_of_ours_has_words() -> None:
    """Also those of pairs, whose operations evidence is made of as well."""
    kinds = {
        f
        for name, f in vars(observed).items()
        if name.startswith(("SEND_", "READ_", "COMMIT_", "FETCH_", "OBSERVE_"))
        and isinstance(f, str)
    }
    assert len(kinds) >= 12
    assert kinds | {observed.END_TRANSACTION, observed.PROBE_READ} <= WORDS.keys() & MEANS.keys()
