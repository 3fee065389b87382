"""Leases and fencing tokens, by hand (against every order: in the tests of exact tests)."""

from collections import Counter

import pytest

from benchmarks.differential.subjects import history
from maxq.checkers.linearizability.exact import tokens
from maxq.checkers.models.judged import judge
from maxq.checkers.models.leases import Lease
from maxq.histories.history import History
from maxq.histories.op import HistoryError, Op

COUNT = 400


def test_what_is_wrong_with_tokens_is_named() -> None:
    names = Counter(
        found.name
        for number in range(3 * COUNT)
        if (found := tokens.decide(history("fencing", number))) is not None
    )
    for name in ("token-reused", "token-went-back", "token-not-checked", "held-twice"):
        assert names[name] > 2, names


def ops(*steps: tuple[int, str, str, object, float, dict[str, object]]) -> History:
    """Of (process, type, f, value, seconds, what is beside the value)."""
    return History(
        Op(type=kind, process=process, f=f, value=value, index=at, time=round(when * 1e9), ext=ext)  # type: ignore[arg-type]
        for at, (process, kind, f, value, when, ext) in enumerate(steps)
    )


def taken(process: int, asked: float, answered: float, margin: int = 0) -> list[object]:
    ext = {"ttl-ms": 1000, "margin-ms": margin}
    return [(process, "invoke", "acquire", None, asked, ext),
            (process, "ok", "acquire", None, answered, {})]  # fmt: skip


@pytest.mark.parametrize(
    ("second", "margin", "valid"),
    [(0.95, 0, False), (1.0, 0, True), (0.95, 50, True), (0.949, 50, False)],
)
def test_a_lease_lasts_from_the_request(second: float, margin: int, valid: bool) -> None:
    """One that was asked for at 0 s may be relied on until 1 s, less the margin."""
    steps = [*taken(0, 0, 0.4, margin), *taken(1, 0.5, second, margin)]
    judged = judge(Lease(), ops(*steps), lambda: False)  # type: ignore[arg-type]
    assert judged.valid is valid
    if not valid:
        assert judged.keys[0].decided.name == "lease-overlap"
        assert judged.keys[0].smallest is not None


def test_a_release_ends_a_lease_and_stays_with_it() -> None:
    asked: object = (0, "invoke", "release", None, 0.5, {})
    release: list[object] = [asked, (0, "info", "release", None, 0.6, {})]
    steps = [*taken(0, 0, 0.1), *release, *taken(1, 0.6, 0.7), *taken(2, 0.7, 0.8)]
    judged = judge(Lease(), ops(*steps), lambda: False)  # type: ignore[arg-type]
    assert judged.valid is False
    assert judged.keys[0].smallest is not None
    assert judged.keys[0].smallest.begins == (4, 6)


def test_what_is_missing_beside_a_lease_is_named() -> None:
    bare = ops((0, "invoke", "acquire", None, 0, {}))
    with pytest.raises(HistoryError, match="wants `ttl-ms`"):
        judge(Lease(), bare, lambda: False)
