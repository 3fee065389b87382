"""Records of a `replica-log` as numbers: exactly those of the decoder, or none."""

from random import Random

import pytest

from maxq.histories.columns.log_texts import Bodies, slimmed, stored_log, triples
from maxq.histories.text import decode_value


def test_numbers_are_those_of_the_decoder() -> None:
    rnd = Random(1)
    for count in range(1, 30):
        rows = [[rnd.randrange(10 ** rnd.randint(1, 18)) for _ in range(3)] for _ in range(count)]
        body = "],[".join(",".join(map(str, row)) for row in rows)
        found = triples(body.encode())
        assert found is not None
        assert found.tolist() == decode_value(f"[[{body}]]") == rows


@pytest.mark.parametrize(
    "body",
    ["1,2", "1,2,3,4,5,6", "1,2],[3,4,5,6", "01,2,3", "1,2,3],[4,5,06", "1,,3", ",2,3", "1,2,",
     "1, 2,3", "-1,2,3", "1,2,3.0", '1,2,"x"', "1,2,1000000000000000000",
     "1,2,99999999999999999999",
     "1,2,3],[", "],[1,2,3", "1,2,3],[],[4,5,6", "1,2,[3", "1,2,null", "1,2,3;4,5,6",
     "1,2,3],4,5,6"],
)  # fmt: skip
def test_anything_else_is_foreign(body: str) -> None:
    assert triples(body.encode()) is None


def test_a_slim_text_has_one_record_of_each_key() -> None:
    text = b'{"node":"b","digests":["aa"],"records":[[4,0,1],[3,0,2],[4,1,3]],"begun":7}'
    slim = slimmed(text, Bodies())
    assert slim is not None
    assert decode_value(slim) == {
        "node": "b", "digests": [], "records": [[3, 0, None], [4, 0, None]], "begun": 7
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [b'{"n":"\\"","records":[[1,2,3]]}', b'{"records":[[1,2,3]],"records":[]}',
     b'{"x":{"records":[[1,2,3]]}}', b'[{"records":[[1,2,3]]}]', b'{"records":[[1,2,3]',
     b"7", None],
)  # fmt: skip
def test_records_that_are_not_surely_those_of_the_log_are_foreign(text: bytes | None) -> None:
    assert stored_log(text) is None
