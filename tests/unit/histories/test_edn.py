"""The EDN writer stays inside what a reader without tags accepts."""

from typing import Any

import pytest

from maxq.histories.edn import Keyword, to_edn


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "nil"),
        (True, "true"),
        (False, "false"),
        (-7, "-7"),
        (2**63, "9223372036854775808N"),
        (1.5, "1.5"),
        (1e-9, "1e-09"),
        ('a"\\\n\r\té\x01', '"a\\"\\\\\\n\\r\\té\\u0001"'),
        ("\ud800", '"?"'),
        (Keyword("unknown"), ":unknown"),
        ([1, (2, "x")], '[1 [2 "x"]]'),
        (frozenset((2, 1)), "#{1 2}"),
        ({"valid?": True, "a b": 1, 3: [], "1x": {}}, '{:valid? true, "a b" 1, 3 [], "1x" {}}'),
    ],
)
def test_writes(value: Any, text: str) -> None:
    assert to_edn(value) == text


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), object(), Keyword("a b")])
def test_refuses(value: Any) -> None:
    with pytest.raises(ValueError):
        to_edn([value])
