"""Odd values for every model: a share at every change, a million by hand."""

import fuzz_models
import pytest

COUNT, MANY = 2_000, 1_000_000


def test_odd_values_end_in_a_verdict_or_a_named_error() -> None:
    assert [found for number in range(COUNT) if (found := fuzz_models.odd(number))] == []


def test_the_fuzzer_sees_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_models, "judge", lambda *_, **__: [].pop())
    assert "IndexError" in fuzz_models.odd(0)


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_a_million_of_them() -> None:
    assert [found for number in range(MANY) if (found := fuzz_models.odd(number))] == []
