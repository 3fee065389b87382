"""What was recorded beside values: the different texts, without the place in the log."""

import re
from random import Random

import numpy as np
import pyarrow as pa

from maxq.histories.columns.ext_texts import encoded
from maxq.histories.columns.scan import distinct

TEXTS = (
    None, "", "{}", '{"byte":1,"node":"b0"}', '{"byte":22,"node":"b0"}', '{"byte":1}',
    '{"byte":1.5}', '{"byte":-3}', '{"byte":}', '{"byte":123456789012345678}',
    '{"byte":1234567890123456789}', '{"a":{"byte":7},"byte":8}', '{"xyz":1,"probe":2}', '{"by',
    'te":12}', '"byte":5', '","byte":', "7}", '{"é":1,"byte":44}',
)  # fmt: skip
FIRST = re.compile(r'"byte":(\d{1,18})(?=[,}])')


def expected(text: str) -> str:
    """The same by another way: only the first one in a text counts."""
    at = text.find('"byte":')
    found = FIRST.match(text, at) if at >= 0 else None
    if found is None:
        return text
    ones = "1" * (found.end() - at - len('"byte":'))
    return f'{text[:at]}"byte":{ones}{text[found.end() :]}'


def test_each_text_is_itself_but_for_the_first_whole_number() -> None:
    random = Random(1)
    for _ in range(300):
        texts = random.choices(TEXTS, k=random.randrange(30))
        begin = random.randrange(len(texts) + 1)
        column = pa.array(texts, pa.string()).slice(begin)
        different, code = found = encoded(column)
        words = different.to_pylist()
        said = [None if number < 0 else words[number] for number in code.tolist()]
        assert said == [None if t is None else expected(t) for t in texts[begin:]]
        has = [t is not None and '"probe"' in t for t in texts[begin:]]
        assert found.have("probe").tolist() == has


def test_distinct_numbers_come_in_order() -> None:
    assert distinct(np.array([3, 1, 3, 2, 1])).tolist() == [1, 2, 3]
    assert distinct(np.zeros(0, np.int64)).tolist() == []
