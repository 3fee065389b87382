"""Fixtures of the simulated tests."""

from collections.abc import Iterator

import pytest
from reference_world import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A small cluster of its own for each test."""
    with Cluster() as made:
        yield made
