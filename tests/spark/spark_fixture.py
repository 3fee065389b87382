"""One embedded Spark session for all tests here; none, said by name, where it cannot be had."""

from collections.abc import Iterator
from typing import Any

import pytest

from maxq.spark_checkers.session import missing, spark_context


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    why = missing()
    if why:
        pytest.skip(why)
    with spark_context("local[2]") as session:
        yield session
